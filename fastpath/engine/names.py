"""The names of engines, as ``FASTPATH_ENGINE`` has them: which there are, and whose messages may go to a journal.

It imports nothing, so that whoever starts a sidecar can ask without being one.
"""

from __future__ import annotations

_REDIS = "fastpath.engine.redis.engine:RedisEngine"

ENGINES = {
    "memory": "fastpath.engine.memory:MemoryEngine",
    "redis://": _REDIS,
    "rediss://": _REDIS,
    "redis+sentinel://": _REDIS,
    "rediss+sentinel://": _REDIS,
}
"""Places of the engines' classes (``module:class``), by their names, or by how their addresses begin."""

JOURNALLED = {"memory": "fastpath.engine.journal.engine:JournalEngine"}
"""The engines whose messages go to a journal, where one is asked for."""

DEFAULT = "memory"
"""The engine of who names none."""


def name_of(engine: str) -> str:
    """Return the name that the setting has, or how its address begins."""
    scheme, separator, _ = engine.partition("://")
    return scheme + separator


def keeps_journal(engine: str) -> bool:
    """Return whether the messages of the engine that the setting names may go to a journal."""
    return name_of(engine or DEFAULT) in JOURNALLED
