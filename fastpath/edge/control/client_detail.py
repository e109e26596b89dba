"""The control verb ``client``: all that is known of one client (protocol.md 8.8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from heapq import heappush, heappushpop, nsmallest
from itertools import islice, takewhile
from typing import Any

from ...core.delivery import slow_consumers
from ...core.delivery.audience import BEHIND, NO_ROOM, Client, SubjectFeed, Topic, pattern_of
from ...core.delivery.link import PauseReason
from ...core.protocol.errors import InvalidMessage
from ...core.protocol.messages import Message
from ..clients.connection import ClientConnection
from ..runtime.component import Answer, ControlPeer, Done, Offers
from ..runtime.connection_names import Name
from ..runtime.kernel_stats import network
from ..runtime.runtime import Runtime, now
from ..runtime.scatter import Gathered, Work, chosen, text
from .contents import AnswerRoom, shown_within
from .find_clients import LIMIT_MAX, pieces, row

MESSAGES_SHOWN = 20
"""Number of the newest messages of a client's subjects that are shown."""

SUBSCRIPTIONS_BYTES_MAX = 64 << 10
WAITING_BYTES_MAX = PATTERNS_BYTES_MAX = 32 << 10
MESSAGES_BYTES_MAX = 128 << 10
"""Bytes of the parts of an answer: 256 KiB together, for it goes over the link of a worker."""

QUEUED_SHOWN = 10
"""Subjects of which most waits in its queue."""

SLICE_SUBJECTS = 200
"""Subjects looked at between two looks at the clock."""

SLICE_FRAMES = 100
"""The same of frames in a queue."""

HOLDS = {
    PauseReason.TURN: "it has sent more than one turn may handle",
    PauseReason.ECHOING: "it does not take what is echoed to it",
    PauseReason.CONGESTED: "it has published while another worker is behind",
    PauseReason.DRAINING: "it has been told to go elsewhere",
    PauseReason.ASKED: "the hook is asked about what it said last",
    PauseReason.RATE: "it has said more than it may at a time",
    PauseReason.SEARCHING: "what it has subscribed to is looked for among all that it has already",
    PauseReason.WORKING: "it has subscribed to more, or unsubscribed from it, than one turn may handle",
}
"""Reasons why nothing is read from a client, in words."""

GONE = "there is no such connection: it has ended"


class ClientDetail:
    """Answers the verb on the worker that has the client."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.offers = Offers(verbs={"client": self._ask}, questions={"client": self._answer})

    def _ask(self, peer: ControlPeer, arguments: dict[str, Any]) -> None:
        """Answer all that is known of a ``connection``; ``after`` and ``limit`` page its subscriptions. Answers
        later."""
        name = Name.parse(arguments["connection"])
        limit = chosen(arguments.get("limit"), 1, LIMIT_MAX, "limit", LIMIT_MAX)
        query = {"name": name, "after": text(arguments, "after"), "limit": limit}
        self._runtime.scatter.ask("client", query, one_answer(peer, name), worker=name.worker)

    def _answer(self, query: Answer, done: Done) -> None:
        self._runtime.scatter.run(self._look(query), done)

    def _look(self, query: Answer) -> Work:
        client = yield from find(self._runtime, Name(*query["name"]))
        page, more = yield from _page(client, query["after"], query["limit"])
        queued = yield from _queued(client)
        subscriptions: list[Answer] = []
        room = AnswerRoom(SUBSCRIPTIONS_BYTES_MAX)
        for topic in page:
            feed = client.subscriptions.get(topic)
            if feed is not None:
                subscription = self._subscription(client, topic, feed, queued)
                if not room.takes(subscription):
                    more = True
                    break
                subscriptions.append(subscription)
            yield
        waiting = []
        room = AnswerRoom(WAITING_BYTES_MAX)
        for subject in list(islice(client.waiting or (), LIMIT_MAX)):
            one = self._waiting(client, subject)
            if not room.takes(one):
                break
            waiting.append(one)
            yield
        messages = []
        for message in shown_within((yield from _newest(client)), MESSAGES_BYTES_MAX):
            messages.append(message)
            yield
        return (
            row(self._runtime, client)
            | self._who(client)
            | self._state(client)
            | {
                "subscriptions": subscriptions,
                "more": more,
                "queued": _fullest(client, queued),
                "subscriptions_total": len(client.subscriptions),
                "patterns_list": _patterns(client),
                "waiting": waiting,
                "waiting_total": len(client.waiting or ()),
                "messages": messages,
            }
        )

    def _who(self, client: Client) -> Answer:
        principal = client.principal
        claims = principal.claims
        groups = [holder.removeprefix("group:") for holder in principal.holders if holder.startswith("group:")]
        return {
            "uid": claims.uid if claims is not None else "",
            "groups": groups,
            "superuser": principal.superuser and claims is not None,
            "token": None if claims is None else {"id": claims.token_id, "expires": claims.expires},
        }

    def _state(self, client: Client) -> Answer:
        """Return what stands in the client's way."""
        connection, rates = client.link, self._runtime.sessions.publish_rates.rates
        held = connection.held if isinstance(connection, ClientConnection) else 0
        return {
            "held": [words for bit, words in HOLDS.items() if held & bit],
            "held_until": rates.pausing.get(client),
            "errors": client.errors,
            "publisher": client.publisher,
            "network": network(client.slot_key) if not client.closed else None,
        }

    def _subscription(self, client: Client, topic: Topic, feed: SubjectFeed, queued: Counter[int]) -> Answer:
        why = self._runtime.broker.grants.explain(client.principal, topic.subject, now())
        state, behind = _behind(client, topic, feed, queued[topic.sid])
        return {
            "subject": topic.subject,
            "pattern": pattern_of(client, topic),
            "state": state,
            "epoch": topic.epoch,
            "seq": max(topic.seq - behind, 0),
            "newest": topic.seq,
            "behind": behind,
            "conflation": feed.interval,
            "slow": slow_consumers.policy(client, topic),
            "right": why.reason,
            "rule": why.rule,
        }

    def _waiting(self, client: Client, subject: str) -> Answer:
        """Return a subscription that waits, and for what."""
        kept = (client.waiting or {}).get(subject)
        if kept is None:
            return {"subject": subject, "pattern": "", "error": "", "reason": "it waits no more"}
        why = self._runtime.broker.grants.explain(client.principal, subject, now())
        since = kept.request.since.get(subject)
        behind = since is not None and self._runtime.broker.ahead(subject, *since)
        reason = why.reason if not why.allowed else BEHIND if behind else NO_ROOM
        return {"subject": subject, "pattern": kept.pattern, "error": kept.error, "reason": reason}


