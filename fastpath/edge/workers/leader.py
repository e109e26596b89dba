"""The first worker's side of the links: writes the log to the others, gives copies, publishes what they hand in."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ...core.broker.admission import Outcome
from ...core.broker.ports import Numbering
from ...core.broker.state_transfer import StateReceiver, whole_part
from ...core.delivery.audience import Topic
from ...core.protocol.messages import Message, Notice
from ...core.protocol.packets import Log, read_handed_in
from ...core.protocol.subject import is_system
from ...core.telemetry.counters import with_lost
from ..node.messages import (
    Busy,
    Copied,
    Copying,
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
    encode,
    encode_log,
)
from ..runtime.component import Offers
from ..runtime.runtime import GRID_SECONDS, Runtime, now
from .link import LinkSocket, StateSender, is_own
from .staleness import told_since

HELLO_SECONDS = 1.0
"""Seconds that a new first worker waits for those who still hold the state of the one before it."""

LATE_SECONDS = 5.0
"""Seconds to wait longer when none of them has answered: without one the state would be lost."""

SEED_SECONDS = 30.0
"""Seconds to wait for the state of one of them."""

COPY_SECONDS = 10.0
"""Seconds to wait then for the others to have all of that, before publications are taken."""

LOG_BYTES = 256 << 10
"""The log is written before the end of the tick when so much has come."""

ENDED_MAX = 64
"""Workers that have gone of which is kept what they told last, until somebody asks."""

log = logging.getLogger("fastpath.links")


class FollowerLink:
    """The link to one of the other workers."""

    def __init__(self, links: Links, sock: socket.socket) -> None:
        self._links = links
        self.socket = LinkSocket(
            links.runtime.loop, sock, self._received, self._lost, self._taken, clock=links.runtime.awake
        )
        self.worker = -1
        self.held: tuple[int, int] = (0, 0)  # epoch and position in the log of the state that it has complete
        self.seen = 0  # the last epoch that it has told of
        self.given = False  # all of that has come here
        self.giver: StateSender | None = None
        self.takeover: StateReceiver | None = None
        self.figures: dict[str, float] = {}
        self.told = 0.0

    @property
    def current(self) -> bool:
        """True if the worker has the whole copy and follows the log."""
        return self.giver is not None and self.giver.copy is None

    def welcome(self) -> None:
        """Begin: the copy, while the log runs."""
        broker = self._links.runtime.broker
        is_told = self._links.runtime.sessions.rights.generation is not None
        options = [] if is_told else broker.interest.options.rows  # else they come with the rights
        self.socket.send(Welcome(broker.server, broker.engine.epoch, options))
        self.giver = StateSender(self._links.runtime, self.socket, self._links.flush, self._complete)
        self._links.runtime.workers.linked(self.worker)
        self.socket.flush()

    def _received(self, packet: Packet | Log) -> None:
        links = self._links
        match packet:
            case Publish(rows, since):
                if links.runtime.latency is not None:
                    links.runtime.latency.accepted(since)
                links.runtime.broker.publish(None, [read_handed_in(row) for row in rows], now(), self._answer)
                links.runtime.end()
                self.socket.read(not links.runtime.congested)
            case Busy():
                pass  # it lives: the socket has noted that
            case Figures(figures):
                self.figures, self.told = figures, time.monotonic()
            case Hello(worker, epoch, position, seen):
                self.worker, self.held, self.seen = worker, (epoch, position), seen
                links.hello(self)
            case Parts() | RightsBegin() | RightsChunk() | RightsCommit() | Copied() if self.takeover is not None:
                links.take(self, packet)
            case Log():
                self.socket.close("a log from a worker that numbers nothing")
            case _ if links.runtime.workers.received(self.worker, packet):
                links.runtime.end()
            case _:
                self.socket.close(f"not for the first worker: {str(packet)[:40]}")

    def _answer(self, outcomes: list[Outcome]) -> None:
        """Answer after the log that holds what the outcomes tell of."""
        self._links.flush()
        self.socket.send(Published(self._links.runtime.broker.engine.epoch, outcomes))
        self.socket.flush()

    def _complete(self) -> None:
        log.info("worker %d has the whole copy", self.worker)
        self.socket.send(Copied(self._links.position))
        notice = self._links.runtime.sessions.notice
        if notice is not None:
            self.socket.send(Stale(notice.code, notice.text))
        self._links.changed()

    def _taken(self) -> None:
        self._links.congest()
        if self.giver is not None:
            self.giver.wake()

    def _lost(self, why: str) -> None:
        self._links.lost(self, why)


class Links:
    """All the other workers, as the first one sees them."""

    def __init__(self, runtime: Runtime, listening: socket.socket) -> None:
        self.runtime = runtime
        self.position = 0  # messages in the log so far
        self._listening = listening
        self._links: list[FollowerLink] = []
        self._log: list[Message] = []
        self._log_bytes = 0
        self._own = 0  # Counters.messages_own when the log was written last
        self._numbering: Numbering | None = None
        self._kept: list[Message] = []  # of what is taken over: those that may come again
        self._gone: dict[str, float] = {}
        self._ended: deque[dict[str, float]] = deque(maxlen=ENDED_MAX)
        self._open = False
        self._changed = asyncio.Event()
        listening.setblocking(False)
        runtime.loop.add_reader(listening.fileno(), self._accept)
        runtime.broker.replicate(self)
        runtime.workers.lead(self)
        self.offers = Offers(noticed=self._notice, eased=self._read_on)

    async def resume(self, survivors: int, numbering: Numbering | None) -> None:
        """Take over what the others still hold of a first worker that died: the state of the one who got furthest.

        Without ``numbering`` the subjects are known from where messages are kept, and the others hold no more than
        that: the rights alone are taken over.
        """
        awake = self.runtime.awake
        deadline = awake.time + HELLO_SECONDS
        while survivors and (known := sum(link.worker > 0 for link in self._links)) < survivors:
            if not await self._wait(deadline + (0 if known else LATE_SECONDS)):
                break
        if numbering is not None:
            numbering.begin_after(max((link.seen for link in self._links), default=0))
        self._numbering = numbering
        for link in sorted(self._links, key=lambda link: link.held, reverse=True):
            if not link.held[0] or link.socket.closed:
                continue
            self._kept = []
            link.takeover = StateReceiver(self.runtime.broker)
            link.socket.send(Give(numbering is not None))
            link.socket.flush()
            deadline = awake.time + SEED_SECONDS
            while not link.given and not link.socket.closed:
                if not await self._wait(deadline):
                    break
            if link.given:
                log.info("took over %d subjects from worker %d", len(self.runtime.broker.interest.topics), link.worker)
                break
            link.takeover = None
        self._open = True
        for link in self._links:
            if link.worker > 0 and link.giver is None:
                link.welcome()

    async def copied(self) -> None:
        """Wait for the others to have it: what is acknowledged from then on survives this worker as well."""
        deadline = self.runtime.awake.time + COPY_SECONDS
        while not all(link.current for link in self._links if link.worker > 0):
            if not await self._wait(deadline):
                log.warning("the others do not have the whole copy yet; going on")
                break

    def congest(self) -> None:
        """Take nothing more from those who publish while a link holds them back, be it through another link."""
        self.runtime.congest(any(link.socket.holds for link in self._links))

    def _read_on(self) -> None:
        for link in self._links:
            link.socket.read(True)

    def changed(self) -> None:
        """Note that something happened that ``resume`` may wait for."""
        self._changed.set()

    def hello(self, link: FollowerLink) -> None:
        """Take a worker that said who it is."""
        self._changed.set()
        if self._open:
            link.welcome()

    def take(self, link: FollowerLink, packet: Copying) -> None:
        """Take a piece of the state that a worker still holds."""
        takeover, rights = link.takeover, self.runtime.sessions.rights
        assert takeover is not None
        match packet:
            case Parts(parts):
                for part in parts:
                    takeover.add(part)
                    if len(part) > 2 and self._numbering is not None:
                        self._numbering.resume(part[0], part[3])
                        self._kept += [message for message in part[1] if message.publication]
            case RightsBegin():
                rights.begin()
            case RightsChunk(rules, users, sessions, options):
                rights.add(rules, users, sessions, options)
            case RightsCommit(generation):
                rights.commit(generation, now(), inherited=True)
            case _:
                if self._numbering is not None:
                    self._numbering.deduplicator.learn(self._kept)
                self._kept = []
                link.takeover = None
                link.given = True
                self._changed.set()

    def rights_replaced(self) -> None:
        """Tell that a whole set of rights has taken force."""
        self.flush()
        for link in self._links:
            if link.giver is not None:
                link.giver.renew_rights()

    def rights_changed(self, change: Sequence[Any]) -> None:
        """Tell that a difference has taken force: ``after, generation, rules, removed, users, sessions, options``."""
        self.flush()
        data = encode(RightsDiff(*change))
        for link in self._links:
            if link.giver is None:
                continue
            if link.giver.has_rights:
                link.socket.push(data)
                link.socket.flush()
            else:
                link.giver.renew_rights()

    def send(self, packet: Packet, worker: int | None) -> None:
        """Send to all that follow, or to one of them."""
        for link in self._links:
            if link.giver is not None and worker in (None, link.worker):
                link.socket.send(packet)
                link.socket.flush()

    def unsent_to(self, worker: int) -> int:
        """Return the number of bytes that wait for that worker."""
        return sum(link.socket.waiting for link in self._links if link.worker == worker)

    def count(self) -> int:
        """Return the number of other workers that are there."""
        return len(self._links)

    def flush(self) -> None:
        """Write what has been numbered to everybody who follows."""
        if not self._log:
            return
        messages, self._log, self._log_bytes = self._log, [], 0
        self.position += len(messages)
        data, latency, counters = b"", self.runtime.latency, self.runtime.broker.counters
        since = latency.since if latency is not None else 0
        own, self._own = counters.messages_own - self._own, counters.messages_own
        for link in self._links:
            giver = link.giver
            if giver is None:
                continue
            if giver.copy is None:
                data = data or encode_log(self.position, messages, since, own)
                link.socket.push(data)
            else:
                pending = giver.copy.pending
                rest = [one for one in messages if one.subject not in pending]
                own_rest = sum(is_system(one.subject) for one in rest)
                link.socket.push(encode_log(self.position, rest, since, own_rest))
            link.socket.flush()

    def figures(self) -> list[dict[str, float]]:
        """Return the figures that each of the others told last."""
        moment = time.monotonic()
        return [told_since(link.figures, moment - link.told) for link in self._links if link.figures]

    @property
    def gone(self) -> dict[str, float]:
        """The figures that workers which are gone had counted."""
        return self._gone

    def ended(self) -> list[dict[str, float]]:
        """Return the last figures of workers that have gone since this was asked before."""
        ended = list(self._ended)
        self._ended.clear()
        return ended

    def lost(self, link: FollowerLink, why: str) -> None:
        """Let go of a worker that is gone, or was cut."""
        log.warning("the link to worker %d is over: %s", link.worker, why)
        self.runtime.workers.parted(link.worker)
        if link in self._links:
            self._links.remove(link)
        self.congest()
        if link.figures:
            self._ended.append(link.figures)
            for name, value in with_lost(link.figures).items():
                self._gone[name] = self._gone.get(name, 0) + value
        self._changed.set()

    def close(self) -> None:
        """Close the links of a worker that stops: nobody could tell the others of publications that it took."""
        self.flush()
        for link in self._links:
            link.socket.close("this worker stops")
        self.runtime.congest(False)
        self.runtime.broker.replicate(None)
        self.runtime.loop.remove_reader(self._listening.fileno())
        self._listening.close()

    def note(self, messages: Sequence[Message]) -> None:
        """Take messages into the log (Replicas)."""
        if not self._links:
            self.position += len(messages)
            self._own = self.runtime.broker.counters.messages_own
            return
        self._log += messages
        self._log_bytes += sum([message.size for message in messages])
        if self._log_bytes > LOG_BYTES:
            self.flush()

    def restarted(self, topic: Topic) -> None:
        """Tell that a subject stands elsewhere than what the others were told leads to."""
        self.flush()
        for link in self._links:
            if link.giver is not None and (link.giver.copy is None or topic.subject not in link.giver.copy.pending):
                link.socket.send(Restart(whole_part(self.runtime.broker, topic)))
                link.socket.flush()

    def _notice(self, notice: Notice) -> None:
        """Let the others tell their clients that messages are stale, or fresh again."""
        self.flush()
        for link in self._links:
            if link.giver is not None:
                link.socket.send(Stale(notice.code, notice.text))
                link.socket.flush()

    def _accept(self) -> None:
        try:
            sock, _ = self._listening.accept()
        except OSError:
            return
        if not is_own(sock):
            log.error("refused a link from another user's process")
            sock.close()
            return
        self._links.append(FollowerLink(self, sock))

    async def _wait(self, deadline: float) -> bool:
        """Wait until something has changed; return False when the time (Runtime.awake) is over."""
        self._changed.clear()
        while self.runtime.awake.time < deadline:
            with suppress(TimeoutError):
                async with asyncio.timeout(GRID_SECONDS):
                    await self._changed.wait()
                return True
            self.runtime.awake.tick(self.runtime.loop.time())
        return False
