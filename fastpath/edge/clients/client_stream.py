"""What stands between a client's connection and its socket where that takes something else than pieces of its wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ...core.delivery.audience import Client
    from ...core.delivery.wire import Terms
    from ...core.protocol.errors import Refused
    from ...core.websocket.handshake import Request
    from .client_socket import ClientSocket

SendNow = Callable[[bytes | memoryview], int]
"""Function that hands bytes to the socket, and returns how many it took, -1 when it is broken."""


class Stream:
    """The bytes that were begun on their way to the socket, and are kept here until the socket has taken them.

    As it stands it is the stream of a client that has said all with its request; a stream whose client goes on talking,
    as over MQTT, hears what it says as well.
    """

    __slots__ = ("_rest",)

    hears = False
    """True if the stream takes what the client says."""
    lags = False
    """True if the stream may leave waiting what its socket would take."""

    def __init__(self) -> None:
        self._rest: bytes | memoryview = b""

    @property
    def begun(self) -> bool:
        """True once the client has been let in as far as its transport goes; until then a refusal is no goodbye."""
        return True

    # Bytes in

    @property
    def held_back(self) -> bool:
        """True if something that was heard waits to be handled."""
        return False

    def received(self, data: bytes) -> None:
        """Take what the client says."""

    def go_on(self) -> None:
        """Handle what waits."""

    # Bytes out

    @property
    def waits(self) -> bool:
        """True if the socket has not taken all of what was begun."""
        return bool(self._rest)

    def send(self, send_now: SendNow, data: bytes | memoryview) -> int:
        """Take whole pieces and return how many bytes of them left; -1 when the socket is broken."""
        raise NotImplementedError

    def flush(self, send_now: SendNow) -> int:
        """Send what is left of what was begun: 1 when the socket took it, 0 when not all, -1 when it is broken."""
        count = send_now(self._rest)
        if count < 0:
            return -1
        self._rest = memoryview(self._rest)[count:]  # what is large is not copied for each piece that is taken
        return 0 if self._rest else 1

    def overtake(self, data: bytes, sent: int) -> None:
        """Say past these pieces, which have to wait but for the bytes that were sent, what of them may not."""

    # Ends

    def late(self) -> tuple[int, str] | None:
        """Return the code and the reason with which a client ends that the server has not begun with in time; None: it
        is the client that has said nothing."""

    def farewell(self, code: int, reason: str) -> bytes:
        """Return what a client is told that has not been let in, as it goes over the socket."""
        del code, reason
        return b""

    def ended(self) -> None:
        """Say that the stream ends, when all else has been said."""

    def gone(self, client: Client | None) -> None:
        """Let go of the client, as the connection is over."""


class ClientStreamLink(Protocol):
    """A connection (connection.py), as streams and what begins them see it."""

    address: str
    client: Client | None
    closing: bool
    ended: bool
    fd: int
    held: int
    socket: ClientSocket[Any]
    stream: Any
    """Stream between the connection and its socket, where there is one."""

    # How it begins

    def come_from(self, request: Request) -> None:
        """Find out where the request comes from; raises BadRequest."""

    def open(self, token: str, terms: Terms, *, refused: Refused | None = None) -> Refused | None:
        """Make the client known, unless it is refused already; or return the reason why it may not come."""

    def tell_opened(self, request: Request, token: str, refused: Refused | None) -> None:
        """Tell who wants to know that the client has come, or why it may not."""

    def turn_away(self, refused: Refused | None) -> bool:
        """Say goodbye to a client that is refused; return whether it is."""

    def flow(self, stream: Any, head: bytes, events: bytes) -> bool:
        """Begin with a stream of events; return whether the socket is whole."""

    def settle(self) -> None:
        """Note that the client has said in time what it has to say."""

    # Bytes

    def hold(self, why: int, held: bool) -> None:
        """Handle nothing more of what the client says while there is a reason (core.delivery.link.PauseReason)."""

    def wait_for_turn(self) -> None:
        """Read and handle nothing more in this turn."""

    def write(self, data: bytes) -> None:
        """Send whole pieces."""

    def lag(self, data: bytes, sent: int) -> None:
        """Have the rest wait, as the socket took only ``sent`` bytes of the pieces (-1: it is broken)."""

    def send_now(self, data: bytes | memoryview) -> int:
        """Hand bytes to the socket; return how many it took, -1 when it is broken."""

    def await_writable(self, wanted: bool) -> None:
        """Call ``writable`` when the socket takes bytes again, or no more."""

    def writable(self) -> None:
        """Hand on what waits."""

    # Ends

    def leave(self, code: int, reason: str) -> None:
        """End the connection, as the client has said goodbye."""

    def close(self, code: int, reason: str) -> None:
        """Say goodbye with a close code and reason."""

    def failed(self, error: Exception) -> None:
        """End the connection for a fault of ours: the client comes back."""

    def lost(self) -> None:
        """Let go of everything, as the connection is over."""
