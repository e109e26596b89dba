"""A subscriber of MQTT 5 with a session that lasts: it acknowledges what it gets in order, and comes back.

It has a thread of its own: a hundred messages are under way to it at most, so that it would get no more than that in
each turn of a loop that has all other subscribers too.
"""

from __future__ import annotations

import asyncio
import random
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from . import mqtt_wire as wire
from .model import Got, Joined, Lost, Noticed, Publication, Trace
from .mqtt_wire import Connection, Packet
from .watcher import CONNECT_SECONDS, PAUSE_SECONDS, SILENCE_SECONDS, now_ms

SUBSCRIBE_ID = 1


class MqttWatcher:
    """Like watcher.Watcher. ``place`` names the sessions that are at an address: those of a process without a journal
    end with it. ``filters`` are what it subscribes to; ``framed``: over a WebSocket of a client port.
    """

    def __init__(
        self,
        name: str,
        addresses: Callable[[], Sequence[str]],
        filters: Sequence[str],
        place: Callable[[str], str],
        *,
        framed: bool = False,
        steady: bool = False,
    ) -> None:
        wanted = frozenset() if any("+" in text for text in filters) else frozenset(filters)
        self.trace = Trace(name, steady=steady, sessions=True, subjects=wanted)
        self.ready = threading.Event()
        self.connected = False
        self.last_ms = 0
        self._addresses = addresses
        self._filters = list(filters)
        self._place = place
        self._framed = framed
        self._subscribed: set[str] = set()
        self._ended: set[str] = set()  # where the session has ended because of a gap, which was told
        self._seen: set[str] = set()
        self._over = threading.Event()
        self._connection: Connection | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Connect, and stay connected."""
        self._thread.start()

    async def stop(self) -> None:
        """Disconnect."""
        self._over.set()
        self.cut()
        if self._thread.ident is not None:
            await asyncio.to_thread(self._thread.join)

    def cut(self) -> None:
        """As in Watcher."""
        connection = self._connection
        if connection is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def has(self, one: Publication) -> bool:
        """Whether it was sent that, if it is to have its subject."""
        wanted = self.trace.subjects
        return one.content in self._seen or (bool(wanted) and one.subject not in wanted)

    def _run(self) -> None:
        index = 0
        while not self._over.is_set():
            addresses = self._addresses()
            try:
                self._serve(addresses[index % len(addresses)])
            except (OSError, EOFError) as error:
                if self.connected and not self._over.is_set():
                    self.trace.events.append(Lost(now_ms(), str(error) or type(error).__name__))
            self.connected = False
            index += 1
            self._over.wait(random.uniform(*PAUSE_SECONDS))

    def _serve(self, address: str) -> None:
        """One connection, until it ends by an OSError or EOFError."""
        place = self._place(address)
        with Connection(address, framed=self._framed, seconds=CONNECT_SECONDS) as connection:
            self._connection = connection
            present, missed = connection.enter(self.trace.name, CONNECT_SECONDS)
            if self._place(address) != place:
                raise OSError("started anew meanwhile")
            if self._over.is_set():
                return
            self.trace.events.append(Joined(now_ms(), place, present, missed or place in self._ended))
            self._ended.discard(place)
            self.connected = True
            if not present or place not in self._subscribed:
                self._subscribed.discard(place)
                connection.send(wire.subscribe(SUBSCRIBE_ID, self._filters))
            self._read(connection, place)

    def _read(self, connection: Connection, place: str) -> None:
        heard = asked = time.monotonic()
        while not self._over.is_set():
            packets = connection.receive(SILENCE_SECONDS / 6)
            now = time.monotonic()
            if packets:
                heard = now
                connection.send(b"".join(self._take(packet, place) for packet in packets))
            elif now - heard > SILENCE_SECONDS:
                raise OSError("silence")
            if now - asked > SILENCE_SECONDS / 3:
                asked = now
                connection.send(wire.PING)

    def _take(self, packet: Packet, place: str) -> bytes:
        """Write down what came; what is to be answered."""
        at = now_ms()
        match packet.type:
            case wire.PUBLISH:
                message = wire.read_message(packet)
                event = Got(at, message.topic, message.payload, message.retained, message.dup, message.packet_id)
                self.trace.events.append(event)
                self._seen.add(message.payload)
                self.last_ms = at
                return wire.puback(message.packet_id) if message.packet_id else b""
            case wire.SUBACK:
                self._subscribed.add(place)
                self.last_ms = at
                if any(code >= wire.REFUSED for code in packet.body[3:]):
                    self.trace.events.append(Noticed(at, f"refused: {packet.body.hex()}"))
                else:
                    self.ready.set()
            case wire.DISCONNECT:
                if packet.missed:
                    self._ended.add(place)
                raise EOFError(f"ended with 0x{packet.code:02X}")
        return b""
