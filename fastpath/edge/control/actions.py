"""The control verbs ``ping`` and ``disconnect``: what an operator does to a connection (protocol.md 8.9)."""

from __future__ import annotations

from itertools import count
from time import perf_counter
from typing import Any

from ...core.delivery.audience import Client
from ...core.protocol.errors import Close, InvalidMessage
from ...core.websocket.frames import PING, encode_frame
from ..clients.connection import ClientConnection
from ..publishers.connection import PublisherConnection
from ..runtime.component import Answer, ControlPeer, Done, Offers
from ..runtime.connection_names import Name
from ..runtime.runtime import Runtime
from ..runtime.scatter import Work, away_of, text
from .client_detail import GONE, find, one_answer
from .find_clients import pieces

PING_SECONDS = 4.0
"""How long a client has to answer: less than who asks waits by default (fastpath/client/control/client.py)."""

PINGS_MAX = 100
"""Pings of operators under way in one process."""

REASON_CHARS_MAX = 100
"""Of what the client is told: a close frame has room for little more."""


class Operating:
    """Does it on the worker that has the connection."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._numbers = count(1)
        self._pings: dict[bytes, _Ping] = {}
        self.offers = Offers(
            verbs={"ping": self._ask_ping, "disconnect": self._ask_disconnect},
            questions={"ping": self._ping, "disconnect": self._disconnect},
            ponged=self._ponged,
        )

    # The round trip of a WebSocket ping

    def _ask_ping(self, peer: ControlPeer, arguments: dict[str, Any]) -> None:
        """``connection``; answers later."""
        name = Name.parse(arguments["connection"])
        answered = one_answer(peer, name)
        self._runtime.gathering.ask("ping", {"name": name}, answered, worker=name.worker, seconds=PING_SECONDS + 0.5)

    def _ping(self, query: Answer, done: Done) -> None:
        def found(answer: Answer) -> None:
            client = answer.get("client")
            if client is None:
                done(answer)
            else:
                self._send(client, done)

        self._runtime.gathering.run(self._find(Name(*query["name"])), found)

    def _find(self, name: Name) -> Work:
        client = yield from find(self._runtime, name)
        if len(self._pings) >= PINGS_MAX:
            raise InvalidMessage("limit", f"{PINGS_MAX} pings are under way; ask again")
        return {"client": client}

    def _send(self, client: Client, done: Done) -> None:
        """The server's own pings, which find out whether somebody is there, are empty: nothing is taken for theirs."""
        payload = b"operator" + next(self._numbers).to_bytes(8)
        queued = client.queue.size if client.queue is not None else 0
        self._pings[payload] = _Ping(client, queued, done)
        self._runtime.broker.send(client, encode_frame(PING, payload))
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
        """``connection`` or ``user``, and ``reason``; answers later."""
        reason, user = text(arguments, "reason", REASON_CHARS_MAX), text(arguments, "user")
        if bool(arguments.get("connection")) == bool(user):
            raise InvalidMessage("invalid", "disconnect names a connection or a user")
        query: Answer = {"user": user, "reason": reason}
        if not user:
            name = Name.parse(arguments["connection"])
            self._runtime.gathering.ask(
                "disconnect", query | {"name": name}, one_answer(peer, name), worker=name.worker
            )
            return
        number = peer.request

        def gathered(answers: dict[int, Answer], away: list[int]) -> None:
            done = {worker: answer for worker, answer in answers.items() if "failed" not in answer}
            sums = {kind: sum(answer[kind] for answer in done.values()) for kind in ("clients", "publishers")}
            peer.reply(number, sums | {"away": away_of(answers, away)})

        self._runtime.gathering.ask("disconnect", query, gathered)

    def _disconnect(self, query: Answer, done: Done) -> None:
        if query["user"]:
            self._runtime.gathering.run(self._end_user(query["user"], query["reason"]), done)
        else:
            self._runtime.gathering.run(self._end_one(Name(*query["name"]), query["reason"]), done)

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
        for some in self._runtime.sessions.batches():
            for piece in pieces(some):
                for client in piece:
                    if client.principal.user == user and not client.closed:
                        clients += _end_client(client, reason)
                        yield
                yield
        return {"clients": clients, "publishers": ended}


class _Ping:
    """One that is under way: when it left, and how much had to leave before it."""

    __slots__ = ("began", "client", "done", "queued")

    def __init__(self, client: Client, queued: int, done: Done) -> None:
        self.client = client
        self.queued = queued
        self.done = done
        self.began = perf_counter()


def publishers(runtime: Runtime) -> list[PublisherConnection]:
    """The publishers of this process."""
    return [one for one in runtime.publisher_connections if isinstance(one, PublisherConnection)]


def _end_client(client: Client, reason: str) -> bool:
    """Whether it had not ended yet."""
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
