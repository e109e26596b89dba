"""Which engine the settings ask for: the one place that makes a name a class.

An engine is imported when it is asked for: what speaks to Redis takes a tenth of a second and 5 MB.
"""

from __future__ import annotations

from importlib import import_module

from ..core.broker.ports import Numbering
from ..listen_address import SettingsError
from ..settings import PREFIX, Settings, without_login
from .base import Engine
from .follower import FollowerEngine as FollowerEngine
from .memory import MemoryEngine
from .names import ENGINES, JOURNALLED, name_of

_engines = dict(ENGINES)


def register(name: str, place: str) -> None:
    """Have the class at ``place`` (``module:class``) serve ``FASTPATH_ENGINE=name``, or every address that begins so if
    it ends in ``://``; the engine that was registered for it before gives way."""
    _engines[name] = place


def place_of(settings: Settings) -> str:
    """Return where the class of the engine is that the settings ask for; raise SettingsError when there is none."""
    name = name_of(settings.engine)
    if name not in _engines:
        raise SettingsError(f"{PREFIX}ENGINE: {without_login(settings.engine)!r} is none of {', '.join(_engines)}")
    if settings.journal == "off":
        return _engines[name]
    if name not in JOURNALLED:
        raise SettingsError(f"{PREFIX}JOURNAL: with {name.removesuffix('://')} there is no journal: leave it off")
    return JOURNALLED[name]


def engine_class(settings: Settings) -> type[Engine]:
    """Return the class of the engine that the settings ask for; raise SettingsError when there is none."""
    module, _, name = place_of(settings).partition(":")
    try:
        found: type[Engine] = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == __name__.partition(".")[0]:
            raise  # a module of ours: no setting is wrong
        scheme = settings.engine.partition("://")[0]
        raise SettingsError(
            f"{PREFIX}ENGINE: {scheme} needs the package {error.name}, which is not installed: "
            f"pip install 'django-fastpath[{error.name}]'"
        ) from None
    return found


def memory(epoch: int) -> Engine:
    """Return the engine of a broker that nobody asks for another one."""
    return MemoryEngine(epoch)


def own_numbering(engine: Engine, started: int) -> Numbering:
    """Return the numbering of the server's own messages, which no engine keeps, from the process' start (ms) on."""
    if engine.keeps or engine.numbering is None:
        return MemoryEngine(started)
    return engine.numbering
