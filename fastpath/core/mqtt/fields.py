"""The fields that packets are made of: integers, texts, binary data and properties, there and back (1.5, 2.2.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .packets import Properties, Type
from .reasons import MqttError, Reason

VARIABLE_MAX = 268_435_455
"""The largest variable byte integer (1.5.5), and so the largest remaining length."""

LENGTH_MAX = 65_535
"""Bytes of a text or of binary data at most."""

PAIRS_MAX = 1000
"""Properties of a packet that may come more than once."""

WILL = 0
"""Stands for the will among the types of packets that a property may be in."""


class Body:
    """Reads the fields of one packet's body, one after another; raises MqttError where there are none."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at
        self.end = len(data)

    def take(self, count: int) -> bytes:
        """Take so many bytes."""
        at = self.at
        if at + count > self.end:
            raise MqttError(Reason.MALFORMED, "a field goes beyond the end of its packet")
        self.at = at + count
        return self.data[at : at + count]

    def byte(self) -> int:
        """Read one byte."""
        return self.take(1)[0]

    def two(self) -> int:
        """Read a two byte integer."""
        return int.from_bytes(self.take(2))

    def four(self) -> int:
        """Read a four byte integer."""
        return int.from_bytes(self.take(4))

    def variable(self) -> int:
        """Read a variable byte integer, as short as it can be."""
        value = 0
        for place in range(4):
            byte = self.byte()
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                if place and not byte:
                    raise MqttError(Reason.MALFORMED, "a variable byte integer is longer than it need be")
                return value
        raise MqttError(Reason.MALFORMED, "a variable byte integer of over four bytes")

    def binary(self) -> bytes:
        """Read binary data, with its length before it."""
        return self.take(self.two())

    def text(self) -> str:
        """Read a UTF-8 text without the null character and surrogates (1.5.4)."""
        raw = self.binary()
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            raise MqttError(Reason.MALFORMED, "a text is not UTF-8") from None
        if "\0" in text:
            raise MqttError(Reason.MALFORMED, "a text has a null character in it")
        return text

    def pair(self) -> tuple[str, str]:
        """Read a pair of texts."""
        return self.text(), self.text()

    def rest(self) -> bytes:
        """Take all that is left."""
        at, self.at = self.at, self.end
        return self.data[at:]

    def over(self) -> None:
        """Check that the packet ends here; raise MqttError."""
        if self.at != self.end:
            raise MqttError(Reason.MALFORMED, "a packet has more in it than it may")

    def properties(self, of: int) -> Properties:
        """Read the properties of a packet of that type, or of the will."""
        length = self.variable()
        if not length:
            return {}
        end = self.at + length
        if end > self.end:
            raise MqttError(Reason.MALFORMED, "the properties go beyond the end of their packet")
        found: Properties = {}
        whole, self.end = self.end, end
        while self.at < end:
            self._property(of, found)
        self.end = whole
        return found

    def _property(self, of: int, found: Properties) -> None:
        number = self.variable()
        kind = _BY_NUMBER.get(number)
        if kind is None or of not in kind.packets:
            raise MqttError(Reason.MALFORMED, f"property {number} is unknown, or of another packet")
        value = kind.read(self)
        name = kind.name
        if name == "user_property" or (name == "subscription_identifier" and of == Type.PUBLISH):
            values = found.setdefault(name, [])
            values.append(value)
            if len(values) > PAIRS_MAX:
                raise MqttError(Reason.QUOTA_EXCEEDED, f"over {PAIRS_MAX} times the property {name}")
        elif name in found:
            raise MqttError(Reason.PROTOCOL_ERROR, f"the property {name} came twice")
        else:
            found[name] = value
        least, most = kind.bounds
        if isinstance(value, int) and not least <= value <= most:
            raise MqttError(Reason.PROTOCOL_ERROR, f"the property {name} may not be {value}")


def two(value: int) -> bytes:
    """Write a two byte integer."""
    return value.to_bytes(2)


def four(value: int) -> bytes:
    """Write a four byte integer."""
    return value.to_bytes(4)


def variable(value: int) -> bytes:
    """Write a variable byte integer; raise ValueError beyond its bound."""
    if value < 0x80:
        return bytes((value,))
    if value > VARIABLE_MAX:
        raise ValueError(f"{value} is over {VARIABLE_MAX}")
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        out.append(low | 0x80 if value else low)
        if not value:
            return bytes(out)


def binary(value: bytes) -> bytes:
    """Write binary data, with its length before it; raise ValueError beyond its bound."""
    if len(value) > LENGTH_MAX:
        raise ValueError(f"{len(value)} bytes are over {LENGTH_MAX}")
    return len(value).to_bytes(2) + value


def text(value: str) -> bytes:
    """Write a UTF-8 text."""
    return binary(value.encode())


