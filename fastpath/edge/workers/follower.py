"""The side of every other worker: follows the first worker's log, and hands it what its clients publish."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any

from ...core.broker.state_transfer import StateReceiver
from ...core.protocol.errors import InvalidMessage
from ...core.protocol.packets import Log, Refusal
from ...engine.follower import FollowerEngine
from ..node.messages import (
    Busy,
    Copied,
    Figures,
    Give,
    Hello,
    Packet,
    Parts,
    Publish,
    Published,
    Restart,
    RightsBegin,
    RightsChunk,
    RightsCommit,
    RightsDiff,
    Stale,
    Welcome,
)
from ..runtime.component import Offers
from ..runtime.runtime import Runtime, now
from .link import STUCK_SECONDS, LinkSocket, StateSender, is_own

RETRY_SECONDS = 0.1
"""Seconds between attempts to reach the first worker. Its socket outlives it, so that one attempt is the rule."""

BUSY_SECONDS = STUCK_SECONDS / 4
"""Seconds between two words to the first worker that this one is there, while it takes nothing because it writes."""

UPSTREAM_BYTES_MAX = 16 << 20
"""Publications that may wait for a first worker that does not take them; above it they are refused."""

STALE = "the first worker is away: nothing new arrives, publications fail; it is restarted"
FRESH = "the first worker is back: messages arrive again"

_AWAY = ("unavailable", "the server cannot publish at this moment: its first worker is being restarted; publish again")
_BUSY = ("unavailable", "the server's first worker does not keep up; publish again later")

log = logging.getLogger("fastpath.links")


class Follower:
    """Keeps the broker of this worker as the first worker's is."""

    def __init__(
        self, runtime: Runtime, engine: FollowerEngine, worker: int, path: str, cut: Callable[[], None]
    ) -> None:
        self._runtime = runtime
        self._engine = engine
        self._worker = worker
        self._path = path
        self._cut = cut
        self._link: LinkSocket | None = None
        self._stopped = False
        self._first = ""  # the first worker that was followed last
        self._welcomed = False
        self._held: tuple[int, int] = (0, 0)
        self._takeover: StateReceiver | None = None
        self._giver: StateSender | None = None
        self._busy = self._telling = False
        self.copied = asyncio.Event()
        self.offers = Offers(crowded=self._crowded)
        engine.follow(runtime.loop, self)
        runtime.workers.follow(self)

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
            self._runtime.loop.call_later(RETRY_SECONDS, self.start)
            return
        self._link = LinkSocket(self._runtime.loop, sock, self._received, self._lost, self._taken, follows=True)
        self._link.read(not self._busy)
        self._link.send(Hello(self._worker, *self._held, self._engine.epoch))
        self._link.flush()

    def stop(self) -> None:
        """Stop the worker's link: what happens to it does not matter any more."""
        self._stopped = True

    def _crowded(self, crowded: bool) -> None:
        """Hold the log at the first worker, which holds whoever publishes for that (Offers.crowded)."""
        self._busy = crowded
        if self._link is not None:
            self._link.read(not crowded)
        if crowded and not self._telling:
            self._telling = True
            self._runtime.loop.call_later(BUSY_SECONDS, self._tell_busy)

    def _tell_busy(self) -> None:
        """Tell the first worker that this one is busy, not stuck, and need not be cut while it writes."""
        self._telling = self._busy and not self._stopped
        if self._telling:
            self.send(Busy())
            self._runtime.loop.call_later(BUSY_SECONDS, self._tell_busy)

    def report(self, figures: dict[str, float]) -> None:
        """Tell the first worker what this one counted."""
        if self._link is not None and self._welcomed:
            self._link.send(Figures(figures))
            self._link.flush()

    def unsent(self) -> int:
        """Return the number of bytes that wait for the first worker."""
        return self._link.waiting if self._link is not None else 0

    def send(self, packet: Packet) -> bool:
        """Send to the first worker; whether that could be done."""
        if self._link is None or not self._welcomed:
            return False
        self._link.send(packet)
        self._link.flush()
        return True

    def refused(self) -> Refusal | None:
        """Return the reason why the first worker takes no publication at this moment (Upstream)."""
        if self._link is None or not self._welcomed or self._runtime.stale:
            return _AWAY
        return _BUSY if self._link.waiting > UPSTREAM_BYTES_MAX else None

    def hand_in(self, rows: list[list[Any]], since: int) -> None:
        """Send publications to the first worker, if it is there still (Upstream)."""
        if self._link is not None and self._welcomed:
            self._link.send(Publish(rows, since))
            self._link.flush()

    def unread(self) -> bool:
        """Return whether something of the log may wait unread (Upstream)."""
        return self._link is None or not self._welcomed or self._link.unread()

    def _received(self, packet: Packet | Log) -> None:
        try:
            self._handle(packet)
        except InvalidMessage as error:
            log.error("the first worker's rights do not follow ours: %s", error)
            if self._link is not None:
                self._link.close("out of step")
        self._runtime.end()
        self._runtime.follow_rights()

    def _handle(self, packet: Packet | Log) -> None:
        broker, rights = self._runtime.broker, self._runtime.sessions.rights
        match packet:
            case Log():
                if self._takeover is not None:
                    self._takeover.before(packet.messages)
                else:
                    self._held = (self._engine.epoch, packet.position)
                if self._runtime.latency is not None:
                    self._runtime.latency.accepted(packet.since)
                broker.counters.messages_in -= packet.own  # nobody has published them
                broker.deliver(packet.messages)
            case Restart(part):
                (self._takeover or StateReceiver(broker)).restarted(part)
            case Stale(code, text):
                if code == "stale":
                    self._engine.away()
                    self._runtime.go_stale(text)
                else:
                    self._engine.back()
                    self._runtime.go_fresh(text)
            case Published(epoch, outcomes):
                self._engine.answered(epoch, outcomes)
            case Parts(parts) if self._takeover is not None:
                for part in parts:
                    self._takeover.add(part)
            case Copied(position) if self._takeover is not None:
                self._has_copied(position)
            case RightsBegin():
                rights.begin()
            case RightsChunk(rules, users, sessions, options):
                rights.add(rules, users, sessions, options)
            case RightsCommit(generation):
                rights.commit(generation, now())
                self._runtime.follow_publishers()
            case RightsDiff(after, generation, rules, removed, users, sessions, options):
                rights.change(after, generation, rules, removed, users, sessions, now(), options)
                self._runtime.follow_publishers()
            case Welcome(server, epoch, options):
                if options:
                    rights.options.replace(options)
                self._welcome(server, epoch)
            case Give(subjects):
                assert self._link is not None
                self._giver = StateSender(self._runtime, self._link, lambda: None, self._given, subjects=subjects)
            case _ if not self._runtime.workers.received(0, packet):
                assert self._link is not None
                self._link.close(f"not for this worker: {str(packet)[:40]}")

    def _welcome(self, server: str, epoch: int) -> None:
        if server == self._first:
            log.error("this worker did not keep up and was cut: it ends, its clients resume elsewhere")
            self._cut()
            return
        self._first = server
        self._welcomed = True
        self._giver = None
        self._engine.epoch = epoch
        self._takeover = StateReceiver(self._runtime.broker)
        self._runtime.workers.linked(0)

    def _has_copied(self, position: int) -> None:
        assert self._takeover is not None
        self._takeover.finish()
        self._takeover = None
        self._held = (self._engine.epoch, position)
        self._engine.back()
        if self._runtime.stale:
            self._runtime.go_fresh(FRESH)
            log.info("following the first worker %s again", self._first)
        self.copied.set()

    def _given(self) -> None:
        assert self._link is not None
        self._link.send(Copied(self._held[1]))

    def _lost(self, why: str) -> None:
        if self._stopped:
            return
        log.warning("the link to the first worker is over: %s", why)
        self._link = self._giver = self._takeover = None
        self._welcomed = False
        self._engine.away()
        self._runtime.congest(False)
        if self.copied.is_set():
            self._runtime.go_stale(STALE)
        for publisher in list(self._runtime.publisher_connections):
            publisher.drain()  # it sends again what was not acknowledged
        self._engine.forsake()
        self._runtime.end()
        self.start()

    def _taken(self) -> None:
        assert self._link is not None
        self._runtime.congest(self._link.holds)
        if self._giver is not None:
            self._giver.wake()
