"""A node without sockets: the broker, its sessions and its clock, as the edge would run them in one process."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from fastpath.core.auth.keys import Keys
from fastpath.core.auth.rule_grants import RuleGrants
from fastpath.core.broker.broker import Broker
from fastpath.core.delivery.audience import Client, Group
from fastpath.core.delivery.ports import Writer
from fastpath.core.delivery.wire import Wire, terms_of
from fastpath.core.protocol.codec import MSGPACK, encode
from fastpath.core.protocol.errors import Refused
from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import AnyAnswer
from fastpath.core.protocol.packets import read_publications
from fastpath.core.sessions.sessions import Sessions
from fastpath.engine.memory import MemoryEngine

FORM = MSGPACK
"""The form of the protocol that clients here speak: values stay what they are."""

GRID_MS = 100
"""Conflated messages are due on this grid (protocol.md 3.2)."""

ADVANCE_SECONDS_MAX = 7 * 24 * 3600
"""Seconds of one call at most: every tick of the clock is made, some million an hour of the machine's time."""

_PING_SECONDS = 25


_LENGTH_BYTES = 4


class Payloads(Wire):
    """The wire of clients in this process: each message or event with its length in front, and nothing else."""

    __slots__ = ()

    transport = "memory"
    pings = False

    def message(self, payload: bytes) -> bytes:
        return len(payload).to_bytes(_LENGTH_BYTES) + payload

    def event(self, value: AnyAnswer) -> bytes:
        return self.message(encode(value, self.form))

    def close(self, code: int, reason: str) -> bytes:
        return b""  # its link is told

    def split(self, chunk: bytes) -> Iterator[tuple[bytes, int]]:
        for payload in payloads(chunk):
            value = msgspec.msgpack.decode(payload)
            yield self.message(payload), value[0] if isinstance(value, list) else -1


def payloads(chunk: bytes) -> Iterator[bytes]:
    """Yield each message or event of what was written."""
    at = 0
    while at < len(chunk):
        start = at + _LENGTH_BYTES
        at = start + int.from_bytes(chunk[at:start])
        yield chunk[start:at]


_TERMS = terms_of(Payloads(FORM))


class Connection:
    """A client's connection: the core writes to it, and its client reads what ``frames`` has."""

    def __init__(self, node: MemoryNode, token: str, number: int) -> None:
        """Connect; raise Refused for a token that is not good."""
        self.frames: deque[bytes] = deque()
        self.closed: tuple[int, str] | None = None
        self._node = node
        self.client: Client = node.sessions.open(self, number, False, _TERMS, token, "memory", node.now)

    def write(self, data: bytes) -> None:
        """Link: whole pieces."""
        self.frames.extend(payloads(data))

    def take(self) -> list[bytes]:
        """Return what was written since the last call."""
        found, self.frames = list(self.frames), deque()
        return found

    def lag(self, data: bytes, sent: int) -> None:
        """Link: there is no socket that could take less."""
        self.write(data)

    def hold(self, why: int, held: bool) -> None:
        """Link: a client of a test says one thing after the other."""

    def close(self, code: int, reason: str) -> None:
        """Link: the core says goodbye; it lets go at the end of the turn."""
        if self.closed is None:
            self.closed = int(code), reason
            self._node.ended.append(self)


class _Members(Writer):
    """Hands the bytes of a group to the connection of each member."""

    def write_group(self, group: Group, data: bytes) -> None:
        for client in [*group.ready, *group.singles]:
            client.link.write(data)

    def write_some(self, clients: list[Client], keys: list[int], data: bytes) -> None:
        for client in clients:
            client.link.write(data)

    def write_ones(self, groups: list[Group], keys: list[int], frames: list[bytes]) -> None:
        for group, data in zip(groups, frames, strict=True):
            self.write_group(group, data)


