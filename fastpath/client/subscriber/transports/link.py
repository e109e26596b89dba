"""What a connection is to the client, whichever transport carries it: frames both ways, and an end."""

from __future__ import annotations

import errno
import socket
import ssl
from typing import NamedTuple, Protocol

from fastpath.core.protocol.codec import Form

from .ladder import Failure
from .proxies import by_way_of

ABNORMAL = 1006
"""The code of RFC 6455 for an end without a close frame, and here for a connection that never stood."""

FRAME_BYTES_MAX = 256 << 20
"""Bytes of a frame from the server at most: a snapshot may be larger than any message that made it."""

_NOBODY = (errno.ECONNREFUSED, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN)


class LinkEnd(NamedTuple):
    """The end of a connection: the code of its close frame, or ABNORMAL; ``how`` where no frame came before."""

    code: int
    reason: str
    how: Failure = "closed"


class NotOpenedError(Exception):
    """The failure of a connection that does not come about."""

    def __init__(self, how: Failure, reason: str) -> None:
        super().__init__(how, reason)
        self.end = LinkEnd(ABNORMAL, reason, how)


class LinkEndedError(Exception):
    """The end of a connection that stood."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)
        self.end = LinkEnd(code, reason)


class TransportLink(Protocol):
    """A connection that stands."""

    @property
    def form(self) -> Form:
        """The form of its frames."""

    async def read(self) -> bytes:
        """Return the next frame; raise LinkEndedError or OSError."""

    async def write(self, frames: list[bytes]) -> None:
        """Send frames in their order; returns when more may come; raises LinkEndedError or OSError."""

    async def close(self) -> None:
        """Let go of it, and tell the server where that takes no long time."""


def not_opened(error: OSError, proxy: str | None = None) -> NotOpenedError:
    """Return what an error of the socket, to the server or the proxy before it, means for the ladder."""
    reason = by_way_of(proxy, str(error) or type(error).__name__)
    if isinstance(error, TimeoutError):
        return NotOpenedError("unanswered", by_way_of(proxy, str(error) or "no answer in time"))
    nobody = isinstance(error, socket.gaierror | ssl.SSLError) or _errno_of(error) in _NOBODY
    return NotOpenedError("unreachable" if nobody else "refused", reason)


def _errno_of(error: OSError) -> int | None:
    # asyncio gathers the errors of several addresses of a host, and then tells their texts alone.
    if error.errno is None and "Connect call failed" in str(error):
        return errno.ECONNREFUSED
    return error.errno
