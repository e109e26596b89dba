"""Which engines there are, and which one the settings ask for: the one place that names them.

An engine is imported when it is asked for: what speaks to Redis takes a tenth of a second and 5 MB.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ..core.broker.ports import Numbering
from .base import Engine
from .follower import FollowerEngine as FollowerEngine
from .memory import MemoryEngine

if TYPE_CHECKING:
    from ..settings import Settings

JOURNALLED = "+journal"
"""Behind the scheme of an engine whose messages go to a journal."""

_REDIS = "fastpath.engine.redis.engine:RedisEngine"

_engines = {
    "memory": "fastpath.engine.memory:MemoryEngine",
    "memory" + JOURNALLED: "fastpath.engine.journal.engine:JournalEngine",
    "redis": _REDIS,
    "rediss": _REDIS,
    "redis+sentinel": _REDIS,
    "rediss+sentinel": _REDIS,
}


def register(scheme: str, place: str) -> None:
    """Have the class at ``place`` (``module:class``) serve ``FASTPATH_ENGINE=scheme`` or ``scheme://…``, a scheme
    that fastpath/settings.py lets pass; the engine that was registered for it before gives way."""
    _engines[scheme] = place


def engine_class(settings: Settings) -> type[Engine]:
    """The class of the engine that the settings ask for, which have been checked."""
    scheme = settings.engine.partition("://")[0]
    module, _, name = _engines[scheme if settings.journal == "off" else scheme + JOURNALLED].partition(":")
    found: type[Engine] = getattr(import_module(module), name)
    return found


def memory(epoch: int) -> Engine:
    """The engine of a broker that nobody asks for another one."""
    return MemoryEngine(epoch)


def own_numbering(engine: Engine, started: int) -> Numbering:
    """Return the numbering of the server's own messages, which no engine keeps, from the process' start (ms) on."""
    if engine.keeps or engine.numbering is None:
        return MemoryEngine(started)
    return engine.numbering
