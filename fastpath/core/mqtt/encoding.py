"""Packets to bytes, for both versions."""

from __future__ import annotations

from . import fields
from .packets import (
    NONE,
    Ack,
    AnyPacket,
    Auth,
    Connack,
    ConnectPacket,
    Disconnect,
    Pingreq,
    Properties,
    PublishPacket,
    Suback,
    SubscribePacket,
    Type,
    Unsuback,
    UnsubscribePacket,
)
from .reasons import V5

PINGREQ, PINGRESP = b"\xc0\0", b"\xd0\0"


def encode(packet: AnyPacket, level: int) -> bytes:
    """Return a packet as bytes of that protocol level (4 or 5); raise ValueError for what has no form."""
    match packet:
        case PublishPacket():
            return encode_publish(packet, level)
        case Ack():
            return encode_ack(packet.type, packet.packet_id, level, packet.code, packet.properties)
        case ConnectPacket():
            return _framed(Type.CONNECT, 0, _connect(packet))
        case Connack():
            body = bytes((packet.session_present, packet.code)) + _properties(packet.properties, level)
            return _framed(Type.CONNACK, 0, body)
        case SubscribePacket():
            return _framed(Type.SUBSCRIBE, 2, _subscribe(packet, level))
        case Suback():
            head = fields.two(packet.packet_id) + _properties(packet.properties, level)
            return _framed(Type.SUBACK, 0, head + bytes(packet.codes))
        case UnsubscribePacket():
            head = fields.two(packet.packet_id) + _properties(packet.properties, level)
            return _framed(Type.UNSUBSCRIBE, 2, head + b"".join(map(fields.text, packet.filters)))
        case Unsuback():
            head = fields.two(packet.packet_id) + _properties(packet.properties, level)
            return _framed(Type.UNSUBACK, 0, head + (bytes(packet.codes) if level == V5 else b""))
        case Disconnect():
            return _framed(Type.DISCONNECT, 0, _coded(packet.code, packet.properties) if level == V5 else b"")
        case Auth():
            # 3.15.2.2.1: the length of the properties may be left out only together with the code.
            return _framed(Type.AUTH, 0, _coded(packet.code, packet.properties) + b"\0" * _bare(packet))
    return PINGREQ if isinstance(packet, Pingreq) else PINGRESP


def encode_publish(packet: PublishPacket, level: int) -> bytes:
    """Return a PUBLISH as bytes (3.3)."""
    flags = packet.dup << 3 | packet.qos << 1 | packet.retain
    number = fields.two(packet.packet_id) if packet.qos else b""
    body = fields.text(packet.topic) + number + _properties(packet.properties, level) + packet.payload
    return _framed(Type.PUBLISH, flags, body)


def encode_ack(kind: int, packet_id: int, level: int, code: int = 0, properties: Properties = NONE) -> bytes:
    """Return a PUBACK, PUBREC, PUBREL or PUBCOMP as bytes, as short as it can be (3.4 to 3.7)."""
    flags = 2 if kind == Type.PUBREL else 0
    if level != V5 or not (code or properties):
        return bytes((kind << 4 | flags, 2)) + packet_id.to_bytes(2)
    return _framed(kind, flags, fields.two(packet_id) + _coded(code, properties))


def _framed(kind: int, flags: int, body: bytes) -> bytes:
    return bytes((kind << 4 | flags,)) + fields.variable(len(body)) + body


def _properties(values: Properties, level: int) -> bytes:
    return fields.properties(values) if level == V5 else b""


def _coded(code: int, properties: Properties) -> bytes:
    """Return a reason code and properties as bytes, of which nothing stands for "success, and none"."""
    if properties:
        return bytes((code,)) + fields.properties(properties)
    return bytes((code,)) if code else b""


def _bare(packet: Auth) -> bool:
    return bool(packet.code and not packet.properties)


def _connect(packet: ConnectPacket) -> bytes:
    will = packet.will
    flags = packet.clean << 1 | (packet.password is not None) << 6 | (packet.user is not None) << 7
    if will is not None:
        flags |= 4 | will.qos << 3 | will.retain << 5
    parts = [b"\0\4MQTT", bytes((packet.level, flags)), fields.two(packet.keep_alive)]
    parts += [_properties(packet.properties, packet.level), fields.text(packet.client_id)]
    if will is not None:
        parts += [_properties(will.properties, packet.level), fields.text(will.topic), fields.binary(will.payload)]
    if packet.user is not None:
        parts.append(fields.text(packet.user))
    if packet.password is not None:
        parts.append(fields.binary(packet.password))
    return b"".join(parts)


def _subscribe(packet: SubscribePacket, level: int) -> bytes:
    parts = [fields.two(packet.packet_id), _properties(packet.properties, level)]
    for one in packet.filters:
        options = one.qos
        if level == V5:
            options |= one.no_local << 2 | one.as_published << 3 | one.handling << 4
        parts += [fields.text(one.text), bytes((options,))]
    return b"".join(parts)
