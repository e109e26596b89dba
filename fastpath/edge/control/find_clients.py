"""The control verb ``clients``: by user, address or subject, or those that are slow (protocol.md 8.8)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Set
from heapq import nlargest, nsmallest
from itertools import chain, islice
from typing import Any

from ...core.delivery.audience import Client, Group, SubjectFeed, Topic
from ...core.matching.subscribed_patterns import covers
from ...core.protocol.codec import JSON, JSON_FORMS
from ...core.protocol.subject import check_pattern, is_wildcard
from ..clients.connection import ClientConnection
from ..runtime.component import Answer, ControlPeer, Done, Offers
from ..runtime.connection_names import Name, connection_id
from ..runtime.runtime import Runtime
from ..runtime.scatter import Work, chosen, text
from .contents import AnswerRoom

LIMIT_DEFAULT = 50
LIMIT_MAX = 200
"""Clients in one answer."""

ROWS_BYTES_MAX = 256 << 10
"""Bytes that the clients take in the answer of a worker; others follow with the next page."""

SLICE_CLIENTS = 50
"""Clients looked at between two looks at the clock."""

SLICE_SUBJECTS = 500
"""The same of subjects, of which those that nobody has published to stand in no tree."""

SLICE_SUBSCRIPTIONS = 2000
"""The same of subscriptions, which are looked at where a pattern is asked for: a fraction of a millisecond."""

SUBJECTS_SHOWN = 3
"""Number of a client's subscriptions that are told in a list of many."""

SEARCHES_MAX = 4
"""Searches at the same time: each takes half of the time that the loop has."""


