"""One client's connection, as the core sees it: what it asks of the edge, and why nothing is read from it."""

from __future__ import annotations

from typing import Protocol

LOST = (1006, "the connection was lost")
"""Code and reason of a connection that ends and that nobody has closed (RFC 6455 7.1.5)."""


class PauseReason:
    """The reason why nothing is read from a connection for now, nor what has been read is handled."""

    TURN = 1
    """Pause after as much as one turn may take; the rest of what was read waits for the next
    (edge/runtime/scheduler.py)."""
    ECHOING = 2
    """Pause of a client that does not take what is echoed to it."""
    CONGESTED = 4
    """Pause of a client that has published while another worker is behind."""
    DRAINING = 8
    """Pause of a client that has been told to go elsewhere."""
    ASKED = 16
    """Pause while Django's hook is asked about what the client said last."""
    RATE = 32
    """Pause of a client that has said more than it may at a time."""
    ANSWERING = 64
    """Pause while the client's request of HTTP is being answered."""
    SEARCHING = 128
    """Pause while what the client has subscribed to is looked for among all that it has already."""
    TAKING = 256
    """Pause while another worker has the client's session, which is on its way here."""
    WORKING = 512
    """Pause while what the client has said last takes more than a turn (core/sessions/subscribe_commands.py)."""


class Link(Protocol):
    """The calls that the core makes to the edge for one connection.

    No call comes back into the core before it returns: a connection that breaks is reported in a later tick.
    """

    def write(self, data: bytes) -> None:
        """Send whole frames; what the socket does not take goes to the client's queue."""

    def lag(self, data: bytes, sent: int) -> None:
        """Queue what the socket did not take: it took only ``sent`` bytes of the frames (-1: it is broken)."""

    def hold(self, why: int, held: bool) -> None:
        """Handle nothing more of what the client sends while there is a reason, a bit of Hold; or not for this one."""

    def close(self, code: int, reason: str) -> None:
        """Say goodbye with a code of protocol.md 7, and let go."""
