"""The publisher port: batches in, one acknowledgement a batch out (protocol.md 6)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from time import perf_counter
from typing import Any, cast

from ...core.auth.grants import Principal
from ...core.broker.admission import MEMORY_FULL, Outcome
from ...core.delivery.link import LOST, PauseReason
from ...core.presence.advertisements import OFFERS_MAX
from ...core.protocol.errors import Close, Refused
from ...core.protocol.packets import (
    BATCH_MESSAGES_MAX,
    FRAME_BYTES_MAX,
    PUBLICATION_MAX,
    PUBLISHER_CHARS_MAX,
    Batch,
    Unpacker,
    pack,
    publisher_key,
    read_publications,
    unpack_published,
)
from ...core.telemetry import counters
from ..runtime.component import PublisherDeferral
from ..runtime.connection_log import publisher_closed
from ..runtime.publisher_accounts import Progress
from ..runtime.runtime import Runtime, now
from ..runtime.scheduler import PIECE_BYTES, TURN_SECONDS
from .batch_slices import SLICE_ROWS, SLICE_ROWS_MAX, BatchSlices, next_slice

WINDOW = 16
"""Batches that a publisher may have without acknowledgement (protocol.md 6.4)."""

ACKS_BYTES_MAX = 256 << 10
"""Acknowledgements that may wait in the transport before the server stops reading from the publisher."""

GOODBYE_SECONDS = 5
"""Seconds that a publisher which was told goodbye may take to read that and go."""

DRAINS = "the server is stopping; reconnect and resend"

log = logging.getLogger("fastpath.publishers")

_numbers = count(1)


class PublisherConnection(asyncio.Protocol):
    """A publisher's connection from ``address``.

    On a port that clients use too it takes a place as they do, and ``full`` says whether there is none.
    """

    def __init__(self, runtime: Runtime, address: str = "", full: Callable[[], bool] | None = None) -> None:
        self._runtime = runtime
        self._is_full = full
        self._unpacker = Unpacker(FRAME_BYTES_MAX, unpack_published)
        self._principal: Principal | None = None
        self._publisher: str | None = None
        self._transport: asyncio.Transport | None = None
        self._closing = self._full = self._draining = False
        self._batch = 0
        self._answers: list[bytes] | None = None  # gathered while a handler runs
        self._party: PublisherDeferral | None = None
        self._pauses = 0  # bits of PauseReason
        self._unread = b""  # what came, from _read on not looked at yet
        self._read = 0
        self._frames: deque[list[Any] | Batch] = deque()  # that are not handled yet
        self._waits = False  # to handle these
        self._slices: BatchSlices | None = None  # of the batch that is being published
        self._rate_due = False  # it is to be held when that is done
        self._slice_rows = SLICE_ROWS
        self.address = address
        self.since = now()
        """Time when the publisher came, in ms."""
        self.number = next(_numbers)
        self.name = ""
        """Name under which the publisher numbers what it publishes; empty: it does not."""
        self.progress = Progress()

    @property
    def principal(self) -> Principal | None:
        """The principal that publishes; None before its hello."""
        return self._principal

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a new connection, whose hello must come in time."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=ACKS_BYTES_MAX)
        self._runtime.expect(self, self._runtime.settings.handshake_seconds)
        self._runtime.publisher_connections.add(self)
        if self._is_full is not None:
            self._runtime.connection_opened()
            if self._is_full():
                self.over_limit()

    def data_received(self, data: bytes) -> None:
        """Take frames, or parts of them; a fault of ours in handling them closes this publisher only."""
        if self._closing:
            return
        self._runtime.broker.counters.bytes_in += len(data)
        self._unread, self._read = self._unread[self._read :] + data, 0
        scheduler = self._runtime.scheduler
        if self._waits:  # it was on its way when reading stopped
            return
        if len(data) <= PIECE_BYTES:
            self._handle_all()
        elif scheduler.spent:  # others have had the turn's time
            self._wait_for_turn()
        else:
            began = perf_counter()
            self._handle_all()
            scheduler.spend(perf_counter() - began)

    def _wait_for_turn(self) -> None:
        """Read and handle nothing more in this turn."""
        self._waits = True
        self.hold(True, PauseReason.TURN)
        self._runtime.scheduler.later(partial(self.hold, False, PauseReason.TURN))

    def _handle_all(self) -> None:
        """Handle frames for as long as a turn is; the rest waits for the next one."""
        self._answers, self._waits, until = [], False, perf_counter() + TURN_SECONDS
        try:
            while not self._waits:
                if self._slices is None and not self._frames:
                    if self._read >= len(self._unread):
                        break
                    # Piece by piece: to cut a read of very many small frames may take longer than a turn.
                    piece = self._unread[self._read : self._read + PIECE_BYTES]
                    self._read += PIECE_BYTES
                    self._frames.extend(self._unpacker.feed(piece))
                    continue
                packet = [] if self._slices is not None else self._frames.popleft()
                if self._slices is None and self._party is not None and self._party.parks(packet, b"", now()):
                    self._frames.appendleft(packet)
                    self._waits = True
                elif not self._handle(packet):
                    break
                elif self._pauses:
                    self._waits = True
                elif perf_counter() > until and self._has_more:
                    self._wait_for_turn()
            if self._unpacker.error is not None and not self._waits:
                self.close(Close.BAD_MESSAGE, str(self._unpacker.error))
        except Exception:
            log.exception("fault while handling publisher %s", self.address)
            self.close(Close.INTERNAL_ERROR, "a fault of the server; reconnect and resend")
        self._answer()
        if self._runtime.congested:
            self.hold(True)

    @property
    def _has_more(self) -> bool:
        return self._slices is not None or bool(self._frames) or self._read < len(self._unread)

    def _pause(self, why: int, paused: bool) -> None:
        before, self._pauses = self._pauses, self._pauses | why if paused else self._pauses & ~why
        if self._transport is None or self._closing:
            return
        if self._pauses and not before:
            self._transport.pause_reading()
        elif before and not self._pauses:
            if why == PauseReason.TURN:
                self._go_on()  # before more is read
            if not self._pauses:
                self.hold(self._runtime.congested)
                self._runtime.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Handle what was read before the pause."""
        if self._waits and not (self._closing or self._draining or self._pauses):
            self._handle_all()

    def pause_writing(self) -> None:
        """Take nothing more from the publisher, which does not read its acknowledgements."""
        self._full = True
        self.hold(True)

    def resume_writing(self) -> None:
        """Take frames again from the publisher, which reads again."""
        self._full = False
        self.hold(self._runtime.congested)

    def hold(self, held: bool, why: int = PauseReason.CONGESTED) -> None:
        """Take nothing more from the publisher, or go on. Before its hello nobody can publish, and at the end all is
        dropped.

        While there is a reason but congestion, what has been read is not handled either; a batch that was begun is, to
        its end, whatever the rate: it is answered as a whole.
        """
        if why == PauseReason.RATE:
            self._rate_due = held and self._slices is not None
            if self._rate_due:
                return
        if why != PauseReason.CONGESTED:
            self._pause(why, held)
            return
        if self._transport is None or self._closing or self._transport.is_closing():
            return
        if held and (self._full or self._principal is not None):
            self._transport.pause_reading()
        elif not held and not self._full and not self._draining and not self._pauses:
            self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of the publisher, who is gone."""
        if not self._closing:
            well = exc is None and not self.progress.batches
            self._tell_end(*LOST, counters.BY_CLIENT if well else counters.LOST)
        self._closing = True
        if self._runtime.sessions.guard is not None:
            self._runtime.sessions.guard.forget(self)
        self._runtime.sessions.publish_rates.forget(self)
        self._runtime.publisher_connections.discard(self)
        if self._principal is not None:
            self._runtime.accounts.gather(self._principal.user, self.name, self.progress)
        if self._is_full is not None:
            self._runtime.connection_closed()
        self._runtime.spare(self)

    def expire(self) -> None:
        """End a publisher whose hello has not come in time, or that did not go after our close."""
        if self._closing:
            if self._transport is not None:
                self._transport.abort()
        else:
            self.close(Close.HANDSHAKE_TIMEOUT, "no hello in time")

    def _handle(self, packet: list[Any] | Batch) -> bool:
        """Handle one frame; False when it ended the connection."""
        try:
            match packet:
                case _ if self._slices is not None:
                    self._publish_slice(self._slices)
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
                case ["advertise", int(number), list(patterns)] if self._principal is not None:
                    self._advertise(number, patterns)
                case [str(kind), int(number), *rest] if self._principal is not None and kind in self._runtime.frames:
                    self._runtime.frames[kind](self, number, rest)
                case Batch() | ["batch" | "ping" | "advertise", *_] if self._principal is None:
                    self.close(Close.BAD_MESSAGE, "hello comes first")
                case _:
                    # Not the whole of it, which may be megabytes.
                    start = str(packet[:1] if isinstance(packet, list) else "batch")[:40]
                    self.close(Close.BAD_MESSAGE, f"not a frame of this port: {start}")
        except Refused as error:
            self.close(error.code, error.reason)
        return not self._closing

    def _hello(self, options: dict[str, Any]) -> None:
        self._check_address()
        if options.get("version", 1) != 1:
            raise Refused(Close.BAD_VERSION, "this server speaks version 1")
        token = options.get("token") or ""
        if not isinstance(token, str):
            raise Refused(Close.BAD_TOKEN, "the token is a text")
        publisher = options.get("publisher") or ""
        if not isinstance(publisher, str) or len(publisher) > PUBLISHER_CHARS_MAX:
            raise Refused(Close.BAD_MESSAGE, f"publisher is a text of at most {PUBLISHER_CHARS_MAX} characters")
        broker = self._runtime.broker
        if broker.admission.full:
            broker.counters.limit("memory")
            raise Refused(Close.OVERLOADED, MEMORY_FULL)
        if not broker.grants.ready:
            raise Refused(Close.NOT_READY, "the rights have not arrived from Django yet; retry")
        if self._runtime.stale:
            raise Refused(Close.NOT_READY, "nothing can be published at this moment; retry, here or elsewhere")
        self._principal = broker.grants.principal(token, now())
        self._runtime.spare(self)
        if self._runtime.asks is not None:
            self._party = self._runtime.asks.publisher(self, self._principal, token, partial(self._welcome, publisher))
        else:
            self._welcome(publisher)

    def _welcome(self, publisher: str) -> None:
        """Let in a publisher whose identity is known and allowed."""
        broker = self._runtime.broker
        assert self._principal is not None
        self._publisher, self.name = publisher_key(self._principal.user, publisher) if publisher else None, publisher
        log.debug("publisher %s user=%s", self.address, self._principal.user)  # a Spark task is one
        for told in self._runtime.connection_listeners:
            told.publisher_came(self, publisher)
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

    def _check_address(self) -> None:
        """Check the address; raise Refused. Wherever only some may publish this is done with each batch again, because
        the setting may change."""
        if not self._runtime.access.may_publish(self.address):
            raise Refused(Close.DENIED, f"publishing is not allowed from {self.address}")

    def _publish(self, number: int, rows: list[Any], first: int) -> None:
        if self._runtime.access.publish_from is not None:
            self._check_address()
        if number <= self._batch:
            raise Refused(Close.BAD_MESSAGE, f"batch {number} after batch {self._batch}: numbers rise")
        if len(rows) > BATCH_MESSAGES_MAX:
            raise Refused(Close.BAD_MESSAGE, f"over {BATCH_MESSAGES_MAX} messages in a batch")
        if first and (self._publisher is None or not 0 < first <= PUBLICATION_MAX - len(rows)):
            raise Refused(
                Close.BAD_MESSAGE, "publications are numbered from 1 on, under the publisher that hello named"
            )
        self._batch, moment = number, now()
        principal = self.current(moment)
        self.progress.took(number, len(rows), moment)
        guard = self._runtime.sessions.guard
        too_many = guard is not None and guard.spend(self, 0, len(rows), moment)
        done = partial(self._acknowledge, number)
        if len(rows) > self._slice_rows:
            self._publish_slice(BatchSlices(rows, first, done))
        else:
            read = read_publications(rows, self._publisher, first)
            self._runtime.publish(principal, rows, read, done, self, self._hold_rate)
        if too_many:
            self._hold_rate()

    def _publish_slice(self, slices: BatchSlices, rows: int = 0) -> None:
        """Publish the next rows of a batch, so many or as many as a turn has time for."""
        principal, began = self.current(now()), perf_counter()
        some, first, done = slices.take(rows or self._slice_rows)
        self._slices = slices if slices.left else None
        read = read_publications(some, self._publisher, first)
        self._runtime.publish(principal, some, read, done, self, self._hold_rate)
        self._slice_rows = next_slice(len(some), perf_counter() - began, self._slice_rows)
        if self._rate_due and self._slices is None:
            self._hold_rate()

    def _finish_batch(self) -> None:
        """Publish what is left of a batch that was begun: it is answered as a whole, or comes again as a whole."""
        while self._slices is not None and not self._closing:
            try:
                self._publish_slice(self._slices, SLICE_ROWS_MAX)
            except Refused as error:
                self.close(error.code, error.reason)

    def _hold_rate(self) -> None:
        self.hold(True, PauseReason.RATE)

    def _advertise(self, number: int, patterns: list[Any]) -> None:
        self._check_address()
        if not all(isinstance(pattern, str) for pattern in patterns) or len(patterns) > OFFERS_MAX:
            raise Refused(Close.BAD_MESSAGE, f"advertise names at most {OFFERS_MAX} patterns")
        offers = self._runtime.advertisers.advertise(self, patterns)
        self._send(["advertised", number, [[one.error, one.reason] if one.error else 0 for one in offers]])

    @property
    def over(self) -> bool:
        """True when the connection has ended (core.presence.advertisements.Advertiser)."""
        return self._closing

    @property
    def full(self) -> bool:
        """True while the publisher does not read what it is told."""
        return self._full

    def tell(self, subjects: list[str], wanted: bool) -> None:
        """Tell the publisher that subjects which it advertised are wanted, or not any more (protocol.md 6.3)."""
        self._send(["interest", subjects, wanted])

    def _acknowledge(self, number: int, outcomes: list[Outcome]) -> None:
        """Tell what became of a batch. With another worker that numbers, this may be after the publisher has gone."""
        self.progress.acknowledged(number)
        if not self._closing:
            self._send(["ack", number, self._runtime.broker.engine.epoch, outcomes])
            if self._draining and not self.progress.batches:
                self.drain()

    def current(self, moment: int) -> Principal:
        """Return the principal under the present rights; raise Refused when the token has ended or was revoked."""
        principal = self._principal
        assert principal is not None
        if principal.expires is not None and principal.expires <= moment:
            raise Refused(Close.TOKEN_EXPIRED, "get a new token, then reconnect")
        principal = self._principal = self._runtime.broker.grants.current(principal)
        return principal

    def follow(self, moment: int) -> None:
        """Follow a change of rights, or the time: end when the token does not count any more."""
        if self._principal is not None and not self._closing:
            try:
                self.current(moment)
            except Refused as error:
                self.close(error.code, error.reason)

    def reply(self, packet: list[Any]) -> None:
        """Answer one of ``Runtime.frames``, now or later; nothing happens when it has gone."""
        if not self._closing:
            self._send(packet)

    def _send(self, packet: list[Any]) -> None:
        if self._transport is not None:
            data = pack(packet)
            self._runtime.broker.counters.bytes_out += len(data)
            if self._answers is not None:
                self._answers.append(data)
            else:
                self._transport.write(data)

    def _answer(self) -> None:
        """Write what the handler has to say in one go, after everything that must leave before (``Runtime.end``)."""
        self._runtime.end()
        answers, self._answers = self._answers, None
        if answers and self._transport is not None:
            self._transport.write(b"".join(answers))

    def close(self, code: Close, reason: str) -> None:
        """Say why, then end the connection when it has been sent."""
        if self._closing or self._transport is None:
            return
        self._closing = True
        self._tell_end(code, f"{code.label}: {reason}", code.label)
        self._runtime.broker.counters.closed(code.label)
        self._send(["close", int(code), f"{code.label}: {reason}"])
        self._answer()
        if self._transport.can_write_eof():
            # What it still sends is read and dropped: a socket closed with that unread would be reset, and the
            # acknowledgements before the close lost.
            self._transport.write_eof()
            self._transport.resume_reading()
        else:
            self._transport.close()
        self._runtime.expect(self, GOODBYE_SECONDS)

    def over_limit(self) -> None:
        """Say that the port is full, and let go."""
        self._runtime.broker.counters.limit("connections")
        self.close(Close.OVERLOADED, "too many connections; try again later")

    def _tell_end(self, code: int, reason: str, name: str) -> None:
        publisher_closed(self._runtime, self, code, reason, name, now())
        party, self._party = self._party, None
        if party is not None:
            party.gone(code, reason)
        for told in self._runtime.connection_listeners:
            told.publisher_gone(self, code, reason)

    def drain(self) -> None:
        """Have the publisher send again what is not acknowledged: the server stops, or cannot take anything."""
        self._finish_batch()
        self.close(Close.DRAIN, DRAINS)

    def leave(self) -> None:
        """Send the publisher elsewhere: nothing more is taken from it, and it is told when what was taken is
        acknowledged."""
        if self._draining or self._closing or self._transport is None:
            return
        self._draining = True
        self._transport.pause_reading()
        self._finish_batch()
        if not self.progress.batches:
            self.drain()
