"""Bytes to packets, for both versions: cut out of a stream that comes in any pieces, and read strictly."""

from __future__ import annotations

from collections.abc import Callable, Sized

from .fields import WILL, Body
from .packets import (
    Ack,
    AnyPacket,
    Auth,
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
    Will,
)
from .reasons import V3, V5, MqttError, Reason

_FLAGS: dict[int, int] = {Type.PUBREL: 2, Type.SUBSCRIBE: 2, Type.UNSUBSCRIBE: 2}
_ACKS = frozenset((Type.PUBACK, Type.PUBREC, Type.PUBREL, Type.PUBCOMP))


FILTERS_MAX = 1000
"""Topic filters in one packet."""


_NOTHING = bytearray()
"""Shared by all who wait for nothing; nobody adds to it."""


class Splitter:
    """Cuts a stream of bytes into packets; nothing longer than ``bytes_max`` is ever waited for.

    ``error`` is None until a length is wrong; nothing more is read then.
    """

    __slots__ = ("_buffer", "_wanted", "bytes_max", "error")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.error: MqttError | None = None
        self._buffer = _NOTHING
        self._wanted = 0  # how long the packet at the start of the buffer is, as far as that is known

    @property
    def waits(self) -> int:
        """Number of bytes that are here of a packet that is not whole."""
        return len(self._buffer)

    @property
    def idle(self) -> bool:
        """True if what comes next is the beginning of a packet."""
        return not self._buffer and self.error is None

    def feed(self, data: bytes) -> list[bytes]:
        """Return the packets that are whole now, each from its first byte on."""
        if self.error is not None:
            return []
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._wanted:
                return []
            data = bytes(self._buffer)
        packets: list[bytes] = []
        at, size = 0, len(data)
        self._wanted = 0
        while size - at >= 2:
            try:
                length = self._length(data, at)
            except MqttError as error:
                self.error, at = error, size
                break
            if at + length > size or not length:
                self._wanted = length
                break
            packets.append(data[at : at + length])
            at += length
        self._buffer = bytearray(data[at:]) if at < size else _NOTHING
        return packets

    def _length(self, data: bytes, at: int) -> int:
        """Return how long the packet is that begins there, all in all; 0 while that is not known."""
        remaining, place = data[at + 1] & 0x7F, 1
        while data[at + place] & 0x80:
            place += 1
            if place > 4:
                raise MqttError(Reason.MALFORMED, "the remaining length has over four bytes")
            if at + place >= len(data):
                return 0
            remaining |= (data[at + place] & 0x7F) << 7 * (place - 1)
        if place > 1 and not data[at + place]:
            raise MqttError(Reason.MALFORMED, "the remaining length is longer than it need be")
        length = 1 + place + remaining
        if length > self.bytes_max:
            raise MqttError(Reason.PACKET_TOO_LARGE, f"a packet of over {self.bytes_max} bytes")
        return length


def decode(packet: bytes, level: int) -> AnyPacket:
    """Read one whole packet of that protocol level, which a CONNECT says itself; raise MqttError."""
    kind, flags = packet[0] >> 4, packet[0] & 0x0F
    at = 1
    while packet[at] & 0x80:
        at += 1
    body = Body(packet, at + 1)
    if kind == Type.PUBLISH:
        return _publish(body, flags, level)
    if kind == 0 or (kind == Type.AUTH and level != V5) or flags != _FLAGS.get(kind, 0):
        raise MqttError(Reason.MALFORMED, f"no packet begins with the byte 0x{packet[0]:02X}")
    if kind in _ACKS:
        return _ack(kind, body, level)
    return _DECODERS[kind](body, level)


def _packet_id(body: Body) -> int:
    number = body.two()
    if not number:
        raise MqttError(Reason.PROTOCOL_ERROR, "a packet identifier may not be 0")
    return number


def _topic(text: str) -> str:
    """Return a topic name; raise MqttError where it has a wildcard (4.7.1)."""
    if "+" in text or "#" in text:
        raise MqttError(Reason.TOPIC_INVALID, "a topic name has no wildcards")
    return text


def _publish(body: Body, flags: int, level: int) -> PublishPacket:
    qos = flags >> 1 & 3
    if qos == 3:
        raise MqttError(Reason.MALFORMED, "there is no QoS 3")
    if flags & 8 and not qos:
        raise MqttError(Reason.MALFORMED, "DUP is for QoS 1 and 2")
    topic = _topic(body.text())
    number = _packet_id(body) if qos else 0
    properties = body.properties(Type.PUBLISH) if level == V5 else {}
    if not topic and "topic_alias" not in properties:
        raise MqttError(Reason.PROTOCOL_ERROR, "a topic name has at least one character")
    if properties:
        _topic(properties.get("response_topic", ""))
    payload = body.rest()
    if properties.get("payload_format"):
        _utf8(payload)
    return PublishPacket(
        topic=topic,
        payload=payload,
        qos=qos,
        retain=bool(flags & 1),
        dup=bool(flags & 8),
        packet_id=number,
        properties=properties,
    )


def _utf8(payload: bytes) -> None:
    try:
        payload.decode()
    except UnicodeDecodeError:
        raise MqttError(Reason.PAYLOAD_FORMAT_INVALID, "the payload is not the UTF-8 that it says it is") from None


def _ack(kind: int, body: Body, level: int) -> Ack:
    ack = Ack(type=kind, packet_id=_packet_id(body))
    if level == V5 and body.at < body.end:
        ack.code = body.byte()
        if body.at < body.end:
            ack.properties = body.properties(kind)
    body.over()
    return ack


