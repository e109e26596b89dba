"""The engine of several nodes: publications go to Redis, and what is delivered comes from its log."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from time import monotonic, time, time_ns
from typing import TYPE_CHECKING, Any, Self

from ...awake import AwakeClock
from ...core.broker.admission import Done
from ...core.broker.broker import Broker
from ...core.protocol.messages import Message
from ...listen_address import SettingsError
from ..base import Engine, EngineHost, Messenger, NodeListener, PresenceChannel, SharedSessions
from ..memory import MemoryEngine
from ..staging.store import StagingStore
from .address import Address, RedisConfig
from .connection import RedisLink
from .messenger import RedisMessenger
from .presence import RedisRoster
from .primary import Primary
from .sessions.store import RedisSessions
from .staging import RedisStaging
from .tail import Tail
from .writing.writer import RedisWriter

if TYPE_CHECKING:
    from ...settings import Settings

STALE_SECONDS = 2.0
"""Redis may be away for so long before clients are told."""

ALONE_SECONDS = 4.0
"""Seconds after which a node with standard delivery that cannot store goes on by itself."""

ALONE_EPOCHS = 1 << 16
"""Epochs above the known one within which such a node begins, at random: two of them must not number alike."""

LOOK_SECONDS = 0.25
"""Seconds between looks at whether Redis is there."""

AWAY = "Redis is away: nothing new arrives and nothing can be published; what is stored is still served"
BACK = "Redis is back: messages arrive again"

log = logging.getLogger("fastpath.redis")


class RedisEngine(Engine):
    """Ties a broker to Redis; one instance a process."""

    name = "redis"
    keeps = shared = True

    def __init__(self, url: str, *, prefix: str, log_messages: int) -> None:
        """Read the address; raise ValueError for one that cannot be used."""
        self.epoch = 0
        self._config = RedisConfig.parse(url)
        self._prefix = prefix
        self._log_messages = log_messages
        self._alone: MemoryEngine | None = None
        self._pause_ms = 0.0
        self._paused_at: float | None = None
        self._clock = AwakeClock(2 * LOOK_SECONDS, monotonic())
        self._silent_since = self._unstored_since = 0.0  # by that clock
        self._answered_at = 0.0  # as the tail said at the last look
        self._reason = ""
        self._timer: asyncio.TimerHandle | None = None
        self._starting: asyncio.Task[None] | None = None

    @classmethod
    def check(cls, settings: Settings) -> None:
        """Engine: the address must be one."""
        try:
            RedisConfig.parse(settings.engine)
        except ValueError as error:
            raise _wrong(error) from None

    @classmethod
    def make(cls, settings: Settings, clock: Callable[[], int]) -> Self:
        del clock
        try:
            return cls(settings.engine, prefix=settings.redis_prefix, log_messages=settings.redis_log_messages)
        except ValueError as error:
            raise _wrong(error) from None

    def attach(self, broker: Broker) -> None:
        self._broker = broker

    def start(self, host: EngineHost) -> None:
        """Engine: begin to connect."""
        self._end, self._stale, self._fresh = host.end, host.stale, host.fresh
        loop, end, broker = host.loop, host.end, self._broker
        self._primary = Primary(self._config)
        self.writer = RedisWriter(
            loop,
            self._config,
            self._primary,
            guaranteed=broker.guaranteed,
            snapshots=broker.snapshots,
            prefix=self._prefix,
            log_messages=self._log_messages,
            epoch_known=lambda: self.epoch,
            known=self._fields_of,
            stored=self._stored,
            end=end,
        )
        self.writer.on_state = self._acknowledges
        self.tail = Tail(
            broker,
            self._primary,
            self._prefix,
            end=end,
            seen=self.writer.seen,
            changed=self._changed,
            returning=self._return,
            oldest=self._oldest,
            delivering=host.accepted_at,
        )
        self._starting = loop.create_task(self._connect())
        self._look()

    def _fields_of(self, subject: str) -> Iterable[str]:
        topic = self._broker.interest.topics.get(subject)
        return () if topic is None or topic.snapshot is None else topic.snapshot.fields or ()

    async def joined(self) -> None:
        """Engine: all that Redis holds. With standard delivery, a Redis that is not there does not hold this up for
        long."""
        starting = self._starting
        assert starting is not None
        joined = asyncio.ensure_future(self.tail.joined.wait())
        while not joined.done() or (self._alone is None and not starting.done()):
            await asyncio.wait((starting, joined), timeout=LOOK_SECONDS, return_when=asyncio.FIRST_EXCEPTION)
            if starting.done():
                try:
                    starting.result()
                except ValueError as error:
                    raise _wrong(error) from None
        starting.add_done_callback(_report)

    async def _connect(self) -> None:
        await self._primary.start()
        self.tail.start()
        await self.writer.start()

    async def stop(self) -> None:
        """Engine: end all connections; what is not acknowledged yet never will be."""
        if self._timer is not None:
            self._timer.cancel()
        if self._starting is None:
            return
        self._starting.cancel()
        await self.tail.close()
        await self.writer.close()
        await self._primary.close()

    def submit(self, messages: Sequence[Message], now: int, done: Done | None) -> None:
        """Engine: Redis numbers them, at its own time."""
        done = self._broker.counters.counting(done)
        if self._alone is None:
            self.writer.submit(messages, done)
        else:
            self._broker.numbered(messages, self._alone.append(messages, now), done)

    def unheard(self) -> bool:
        return self._starting is not None and self.tail.unheard()

    def open_staging(self, clock: Callable[[], int], *, bytes_max: int, keep_seconds: int) -> StagingStore:
        """Engine: in Redis, for all nodes."""
        return RedisStaging(self, clock, bytes_max=bytes_max, keep_seconds=keep_seconds)

    def presence(self, node: str, hear: Callable[[list[Any]], None]) -> PresenceChannel | None:
        """Engine: over Redis."""
        return RedisRoster(self, node, hear)

    def share_sessions(self, end: Callable[[], None]) -> SharedSessions | None:
        """Engine: in Redis."""
        return RedisSessions(self, lambda: self._alone is not None, end)

    def messenger(self, node: str, listener: NodeListener) -> Messenger | None:
        """Engine: over Redis."""
        return RedisMessenger(self, node, listener)

    async def primary(self) -> Address:
        """Return where the primary is; raises RedisAway when there is none. Not to be called before ``start``."""
        return await self._primary.primary()

    def link(self, address: Address) -> RedisLink:
        """Return a connection of somebody's own to a server."""
        return self._primary.link(address)

    def key(self, name: str) -> str:
        """Return the name of a key of somebody's own."""
        return f"{self._prefix}:{name}"

    def figures(self) -> dict[str, float]:
        pause = self._pause_ms
        if self._paused_at is not None:
            pause = max(pause, (monotonic() - self._paused_at) * 1000)
        return {
            "redis_connected": int(self.tail.current and self.writer.connected),
            "redis_tail_lag_ms": self.tail.lag_ms,
            "redis_batches": self.writer.batches,
            "redis_retries": self.writer.retries,
            "redis_ack_pause_ms": round(pause),
            "redis_groups_mended": self.tail.mended,
        }

    def _stored(self, epoch: int, groups: dict[int, int]) -> None:
        self.epoch = max(self.epoch, epoch)
        self.tail.expect(epoch, groups)

    def _changed(self) -> None:
        self.epoch = max(self.epoch, self.tail.reading.epoch)
        self._judge()

    def _acknowledges(self, acknowledges: bool, reason: str) -> None:
        """Note that acknowledgements stop or go on, as the writer tells."""
        if acknowledges:
            if self._paused_at is not None:
                self._pause_ms = max(self._pause_ms, (monotonic() - self._paused_at) * 1000)
            self._paused_at = None
        elif self._paused_at is None:
            self._paused_at, self._unstored_since = monotonic(), self._clock.time
        self._reason = reason
        self._judge()

    def _oldest(self) -> int:
        age = self._broker.limits.snapshot_ms
        return time_ns() // 1_000_000 - age if age else 0

    # Redis away

    def _away_seconds(self) -> float:
        """Return for how long nothing has been read or acknowledged while this process ran; 0 when all is well."""
        if self.tail.current or self.tail.answered_at != self._answered_at:
            self._answered_at, self._silent_since = self.tail.answered_at, self._clock.time
        silent = 0.0 if self.tail.current else self._clock.time - self._silent_since
        return max(silent, 0.0 if self._paused_at is None else self._clock.time - self._unstored_since)

    def _look(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)
        self._clock.tick(monotonic())
        self._judge()
        self._end()

    def _judge(self) -> None:
        """Tell clients, or go on alone, when Redis has been away for too long."""
        away = self._away_seconds()
        if self._broker.guaranteed:
            if away > STALE_SECONDS:
                if self.tail.joined.is_set():
                    self._stale(AWAY)
            elif self.tail.current and self._paused_at is None:
                self._fresh(BACK)
        elif away > ALONE_SECONDS and self._alone is None:
            self._go_on_alone()

    def _go_on_alone(self) -> None:
        """Number and deliver for the publishers and clients of this node, in a new epoch (features.md D2)."""
        self.epoch = max(self.epoch, int(time())) + 1 + random.randrange(ALONE_EPOCHS)  # noqa: S311 - to part two nodes, not to hide
        log.error("Redis is away (%s): this node goes on by itself in epoch %d", self._why(), self.epoch)
        alone = MemoryEngine(self.epoch)
        for topic in self._broker.interest.topics.values():
            if topic.seq and not topic.system:
                alone.resume(topic.subject, topic.seq)
        self._alone = alone
        self.tail.leave_out()
        for messages, done in self.writer.withdraw():
            self._broker.numbered(messages, alone.append(messages, time_ns() // 1_000_000), done)
        self._end()

    def _return(self) -> bool:
        """Return whether what was numbered here gives way to Redis again."""
        if self._alone is not None and self.writer.connected:
            log.warning("Redis is back: everybody is resynchronised with it")
            self._alone = None
            self._paused_at = None
        return self._alone is None

    def _why(self) -> str:
        return self._reason or self.tail.reason


def _wrong(error: ValueError) -> SettingsError:
    return SettingsError(f"FASTPATH_ENGINE: {error}")


def _report(starting: asyncio.Task[None]) -> None:
    """Report a Redis that came later, and must not be used."""
    error = None if starting.cancelled() else starting.exception()
    if error is not None:
        log.critical("Redis cannot be used: %s", error)
