"""The publisher port: batches in, one acknowledgement a batch out (protocol.md 6)."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any, cast

from ..core.admission import Outcome
from ..core.errors import Close, Refused
from ..core.grants import Principal
from ..core.packets import (
    BATCH_MESSAGES_MAX,
    FRAME_BYTES_MAX,
    PUBLICATION_MAX,
    PUBLISHER_CHARS_MAX,
    Batch,
    Unpacker,
    pack,
    publisher_key,
    unpack_published,
)
from .hub import Hub, now

WINDOW = 16
"""Batches that a publisher may have without acknowledgement (protocol.md 6.4)."""

ACKS_BYTES_MAX = 256 << 10
"""Acknowledgements that may wait in the transport before the server stops reading from the publisher."""

GOODBYE_SECONDS = 5
"""How long a publisher that was told goodbye may take to read that and go."""

DRAINS = "the server is stopping; reconnect and resend"

log = logging.getLogger("fastpath.publishers")


class PublisherConnection(asyncio.Protocol):
    """One publisher."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._unpacker = Unpacker(FRAME_BYTES_MAX, unpack_published)
        self._principal: Principal | None = None
        self._publisher: str | None = None
        self._transport: asyncio.Transport | None = None
        self._closing = self._full = self._draining = False
        self._batch = 0
        self._unanswered = 0  # batches
        self._answers: list[bytes] | None = None  # gathered while a handler runs
        self.address = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected: the hello must come in time."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=ACKS_BYTES_MAX)
        self.address = str((transport.get_extra_info("peername") or ("",))[0])
        self._hub.expect(self, self._hub.settings.handshake_seconds)
        self._hub.publisher_connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Frames, or parts of them; a fault of ours in handling them closes this publisher only."""
        if self._closing:
            return
        self._hub.broker.counters.bytes_in += len(data)
        self._answers = []
        try:
            for packet in self._unpacker.feed(data):
                if not self._handle(packet):
                    break
            if self._unpacker.error is not None:
                self._close(Close.BAD_MESSAGE, str(self._unpacker.error))
        except Exception:
            log.exception("fault while handling publisher %s", self.address)
            self._close(Close.INTERNAL_ERROR, "a fault of the server; reconnect and resend")
        self._answer()
        if self._hub.congested:
            self.hold(True)

    def pause_writing(self) -> None:
        """It does not read its acknowledgements: take nothing more from it."""
        self._full = True
        self.hold(True)

    def resume_writing(self) -> None:
        """It reads again."""
        self._full = False
        self.hold(self._hub.congested)

    def hold(self, held: bool) -> None:
        """Take nothing more from it, or go on. Before its hello nobody can publish, and at the end all is dropped."""
        if self._transport is None or self._closing or self._transport.is_closing():
            return
        if held and (self._full or self._principal is not None):
            self._transport.pause_reading()
        elif not held and not self._full and not self._draining:
            self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """The publisher is gone."""
        del exc
        self._closing = True
        self._hub.publisher_connections.discard(self)
        self._hub.spare(self)

    def expire(self) -> None:
        """No hello in time, or it did not go after our close."""
        if self._closing:
            if self._transport is not None:
                self._transport.abort()
        else:
            self._close(Close.HANDSHAKE_TIMEOUT, "no hello in time")

    def _handle(self, packet: list[Any] | Batch) -> bool:
        """One frame; False when it ended the connection."""
        try:
            match packet:
                case Batch() if self._principal is not None:
                    self._publish(packet.number, packet.messages, packet.first)
                case ["hello", dict(options)] if self._principal is None:
                    self._hello(options)
                case ["batch", int(number), list(rows)] if self._principal is not None:
                    self._publish(number, rows, 0)
                case ["batch", int(number), list(rows), int(first)] if self._principal is not None:
                    self._publish(number, rows, first)
                case ["ping", int(number)] if self._principal is not None:
                    self._send(["pong", number])
                case Batch() | ["batch" | "ping", *_] if self._principal is None:
                    self._close(Close.BAD_MESSAGE, "hello comes first")
                case _:
                    # Not the whole of it, which may be megabytes.
                    start = str(packet[:1] if isinstance(packet, list) else "batch")[:40]
                    self._close(Close.BAD_MESSAGE, f"not a frame of this port: {start}")
        except Refused as error:
            self._close(error.code, error.reason)
        return not self._closing

    def _hello(self, options: dict[str, Any]) -> None:
        if options.get("version", 1) != 1:
            raise Refused(Close.BAD_VERSION, "this server speaks version 1")
        token = options.get("token") or ""
        if not isinstance(token, str):
            raise Refused(Close.BAD_TOKEN, "the token is a text")
        publisher = options.get("publisher") or ""
        if not isinstance(publisher, str) or len(publisher) > PUBLISHER_CHARS_MAX:
            raise Refused(Close.BAD_MESSAGE, f"publisher is a text of at most {PUBLISHER_CHARS_MAX} characters")
        broker = self._hub.broker
        if not broker.grants.ready:
            raise Refused(Close.NOT_READY, "the rights have not arrived from Django yet; retry")
        if self._hub.stale:
            raise Refused(Close.NOT_READY, "nothing can be published at this moment; retry, here or elsewhere")
        self._principal = broker.grants.principal(token, now())
        self._publisher = publisher_key(self._principal.user, publisher) if publisher else None
        self._hub.spare(self)
        log.debug("publisher %s user=%s", self.address, self._principal.user)  # a Spark task is one
        self._send(
            [
                "welcome",
                {
                    "version": 1,
                    "server": broker.server,
                    "epoch": broker.engine.epoch,
                    "user": self._principal.user,
                    "window": WINDOW,
                    "frame_bytes": FRAME_BYTES_MAX,
                    "batch_messages": BATCH_MESSAGES_MAX,
                },
            ]
        )

    def _publish(self, number: int, rows: list[Any], first: int) -> None:
        if number <= self._batch:
            raise Refused(Close.BAD_MESSAGE, f"batch {number} after batch {self._batch}: numbers rise")
        if len(rows) > BATCH_MESSAGES_MAX:
            raise Refused(Close.BAD_MESSAGE, f"over {BATCH_MESSAGES_MAX} messages in a batch")
        if first and (self._publisher is None or not 0 < first <= PUBLICATION_MAX - len(rows)):
            raise Refused(
                Close.BAD_MESSAGE, "publications are numbered from 1 on, under the publisher that hello named"
            )
        self._batch = number
        self._unanswered += 1
        self._hub.publish_rows(self._current(now()), rows, partial(self._acknowledge, number), self._publisher, first)

    def _acknowledge(self, number: int, outcomes: list[Outcome]) -> None:
        """Tell what became of a batch. With another worker that numbers, this may be after the publisher has gone."""
        self._unanswered -= 1
        if not self._closing:
            self._send(["ack", number, self._hub.broker.engine.epoch, outcomes])
            if self._draining and not self._unanswered:
                self.drain()

    def _current(self, moment: int) -> Principal:
        """The principal under the present rights; raises Refused when the token has ended or was revoked."""
        principal = self._principal
        assert principal is not None
        if principal.expires is not None and principal.expires <= moment:
            raise Refused(Close.TOKEN_EXPIRED, "get a new token, then reconnect")
        principal = self._principal = self._hub.broker.grants.current(principal)
        return principal

    def _send(self, packet: list[Any]) -> None:
        if self._transport is not None:
            data = pack(packet)
            self._hub.broker.counters.bytes_out += len(data)
            if self._answers is not None:
                self._answers.append(data)
            else:
                self._transport.write(data)

    def _answer(self) -> None:
        """Write what the handler has to say in one go, after everything that must leave before (``Hub.end``)."""
        self._hub.end()
        answers, self._answers = self._answers, None
        if answers and self._transport is not None:
            self._transport.write(b"".join(answers))

    def _close(self, code: Close, reason: str) -> None:
        """Say why, then end the connection when it has been sent."""
        if self._closing or self._transport is None:
            return
        self._closing = True
        log.info("close publisher %s code=%d %s: %s", self.address, code, code.label, reason)
        self._hub.broker.counters.closed(code.label)
        self._send(["close", int(code), f"{code.label}: {reason}"])
        self._answer()
        if self._transport.can_write_eof():
            # What it still sends is read and dropped: a socket closed with that unread would be reset, and the
            # acknowledgements before the close lost.
            self._transport.write_eof()
            self._transport.resume_reading()
        else:
            self._transport.close()
        self._hub.expect(self, GOODBYE_SECONDS)

    def drain(self) -> None:
        """The server stops, or cannot take anything: it is to send again what is not acknowledged."""
        self._close(Close.DRAIN, DRAINS)

    def leave(self) -> None:
        """It is to go elsewhere: nothing more is taken from it, and it is told when what was taken is acknowledged."""
        if self._draining or self._closing or self._transport is None:
            return
        self._draining = True
        self._transport.pause_reading()
        if not self._unanswered:
            self.drain()
