"""The transport ``poll``: the server's frames as answers asked for one after the other, the client's by POST."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from urllib.parse import urlencode

import msgspec

from fastpath.core.protocol.codec import Form

from .http1 import Origin, with_query
from .link import ABNORMAL, FRAME_BYTES_MAX, LinkEndedError, not_opened
from .session import BEGIN_BYTES_MAX, HttpSession, SessionLink, check_opened, is_gone, read_terms

HELD_SECONDS = 0.5
"""Seconds within which an answer that breaks off is a failure."""
FAILURES_MAX = 3
"""Number of failures in a row that are the end of the session."""
SILENCE_SECONDS = 15
"""Seconds without any answer after which one that a proxy has cut is not asked for again."""
AGAIN_SECONDS = 0.2
LATE_SECONDS = 10
"""Seconds to wait beyond the time for which the server holds an answer."""

_CLOSE = b'{"close":'


class LastLine(msgspec.Struct):
    """A close of the server."""

    close: int
    reason: str = ""


class PollLink(SessionLink):
    """A session whose frames are asked for."""

    def __init__(self, origin: Origin, tls: ssl.SSLContext | None) -> None:
        super().__init__(origin, tls)
        self._lines: deque[bytes] = deque()
        self._answers = 1

    async def open(self) -> None:
        """Begin: the first answer comes at once."""
        target = with_query(f"{self._origin.base}/poll", self._origin.query)
        head, body = await self._requests.ask("GET", target, bytes_max=BEGIN_BYTES_MAX)
        check_opened(head, "application/x-ndjson")
        first, _, rest = body.partition(b"\n")
        self._session = HttpSession(self._origin, read_terms(first), self._tls)
        self._take(rest)

    async def read(self) -> bytes:
        """Return the next frame."""
        while not self._lines:
            self._take(await self._ask())
        line = self._lines.popleft()
        # With or without a space: it is a map that no frame looks like.
        if line.replace(b" ", b"", 1).startswith(_CLOSE):
            last = msgspec.json.decode(line, type=LastLine)
            raise LinkEndedError(last.close, last.reason)
        return line

    def _take(self, body: bytes) -> None:
        self._lines.extend(line for line in body.split(b"\n") if line)

    async def _ask(self) -> bytes:
        """Return the next answer; one that was lost on its way is asked for again."""
        assert self._session is not None
        terms, failures, began = self._session.terms, 0, time.monotonic()
        target = with_query(f"{self._origin.base}/poll", urlencode({"session": terms.session, "ack": self._answers}))
        while True:
            asked = time.monotonic()
            try:
                async with asyncio.timeout(terms.poll_ms / 1000 + LATE_SECONDS):
                    head, body = await self._requests.ask("GET", target, bytes_max=FRAME_BYTES_MAX)
            except OSError as error:
                status, why = 0, str(error)
            else:
                status, why = head.status, f"the answer is {head.status}"
                if status == 200:
                    self._answers += 1
                    return body
            if is_gone(status):
                raise LinkEndedError(ABNORMAL, f"the session is gone: {status}")
            now = time.monotonic()
            failures += now - asked < HELD_SECONDS
            if failures >= FAILURES_MAX or now - began > SILENCE_SECONDS:
                raise LinkEndedError(ABNORMAL, f"no answer comes: {why}")
            await asyncio.sleep(AGAIN_SECONDS * failures)


async def open_poll(
    url: str, form: Form, seconds: float, tls: ssl.SSLContext | None, proxy: str | None = None
) -> PollLink:
    """Begin a session; raises NotOpenedError."""
    link = PollLink(Origin.of(url, proxy), tls)
    try:
        async with asyncio.timeout(seconds):
            await link.open()
    except BaseException as error:
        await link.close()
        if isinstance(error, OSError):
            raise not_opened(error, proxy) from None
        raise
    return link
