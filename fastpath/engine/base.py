"""The engine: who numbers and keeps messages, as the rest of the sidecar sees it, whichever engine that is."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

from ..core.broker import ports
from .staging.memory import MemoryStaging
from .staging.store import StagingStore

if TYPE_CHECKING:
    from ..settings import Settings


@dataclass(frozen=True, slots=True)
class EngineHost:
    """The things that the process around an engine gives it when it starts."""

    loop: asyncio.AbstractEventLoop
    end: Callable[[], None]
    """Function called at the end of what belongs to one tick, when outcomes were given or messages delivered outside of
    one."""
    stale: Callable[[str], None]
    """Function called with a text for clients when what they see may be out of date."""
    fresh: Callable[[str], None]
    """Function called with a text for clients when messages arrive again."""
    accepted_at: Callable[[int], None] | None = None
    """Function called with the time (ms since 1970) at which what is delivered next was accepted; None: nobody
    measures."""


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


class NodeListener(Protocol):
    """Hears what other nodes send to this one."""

    def up(self, nodes: int) -> None:
        """Hear that all that is sent arrives from now on; so many nodes listen, this one among them."""

    def down(self) -> None:
        """Hear that nothing arrives for now, and that what was under way may be lost."""

    def hear(self, node: str, data: bytes) -> None:
        """Take what that node has sent; what each sends comes in its order."""

    def missing(self, node: str) -> None:
        """Hear that this node does not listen."""


class Messenger(Protocol):
    """The way to other nodes for what is of the moment: nothing is kept, and who sends is told what was lost."""

    def start(self) -> None:
        """Begin, and never give up."""

    def send(self, node: str, data: bytes, lost: Callable[[bool], None] | None = None) -> None:
        """Send to that node, without a name to all others.

        ``lost`` is called, at once or later, where that has failed: with True if it may have arrived all the same. The
        end of the way (``NodeListener.down``) is told after it.
        """

    async def close(self) -> None:
        """Send what waits, and leave."""


SessionRow = tuple[str, str, bytes]
"""The owner of a session, its client id, and what is said of it."""


class SessionStore(Protocol):
    """The store of MQTT clients' sessions, which outlive the process there."""

    @property
    def in_order(self) -> bool:
        """State of what was read: True if the process before this one has said all."""

    @property
    def busy(self) -> bool:
        """State of the store: True while nothing can be written."""

    @property
    def size_bytes(self) -> int:
        """The size of what is kept."""

    @property
    def wants_base(self) -> bool:
        """State of the store: True when all sessions are to be written anew (``begin_base``)."""

    def knows(self, owner: str, client_id: str) -> bool:
        """Return True if the end of that session has to be written, though nothing else of it was."""

    def read(self, row: Callable[[str, str, bytes], None]) -> bool:
        """Tell every row that is kept, in their order, and begin to keep more; False if they are of no use, whatever
        was told. ``row`` may raise msgspec.DecodeError."""

    def begin_base(self) -> bool:
        """Begin to write all sessions anew; return True if that can be done."""

    def write(
        self, rows: list[SessionRow], base: list[SessionRow], *, ends_base: bool, done: Callable[[str], None]
    ) -> None:
        """Write rows, and others of those that are written anew, of which these may be the last ones; ``done`` gets the
        reason why that has failed, later; empty if it has not."""

    def close(self, rows: list[SessionRow]) -> None:
        """Write the last rows, and that all has been said."""


class Claimed(NamedTuple):
    """A session that nodes keep together, as it was when it was claimed."""

    before: str
    """The claim that it had; empty: nobody had it."""
    at_rest: bool
    """True if whoever had it has said all, and nobody was connected."""
    rows: list[bytes]
    """The whole of it, and what has changed since; nothing of one that ends with its connection."""


class SessionChange(NamedTuple):
    """A word about a session, by who has it."""

    owner: str
    client_id: str
    claim: str
    action: str
    """``whole``, ``change``; ``empty``: it ends with its connection; ``over``: nobody has it."""
    data: bytes
    seconds: int
    """Seconds for which it is of use if nothing more is said."""
    at_rest: bool
    """True if nobody is connected, and this is all."""


class SharedSessions(Protocol):
    """The sessions of MQTT clients as nodes keep them together: who has which, and what was said of it last."""

    def claim(
        self,
        owner: str,
        client_id: str,
        claim: str,
        *,
        fresh: bool,
        seconds: int,
        done: Callable[[Claimed | None], None],
    ) -> None:
        """Have the session from now on, for so long, whoever had it; if ``fresh`` nothing of before is wanted.
        ``done`` gets what it was, at once or later; None where that cannot be known."""

    def write(self, changes: list[SessionChange], done: Callable[[list[int | None]], None]) -> None:
        """Say more. ``done`` gets of each 1; 0 where the session is somebody else's; 2 where a change has nothing that
        it could be a change of; None if it is not known whether it was taken."""

    def start(self) -> None:
        """Begin, and never give up."""

    async def close(self) -> None:
        """Say what waits, and leave."""


class Engine(ports.EnginePort):
    """Base of all engines: what the broker asks of them, and their life beside it.

    The order of its life: ``make``, ``attach`` (by the broker), ``start``, ``joined``, then submissions, and ``stop``.
    """

    keeps: ClassVar[bool] = False
    """True if messages outlive this process."""

    @classmethod
    def check(cls, settings: Settings) -> None:
        """Raise SettingsError when the engine could not work with the settings."""
        del settings

    @classmethod
    @abstractmethod
    def make(cls, settings: Settings, clock: Callable[[], int]) -> Self:
        """Make the engine that the settings ask for; ``clock`` gives ms since 1970. Raise SettingsError."""

    def start(self, host: EngineHost) -> None:
        """Bring the broker to where what is kept ends, or begin to; raises SettingsError."""
        del host

    async def joined(self) -> None:
        """Wait until the broker has everything that is kept; raises SettingsError."""

    async def stop(self) -> None:
        """Let go of everything in order; what has no outcome yet may never have one."""
        self.close()

    def close(self) -> None:
        """Close files in order."""

    def figures(self) -> dict[str, float]:
        """Return the engine's own metrics by name (docs/operate/figures.md)."""
        return {}

    def open_staging(self, clock: Callable[[], int], *, bytes_max: int, keep_seconds: int) -> StagingStore:
        """Open the store of staged rows, which live as long as what the engine keeps; raise OSError."""
        return MemoryStaging(clock, bytes_max=bytes_max, keep_seconds=keep_seconds)

    def open_sessions(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], int]) -> SessionStore | None:
        """Open the store of MQTT clients' sessions, which live as long as what the engine keeps here; None: it has
        none."""
        del loop, clock
        return None

    def presence(self, node: str, hear: Callable[[list[Any]], None]) -> PresenceChannel | None:
        """Return the way from ``node`` to the other nodes, whose packets go to ``hear``; None: there are no other
        nodes."""
        del node, hear
        return None

    def share_sessions(self, end: Callable[[], None]) -> SharedSessions | None:
        """Return the sessions of MQTT clients that all nodes have together; ``end`` is called behind each answer. None:
        there are no other nodes."""
        del end
        return None

    def messenger(self, node: str, listener: NodeListener) -> Messenger | None:
        """Return the way from ``node`` to each of the others, whose messages go to ``listener``. None: there are no
        others."""
        del node, listener
        return None
