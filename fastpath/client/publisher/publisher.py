"""A blocking client of the publisher port, for Spark executors, feeds and scripts (protocol.md 6)."""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import msgspec

from fastpath.core.protocol.errors import BadFrame
from fastpath.core.protocol.messages import GUARANTEED, Fields, Value
from fastpath.core.protocol.packets import BATCH_MESSAGES_MAX, FRAME_BYTES_MAX

from ..errors import RefusedMessage
from ..message import AsOf
from .connection import PortConnection
from .window import Results, SentBatch, Settled, Window

_ENVELOPE_BYTES = 32
"""Room that a batch's frame needs beside its rows."""

PUBLISHER_MAX = 256
"""Characters of a publisher's name (protocol.md 6.2)."""

_encode = msgspec.msgpack.Encoder().encode

Row = Sequence[Any]
"""``[subject, content, fields, meta]``; fields and meta may be None or left out (protocol.md 6.2)."""


class Publisher(PortConnection):
    """A publisher that sends batches of messages, and again after a lost connection, until they are acknowledged.

    Each message has a number of this publisher, and keeps it when it is sent again, to whichever server: it is stored
    once (of quality standard, perhaps twice). ``url`` is ``"host:port"``, ``"tls://host:port"``, a comma list or a
    list of those: when one does not answer, or cannot store now, the next is tried. ``token`` is a text, or a callable
    that is asked at each connect. ``publisher`` is a label: what the server is told is this with a random part, so that
    no other publisher's messages are taken for these sent again. With ``first`` it is told as it is, and messages are
    numbered from ``first`` on: for a program that sends the same messages in the same order when it is run again
    within three minutes. ``window`` lowers the number of batches without acknowledgement below what the server allows.
    ``timeout_seconds`` bounds a connect and the wait for an answer, ``retry_seconds`` an outage. ``on_settled`` is
    called for each row of ``send_batch``: its index since the last ``flush()``, its position or why it was refused.
    With ``tracing`` each ``publish()`` and ``remove()`` is a span of the program's own OpenTelemetry, whose context
    goes with the message (docs/operate/tracing.md); ModuleNotFoundError where that is not installed. Not for several
    threads at once.
    """

    def __init__(
        self,
        url: str | Iterable[str],
        token: str | Callable[[], str] | None = None,
        publisher: str | None = None,
        window: int | None = None,
        timeout_seconds: float = 10,
        retry_seconds: float = 60,
        *,
        tls: ssl.SSLContext | None = None,
        first: int | None = None,
        on_settled: Settled | None = None,
        tracing: bool = False,
    ) -> None:
        super().__init__(url, token, _name(publisher, first), timeout_seconds, retry_seconds, tls)
        self._label, self._first = publisher, first
        self._window_asked = window
        self._window = Window(window or 1, first or 1, on_settled, alone=first is None)
        self._span = _span_maker() if tracing else None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.flush()
        finally:
            self.close()

    def send_batch(self, rows: Sequence[Row]) -> None:
        """Send rows; returns when they are on their way, with at most a window of batches not acknowledged.

        What came of each is told by ``flush()``. Raises ConnectionRejected when the server does not want this
        publisher, PublishTimeout after an outage of ``retry_seconds``; a later ``flush()`` tries again.
        """
        self._submit(rows)
        self._pump(lambda: self._window.all_sent and not self._out)

    def flush(self, raise_refused: bool = True) -> Results:
        """Wait until everything is acknowledged and tell what came of it since the last flush.

        Raises the first RefusedMessage if there is one, unless ``raise_refused`` is false; besides as
        ``send_batch``.
        """
        self._pump(lambda: self._window.idle)
        results = self._window.collect()
        if raise_refused and results.refused:
            raise results.refused[0]
        return results

    def publish(
        self,
        subject: str,
        content: Value,
        fields: Fields | None = None,
        *,
        retained: bool = True,
        qos: str = GUARANTEED,
        reply_to: str | None = None,
        closure: str | None = None,
        as_of: AsOf | None = None,
        replace: bool = False,
    ) -> int:
        """Publish one message and wait; its sequence number, 0 for standard quality. Raises RefusedMessage too.

        With ``replace`` no field of before stays in the snapshot.
        """
        meta = _meta(retained, qos, reply_to, closure, as_of)
        if replace:
            meta["replace"] = True
        return self._publish_one([subject, content, fields or None, meta])

    def remove(
        self, subject: str, *, qos: str = GUARANTEED, closure: str | None = None, as_of: AsOf | None = None
    ) -> int:
        """Remove a subject and wait; the removal's sequence number, 0 for standard quality. Raises as ``publish``.

        Its snapshot is gone, and subscribers get a message that is ``removed``. In ``send_batch`` a row does the same
        whose content is empty and whose meta says ``"removed": True``.
        """
        meta = _meta(True, qos, None, closure, as_of) | {"removed": True}
        return self._publish_one([subject, "", None, meta])

    def _publish_one(self, row: list[Any]) -> int:
        if self._span is None:
            return self._publish_now(row if row[3] else row[:3])
        with self._span([row]):
            return self._publish_now(row)

    def _publish_now(self, row: list[Any]) -> int:
        try:
            rows = _encode([row])
        except (UnicodeEncodeError, OverflowError) as error:  # half a character, or a number beyond 2^64
            raise RefusedMessage(0, "invalid", str(error)) from None
        if len(rows) > FRAME_BYTES_MAX - _ENVELOPE_BYTES:
            raise _too_large(0, len(rows))
        batch: SentBatch = self._window.submit(rows, 1, alone=True)
        self._pump(lambda: batch.done)
        if batch.refused is not None:
            raise batch.refused
        return batch.seq

    def _submit(self, rows: Sequence[Row]) -> None:
        if not rows:
            return
        data = _encode(rows) if len(rows) <= BATCH_MESSAGES_MAX else b""
        if data and len(data) <= FRAME_BYTES_MAX - _ENVELOPE_BYTES:
            self._window.submit(data, len(rows))
        elif len(rows) == 1:
            results = self._window.results
            results.refuse(_too_large(results.messages, len(data)))
            results.messages += 1
        else:
            half = len(rows) // 2
            self._submit(rows[:half])
            self._submit(rows[half:])

    def _take(self) -> bytes | None:
        return self._window.take()

    def _answer(self, frame: list[Any]) -> bool:
        match frame:
            case ["ack", int(number), int(epoch), list(results)]:
                return self._window.acknowledge(number, epoch, results)
            case ["ack", *_]:
                raise BadFrame(f"unexpected: {str(frame)[:80]}")
            case _:
                return False  # a frame of a later version of the protocol

    def _begin_anew(self) -> None:
        super()._begin_anew()
        # Under the same name the server would take the messages of one process for those of the other.
        self._publisher = _name(self._label, self._first)

    def _rewind(self) -> None:
        self._window.rewind()

    def _welcomed(self) -> bool:
        allowed = int(self._welcome.get("window", 1))
        self._window.rewind(min(self._window_asked or allowed, allowed))
        return self._window.idle

    def _held(self) -> tuple[str, bool] | None:
        return (self._window.why_held, self._window.unavailable) if self._window.holds else None

    def _released(self) -> None:
        self._window.release()


