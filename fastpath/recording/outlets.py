"""The targets that a recording is played to: a publisher port, or a client port's WebSocket.

Each publication is numbered, so that one that is sent again after a lost connection is stored once.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fastpath.client import connect
from fastpath.client.errors import CommandRefused, Disconnected, QueueFull, RefusedMessage
from fastpath.client.message import Position
from fastpath.client.publisher.publisher import Publisher, Row
from fastpath.core.protocol.as_of import readable_as_of
from fastpath.core.protocol.errors import InvalidSubject
from fastpath.core.protocol.messages import GUARANTEED, STANDARD

from .lines import Recorded, RecordingError

WAITING_MESSAGES_MAX = 1000
WAITING_BYTES_MAX = 16 << 20
"""Bytes that may wait for their answers on a WebSocket."""

REASONS_MAX = 20
"""Different reasons of refusals that are kept."""

Token = str | Callable[[], str] | None


class Interruption(BaseException):
    """The program was told to stop, and what it had begun did not end in time, or need not."""


class Outlet(ABC):
    """``connect()``, then ``send()`` and ``wait()``, then ``finish()``, then ``close()``; all of them block."""

    def __init__(self) -> None:
        self.sent = 0
        self.acknowledged = 0
        self.refused = 0
        self.reasons: Counter[str] = Counter()
        """Reasons why something was refused, and how often."""
        self.unknown = 0
        """Number of messages that may or may not be stored, because no answer came: of quality standard, whose
        connection was lost."""

    @abstractmethod
    def connect(self) -> None:
        """Connect; raise ClientError when the server cannot be reached or does not want this publisher."""

    @abstractmethod
    def interrupt(self) -> None:
        """Interrupt ``connect()`` while it blocks, by the handler of a signal: ``connect()`` raises Interruption."""

    @abstractmethod
    def send(self, messages: Sequence[Recorded]) -> None:
        """Send these next; returns when they are on their way. Raises ClientError after a long outage."""

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Let time pass."""

    @abstractmethod
    def finish(self) -> None:
        """Wait until all is answered, or its time is over; raises ClientError after a long outage."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the connection."""

    def _refuse(self, code: str, reason: str) -> None:
        self.refused += 1
        why = f"{code}: {reason}" if reason else code
        if why in self.reasons or len(self.reasons) < REASONS_MAX:
            self.reasons[why] += 1
        else:
            self.reasons["others"] += 1


class PortOutlet(Outlet):
    """The publisher port (protocol.md 6)."""

    def __init__(self, url: str, token: Token, tls: ssl.SSLContext | None, retry_seconds: float) -> None:
        super().__init__()
        context = tls if "tls://" in url else None
        self._publisher = Publisher(
            url, token, "recording", retry_seconds=retry_seconds, tls=context, on_settled=self._settled
        )

    def connect(self) -> None:
        self._publisher.connect()

    def interrupt(self) -> None:
        raise Interruption  # where the handler has interrupted the publisher

    def send(self, messages: Sequence[Recorded]) -> None:
        self.sent += len(messages)
        self._publisher.send_batch([row_of(message) for message in messages])

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def finish(self) -> None:
        self._publisher.flush(raise_refused=False)

    def close(self) -> None:
        self._publisher.close()

    def _settled(self, index: int, outcome: Position | RefusedMessage) -> None:
        del index
        if isinstance(outcome, RefusedMessage):
            self._refuse(outcome.code, outcome.reason)
        else:
            self.acknowledged += 1


