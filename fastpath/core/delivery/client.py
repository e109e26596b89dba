"""One client's state: its rights and subscriptions, and what waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ..auth.grants import Principal
from ..protocol.codec import JSON
from .wire_encoding import PLAIN, Wire

if TYPE_CHECKING:
    from ..matching.subscribed_patterns import PatternSubscriptions
    from ..protocol.messages import Subscribe
    from .backlogs import Cursor
    from .groups import Group
    from .interest import SubjectFeed, Topic
    from .outbox import Queue
    from .slow_consumers import Lag


class PauseReason:
    """The reason why nothing is read from a connection for now, nor what has been read is handled."""

    TURN = 1
    """As much as one turn may take has been handled; the rest of what was read waits for the next
    (edge/runtime/turns.py)."""
    ECHOING = 2
    """It does not take what is echoed to it."""
    CONGESTED = 4
    """It has published while another worker is behind."""
    DRAINING = 8
    """It has been told to go elsewhere."""
    ASKED = 16
    """Django's hook is asked about what it said last."""
    RATE = 32
    """It has said more than it may at a time."""


class Link(Protocol):
    """The calls that the core makes to the edge for one connection.

    No call comes back into the core before it returns: a connection that breaks is reported in a later tick.
    """

    def write(self, data: bytes) -> None:
        """Send whole frames; what the socket does not take goes to the client's queue."""

    def lag(self, data: bytes, sent: int) -> None:
        """The socket took only ``sent`` bytes of the frames (-1: it is broken); the rest goes to the client's queue."""

    def hold(self, why: int, held: bool) -> None:
        """Handle nothing more of what the client sends while there is a reason, a bit of Hold; or not for this one."""

    def close(self, code: int, reason: str) -> None:
        """Say goodbye with a code of protocol.md 7, and let go."""


NO_ROOM = "its stored messages wait for room in the outgoing queue; it starts by itself"
"""Why a subscription waits that would fill the client's queue: the client asked for much, and is not slow for that."""


BEHIND = "it has read further than has come here yet; it starts by itself"
"""Why a subscription waits whose position is of another process, a moment ahead of this one."""


LOST = (1006, "the connection was lost")
"""How a connection ends that nobody has closed (RFC 6455 7.1.5)."""


class Waiting:
    """A subscription that waits for its right, for room, or for what its client has read elsewhere (protocol.md 4.2).

    For the last it waits until ``until`` (ms), which moves while this process is behind, up to ``latest``. ``pattern``
    is that of the client which brought it; its subject may not have been ``told``, and is not unless it starts.
    """

    __slots__ = ("error", "latest", "pattern", "request", "told", "until")

    def __init__(self, request: Subscribe, error: str, until: int, latest: int) -> None:
        self.request = request
        self.error = error
        self.until = until
        self.latest = latest
        self.pattern = ""
        self.told = True


class Client:
    """A connection on a client port.

    ``direct`` says that ``fd`` takes plain writes; ``queue`` is None while the socket takes all that is written;
    ``lag`` is None without subscriptions that may be conflated (slow_consumers.py), ``recovering`` without any that
    come from behind (backlogs.py). ``number`` tells it from all other clients of this process; ``end`` is the code and
    the reason with which it was closed. ``since`` is when it opened, in ms and to a tenth of a second; ``program`` is
    what it says that it is.
    """

    __slots__ = (
        "address",
        "alive",
        "base",
        "closed",
        "direct",
        "end",
        "errors",
        "fd",
        "form",
        "greeted",
        "group",
        "lag",
        "link",
        "number",
        "out",
        "principal",
        "program",
        "publisher",
        "queue",
        "recovering",
        "since",
        "slot",
        "subscriptions",
        "waiting",
        "warned",
        "wilds",
        "wire",
    )

    def __init__(
        self, link: Link, fd: int, direct: bool, principal: Principal, address: str = "", wire: Wire = PLAIN[JSON]
    ) -> None:
        self.link = link
        self.fd = fd
        self.direct = direct
        self.principal = principal
        self.address = address
        self.wire = wire
        self.form = wire.encoding.form
        self.publisher: str | None = None
        self.group: Group | None = None
        self.slot = -1
        self.queue: Queue | None = None
        self.recovering: dict[Topic, Cursor] | None = None
        self.out: list[bytes] | None = None
        self.subscriptions: dict[Topic, SubjectFeed] = {}
        self.waiting: dict[str, Waiting] | None = None
        self.wilds: PatternSubscriptions | None = None
        self.lag: Lag | None = None
        self.base = 0
        self.number = 0
        self.since = 0
        self.program = ""
        self.end: tuple[int, str] = LOST
        self.errors = 0
        self.greeted = False
        self.alive = True
        self.warned = False
        self.closed = False

    @property
    def count(self) -> int:
        """Subscriptions that count towards the limit, waiting ones included."""
        return len(self.subscriptions) + len(self.waiting or ()) + len(self.wilds or ())