def _connect(body: Body, level: int) -> ConnectPacket:
    del level
    if body.text() != "MQTT":
        raise MqttError(Reason.UNSUPPORTED_VERSION, "the protocol is called MQTT")
    version = body.byte()
    if version not in (V3, V5):
        raise MqttError(Reason.UNSUPPORTED_VERSION, "the protocol level is 4 (MQTT 3.1.1) or 5")
    flags = body.byte()
    has_will, will_qos = flags & 4, flags >> 3 & 3
    if flags & 1 or will_qos == 3 or (not has_will and flags & 0x38):
        raise MqttError(Reason.MALFORMED, "the flags of CONNECT contradict each other")
    if version == V3 and flags & 0x40 and not flags & 0x80:
        raise MqttError(Reason.MALFORMED, "a password needs a user name in MQTT 3.1.1")
    packet = ConnectPacket(level=version, client_id="", clean=bool(flags & 2), keep_alive=body.two())
    if version == V5:
        packet.properties = body.properties(Type.CONNECT)
        if "authentication_data" in packet.properties and "authentication_method" not in packet.properties:
            raise MqttError(Reason.PROTOCOL_ERROR, "authentication data without a method")
    packet.client_id = body.text()
    if has_will:
        properties = body.properties(WILL) if version == V5 else {}
        topic = _topic(body.text())
        _topic(properties.get("response_topic", ""))
        if not topic:
            raise MqttError(Reason.TOPIC_INVALID, "the will's topic has no characters")
        payload = body.binary()
        if properties.get("payload_format"):
            _utf8(payload)
        retain = bool(flags & 0x20)
        packet.will = Will(topic=topic, payload=payload, qos=will_qos, retain=retain, properties=properties)
    if flags & 0x80:
        packet.user = body.text()
    if flags & 0x40:
        packet.password = body.binary()
    body.over()
    return packet


def _connack(body: Body, level: int) -> Connack:
    flags = body.byte()
    if flags > 1:
        raise MqttError(Reason.MALFORMED, "the flags of CONNACK are reserved")
    packet = Connack(session_present=bool(flags), code=body.byte())
    if level == V5:
        packet.properties = body.properties(Type.CONNACK)
    body.over()
    return packet


def _subscribe(body: Body, level: int) -> SubscribePacket:
    packet = SubscribePacket(packet_id=_packet_id(body), filters=[])
    if level == V5:
        packet.properties = body.properties(Type.SUBSCRIBE)
    while body.at < body.end:
        text, options = body.text(), body.byte()
        one = Filter(text=text, qos=options & 3)
        if level == V5:
            one.no_local, one.as_published, one.handling = bool(options & 4), bool(options & 8), options >> 4 & 3
        if one.qos == 3 or options & (0xC0 if level == V5 else 0xFC) or one.handling == 3:
            raise MqttError(Reason.MALFORMED, "the options of a topic filter are reserved")
        packet.filters.append(one)
        _check_count(packet.filters)
    if not packet.filters:
        raise MqttError(Reason.PROTOCOL_ERROR, "SUBSCRIBE without a topic filter")
    return packet


def _check_count(filters: Sized) -> None:
    if len(filters) > FILTERS_MAX:
        raise MqttError(Reason.QUOTA_EXCEEDED, f"a packet has at most {FILTERS_MAX} topic filters")


def _suback(body: Body, level: int) -> Suback:
    packet = Suback(packet_id=_packet_id(body), codes=[])
    if level == V5:
        packet.properties = body.properties(Type.SUBACK)
    packet.codes = list(body.rest())
    return packet


def _unsubscribe(body: Body, level: int) -> UnsubscribePacket:
    packet = UnsubscribePacket(packet_id=_packet_id(body), filters=[])
    if level == V5:
        packet.properties = body.properties(Type.UNSUBSCRIBE)
    while body.at < body.end:
        packet.filters.append(body.text())
        _check_count(packet.filters)
    if not packet.filters:
        raise MqttError(Reason.PROTOCOL_ERROR, "UNSUBSCRIBE without a topic filter")
    return packet


def _unsuback(body: Body, level: int) -> Unsuback:
    packet = Unsuback(packet_id=_packet_id(body), codes=[])
    if level == V5:
        packet.properties = body.properties(Type.UNSUBACK)
        packet.codes = list(body.rest())
    body.over()
    return packet


def _pingreq(body: Body, level: int) -> Pingreq:
    del level
    body.over()
    return Pingreq()


def _pingresp(body: Body, level: int) -> Pingresp:
    del level
    body.over()
    return Pingresp()


def _disconnect(body: Body, level: int) -> Disconnect:
    packet = Disconnect()
    if level == V5 and body.at < body.end:
        packet.code = body.byte()
        if body.at < body.end:
            packet.properties = body.properties(Type.DISCONNECT)
    body.over()
    return packet


def _auth(body: Body, level: int) -> Auth:
    del level
    packet = Auth()
    if body.at < body.end:
        packet.code = body.byte()
        packet.properties = body.properties(Type.AUTH)
    body.over()
    return packet


_DECODERS: dict[int, Callable[[Body, int], AnyPacket]] = {
    Type.CONNECT: _connect,
    Type.CONNACK: _connack,
    Type.SUBSCRIBE: _subscribe,
    Type.SUBACK: _suback,
    Type.UNSUBSCRIBE: _unsubscribe,
    Type.UNSUBACK: _unsuback,
    Type.PINGREQ: _pingreq,
    Type.PINGRESP: _pingresp,
    Type.DISCONNECT: _disconnect,
    Type.AUTH: _auth,
}