def _name(label: str | None, first: int | None) -> str:
    """Return the publisher's name for the server; raise ValueError for a name or number that the server would
    refuse."""
    if first is not None:
        if not label or not 1 <= first < 1 << 53:
            raise ValueError("first is a number from 1 on, and needs the name of a publisher")
        name = label
    else:
        name = f"{label}:{secrets.token_hex(12)}" if label else secrets.token_hex(12)
    if len(name) > PUBLISHER_MAX:
        raise ValueError(f"the name of a publisher has at most {PUBLISHER_MAX} characters")
    return name


def _meta(retained: bool, qos: str, reply_to: str | None, closure: str | None, as_of: AsOf | None) -> dict[str, Any]:
    """Return the meta of a row: what differs from the default (protocol.md 6.2)."""
    meta: dict[str, Any] = {} if retained else {"retained": False}
    if qos != GUARANTEED:
        meta["qos"] = qos
    for name, value in (("reply_to", reply_to), ("closure", closure), ("as_of", as_of)):
        if value is not None:
            meta[name] = value
    return meta


def _span_maker() -> Callable[[Sequence[list[Any]]], AbstractContextManager[None]]:
    try:
        from ..spans import publish_span  # noqa: PLC0415 - it comes with an extra
    except ModuleNotFoundError as error:
        words = f"tracing needs the package {error.name}: pip install 'django-fastpath[otel]'"
        raise ModuleNotFoundError(words, name=error.name) from None
    return publish_span


def _too_large(index: int, size: int) -> RefusedMessage:
    return RefusedMessage(index, "too_large", f"{size} bytes do not fit a frame of {FRAME_BYTES_MAX} bytes")
