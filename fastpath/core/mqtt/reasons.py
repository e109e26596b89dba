"""Reason codes of MQTT (5: 2.4), the error that ends a connection, and what the codes of protocol.md mean in them."""

from __future__ import annotations

from enum import IntEnum

from ..protocol.errors import Close, FastpathError
from .packets import Type

V3, V5 = 4, 5
"""The protocol levels of MQTT 3.1.1 and of MQTT 5."""


class Reason(IntEnum):
    """The reason codes that are used here."""

    SUCCESS = 0x00
    DISCONNECT_WITH_WILL = 0x04
    NO_SUBSCRIPTION_EXISTED = 0x11
    UNSPECIFIED = 0x80
    MALFORMED = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC = 0x83
    UNSUPPORTED_VERSION = 0x84
    CLIENT_ID_NOT_VALID = 0x85
    BAD_USER_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    TAKEN_OVER = 0x8E
    FILTER_INVALID = 0x8F
    TOPIC_INVALID = 0x90
    PACKET_ID_IN_USE = 0x91
    PACKET_ID_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    USE_ANOTHER_SERVER = 0x9C
    SHARED_NOT_SUPPORTED = 0x9E


class MqttError(FastpathError):
    """A fault of the peer that ends the connection, with this reason code; the text says what is wrong."""

    def __init__(self, code: Reason, text: str) -> None:
        super().__init__(f"0x{code:02X}: {text}")
        self.code = code
        self.text = text


_OF_CLOSE = {
    Close.NORMAL: Reason.SUCCESS,
    Close.GOING_AWAY: Reason.SHUTTING_DOWN,
    Close.PROTOCOL_ERROR: Reason.PROTOCOL_ERROR,
    Close.INVALID_DATA: Reason.MALFORMED,
    Close.TOO_BIG: Reason.PACKET_TOO_LARGE,
    Close.DRAIN: Reason.USE_ANOTHER_SERVER,
    Close.SLOW_CONSUMER: Reason.QUOTA_EXCEEDED,
    Close.PING_TIMEOUT: Reason.KEEP_ALIVE_TIMEOUT,
    Close.INTERNAL_ERROR: Reason.IMPLEMENTATION_SPECIFIC,
    Close.HANDSHAKE_TIMEOUT: Reason.SERVER_UNAVAILABLE,
    Close.NOT_READY: Reason.SERVER_UNAVAILABLE,
    Close.OVERLOADED: Reason.SERVER_BUSY,
    Close.TOKEN_EXPIRED: Reason.NOT_AUTHORIZED,
    Close.BAD_MESSAGE: Reason.PROTOCOL_ERROR,
    Close.BAD_TOKEN: Reason.BAD_USER_OR_PASSWORD,
    Close.REVOKED: Reason.NOT_AUTHORIZED,
    Close.DENIED: Reason.NOT_AUTHORIZED,
    Close.BAD_VERSION: Reason.UNSUPPORTED_VERSION,
    Close.TOO_MANY_ERRORS: Reason.MESSAGE_RATE_TOO_HIGH,
    Close.CLOSED_BY_OPERATOR: Reason.ADMINISTRATIVE_ACTION,
    Close.IDLE: Reason.ADMINISTRATIVE_ACTION,
}

_OF_REFUSAL = {
    "denied": Reason.NOT_AUTHORIZED,
    "invalid": Reason.TOPIC_INVALID,
    "too_large": Reason.PACKET_TOO_LARGE,
    "limit": Reason.QUOTA_EXCEEDED,
    "overloaded": Reason.QUOTA_EXCEEDED,
}

_OF_SUBSCRIPTION = {
    # 0x80 in both versions, whose name is "failure" and "unspecified error": the public suite of MQTT 5 wants it.
    "denied": Reason.UNSPECIFIED,
    "invalid": Reason.FILTER_INVALID,
    "limit": Reason.QUOTA_EXCEEDED,
}

_CONNACK_V3 = {
    Reason.SUCCESS: 0,
    Reason.UNSUPPORTED_VERSION: 1,
    Reason.CLIENT_ID_NOT_VALID: 2,
    Reason.BAD_USER_OR_PASSWORD: 4,
    Reason.NOT_AUTHORIZED: 5,
}


_ALLOWED: dict[int, tuple[int, ...]] = {
    Type.CONNACK: (*range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F),
    Type.PUBACK: (0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99),
    Type.PUBREC: (0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99),
    Type.SUBACK: (0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2),
    Type.DISCONNECT: (0x00, *range(0x80, 0x84), 0x87, 0x89, 0x8B, *range(0x8D, 0x91), *range(0x93, 0xA3)),
}
"""The reason codes that a packet of the server may have, of a type where it may not have each (5: 3.2.2.2, 3.4.2.1,
3.5.2.1, 3.9.3, 3.14.2.1)."""

_NEAREST: dict[tuple[int, Reason], Reason] = {
    (Type.CONNACK, Reason.SHUTTING_DOWN): Reason.SERVER_UNAVAILABLE,
    (Type.CONNACK, Reason.TAKEN_OVER): Reason.SERVER_BUSY,
    (Type.CONNACK, Reason.KEEP_ALIVE_TIMEOUT): Reason.SERVER_BUSY,
    (Type.CONNACK, Reason.ADMINISTRATIVE_ACTION): Reason.NOT_AUTHORIZED,
    (Type.DISCONNECT, Reason.SERVER_UNAVAILABLE): Reason.SERVER_BUSY,
    (Type.DISCONNECT, Reason.BAD_USER_OR_PASSWORD): Reason.NOT_AUTHORIZED,
    (Type.DISCONNECT, Reason.UNSUPPORTED_VERSION): Reason.PROTOCOL_ERROR,
    (Type.PUBACK, Reason.PACKET_TOO_LARGE): Reason.IMPLEMENTATION_SPECIFIC,
    (Type.PUBREC, Reason.PACKET_TOO_LARGE): Reason.IMPLEMENTATION_SPECIFIC,
}


def allowed_reason(kind: int, reason: Reason) -> Reason:
    """Return the reason as a packet of that type may say it; the nearest that it may, if it is another."""
    if reason in _ALLOWED.get(kind, (reason,)):
        return reason
    return _NEAREST.get((kind, reason), Reason.UNSPECIFIED)


_FAULTS = frozenset(
    (
        Reason.MALFORMED,
        Reason.PROTOCOL_ERROR,
        Reason.TOPIC_INVALID,
        Reason.PACKET_TOO_LARGE,
        Reason.PAYLOAD_FORMAT_INVALID,
    )
)


def reason_of_close(code: int) -> Reason:
    """Return the reason code that stands for a close code of protocol.md 7."""
    return _OF_CLOSE.get(code, Reason.UNSPECIFIED)  # type: ignore[call-overload, no-any-return]


def reason_of_refusal(code: str) -> Reason:
    """Return the reason code of a publication that was refused with a code of protocol.md 4.4."""
    return _OF_REFUSAL.get(code, Reason.IMPLEMENTATION_SPECIFIC)


def reason_of_subscription(error: str) -> Reason:
    """Return the reason code of a subscription that was refused with an error of protocol.md 4.2."""
    return _OF_SUBSCRIPTION.get(error, Reason.UNSPECIFIED)


def return_code(code: Reason) -> int:
    """Return the code of MQTT 3.1.1's CONNACK (3.2.2.3) for a reason; 3, "unavailable", for what that version has not
    and is no fault of the client's; 0 for faults, of which no CONNACK tells (3.1.4-1, 3.2.2-6)."""
    return 0 if code in _FAULTS else _CONNACK_V3.get(code, 3)