def pair(value: tuple[str, str]) -> bytes:
    """Write a pair of texts."""
    return text(value[0]) + text(value[1])


def properties(values: Properties) -> bytes:
    """Write properties, with their length before them."""
    if not values:
        return b"\0"
    parts: list[bytes] = []
    for name, value in values.items():
        kind = _BY_NAME[name]
        for one in value if isinstance(value, list) else (value,):
            parts += (bytes((kind.number,)), kind.write(one))
    data = b"".join(parts)
    return variable(len(data)) + data


class _Kind(NamedTuple):
    """A property: where it may be, how it is read and written, and what an integer may be."""

    number: int
    name: str
    packets: frozenset[int]
    read: Callable[[Body], Any]
    write: Callable[[Any], bytes]
    bounds: tuple[int, int] = (0, 1 << 32)


def _byte(value: int) -> bytes:
    return bytes((value,))


_BYTE = (Body.byte, _byte)
_TWO = (Body.two, two)
_FOUR = (Body.four, four)
_VARIABLE = (Body.variable, variable)
_BINARY = (Body.binary, binary)
_TEXT = (Body.text, text)
_PAIR = (Body.pair, pair)
_BIT = (0, 1)
_POSITIVE = (1, 1 << 32)

_ACKS = (Type.PUBACK, Type.PUBREC, Type.PUBREL, Type.PUBCOMP, Type.SUBACK, Type.UNSUBACK)
_ALL = (Type.CONNECT, Type.CONNACK, Type.PUBLISH, WILL, Type.SUBSCRIBE, Type.UNSUBSCRIBE, *_ACKS)
_TABLE: tuple[tuple[Any, ...], ...] = (
    # 2.2.2.2: number, name, packets, type, and the bounds of some
    (0x01, "payload_format", (Type.PUBLISH, WILL), _BYTE, _BIT),
    (0x02, "message_expiry", (Type.PUBLISH, WILL), _FOUR),
    (0x03, "content_type", (Type.PUBLISH, WILL), _TEXT),
    (0x08, "response_topic", (Type.PUBLISH, WILL), _TEXT),
    (0x09, "correlation_data", (Type.PUBLISH, WILL), _BINARY),
    (0x0B, "subscription_identifier", (Type.PUBLISH, Type.SUBSCRIBE), _VARIABLE, _POSITIVE),
    (0x11, "session_expiry", (Type.CONNECT, Type.CONNACK, Type.DISCONNECT), _FOUR),
    (0x12, "assigned_client_id", (Type.CONNACK,), _TEXT),
    (0x13, "server_keep_alive", (Type.CONNACK,), _TWO),
    (0x15, "authentication_method", (Type.CONNECT, Type.CONNACK, Type.AUTH), _TEXT),
    (0x16, "authentication_data", (Type.CONNECT, Type.CONNACK, Type.AUTH), _BINARY),
    (0x17, "request_problem_information", (Type.CONNECT,), _BYTE, _BIT),
    (0x18, "will_delay", (WILL,), _FOUR),
    (0x19, "request_response_information", (Type.CONNECT,), _BYTE, _BIT),
    (0x1A, "response_information", (Type.CONNACK,), _TEXT),
    (0x1C, "server_reference", (Type.CONNACK, Type.DISCONNECT), _TEXT),
    (0x1F, "reason_string", (Type.CONNACK, *_ACKS, Type.DISCONNECT, Type.AUTH), _TEXT),
    (0x21, "receive_maximum", (Type.CONNECT, Type.CONNACK), _TWO, _POSITIVE),
    (0x22, "topic_alias_maximum", (Type.CONNECT, Type.CONNACK), _TWO),
    (0x23, "topic_alias", (Type.PUBLISH,), _TWO),
    (0x24, "maximum_qos", (Type.CONNACK,), _BYTE, _BIT),
    (0x25, "retain_available", (Type.CONNACK,), _BYTE, _BIT),
    (0x26, "user_property", (*_ALL, Type.DISCONNECT, Type.AUTH), _PAIR),
    (0x27, "maximum_packet_size", (Type.CONNECT, Type.CONNACK), _FOUR, _POSITIVE),
    (0x28, "wildcard_available", (Type.CONNACK,), _BYTE, _BIT),
    (0x29, "identifiers_available", (Type.CONNACK,), _BYTE, _BIT),
    (0x2A, "shared_available", (Type.CONNACK,), _BYTE, _BIT),
)

_BY_NUMBER = {
    row[0]: _Kind(row[0], row[1], frozenset(map(int, row[2])), row[3][0], row[3][1], *row[4:]) for row in _TABLE
}
_BY_NAME = {kind.name: kind for kind in _BY_NUMBER.values()}
