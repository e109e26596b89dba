"""Which engine the settings ask for, and how it begins and ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ..edge.runtime.hub import Hub, now
from ..edge.telemetry.figures import Statistics
from ..engine.journal.engine import JournalEngine
from ..engine.journal.files import JournalError, check_folder
from ..engine.memory import MemoryEngine
from ..listen_address import SettingsError
from ..settings import Settings
from .publisher_services import begin_requests, end_requests

if TYPE_CHECKING:
    from ..engine.redis.engine import RedisEngine

# What speaks to Redis is imported where it is used: it takes a tenth of a second and 5 MB.


def make_engine(settings: Settings) -> MemoryEngine | RedisEngine:
    """Raises SettingsError."""
    if settings.engine != "memory":
        from ..engine.redis.engine import RedisEngine  # noqa: PLC0415

        try:
            return RedisEngine(settings.engine, prefix=settings.redis_prefix, log_messages=settings.redis_log_messages)
        except ValueError as error:
            raise SettingsError(f"FASTPATH_ENGINE: {error}") from None
    if settings.journal == "off":
        return MemoryEngine(now())
    try:
        return JournalEngine(settings.data, batch=settings.journal == "batch", clock=now)
    except JournalError as error:
        raise SettingsError(f"FASTPATH_DATA: {error}") from None


def check_engine(settings: Settings) -> None:
    """Raises SettingsError when the journal's folder cannot be written, or the address of Redis cannot be read."""
    if settings.engine != "memory":
        from ..engine.redis.address import RedisConfig  # noqa: PLC0415

        try:
            RedisConfig.parse(settings.engine)
        except ValueError as error:
            raise SettingsError(f"FASTPATH_ENGINE: {error}") from None
    if settings.journal != "off":
        try:
            check_folder(settings.data)
        except JournalError as error:
            raise SettingsError(f"FASTPATH_DATA: {error}") from None


async def begin(
    engine: MemoryEngine | RedisEngine,
    hub: Hub,
    statistics: Statistics,
    stopped: Callable[[], Coroutine[Any, Any, object]],
) -> bool:
    """Bring the broker to where the journal ends, or to what Redis holds; False where there is neither.

    Redis may not be there yet: this waits for it, or until ``stopped`` returns. Raises SettingsError.
    """
    found = await _restore(engine, hub, statistics, stopped)
    await begin_requests(hub, engine)
    return found


async def _restore(
    engine: MemoryEngine | RedisEngine,
    hub: Hub,
    statistics: Statistics,
    stopped: Callable[[], Coroutine[Any, Any, object]],
) -> bool:
    if not isinstance(engine, MemoryEngine):
        starting = asyncio.ensure_future(engine.start(hub.broker, hub.end, hub.go_stale, hub.go_fresh))
        stopping = asyncio.ensure_future(stopped())
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if starting.done():
            try:
                starting.result()
            except ValueError as error:
                raise SettingsError(f"FASTPATH_ENGINE: {error}") from None
        starting.cancel()
        statistics.engine = engine.figures
        if hub.latency is not None:
            engine.tail.reading.delivering = hub.latency.accepted_at
        return True
    if not isinstance(engine, JournalEngine):
        return False
    try:
        engine.restore(hub.broker)
    except JournalError as error:
        raise SettingsError(f"FASTPATH_DATA: {error}") from None
    engine.start(hub.loop, hub.end)
    statistics.engine = engine.figures
    return True


async def end(engine: MemoryEngine | RedisEngine) -> None:
    """Close the journal in order, or leave Redis."""
    await end_requests()
    if isinstance(engine, JournalEngine):
        engine.close()
    elif not isinstance(engine, MemoryEngine):
        await engine.close()
