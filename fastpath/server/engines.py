"""How the engine that the settings ask for begins and ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ..edge.runtime.component import Offers, Plain
from ..edge.runtime.runtime import Runtime, now
from ..engine.base import Engine, EngineHost
from ..engine.registry import engine_class
from ..settings import Settings


def make_engine(settings: Settings) -> Engine:
    """Make the engine that the settings ask for; raise SettingsError."""
    return engine_class(settings).make(settings, now)


def check_engine(settings: Settings) -> None:
    """Raise SettingsError when the journal's folder cannot be written, or the address of Redis cannot be read."""
    engine_class(settings).check(settings)


async def begin(engine: Engine, runtime: Runtime, stopped: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Bring the broker to where the journal ends, or to what Redis holds.

    Redis may not be there yet: this waits for it, or until ``stopped`` returns. Raises SettingsError.
    """
    accepted_at = runtime.latency.accepted_at if runtime.latency is not None else None
    engine.start(EngineHost(runtime.loop, runtime.end, runtime.go_stale, runtime.go_fresh, accepted_at))
    runtime.serve(Plain(Offers(figures=engine.figures)))
    joining = asyncio.ensure_future(engine.joined())
    stopping = asyncio.ensure_future(stopped())
    await asyncio.wait((joining, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if joining.done():
        joining.result()
    joining.cancel()


def keep_sessions(engine: Engine, runtime: Runtime) -> None:
    """Have the sessions of MQTT clients outlast this process, where the engine has a place for them."""
    store = engine.open_sessions(runtime.loop, now)
    if store is not None and runtime.mqtt is not None:
        runtime.mqtt.keep(store)