class SocketOutlet(Outlet):
    """A client port's WebSocket, as any client publishes (protocol.md 3.4)."""

    def __init__(self, url: str, token: Token, tls: ssl.SSLContext | None, retry_seconds: float) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._unanswered = 0
        self._answered = asyncio.Event()
        self._interrupted = False
        self._entering: asyncio.Task[None] | None = None
        self._client = connect(
            url.split(","),
            token,
            tls=tls if url.startswith("wss://") else None,
            publish_seconds=retry_seconds,
            publish_queue_messages=WAITING_MESSAGES_MAX,
            publish_queue_bytes=WAITING_BYTES_MAX,
            quick_seconds=0.5,
        )

    def connect(self) -> None:
        try:
            self._runner.run(self._enter())
        except asyncio.CancelledError:
            raise Interruption from None

    def interrupt(self) -> None:
        self._interrupted = True
        if self._entering is not None:
            self._entering.get_loop().call_soon_threadsafe(self._entering.cancel)

    def send(self, messages: Sequence[Recorded]) -> None:
        self._runner.run(self._send(messages))

    def wait(self, seconds: float) -> None:
        self._runner.run(asyncio.sleep(seconds))

    def finish(self) -> None:
        self._runner.run(self._finish())

    def close(self) -> None:
        try:
            self._runner.run(self._client.aclose())
        finally:
            self._runner.close()

    async def _enter(self) -> None:
        self._entering = asyncio.current_task()
        if self._interrupted:
            raise asyncio.CancelledError
        await self._client.__aenter__()

    async def _send(self, messages: Sequence[Recorded]) -> None:
        for message in messages:
            self.sent += 1
            while not self._enqueued(message):
                self._answered.clear()
                await self._answered.wait()
        await asyncio.sleep(0)  # to the socket

    def _enqueued(self, message: Recorded) -> bool:
        """Return True when the message is on its way or refused; False when it has to wait for others."""
        try:
            future = self._client.enqueue(
                message.subject,
                message.value,
                message.values or None,
                retained=message.retained,
                qos=message.qos,
                reply_to=message.reply_to or None,
                closure=message.closure or None,
                removed=message.removed,
            )
        except InvalidSubject as error:
            self._refuse("invalid", error.reason)
        except QueueFull as error:
            if self._unanswered:
                return False
            self._refuse("too_large", str(error))
        else:
            self._unanswered += 1
            future.add_done_callback(self._settled)
        return True

    def _settled(self, future: asyncio.Future[Position]) -> None:
        self._unanswered -= 1
        self._answered.set()
        error = None if future.cancelled() else future.exception()
        if error is None:
            self.acknowledged += 1
        elif isinstance(error, CommandRefused):
            self._refuse(error.code, error.reason)
        elif isinstance(error, Disconnected):
            self.unknown += 1
        else:
            self._refuse("failed", str(error))

    async def _finish(self) -> None:
        while self._unanswered:
            self._answered.clear()
            await self._answered.wait()


def outlet(url: str, token: Token, ca: str, retry_seconds: float) -> Outlet:
    """Return the outlet for an address: ``ws://`` and ``wss://`` are client ports, all else a publisher port.

    Raises RecordingError, ValueError for what is no address.
    """
    kind = SocketOutlet if url.startswith(("ws://", "wss://")) else PortOutlet
    return kind(url, token, tls_of(ca), retry_seconds)


def row_of(message: Recorded) -> Row:
    """Return a publisher's row (protocol.md 6.2)."""
    meta: dict[str, Any] = {} if message.retained else {"retained": False}
    if message.qos != GUARANTEED:
        meta["qos"] = STANDARD
    # What an earlier version has recorded may be more than is taken today.
    told = (message.reply_to, message.closure, readable_as_of(message.as_of))
    for name, value in zip(("reply_to", "closure", "as_of"), told, strict=True):
        if value not in ("", None):
            meta[name] = value
    if message.removed:
        meta["removed"] = True
    row: list[Any] = [message.subject, message.value]
    if meta:
        return [*row, message.values or None, meta]
    return [*row, message.values] if message.fields else row


def token_of(path: str, given: str) -> Token:
    """Return the token of a connection: the file's content, read anew each time, or a text; None for neither.

    Raises RecordingError for a file that cannot be read.
    """
    if not path:
        return given or None

    def read() -> str:
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise RecordingError(f"{path}: {getattr(error, 'strerror', None) or error}") from None

    read()
    return read


def tls_of(ca: str) -> ssl.SSLContext | None:
    """Return the TLS context that trusts the authorities in a file; None without one. Raises RecordingError."""
    if not ca:
        return None
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise RecordingError(f"{ca}: {error.strerror or error}") from None
