"""The engine: who numbers and keeps messages, as the rest of the sidecar sees it, whichever engine that is."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from ..core.broker.admission import Done
from ..core.broker.broker import Broker
from ..core.broker.ports import Numbering
from ..core.protocol.messages import Message
from .staging.memory import MemoryStaging
from .staging.store import StagingStore

if TYPE_CHECKING:
    from ..settings import Settings


@dataclass(frozen=True, slots=True)
class Host:
    """The things that the process around an engine gives it when it starts."""

    loop: asyncio.AbstractEventLoop
    end: Callable[[], None]
    """Called at the end of what belongs to one tick, when outcomes were given or messages delivered outside of one."""
    stale: Callable[[str], None]
    """Called with a text for clients when what they see may be out of date."""
    fresh: Callable[[str], None]
    """Called with a text for clients when messages arrive again."""
    accepted_at: Callable[[int], None] | None = None
    """Called with the time (ms since 1970) at which what is delivered next was accepted; None: nobody measures."""


class PresenceChannel(Protocol):
    """The way to the other nodes, for who is connected there."""

    @property
    def away(self) -> bool:
        """True while nothing can be heard of the other nodes."""

    @property
    def full(self) -> bool:
        """True while what is not urgent had better wait."""

    def send(self, packet: list[Any]) -> None:
        """Tell all other nodes."""

    def start(self) -> None:
        """Begin to listen."""

    async def close(self) -> None:
        """Send what waits, and leave."""


class Engine(ABC):
    """Base of all engines: what is not overridden is right for one that keeps nothing beyond its process.

    The order of its life: ``make``, ``attach`` (by the broker), ``start``, ``joined``, then submissions, and ``stop``.
    """

    name: ClassVar[str]
    """What the control socket calls it."""
    keeps: ClassVar[bool] = False
    """Whether messages outlive this process."""
    shared: ClassVar[bool] = False
    """Whether other nodes deliver the same messages."""
    folder: str = ""
    """Where on a disk it keeps messages; empty: on none."""
    epoch: int

    @classmethod
    def check(cls, settings: Settings) -> None:
        """Raise SettingsError when the engine could not work with the settings."""
        del settings

    @classmethod
    @abstractmethod
    def make(cls, settings: Settings, clock: Callable[[], int]) -> Self:
        """The engine that the settings ask for; ``clock`` gives ms since 1970. Raises SettingsError."""

    @property
    def numbering(self) -> Numbering | None:
        """The numbering of this process, which answers at once; None if messages are numbered elsewhere."""
        return None

    @property
    def trouble(self) -> str:
        """The reason why nothing can be stored at this moment; empty if something can."""
        return ""

    @abstractmethod
    def attach(self, broker: Broker) -> None:
        """Deliver through the broker from now on."""

    @abstractmethod
    def submit(self, messages: Sequence[Message], now: int, done: Done | None) -> None:
        """Have accepted publications numbered and stored, at ``now`` (ms since 1970), and delivered in that order.

        ``done`` is called once, with one outcome a message: before this returns or later, always in the order of the
        submissions, and not before the messages that were stored have their position.
        """

    def acknowledging(self, done: Done) -> Done:
        """``done``, to be called when publications have been numbered: it waits until these are safe."""
        return done

    def unheard(self) -> bool:
        """Return whether something that was numbered elsewhere waits unread."""
        return False

    def when_safe(self, told: Callable[[], None]) -> None:
        """Call ``told`` when all that was stored before is as safe as this engine makes it, or ``trouble`` says why
        not."""
        told()

    def start(self, host: Host) -> None:
        """Bring the broker to where what is kept ends, or begin to; raises SettingsError."""
        del host

    async def joined(self) -> None:  # noqa: B027 - there is nothing to wait for
        """Wait until the broker has everything that is kept; raises SettingsError."""

    async def stop(self) -> None:
        """Let go of everything in order; what has no outcome yet may never have one."""
        self.close()

    def close(self) -> None:  # noqa: B027 - there is no file
        """Close files in order."""

    def tick(self, now: int) -> None:
        """Called each second, with the time in ms since 1970."""
        del now

    def figures(self) -> dict[str, float]:
        """The engine's own metrics by name (docs/operate/figures.md)."""
        return {}

    def open_staging(self, clock: Callable[[], int], *, bytes_max: int, keep_seconds: int) -> StagingStore:
        """The store of staged rows, which live as long as what the engine keeps; raises OSError."""
        return MemoryStaging(clock, bytes_max=bytes_max, keep_seconds=keep_seconds)

    def presence(self, node: str, hear: Callable[[list[Any]], None]) -> PresenceChannel | None:
        """The way from ``node`` to the other nodes, whose packets go to ``hear``; None: there are no other nodes."""
        del node, hear
        return None
