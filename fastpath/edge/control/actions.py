"""The control verbs ``ping``, ``disconnect``, ``unsubscribe``: what operators do to connections (protocol.md 8.9)."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import count
from time import perf_counter
from typing import Any

from ...core.delivery.audience import Client, pattern_of
from ...core.matching.subscribed_patterns import covers_segments
from ...core.protocol.errors import Close, InvalidMessage
from ...core.protocol.limits import SUBJECTS_PER_COMMAND_MAX
from ...core.protocol.rest import REASON_CHARS_MAX
from ...core.protocol.subject import check_wanted, is_wildcard
from ..clients.connection import ClientConnection
from ..publishers.connection import PublisherConnection
from ..runtime.component import Answer, ControlPeer, Done, Offers
from ..runtime.connection_names import Name
from ..runtime.runtime import Runtime, now
from ..runtime.scatter import Work, away_of, text
from .client_detail import GONE, find, one_answer
from .find_clients import SLICE_SUBSCRIPTIONS, pieces

PING_SECONDS = 4.0
"""Seconds that a client has to answer: less than who asks waits by default (fastpath/client/control/client.py)."""

PINGS_MAX = 100
"""Pings of operators under way in one process."""


class ClientActions:
    """Acts on connections, each on the worker that has it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._numbers = count(1)
        self._pings: dict[bytes, _Ping] = {}
        self.operations = {"disconnect": self._ask_disconnect, "unsubscribe": self._ask_unsubscribe}
        """The verbs that are asked over HTTP as well (edge/control/operating.py)."""
        self.offers = Offers(
            verbs={"ping": self._ask_ping, **self.operations},
            questions={"ping": self._ping, "disconnect": self._disconnect, "unsubscribe": self._unsubscribe},
            ponged=self._ponged,
        )

    # The round trip of a ping

    def _ask_ping(self, peer: ControlPeer, arguments: dict[str, Any]) -> None:
        """Ping the ``connection``; answers later."""
        name = Name.parse(arguments["connection"])
        answered = one_answer(peer, name)
        self._runtime.scatter.ask("ping", {"name": name}, answered, worker=name.worker, seconds=PING_SECONDS + 0.5)

    def _ping(self, query: Answer, done: Done) -> None:
        def found(answer: Answer) -> None:
            client = answer.get("client")
            if client is None:
                done(answer)
            elif not client.terms.wire.answers:
                done({"failed": ["invalid", "only a WebSocket answers pings; see its network"]})
            else:
                self._send(client, done)

        self._runtime.scatter.run(self._find(Name(*query["name"])), found)

    def _find(self, name: Name) -> Work:
        client = yield from find(self._runtime, name)
        if len(self._pings) >= PINGS_MAX:
            raise InvalidMessage("limit", f"{PINGS_MAX} pings are under way; ask again")
        return {"client": client}

    def _send(self, client: Client, done: Done) -> None:
        """Ping a client with a payload: the server's own pings, which find out whether somebody is there, are empty, so
        that nothing is taken for theirs."""
        payload = b"operator" + next(self._numbers).to_bytes(8)
        queued = client.queue.size if client.queue is not None else 0
        self._pings[payload] = _Ping(client, queued, done)
        self._runtime.broker.send(client, client.terms.wire.ping(payload))
        self._runtime.loop.call_later(PING_SECONDS, self._late, payload)
        self._runtime.end()

    def _ponged(self, client: Client, payload: bytes) -> None:
        ping = self._pings.get(payload)
        if ping is not None and ping.client is client:
            del self._pings[payload]
            ping.done({"ms": round((perf_counter() - ping.began) * 1000, 3), "queue_bytes": ping.queued})

    def _late(self, payload: bytes) -> None:
        ping = self._pings.pop(payload, None)
        if ping is None:
            return
        if ping.client.closed:
            ping.done({"failed": ["unknown", GONE]})
        else:
            ping.done({"failed": ["timeout", f"the client has not answered within {PING_SECONDS:g} s"]})

    # The end of a connection

    def _ask_disconnect(self, peer: ControlPeer, arguments: dict[str, Any]) -> None:
        """Disconnect a ``connection``, or those of a ``user``, for a ``reason``; answers later."""
        self._ask_whom("disconnect", peer, arguments, {}, ("clients", "publishers"))

    def _ask_whom(
        self, verb: str, peer: ControlPeer, arguments: dict[str, Any], more: Answer, kinds: tuple[str, ...]
    ) -> None:
        """Have the worker of ``connection``, or for ``user`` each, do it: the sums of the answers' ``kinds``."""
        reason, user = text(arguments, "reason", REASON_CHARS_MAX), text(arguments, "user")
        if bool(arguments.get("connection")) == bool(user):
            raise InvalidMessage("invalid", f"{verb} names a connection or a user")
        query: Answer = {"user": user, "reason": reason, **more}
        if not user:
            name = Name.parse(arguments["connection"])
            self._runtime.scatter.ask(verb, query | {"name": name}, one_answer(peer, name), worker=name.worker)
            return
        number = peer.request

        def gathered(answers: dict[int, Answer], away: list[int]) -> None:
            done = {worker: answer for worker, answer in answers.items() if "failed" not in answer}
            sums = {kind: sum(answer[kind] for answer in done.values()) for kind in kinds}
            peer.reply(number, sums | {"away": away_of(answers, away)})

        self._runtime.scatter.ask(verb, query, gathered)

    def _disconnect(self, query: Answer, done: Done) -> None:
        if query["user"]:
            self._runtime.scatter.run(self._end_user(query["user"], query["reason"]), done)
        else:
            self._runtime.scatter.run(self._end_one(Name(*query["name"]), query["reason"]), done)

    def _end_one(self, name: Name, reason: str) -> Work:
        if name.publisher and name.here:
            for publisher in publishers(self._runtime):
                if publisher.number == name.number:
                    return {"clients": 0, "publishers": int(_end_publisher(publisher, reason))}
        client = yield from find(self._runtime, name)
        return {"clients": int(_end_client(client, reason)), "publishers": 0}

    def _end_user(self, user: str, reason: str) -> Work:
        clients = ended = 0
        for publisher in publishers(self._runtime):
            if publisher.principal is not None and publisher.principal.user == user:
                ended += _end_publisher(publisher, reason)
                yield
        for client in self._of_user(user):
            if client is not None:
                clients += _end_client(client, reason)
            yield
        return {"clients": clients, "publishers": ended}

    def _of_user(self, user: str) -> Iterator[Client | None]:
        """Yield the clients of the user, and None at times, when others may have a turn."""
        for some in self._runtime.sessions.batches():
            for piece in pieces(some):
                for client in piece:
                    if client.principal.user == user and not client.closed:
                        yield client
                yield None

    # The end of subscriptions

    def _ask_unsubscribe(self, peer: ControlPeer, arguments: dict[str, Any]) -> None:
        """End the subscriptions to a ``subject``, one or a pattern, of a ``connection`` or a ``user``, for a
        ``reason``; answers later."""
        subject = text(arguments, "subject")
        check_wanted(subject)
        self._ask_whom("unsubscribe", peer, arguments, {"subject": subject}, ("clients", "subscriptions"))

    def _unsubscribe(self, query: Answer, done: Done) -> None:
        self._runtime.scatter.run(self._end_subscriptions(query), done)

    def _end_subscriptions(self, query: Answer) -> Work:
        subject, reason = query["subject"], query["reason"]
        clients = ended = 0
        if query["user"]:
            chosen: Iterator[Client | None] = self._of_user(query["user"])
        else:
            chosen = iter([(yield from find(self._runtime, Name(*query["name"])))])
        for client in chosen:
            if client is not None:
                count = yield from self._end_of(client, subject, reason)
                ended += count
                clients += bool(count)
            yield
        return {"clients": clients, "subscriptions": ended}

    def _end_of(self, client: Client, subject: str, reason: str) -> Generator[None, None, int]:
        """End the client's subscription to the subject or pattern, and those by name to what the pattern covers."""
        wanted = [subject]
        if is_wildcard(subject):
            segments = subject[1:].split("/")
            named = [topic.subject for topic in client.subscriptions if not pattern_of(client, topic)]
            named += [text for text, waiting in (client.waiting or {}).items() if not waiting.pattern]
            for at in range(0, len(named), SLICE_SUBSCRIPTIONS):
                some = named[at : at + SLICE_SUBSCRIPTIONS]
                wanted += [text for text in some if covers_segments(segments, text[1:].split("/"))]
                yield
        ended = 0
        for at in range(0, len(wanted), SUBJECTS_PER_COMMAND_MAX):
            some = wanted[at : at + SUBJECTS_PER_COMMAND_MAX]
            ended += self._runtime.sessions.end_subscriptions(client, some, reason, now())
            self._runtime.end()
            yield
        return ended


class _Ping:
    """One that is under way: when it left, and how much had to leave before it."""

    __slots__ = ("began", "client", "done", "queued")

    def __init__(self, client: Client, queued: int, done: Done) -> None:
        self.client = client
        self.queued = queued
        self.done = done
        self.began = perf_counter()


def publishers(runtime: Runtime) -> list[PublisherConnection]:
    """Return the publishers of this process."""
    return [one for one in runtime.publisher_connections if isinstance(one, PublisherConnection)]


def _end_client(client: Client, reason: str) -> bool:
    """End a client; return whether it had not ended yet."""
    connection = client.link
    if isinstance(connection, ClientConnection) and connection.closing:
        return False
    code = Close.CLOSED_BY_OPERATOR
    connection.close(code, f"{code.label}: {reason}")
    return True


def _end_publisher(publisher: PublisherConnection, reason: str) -> bool:
    """End a publisher in the same way."""
    if publisher.over:
        return False
    publisher.close(Close.CLOSED_BY_OPERATOR, reason)
    return True
