"""The side of every other worker: follows the first worker's log, and hands it what its clients publish."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import Any

from ...core.broker.admission import Done, Outcome, with_refusals
from ...core.broker.state_transfer import Takeover
from ...core.protocol.errors import InvalidMessage
from ...core.protocol.messages import Message
from ...core.protocol.packets import Log, handed_in
from ...engine.follower import FollowerEngine
from ...engine.order_fence import HELD, Holds
from ..runtime.hub import Hub, now
from .link import STUCK_SECONDS, Giver, LinkSocket, is_own

RETRY_SECONDS = 0.1
"""Between attempts to reach the first worker. Its socket outlives it, so that one attempt is the rule."""

BUSY_SECONDS = STUCK_SECONDS / 4
"""How often the first worker is told that this one is there, while it takes nothing because it writes."""

UPSTREAM_BYTES_MAX = 16 << 20
"""Publications that may wait for a first worker that does not take them; above it they are refused."""

STALE = "the first worker is away: nothing new arrives, publications fail; it is restarted"
FRESH = "the first worker is back: messages arrive again"

_AWAY = ("unavailable", "the server cannot publish at this moment: its first worker is being restarted; publish again")
_UNKNOWN = (
    "unavailable",
    "the server's first worker ended before it answered: the message may have been published or not",
)
_BUSY = ("unavailable", "the server's first worker does not keep up; publish again later")

log = logging.getLogger("fastpath.links")


class Follower:
    """Keeps the broker of this worker as the first worker's is."""

    def __init__(self, hub: Hub, engine: FollowerEngine, worker: int, path: str, cut: Callable[[], None]) -> None:
        self._hub = hub
        self._engine = engine
        self._worker = worker
        self._path = path
        self._cut = cut
        self._link: LinkSocket | None = None
        self._stopped = False
        self._first = ""  # the first worker that was followed last
        self._welcomed = False
        self._held: tuple[int, int] = (0, 0)
        self._takeover: Takeover | None = None
        self._giver: Giver | None = None
        self._rows: list[list[Any]] = []
        self._since = 0  # when the first of them was accepted (edge/runtime/delivery_latency.py)
        self._asked: deque[tuple[Sequence[Message], Done | None]] = deque()
        self._busy = self._telling = False
        self._holds = Holds(hub.loop.time)
        self._holds.away()
        self.copied = asyncio.Event()
        self.drain: Callable[[list[Any]], None] = lambda packet: None
        """Send this worker's clients elsewhere, or no more (edge/workers/drain.py)."""
        hub.broker.upstream = self.upstream
        hub.broker.unheard = lambda: self._link is None or not self._welcomed or self._link.unread()
        hub.to_first = self._to_first
        hub.unsent = lambda: self._link.waiting if self._link is not None else 0
        hub.crowded.append(self._crowded)

    def start(self) -> None:
        """Link to the first worker, now or as soon as it is there."""
        if self._stopped:
            return
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(self._path)
            if not is_own(sock):
                raise PermissionError("the link's socket is another user's")
        except OSError as error:
            sock.close()
            log.warning("cannot reach the first worker: %s; trying again", error)
            self._hub.loop.call_later(RETRY_SECONDS, self.start)
            return
        self._link = LinkSocket(self._hub.loop, sock, self._received, self._lost, self._taken, follows=True)
        self._link.read(not self._busy)
        self._link.send(["hello", self._worker, *self._held, self._engine.epoch])
        self._link.flush()

    def stop(self) -> None:
        """This worker stops: what happens to the link does not matter any more."""
        self._stopped = True

    def _crowded(self, crowded: bool) -> None:
        """Hub.crowded: the log waits at the first worker, which holds whoever publishes for that."""
        self._busy = crowded
        if self._link is not None:
            self._link.read(not crowded)
        if crowded and not self._telling:
            self._telling = True
            self._hub.loop.call_later(BUSY_SECONDS, self._tell_busy)

    def _tell_busy(self) -> None:
        """It is not stuck, and need not be cut, however long the writing takes."""
        self._telling = self._busy and not self._stopped
        if self._telling:
            self._to_first(["busy"])
            self._hub.loop.call_later(BUSY_SECONDS, self._tell_busy)

    def upstream(self, messages: Sequence[Message], done: Done | None) -> None:
        """Hand accepted publications to the first worker, with all others of this tick (Broker.upstream)."""
        refused = self._refused()
        if refused is not None:
            self._hub.broker.counters.failed([refused] * len(messages))
            self._holds.note(messages)
            if done is not None:
                done([refused] * len(messages))
            return
        if self._holds and (early := self._holds.refused(messages, HELD)):
            self._hub.broker.counters.failed(early.values())
            messages = [message for index, message in enumerate(messages) if index not in early]
            done = done and with_refusals(done, early)
        if not messages and not self._asked:
            if done is not None:
                done([])
            return
        if not self._rows:
            self._since = monotonic_ns()
            self._hub.loop.call_soon(self._hand_in)
        self._rows += [handed_in(message) for message in messages]
        self._asked.append((messages, done))

    def report(self, figures: dict[str, float]) -> None:
        """Tell the first worker what this one counted."""
        if self._link is not None and self._welcomed:
            self._link.send(["stats", figures])
            self._link.flush()

    def _to_first(self, packet: list[Any]) -> bool:
        """Hub.to_first."""
        if self._link is None or not self._welcomed:
            return False
        self._link.send(packet)
        self._link.flush()
        return True

    def _refused(self) -> tuple[str, str] | None:
        if self._link is None or not self._welcomed or self._hub.stale:
            return _AWAY
        return _BUSY if self._link.waiting > UPSTREAM_BYTES_MAX else None

    def _hand_in(self) -> None:
        rows, self._rows = self._rows, []
        if self._link is not None and self._welcomed and rows:
            self._link.send(["publish", rows, self._since])
            self._link.flush()

    def _received(self, packet: list[Any] | Log) -> None:
        try:
            self._handle(packet)
        except InvalidMessage as error:
            log.error("the first worker's rights do not follow ours: %s", error)
            if self._link is not None:
                self._link.close("out of step")
        self._hub.end()
        self._hub.follow_rights()

    def _handle(self, packet: list[Any] | Log) -> None:
        broker, rights = self._hub.broker, self._hub.sessions.rights
        match packet:
            case Log():
                if self._takeover is not None:
                    self._takeover.before(packet.messages)
                else:
                    self._held = (self._engine.epoch, packet.position)
                if self._hub.latency is not None:
                    self._hub.latency.accepted(packet.since)
                broker.counters.messages_in -= packet.own  # nobody has published them
                broker.deliver(packet.messages)
            case ["restart", list(part)]:
                (self._takeover or Takeover(broker)).restarted(part)
            case ["notice", str(code), str(text)]:
                if code == "stale":
                    self._holds.away()
                    self._hub.go_stale(text)
                else:
                    self._holds.back()
                    self._hub.go_fresh(text)
            case ["published", int(epoch), list(outcomes)]:
                self._published(epoch, outcomes)
            case ["parts", list(parts)] if self._takeover is not None:
                for part in parts:
                    self._takeover.add(part)
            case ["copied", int(position)] if self._takeover is not None:
                self._has_copied(position)
            case ["rules_begin"]:
                rights.begin()
            case ["rules", rules, users, sessions]:
                rights.add(rules, users, sessions)
            case ["rules_commit", int(generation)]:
                rights.commit(generation, now())
                self._hub.follow_publishers()
            case ["rules_diff", after, int(generation), rules, removed, users, sessions]:
                rights.change(after, generation, rules, removed, users, sessions, now())
                self._hub.follow_publishers()
            case ["welcome", str(server), int(epoch)]:
                self._welcome(server, epoch)
            case [str(name), *rest] if name in self._hub.packets:
                self._hub.packets[name](0, rest)
            case ["drain" | "undrain", *_]:
                self.drain(packet)
            case ["give", bool(subjects)]:
                assert self._link is not None
                self._giver = Giver(self._hub, self._link, lambda: None, self._given, subjects=subjects)
            case _:
                assert self._link is not None
                self._link.close(f"not a packet of a link: {str(packet)[:40]}")

    def _welcome(self, server: str, epoch: int) -> None:
        if server == self._first:
            log.error("this worker did not keep up and was cut: it ends, its clients resume elsewhere")
            self._cut()
            return
        self._first = server
        self._welcomed = True
        self._giver = None
        self._engine.epoch = epoch
        self._takeover = Takeover(self._hub.broker)
        for told in self._hub.linked:
            told(0)

    def _has_copied(self, position: int) -> None:
        assert self._takeover is not None
        self._takeover.finish()
        self._takeover = None
        self._held = (self._engine.epoch, position)
        self._holds.back()
        if self._hub.stale:
            self._hub.go_fresh(FRESH)
            log.info("following the first worker %s again", self._first)
        self.copied.set()

    def _given(self) -> None:
        assert self._link is not None
        self._link.send(["copied", self._held[1]])

    def _published(self, epoch: int, outcomes: list[Any]) -> None:
        """Outcomes come in the order in which publications were handed in, for one or several of them."""
        at = 0
        while at < len(outcomes) or (self._asked and not self._asked[0][0]):
            messages, done = self._asked.popleft()
            own: list[Outcome] = []
            for message, outcome in zip(messages, outcomes[at : at + len(messages)], strict=True):
                if isinstance(outcome, int):
                    message.epoch, message.seq = (epoch if outcome else 0), outcome
                    own.append(outcome)
                else:
                    own.append((outcome[0], outcome[1]))
                    if outcome[0] == "unavailable":  # the first worker holds up what follows; the next one would not
                        self._holds.note((message,))
            at += len(messages)
            if done is not None:
                done(own)

    def _lost(self, why: str) -> None:
        if self._stopped:
            return
        log.warning("the link to the first worker is over: %s", why)
        self._link = self._giver = self._takeover = None
        self._welcomed = False
        self._rows = []
        self._holds.away()
        self._hub.congest(False)
        if self.copied.is_set():
            self._hub.go_stale(STALE)
        for publisher in list(self._hub.publisher_connections):
            publisher.drain()  # it sends again what was not acknowledged
        asked, self._asked = self._asked, deque()
        for messages, done in asked:
            self._hub.broker.counters.failed([_UNKNOWN] * len(messages))
            self._holds.note(messages)
            if done is not None:
                done([_UNKNOWN] * len(messages))
        self._hub.end()
        self.start()

    def _taken(self) -> None:
        assert self._link is not None
        self._hub.congest(self._link.holds)
        if self._giver is not None:
            self._giver.wake()