class ClientSearch:
    """Answers the verb, and looks at the clients of this process."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._running = 0
        self.offers = Offers(verbs={"clients": self._ask}, questions={"clients": self._answer})

    def _ask(self, peer: ControlPeer, arguments: dict[str, Any]) -> None:
        """Search by ``user``, ``address``, ``subject``, ``slow``, ``after``, ``limit``, all optional; answers later."""
        query = _checked(arguments)
        if self._running >= SEARCHES_MAX:
            peer.refuse(peer.request, "limit", f"{SEARCHES_MAX} searches are under way; ask again")
            return
        number = peer.request

        def gathered(answers: dict[int, Answer], away: list[int]) -> None:
            self._running -= 1
            failed = next((answer["failed"] for answer in answers.values() if "failed" in answer), None)
            if failed is not None:
                peer.refuse(number, *failed)
            else:
                peer.reply(number, _merged(query, list(answers.values()), away))

        self._running += 1
        try:
            self._runtime.scatter.ask("clients", query, gathered)
        except BaseException:  # nobody will call ``gathered``
            self._running -= 1
            raise

    def _answer(self, query: Answer, done: Done) -> None:
        self._runtime.scatter.run(self._search(query), done)

    def _search(self, query: Answer) -> Work:
        """Return the first clients of this process behind ``after``, and how many match in all."""
        matches = self._matching(query)
        readers: Readers | None = None
        if is_wildcard(query["subject"]):
            readers = Readers(query["subject"], (yield from self._covered(query["subject"])))
        first = _first_number(query["after"], self._runtime.workers.number)
        limit, slow = query["limit"], query["slow"]
        found: list[Client] = []
        total = behind = 0
        for some in self._sources(slow):
            # A number 0 has who was refused and does not read why: that is no client.
            there = [client for client in some if client.number and not client.closed]
            chosen_ones = [client for client in there if all(match(client) for match in matches)]
            if readers is not None:
                chosen_ones = yield from readers.among(chosen_ones)
            total += len(chosen_ones)
            if slow:
                found = nlargest(limit, found + chosen_ones, key=_queued)
            else:
                if first:
                    chosen_ones = [client for client in chosen_ones if client.number >= first]
                found = nsmallest(limit, found + chosen_ones, key=_number)
            behind += len(chosen_ones)
            yield
        rows: list[Answer] = []
        room = AnswerRoom(ROWS_BYTES_MAX)
        for client in found:
            one = row(self._runtime, client)
            if not room.takes(one) and rows:
                break
            rows.append(one)
            yield
        cut = len(rows) < len(found)
        return {"clients": rows, "total": total, "more": cut or behind > len(found), "cut": cut}

    def _sources(self, slow: bool) -> Iterator[list[Client]]:
        if slow:
            yield from pieces(list(self._runtime.blocked))
        else:
            for some in self._runtime.sessions.batches():
                yield from pieces(some)

    def _matching(self, query: Answer) -> list[Callable[[Client], bool]]:
        """Return what a client has to be, besides a reader of what a pattern covers."""
        matches: list[Callable[[Client], bool]] = []
        user, address, subject = query["user"].casefold(), query["address"], query["subject"]
        if user:
            matches.append(lambda client: user in client.principal.user.casefold())
        if address:
            matches.append(lambda client: client.address.startswith(address))
        if subject and not is_wildcard(subject):
            matches.append(lambda client: self._reads(client, subject))
        return matches

    def _covered(self, pattern: str) -> Generator[None, None, set[Topic]]:
        """Return the subjects in use that the pattern covers."""
        interest = self._runtime.broker.interest
        topics: set[Topic] = set()
        for topic in interest.tree.find(pattern):
            if topic is not None:
                topics.add(topic)
            yield
        everything = list(interest.topics.values())
        for at in range(0, len(everything), SLICE_SUBJECTS):
            unknown = [topic for topic in everything[at : at + SLICE_SUBJECTS] if not topic.known]
            topics.update(topic for topic in unknown if covers(pattern, topic.subject))
            yield
        return topics

    def _reads(self, client: Client, subject: str) -> bool:
        topic = self._runtime.broker.interest.topics.get(subject)
        return (topic is not None and topic in client.subscriptions) or subject in (client.waiting or ())


def pieces(clients: list[Client]) -> Iterator[list[Client]]:
    """Yield as many clients at a time as are looked at between two looks at the clock."""
    for at in range(0, len(clients), SLICE_CLIENTS):
        yield clients[at : at + SLICE_CLIENTS]


def row(runtime: Runtime, client: Client) -> Answer:
    """Return what a list says of a client of this process."""
    connection = client.link
    listener = connection.listener if isinstance(connection, ClientConnection) else None
    wire = client.terms.wire
    names = chain(client.wilds or (), (topic.subject for topic in client.subscriptions), client.waiting or ())
    return {
        "connection": connection_id(runtime, client.number),
        "worker": runtime.workers.number,
        "user": client.principal.user,
        "address": client.address,
        "transport": client.transport,
        "over": "tcp" if listener is None else "tls" if listener.tls else "unix" if listener.path else "tcp",
        "encoding": (JSON if wire.form in JSON_FORMS else wire.form) + ("+deflate" if wire.window_bits else ""),
        "program": client.program,
        "since": client.since,
        "subscriptions": len(client.subscriptions),
        "patterns": len(client.wilds or ()),
        "queue_bytes": _queued(client),
        "blocked_since": runtime.blocked.get(client),
        "lagging": client.lag is not None and bool(client.lag.behind),
        "subjects": list(islice(names, SUBJECTS_SHOWN)),
    }


def _checked(arguments: dict[str, Any]) -> Answer:
    """Return the request, made whole; raise InvalidMessage."""
    subject, after = text(arguments, "subject"), text(arguments, "after")
    if subject:
        check_pattern(subject, names=False)
    return {
        "user": text(arguments, "user"),
        "address": text(arguments, "address"),
        "subject": subject,
        "slow": bool(arguments.get("slow")),
        "after": Name.parse(after) if after else None,
        "limit": chosen(arguments.get("limit"), 1, LIMIT_MAX, "limit", LIMIT_DEFAULT),
    }


def _merged(query: Answer, answers: list[Answer], away: list[int]) -> Answer:
    """Return one page of what the workers found, in their order; the slow ones with the longest queues first."""
    rows: list[Answer] = []
    for answer in answers:
        rows += answer["clients"]
        if answer["cut"] and not query["slow"]:
            break  # what is left out comes before those of the next worker
    more = len(rows) > query["limit"] or any(answer["more"] for answer in answers)
    if query["slow"]:
        rows.sort(key=lambda one: -one["queue_bytes"])
    del rows[query["limit"] :]
    return {
        "clients": rows,
        "total": sum(answer["total"] for answer in answers),
        "more": more,
        "after": rows[-1]["connection"] if rows and more and not query["slow"] else "",
        "away": away,
    }


def _first_number(after: list[Any] | None, worker: int) -> int:
    """Return from which number on the clients of the worker stand behind that connection; 0: all of them."""
    if after is None:
        return 0
    name = Name(*after)
    if name.worker == worker and name.here:
        return name.number + 1
    return 1 << 62 if name.worker > worker else 0  # one of a process that is no more: all of the new one


class Readers:
    """Finds who has subscribed to the pattern, or to one of the subjects that it covers."""

    def __init__(self, pattern: str, topics: set[Topic]) -> None:
        self._pattern = pattern
        self._topics = topics
        self._shared: dict[Group, bool] = {}  # what a group has together is looked at once
        self._looked = 0

    def among(self, clients: list[Client]) -> Generator[None, None, list[Client]]:
        """Return the clients that have it among these; yields by the subscriptions that are looked at."""
        found = []
        for client in clients:
            if (yield from self._reads(client)):
                found.append(client)
        return found

    def _reads(self, client: Client) -> Generator[None, None, bool]:
        if self._pattern in (client.wilds or ()):
            return True
        group = client.group
        if group is None or group.topics is not client.subscriptions:
            return (yield from self._meets(client.subscriptions))
        if group not in self._shared:
            self._shared[group] = yield from self._meets(client.subscriptions)
        return self._shared[group]

    def _meets(self, subscriptions: dict[Topic, SubjectFeed]) -> Generator[None, None, bool]:
        """Return whether there is a covered topic among the subscriptions: by those of which there are fewer."""
        others: Set[Topic] = self._topics
        some = list(subscriptions)
        if len(others) < len(some):
            some, others = list(others), subscriptions.keys()
        for at in range(0, len(some), SLICE_SUBSCRIPTIONS):
            piece = some[at : at + SLICE_SUBSCRIPTIONS]
            self._looked += len(piece)
            if self._looked > SLICE_SUBSCRIPTIONS:
                self._looked = len(piece)
                yield
            if not others.isdisjoint(piece):
                return True
        return False


def _queued(client: Client) -> int:
    return client.queue.size if client.queue is not None else 0


def _number(client: Client) -> int:
    return client.number
