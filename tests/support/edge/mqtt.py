"""A raw peer that speaks MQTT over TCP, TLS or a WebSocket, and may break it on purpose."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Self, TypeVar

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as websocket_to
from websockets.typing import Subprotocol

from fastpath.client.control.client import Control
from fastpath.core.mqtt.decoding import Splitter, decode
from fastpath.core.mqtt.encoding import encode
from fastpath.core.mqtt.packets import (
    Ack,
    AnyPacket,
    Connack,
    ConnectPacket,
    Disconnect,
    Filter,
    Pingreq,
    Pingresp,
    PublishPacket,
    Suback,
    SubscribePacket,
    Type,
    Unsuback,
    UnsubscribePacket,
)
from fastpath.core.mqtt.reasons import V5
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until

LISTEN = "clients://127.0.0.1:0,publishers://127.0.0.1:0,mqtt://127.0.0.1:0"

P = TypeVar("P")


class MqttPeer:
    """A connection to ``address``; with ``websocket`` to ``/mqtt`` of a client port."""

    def __init__(
        self,
        address: str,
        level: int = V5,
        *,
        websocket: bool = False,
        tls: ssl.SSLContext | None = None,
        first: bytes = b"",
        receive_bytes: int = 0,
    ) -> None:
        host, _, port = address.rpartition(":")
        self.level = level
        self._stack = ExitStack()
        self.sock: socket.socket = socket.socket()
        if receive_bytes:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.sock.settimeout(PATIENCE_SECONDS)
        try:
            self.sock.connect((host, int(port)))
        except OSError:
            self.sock.close()
            raise
        self.sock.sendall(first)
        if tls is not None:
            self.sock = tls.wrap_socket(self.sock, server_hostname="localhost")
        self._websocket: ClientConnection | None = None
        if websocket:
            try:
                opening = websocket_to(f"ws://{address}/mqtt", sock=self.sock, subprotocols=[Subprotocol("mqtt")])
            except BaseException:
                self.sock.close()
                raise
            self._websocket = self._stack.enter_context(opening)
            assert self._websocket.subprotocol == "mqtt"
        self._splitter = Splitter(1 << 24)
        self.packets: list[AnyPacket] = []
        self.ids = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()
        self._stack.close()

    def send(self, packet: AnyPacket) -> None:
        """Send a packet."""
        self.send_bytes(encode(packet, self.level))

    def send_bytes(self, data: bytes) -> None:
        """Send any bytes, as a message of a WebSocket if it is one."""
        if self._websocket is not None:
            self._websocket.send(data)
        else:
            self.sock.sendall(data)

    def receive(self, kind: type[P]) -> P:
        """The next packet of that kind; those before it are kept for later."""
        while True:
            for at, packet in enumerate(self.packets):
                if isinstance(packet, kind):
                    return self.packets.pop(at)  # type: ignore[return-value]
            if not self._read():
                raise AssertionError(f"the server ended the connection before a {kind.__name__}; {self.packets}")

    def _read(self) -> bool:
        if self._websocket is not None:
            try:
                message = self._websocket.recv(PATIENCE_SECONDS)
            except ConnectionClosed:
                return False
            assert isinstance(message, bytes)
            data = message
        else:
            data = self.sock.recv(65536)
        self.packets += [decode(one, self.level) for one in self._splitter.feed(data)]
        return bool(data)

    def ended(self) -> list[AnyPacket]:
        """All that comes until the server ends the connection."""
        try:
            while self._read():
                pass
        except ConnectionResetError:
            pass
        packets, self.packets = self.packets, []
        return packets

    def connect(self, client_id: str = "", *, clean: bool = True, **rest: Any) -> Connack:
        """Say CONNECT; what the server answers."""
        self.send(ConnectPacket(level=self.level, client_id=client_id, clean=clean, **rest))
        return self.receive(Connack)

    def subscribe(self, *filters: Filter | str, qos: int = 1, **properties: Any) -> list[int]:
        """Subscribe to filters; the codes."""
        self.ids += 1
        wanted = [Filter(text=one, qos=qos) if isinstance(one, str) else one for one in filters]
        self.send(SubscribePacket(packet_id=self.ids, filters=wanted, properties=properties))
        answer = self.receive(Suback)
        assert answer.packet_id == self.ids
        return answer.codes

    def unsubscribe(self, *filters: str) -> list[int]:
        """Unsubscribe from filters; the codes."""
        self.ids += 1
        self.send(UnsubscribePacket(packet_id=self.ids, filters=list(filters)))
        return self.receive(Unsuback).codes

    def publish(self, topic: str, payload: bytes | str, qos: int = 1, **rest: Any) -> int:
        """Publish; with QoS 1 and 2 the code of the acknowledgement."""
        self.ids += 1
        data = payload.encode() if isinstance(payload, str) else payload
        number = rest.pop("packet_id", self.ids) if qos else 0
        self.send(PublishPacket(topic=topic, payload=data, qos=qos, packet_id=number, **rest))
        return self.receive(Ack).code if qos else 0

    def message(self, *, acknowledge: bool = True) -> PublishPacket:
        """The next message."""
        found = self.receive(PublishPacket)
        if found.qos and acknowledge:
            self.send(Ack(type=Type.PUBACK, packet_id=found.packet_id))
        return found

    def messages(self, count: int) -> list[tuple[str, bytes, int, bool]]:
        """The next messages: topic, payload, QoS, retained."""
        found = [self.message() for _ in range(count)]
        return [(one.topic, one.payload, one.qos, one.retain) for one in found]

    def silent(self) -> bool:
        """Whether nothing but the answer to a ping comes."""
        self.send(Pingreq())
        self.receive(Pingresp)
        return not [one for one in self.packets if isinstance(one, PublishPacket)]

    def disconnect(self, **rest: Any) -> None:
        """Say goodbye, and wait for the end."""
        self.send(Disconnect(**rest))
        self.ended()


@contextmanager
def mqtt(sidecar: Sidecar, client_id: str = "", level: int = V5, **connect: Any) -> Iterator[MqttPeer]:
    """A client that is connected."""
    with MqttPeer(sidecar.ready["mqtt"][0], level) as peer:
        assert peer.connect(client_id, **connect).code == 0
        yield peer


def worker_of(sidecar: Sidecar, client_id: str) -> int:
    """The worker that has the client."""

    def found() -> list[int]:
        after, rows = "", []
        with Control(sidecar.control) as control:
            while True:
                page = control.clients(after=after, limit=200)
                rows += page["clients"]
                if not page.get("more"):
                    return [int(one["worker"]) for one in rows if one["program"].split(" ")[-1] == client_id]
                after = rows[-1]["connection"]

    return until(found)[0]


def kept(sidecar: Sidecar, count: int) -> None:
    """Wait until so many sessions are in the files, with all that has changed so far."""

    def written() -> bool:
        with Control(sidecar.control) as control:
            stats = control.stats()
        return stats["mqtt_sessions_kept"] == count and not stats["mqtt_sessions_unsaved"]

    until(written)


def taken(peer: MqttPeer, *, acknowledge: bool = True) -> list[tuple[str, int]]:
    """What the client has been sent by now: topic and number."""
    peer.silent()
    found = [one for one in peer.packets if isinstance(one, PublishPacket)]
    for one in found:
        peer.packets.remove(one)
        if one.qos and acknowledge:
            peer.send(Ack(type=Type.PUBACK, packet_id=one.packet_id))
    return [(one.topic, int(one.payload)) for one in found]