def find(runtime: Runtime, name: Name) -> Generator[None, None, Client]:
    """Find the client of this process that has the name; raise InvalidMessage ``unknown``."""
    if name.here and name.worker == runtime.workers.number and not name.publisher:
        for some in runtime.sessions.batches():
            for piece in pieces(some):
                for client in piece:
                    if client.number == name.number and not client.closed:
                        return client
                yield
    raise InvalidMessage("unknown", GONE)


def one_answer(peer: ControlPeer, name: Name) -> Gathered:
    """Return what hands on the answer of the worker that was asked, to the request that is being handled."""
    number = peer.request

    def gathered(answers: dict[int, Answer], away: list[int]) -> None:
        answer = answers.get(name.worker)
        if answer is None and away == [name.worker]:
            peer.refuse(number, "timeout", f"worker {name.worker} does not answer, or there is none")
        elif answer is None or "failed" in answer:
            peer.refuse(number, *(answer or {"failed": ["unknown", GONE]})["failed"])
        else:
            peer.reply(number, answer)

    return gathered


def _page(client: Client, after: str, limit: int) -> Generator[None, None, tuple[list[Topic], bool]]:
    """Return the first subscriptions behind ``after``, in the order of their characters, and whether there are more."""
    topics = list(client.subscriptions)
    found: list[Topic] = []
    behind = 0
    for at in range(0, len(topics), SLICE_SUBJECTS):
        some = [topic for topic in topics[at : at + SLICE_SUBJECTS] if topic.subject > after]
        behind += len(some)
        found = nsmallest(limit, found + some, key=lambda topic: topic.subject)
        yield
    return found, behind > len(found)


def _queued(client: Client) -> Generator[None, None, Counter[int]]:
    """Return how many messages wait in the client's queue, by their subjects' ids; -1 for all that are none."""
    counts: Counter[int] = Counter()
    wire = client.terms.wire
    chunks, sent = (list(client.queue.chunks), client.queue.sent) if client.queue is not None else ([], 0)
    for chunk in chunks:
        for at, (frame, sid) in enumerate(wire.split(chunk)):
            if sent < len(frame):
                counts[sid] += 1
            sent = max(sent - len(frame), 0)
            if at % SLICE_FRAMES == 0:
                yield
    del counts[-1]
    return counts


def _fullest(client: Client, queued: Counter[int]) -> list[tuple[str, int]]:
    """Return the subjects of most of what waits, with how many messages of each."""
    counts = dict(queued.most_common(QUEUED_SHOWN))
    names = {topic.sid: topic.subject for topic in client.subscriptions if topic.sid in counts}
    return [(names[sid], count) for sid, count in counts.items() if sid in names]


def _behind(client: Client, topic: Topic, feed: SubjectFeed, queued: int) -> tuple[str, int]:
    """Return how a subscription is served now, and how many publications it has not been sent."""
    live, lag = topic.live, client.lag
    if lag is not None and topic in lag.behind and live is not None:
        return "behind", queued + live.number - live.lagging.get(client, live.number)
    if client.recovering and topic in client.recovering:
        return "behind", queued + max(topic.seq - client.recovering[topic].seq, 0)
    if feed.interval and live is not None:
        return "conflated", queued + live.number - feed.joining.get(client, feed.sent)
    return ("queued", queued) if queued else ("live", 0)


def _newest(client: Client) -> Generator[None, None, list[Message]]:
    """Return the newest cached messages of the client's subjects that came since it did, the newest first."""
    found: list[tuple[int, int, Message]] = []
    order = 0
    for topic in list(client.subscriptions):
        for message in islice(reversed(topic.ring or ()), MESSAGES_SHOWN):
            if message.time < client.since or (len(found) == MESSAGES_SHOWN and message.time < found[0][0]):
                break
            order -= 1  # of one moment the newer number is seen first
            one = (message.time, order, message)
            if len(found) < MESSAGES_SHOWN:
                heappush(found, one)
            else:
                heappushpop(found, one)
        yield
    return [message for _, _, message in sorted(found, reverse=True)]


def _patterns(client: Client) -> list[Answer]:
    wilds = client.wilds
    if not wilds:
        return []
    found, room = Counter(wilds.owners.values()), AnswerRoom(PATTERNS_BYTES_MAX)
    rows = [
        {
            "pattern": wild.text,
            "found": found[wild.text],
            "conflation": wild.request.conflation,
            "slow": wild.request.slow,
            "searching": wild.search is not None,
        }
        for wild in islice(wilds.values(), LIMIT_MAX)
    ]
    return list(takewhile(room.takes, rows))
