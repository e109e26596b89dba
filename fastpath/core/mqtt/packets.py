"""The control packets of MQTT 3.1.1 and 5, as values (3.1.1: chapter 3; 5: chapter 3)."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from msgspec import Struct, field

Properties = dict[str, Any]
"""The properties of a packet of MQTT 5 by their names; ``user_property`` is a list of pairs, and
``subscription_identifier`` of a PUBLISH a list. Empty for MQTT 3.1.1."""

NONE: Properties = {}
"""No properties: it is shared, and nobody changes it."""


class Type(IntEnum):
    """The types of packets (2.1.2)."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


class Will(Struct, kw_only=True):
    """The message that is published when the client is lost (3.1.2.5)."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = field(default_factory=dict)


class ConnectPacket(Struct, kw_only=True):
    """3.1; ``level`` is 4 or 5."""

    level: int
    client_id: str
    clean: bool = True
    keep_alive: int = 0
    user: str | None = None
    password: bytes | None = None
    will: Will | None = None
    properties: Properties = field(default_factory=dict)


class Connack(Struct, kw_only=True):
    """3.2; ``code`` is a reason code, of MQTT 3.1.1 a return code."""

    code: int
    session_present: bool = False
    properties: Properties = field(default_factory=dict)


class PublishPacket(Struct, kw_only=True):
    """3.3; ``packet_id`` is 0 with QoS 0."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0
    properties: Properties = field(default_factory=dict)


class Ack(Struct, kw_only=True):
    """PUBACK, PUBREC, PUBREL or PUBCOMP (3.4 to 3.7), by its ``type``."""

    type: int
    packet_id: int
    code: int = 0
    properties: Properties = field(default_factory=dict)


class Filter(Struct, kw_only=True):
    """A topic filter with its options (3.8.3.1)."""

    text: str
    qos: int = 0
    no_local: bool = False
    as_published: bool = False
    handling: int = 0


class SubscribePacket(Struct, kw_only=True):
    """3.8."""

    packet_id: int
    filters: list[Filter]
    properties: Properties = field(default_factory=dict)


class Suback(Struct, kw_only=True):
    """3.9."""

    packet_id: int
    codes: list[int]
    properties: Properties = field(default_factory=dict)


class UnsubscribePacket(Struct, kw_only=True):
    """3.10."""

    packet_id: int
    filters: list[str]
    properties: Properties = field(default_factory=dict)


class Unsuback(Struct, kw_only=True):
    """3.11; MQTT 3.1.1 has no codes."""

    packet_id: int
    codes: list[int]
    properties: Properties = field(default_factory=dict)


class Pingreq(Struct):
    """3.12."""


class Pingresp(Struct):
    """3.13."""


class Disconnect(Struct, kw_only=True):
    """3.14; MQTT 3.1.1 has no code."""

    code: int = 0
    properties: Properties = field(default_factory=dict)


class Auth(Struct, kw_only=True):
    """3.15, of MQTT 5 alone."""

    code: int = 0
    properties: Properties = field(default_factory=dict)


AnyPacket = (
    ConnectPacket
    | Connack
    | PublishPacket
    | Ack
    | SubscribePacket
    | Suback
    | UnsubscribePacket
    | Unsuback
    | Pingreq
    | Pingresp
    | Disconnect
    | Auth
)
