"""What both HTTP transports do alike: how a session begins, what is sent, and its end (docs/reference/sessions.md)."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import deque

import msgspec

from fastpath.core.protocol.codec import JSON, Form
from fastpath.core.protocol.errors import Close

from .http1 import AnswerHead, HttpConnection, Origin, with_query
from .link import ABNORMAL, LinkEndedError, NotOpenedError

POST_SECONDS = 10
AGAIN_SECONDS = (0.1, 0.5, 1.5)
"""Seconds to wait after a request that failed, before the same again."""
LEAVE_SECONDS = 1
BEGIN_BYTES_MAX = 1 << 16
TOO_LARGE = "the server takes no frame of that size"
_TRANSIENT = (408, 429)


class SessionTerms(msgspec.Struct):
    """Terms of the session, which the server tells first."""

    session: str
    poll_ms: int = 25_000
    frame_bytes: int = 65_536


def read_terms(text: bytes) -> SessionTerms:
    """Return the session's first words; raise NotOpenedError for what is something else, such as a page of a proxy."""
    try:
        return msgspec.json.decode(text, type=SessionTerms)
    except msgspec.DecodeError:
        raise NotOpenedError("refused", "what answers is no session over HTTP") from None


def check_opened(head: AnswerHead, kind: str) -> None:
    """Raise NotOpenedError unless this answer may begin a session."""
    if head.status != 200 or not head.content_type.startswith(kind):
        raise NotOpenedError("refused", f"the answer is {head.status} to a session over HTTP")


def is_gone(status: int) -> bool:
    """Return True if the session is gone, so that the same request again would bring the same answer."""
    return 400 <= status < 500 and status not in _TRANSIENT


class HttpSession:
    """The session's own side: ``post()`` in order, each frame with its number, and ``leave()``."""

    form: Form = JSON

    def __init__(self, origin: Origin, terms: SessionTerms, tls: ssl.SSLContext | None) -> None:
        self.terms = terms
        self._path = f"{origin.base}/{terms.session}"
        self._requests = HttpConnection(origin, tls)
        self._sent = 0

    async def post(self, frames: list[bytes]) -> None:
        """Send frames; raises LinkEndedError."""
        waiting = deque(frames)
        failures = 0
        while waiting:
            batch = self._batch(waiting)
            status = await self._post(b"\n".join(batch))
            if 200 <= status < 300:
                self._sent += len(batch)
                failures = 0
                for _ in batch:
                    waiting.popleft()
            elif status == 413:
                raise LinkEndedError(Close.TOO_BIG, TOO_LARGE)
            elif is_gone(status):
                raise LinkEndedError(ABNORMAL, f"the session is gone: {status}")
            elif failures == len(AGAIN_SECONDS):
                raise LinkEndedError(ABNORMAL, "what is sent does not arrive")
            else:
                # The same numbers again: what the server has taken already it leaves out.
                await asyncio.sleep(AGAIN_SECONDS[failures])
                failures += 1

    async def leave(self) -> None:
        """Tell the server that the client goes, if that takes no long time."""
        with contextlib.suppress(OSError):
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._requests.ask("DELETE", self._path)
        self._requests.close()

    def _batch(self, waiting: deque[bytes]) -> list[bytes]:
        """Return as many frames as are together no larger than one may be; raise LinkEndedError for one that is
        larger."""
        batch: list[bytes] = []
        left = self.terms.frame_bytes
        for frame in waiting:
            left -= len(frame) + 1
            if left < -1:
                break
            batch.append(frame)
        if not batch:
            raise LinkEndedError(Close.TOO_BIG, TOO_LARGE)
        return batch

    async def _post(self, body: bytes) -> int:
        """Send the body; return the status, 0 without an answer."""
        try:
            async with asyncio.timeout(POST_SECONDS):
                target = with_query(self._path, f"n={self._sent + 1}")
                return (await self._requests.ask("POST", target, body))[0].status
        except OSError:
            return 0


class SessionLink:
    """The part of a link by HTTP that does not depend on how frames come: the client posts its own, and leaves."""

    form: Form = HttpSession.form

    def __init__(self, origin: Origin, tls: ssl.SSLContext | None) -> None:
        self._origin, self._tls = origin, tls
        self._requests = HttpConnection(origin, tls)
        self._session: HttpSession | None = None

    async def write(self, frames: list[bytes]) -> None:
        """Send frames in their order."""
        assert self._session is not None
        await self._session.post(frames)

    async def close(self) -> None:
        """Tell the server, which would wait for the next question; the end of a stream is that of the session."""
        self._requests.close()
        if self._session is not None:
            await self._session.leave()