class MemoryNode:
    """``now`` is in ms since 1970 and moves with ``advance`` alone. Threads may share it."""

    def __init__(self, keys: Keys, message_bytes_max: int, started: int) -> None:
        self.now = self.epoch = started
        self.lock = threading.RLock()
        self.ended: list[Connection] = []
        """Connections of which the core has let go in this turn."""
        self._grants = RuleGrants(keys)
        self._engine = MemoryEngine(started)
        self._connections = 0
        self._broker = Broker(
            self._engine,
            self._grants,
            Limits(
                message_bytes_max=message_bytes_max,
                snapshot_bytes_max=max(message_bytes_max, Limits().snapshot_bytes_max),
            ),
            server="memory",
            started=started,
            secret=b"memory",
            writer=_Members(),
        )
        self.sessions = Sessions(self._broker, _PING_SECONDS, moved=lambda _: True)  # none of a test is silent

    @property
    def generation(self) -> int | None:
        """Generation of the rights in force; None before any have come."""
        return self._grants.generation if self._grants.ready else None

    def take_rights(self, chunks: Sequence[dict[str, list[Any]]], generation: int) -> None:
        """Put a full set of rights in force, as ``rules_commit`` does (protocol.md 8.5)."""
        rights = self.sessions.rights
        rights.begin()
        for chunk in chunks:
            rights.add(chunk["rules"], chunk["users"], chunk["sessions"], chunk["options"])
        rights.commit(generation, self.now)
        self._turn()

    def publish(self, wire: Sequence[list[Any]]) -> list[Any]:
        """Publish rows ``[subject, content, fields, meta]`` as Django does; a result a row, as in protocol.md 6.3."""
        with self.lock:
            messages, refused = read_publications(list(wire))
            outcomes: list[Any] = []
            self._broker.publish(None, messages, self.now, outcomes.extend)
            self._turn()
            rest = iter(outcomes)
            results = [refused[index] if index in refused else next(rest) for index in range(len(wire))]
            return [list(one) if isinstance(one, tuple) else one for one in results]

    def connect(self, token: str) -> Connection:
        """Return a connection for a client with this token; an empty one is anonymous. Raise Refused."""
        self._connections += 1
        return Connection(self, token, self._connections)

    def receive(self, connection: Connection, frame: bytes) -> None:
        """Take a frame that a client sends."""
        self.sessions.receive(connection.client, frame, self.now)
        self._turn()

    def disconnect(self, connection: Connection) -> None:
        """Let go of a client that is gone."""
        if connection.closed is None:
            connection.closed = 1006, "the connection was lost"
            self.sessions.close(connection.client)

    def check(self, token: str, action: str, subject: str) -> str:
        """Return why the holder of the token may not ``subscribe`` or ``publish``; empty: the holder may."""
        try:
            return self._grants.check(self._grants.principal(token, self.now), action, subject, self.now)
        except Refused as error:
            return error.reason

    def advance(self, seconds: float, told: Callable[[], None]) -> None:
        """Let time pass; ``told`` is called whenever something may have been written."""
        if not 0 <= seconds <= ADVANCE_SECONDS_MAX:
            raise ValueError(f"time passes by 0 to {ADVANCE_SECONDS_MAX} s, not by {seconds}")
        until = self.now + round(seconds * 1000)
        while (moment := (self.now // GRID_MS + 1) * GRID_MS) <= until:
            self.now = moment
            self._broker.grid.tick(moment)
            self.sessions.rights.tick(moment)
            if moment % 1000 == 0:
                self._engine.tick(moment)
                self.sessions.beat(moment)
            self._turn()
            told()
        self.now = until
        self._broker.history.expire(until)

    def _turn(self) -> None:
        """End a turn: rights are followed, everything is written, and clients that were sent away are let go."""
        while self.sessions.rights.busy:
            self.sessions.rights.step(self.now)
        self._broker.finish()
        self._broker.flush_answers()
        recoveries = self.sessions.recoveries
        while recoveries.busy:
            recoveries.step(recoveries.next())
        self._broker.finish()
        ended, self.ended = self.ended, []
        for connection in ended:
            self.sessions.close(connection.client)
