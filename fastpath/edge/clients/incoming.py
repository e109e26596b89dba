"""What a client sends: bytes to frames to commands, in slices, so that nobody else waits for what one has sent."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from time import perf_counter
from typing import TYPE_CHECKING

from ...core.delivery.audience import Client
from ...core.delivery.link import PauseReason
from ...core.protocol.codec import JSON, MSGPACK
from ...core.protocol.errors import Close
from ...core.websocket.frames import BINARY, CLOSE, PING, PONG, TEXT, Event, FrameReader, encode_frame
from ...core.wires.registry import wire_of
from ..runtime.scheduler import LARGE_BYTES, PIECE_BYTES, TURN_SECONDS
from .event_stream import EventStream
from .mqtt.stream import MqttStream
from .posted_frames import ENDED, Done, PostedFrames

if TYPE_CHECKING:
    from ..runtime.runtime import Runtime

log = logging.getLogger("fastpath.clients")


class Incoming(ABC):
    """The reading half of a client's connection.

    ``held`` are the reasons, bits of Hold, for which nothing is read or handled; ``head`` is what has been read and not
    looked at yet, or the start of the request.
    """

    __slots__ = (
        "address",
        "client",
        "closing",
        "echoing",
        "ended",
        "fresh",
        "head",
        "held",
        "mqtt",
        "runtime",
        "reader",
        "session",
        "stream",
    )

    address: str
    client: Client | None
    closing: bool
    echoing: bool
    ended: bool
    fresh: bool
    head: bytes
    held: int
    runtime: Runtime
    reader: FrameReader | None
    mqtt: MqttStream | None
    session: PostedFrames | None
    stream: EventStream | MqttStream | None

    @abstractmethod
    def await_readable(self, wanted: bool) -> None:
        """Read from the socket, or stop reading."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Send whole frames."""

    @abstractmethod
    def close(self, code: int, reason: str) -> None:
        """Say goodbye to the peer with a close code and reason."""

    @abstractmethod
    def requested(self, data: bytes) -> None:
        """Bytes of the request came."""

    @abstractmethod
    def peer_closed(self, payload: bytes) -> None:
        """The client closes, or answers our close."""

    @abstractmethod
    def leave(self, code: int = Close.NORMAL, reason: str = "") -> None:
        """The client of a session over HTTP, or of MQTT, says that it has gone."""

    @abstractmethod
    def broken(self) -> None:
        """The client broke the framing."""

    @abstractmethod
    def expire(self) -> None:
        """End the connection, as what was to happen in time has not."""

    @abstractmethod
    def now(self) -> int:
        """The time in ms."""

    def received(self, data: bytes) -> None:
        """Bytes came; a fault of ours in handling them closes this client only. The caller ends the
        turn (Runtime.end)."""
        self.runtime.broker.counters.bytes_in += len(data)
        try:
            if self.reader is not None or self.mqtt is not None:
                self.frames(data)
            elif self.client is None and not self.closing:  # who reads a stream has said all
                self.requested(data)
        except Exception as error:
            self.failed(error)

    def failed(self, error: Exception) -> None:
        """A fault of ours: the client comes back."""
        log.error("fault while handling %s", self.address, exc_info=error)
        self.close(Close.INTERNAL_ERROR, "internal_error: a fault of the server; reconnect")

    def _mqtt_received(self, mqtt: MqttStream, data: bytes) -> None:
        """Handle bytes of MQTT, or frames that have them in them (5: 6)."""
        reader = self.reader
        if reader is None:
            if not self.closing:
                mqtt.received(data)
            return
        for opcode, payload in reader.feed(data):
            if opcode == CLOSE:
                self.peer_closed(payload)
                return
            if self.closing or opcode == PONG:
                continue
            if opcode == PING:
                mqtt.pong(payload)
            elif opcode == BINARY:
                mqtt.received(payload)
            else:
                self.close(Close.BAD_MESSAGE, "bad_message: MQTT is made of binary frames")
        if reader.error is not None and not self.closing:
            self.close(reader.error.code, f"{reader.error.code.label}: {reader.error.reason}")

    def frames(self, data: bytes) -> None:
        """Frames came, after the request, or packets of MQTT."""
        paused = self.runtime.paused
        if self.mqtt is None:
            assert self.client is not None
            self.client.alive = True
        if self.held or (paused and self in paused):
            self.head += data  # it was on its way when reading stopped
        elif not self.head and len(data) <= PIECE_BYTES:
            self._take(data)
            if self._inflating and not self.held:
                self._wait_in_line()
        elif len(data) >= LARGE_BYTES or self.runtime.scheduler.spent:
            # So much, or so many have filled their sockets that their turns, one after another, would be long.
            self.head += data
            self._wait_for_turn()
        else:
            began = perf_counter()
            self._pieces(self.head + data)
            self.runtime.scheduler.spend(perf_counter() - began)

    def _take(self, data: bytes) -> None:
        """Handle a piece."""
        if self.mqtt is not None:
            self._mqtt_received(self.mqtt, data)
        elif self.reader is not None:
            self._handle(self.reader.feed(data))

    def _pieces(self, data: bytes) -> None:
        """Handle as much as a turn may take; the rest waits for the next one, and nothing more is read meanwhile."""
        self.head = b""
        due = perf_counter() + TURN_SECONDS
        at, end = 0, len(data)
        while at < end and not self.ended:
            self._take(data[at : at + PIECE_BYTES])
            at += PIECE_BYTES
            if self._inflating or (at < end and (self.held or perf_counter() >= due)):
                self.head = data[at:]
                if not self.held and self._inflating:
                    self._wait_in_line()
                elif not self.held:
                    self._wait_for_turn()
                return

    @property
    def _inflating(self) -> bool:
        """Whether a compressed message is not inflated yet."""
        return self.reader is not None and self.reader.inflating

    def wait_for_turn(self) -> None:
        """Read and handle nothing more in this turn."""
        self._wait_for_turn()

    def _wait_for_turn(self) -> None:
        self.hold(PauseReason.TURN, True)
        self.runtime.scheduler.later(self._take_turn)

    def _wait_in_line(self) -> None:
        self.hold(PauseReason.TURN, True)
        self.runtime.scheduler.in_line(self._inflate)

    def _inflate(self) -> bool:
        """A turn at a message of which little may become much; whether it needs another one. Connections have these
        one after the other, so that all that is held of them is one message and what each has sent."""
        self.hold(PauseReason.TURN, False)
        if self.held or self.ended or self.reader is None:
            return False
        due = perf_counter() + TURN_SECONDS
        try:
            events = self.reader.feed(b"")
            while not events and self.reader.inflating:
                if perf_counter() >= due:
                    self.hold(PauseReason.TURN, True)
                    return True
                events = self.reader.feed(b"")
            self._handle(events)
        except Exception as error:
            self.failed(error)
        if self._has_more and not (self.held or self.ended):
            self._wait_for_turn()
        self.runtime.end()
        return False

    def _take_turn(self) -> None:
        self.hold(PauseReason.TURN, False)
        self._go_on()

    def _handle(self, events: list[Event]) -> None:
        reader, client, runtime = self.reader, self.client, self.runtime
        assert client is not None
        moment = self.now()
        due = perf_counter() + TURN_SECONDS if len(events) > 1 else 0.0
        rest = iter(events)
        for opcode, payload in rest:
            if opcode == CLOSE:
                self.peer_closed(payload)
                return
            if self.closing:
                continue
            if opcode == PING and not self.echoing:
                runtime.broker.send(client, encode_frame(PONG, payload))  # with all other answers of this turn
            elif opcode == PING:
                self.write(encode_frame(PONG, payload))
            elif self.echoing:
                if opcode != PONG:
                    self.write(_echo(client, opcode, payload))
            elif opcode == (BINARY if client.form == MSGPACK else TEXT):
                runtime.sessions.receive(client, payload, moment)
                if self.fresh and (client.greeted or self.held) and not self.closing:
                    self.fresh = False
                    runtime.spare(self)
                if due and not self.held and not self.closing and perf_counter() >= due:
                    self._wait_for_turn()
                if self.held:
                    runtime.paused[self] = list(rest)
                    return
            elif opcode == PONG:
                for told in runtime.ponged if payload else ():  # not to the server's own pings, which are empty
                    told(client, payload)
            else:
                wanted = "binary" if client.form == MSGPACK else "text"
                self.close(Close.BAD_MESSAGE, f"bad_message: this subprotocol is made of {wanted} frames")
        if self.session is not None:
            self.session.handled(0)
        elif reader is not None and reader.error is not None and not self.closing:
            self.broken()

    # What is posted to a session over HTTP

    def heard(self) -> None:
        """The client has shown that it lives."""
        if self.client is not None:
            self.client.alive = True

    def posted(self, first: int, frames: list[bytes], done: Done) -> None:
        """The client says these frames over HTTP (edge/runtime/component.py, PostedTo)."""
        session, client, paused = self.session, self.client, self.runtime.paused
        if session is None or client is None or self.closing:
            done(ENDED)
            return
        self.heard()
        waits = self.held or self in paused
        new: list[Event] = [(TEXT, frame) for frame in session.accept(first, frames, bool(waits), done)]
        try:
            if waits:
                session.handled(len(paused.get(self, ())))  # a repetition of what is handled, or waits
            else:
                self._handle(new)
        except Exception as error:
            self.failed(error)

    def hold(self, why: int, held: bool) -> None:
        """Neither read nor handle what was read while there is a reason (core.delivery.client.PauseReason)."""
        if self.ended or (held and self.closing and why != PauseReason.TURN):
            return
        before, self.held = self.held, self.held | why if held else self.held & ~why
        if not before and self.held:
            self.await_readable(False)
        elif before and not self.held and why != PauseReason.TURN and len(self.head) > PIECE_BYTES:
            self.held = PauseReason.TURN  # others may be let go at the same time, with as much
            self.runtime.scheduler.later(self._take_turn)
        elif before and not self.held:
            self.await_readable(True)
            if why == PauseReason.TURN:
                return  # and it goes on at once
            if self._has_more or self in self.runtime.paused or (self.mqtt is not None and self.mqtt.held_back):
                self.runtime.loop.call_soon(self._go_on)

    @property
    def _has_more(self) -> bool:
        """Whether something of what was read waits."""
        return bool(self.head) or self._inflating

    def _go_on(self) -> None:
        """Handle what was read before the hold."""
        if self.ended or self.held:
            return
        try:
            if self.mqtt is not None:
                self.mqtt.go_on()
            events = self.runtime.paused.pop(self, None)
            if events is not None:
                self._handle(events)
            if self.held or self.ended or (self.reader is None and self.mqtt is None):
                pass
            elif self._inflating:
                self._wait_in_line()
            elif self.head:
                self._pieces(self.head)
        except Exception as error:
            self.failed(error)
        self.runtime.end()


def _echo(client: Client, opcode: int, payload: bytes) -> bytes:
    """The payload as it came, compressed as the client wants it."""
    own = client.terms.wire
    return wire_of(JSON if opcode == TEXT else MSGPACK, own.window_bits, own.deflate_bytes).message(payload)
