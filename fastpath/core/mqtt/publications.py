"""A PUBLISH as a publication and a message as a PUBLISH: what of one is what of the other (docs/reference/mqtt.md)."""

from __future__ import annotations

from typing import Any

import msgspec

from ..protocol import messages
from ..protocol.messages import GUARANTEED, STANDARD, Message
from ..protocol.trace_context import read_traceparent
from .fields import LENGTH_MAX
from .packets import Properties, PublishPacket, Will
from .reasons import V5
from .topics import name_of, subject_of

RESERVED = "mqtt."
"""Fields whose names begin so are what a PUBLISH of MQTT 5 has beside its user properties."""

CONTENT_TYPE = "mqtt.content_type"
CORRELATION = "mqtt.correlation_data"
EXPIRES = "mqtt.expires"
"""Name of the field that says until when the message is of use, in ms since 1970."""
FORMAT = "mqtt.payload_format"
EXPIRY_SECONDS_MAX = 0xFFFFFFFF
"""The longest that a PUBLISH can say of how long it is of use (5: 3.3.2.3.3)."""
TRACEPARENT = "traceparent"
"""The user property that is no field: the context of the trace that the message belongs to (protocol.md 5.5)."""
PROPERTY = "mqtt.property."
"""Prefix of a number and a user property's name which is no field's: it came before, is empty, or is reserved."""


def publish_command(packet: PublishPacket | Will, number: int, publication: int, now: int) -> messages.Publish:
    """Return the command that publishes what the packet says, in MessagePack's values; raise MqttError for its topic.

    ``number`` is the command's, ``publication`` the publisher's number of what it publishes or 0, ``now`` in ms. An
    empty payload that is to be retained removes the subject, whatever its properties are (3.3.1.3).
    """
    properties = packet.properties
    return messages.Publish(
        id=number,
        subject=subject_of(packet.topic),
        content=_content(packet.payload),
        fields=_fields(properties, now) if properties else {},
        retained=packet.retain,
        qos=GUARANTEED if packet.qos else STANDARD,
        reply_to=subject_of(properties["response_topic"]) if properties.get("response_topic") else "",
        publication=publication,
        removed=packet.retain and not packet.payload,
        traceparent=_traceparent(properties) if properties else "",
    )


def payload_of(message: Message, level: int) -> bytes:
    """Return the payload: the content; of a message that has only fields, for MQTT 3.1.1, these as a JSON object.

    That of a removal is empty.
    """
    content = message.content
    if not content and not message.removed and level != V5 and message.fields:
        fields = {name: value for name, value in message.fields.items() if not name.startswith(RESERVED)}
        return msgspec.json.encode(fields) if fields else b""
    return content.encode(errors="replace") if isinstance(content, str) else content


def properties_of(message: Message) -> Properties:
    """Return the properties of the message for MQTT 5, the expiry first, whose value is set as it leaves.

    Clients of the protocol write any fields: one that has no form in a property is left out.
    """
    found: Properties = {}
    fields = message.fields or {}
    if EXPIRES in fields:
        found["message_expiry"] = 0
    pairs: list[tuple[str, str]] = []
    for name, value in fields.items():
        if name == CORRELATION:
            data = value if isinstance(value, bytes) else value.encode()
            if len(data) <= LENGTH_MAX:
                found["correlation_data"] = data
            continue
        text = value if isinstance(value, str) else value.decode(errors="replace")
        if not (_fits(name) and _fits(text)):
            continue
        if name == CONTENT_TYPE:
            found["content_type"] = text
        elif name == FORMAT:
            found["payload_format"] = int(text == "1")
        elif name.startswith(PROPERTY):
            pairs.append((name[len(PROPERTY) :].partition(".")[2], text))
        elif name != EXPIRES:
            pairs.append((name, text))
    if message.reply_to and (topic := name_of(message.reply_to)):
        found["response_topic"] = topic
    if message.traceparent is not None:
        pairs.append((TRACEPARENT, message.traceparent))
    if pairs:
        found["user_property"] = pairs
    return found


def as_retained(message: Message, newest: Message) -> Message | None:
    """Return the snapshot of a subject, as ``message``, as its retained message; None when that would be empty, as none
    is (3.3.1.3).

    Fields that are all reserved do not change that: earlier versions kept a removal so. Of the fields those are the
    newest message's alone that are no user properties, as until when it is of use.
    """
    if not newest.content and all(name.startswith(RESERVED) for name in newest.fields or ()):
        return None
    own = newest.fields or {}
    fields = {
        name: value for name, value in (message.fields or {}).items() if name in own or not name.startswith(RESERVED)
    }
    return msgspec.structs.replace(message, qos=newest.qos, fields=fields or None)


def expiry_of(message: Message) -> int:
    """Return until when the message is of use (ms); 0: for ever."""
    text = message.fields.get(EXPIRES, "") if message.fields else ""
    if not isinstance(text, str) or not text.isdecimal() or len(text) > 15:
        return 0
    return min(int(text), message.time + EXPIRY_SECONDS_MAX * 1000)


def _fits(text: str) -> bool:
    """Return whether a packet can have that text (1.5.4)."""
    return "\0" not in text and (len(text) <= LENGTH_MAX // 4 or len(text.encode()) <= LENGTH_MAX)


def _content(payload: bytes) -> str | bytes:
    """Return a payload as a text where it is UTF-8, as it comes back as the same bytes then."""
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return payload


def _traceparent(properties: Properties) -> str:
    """Return the context that the properties say; empty where they say none, or several, or a malformed one."""
    said = [value for name, value in properties.get("user_property", ()) if name == TRACEPARENT]
    return (read_traceparent(said[0]) or "") if len(said) == 1 else ""


def _fields(properties: Properties, now: int) -> dict[str, Any]:
    """Return the fields that the properties are."""
    fields: dict[str, Any] = {}
    traced = bool(_traceparent(properties))
    for at, (name, value) in enumerate(properties.get("user_property", ())):
        if traced and name == TRACEPARENT:
            continue
        usual = name and name not in fields and not name.startswith(RESERVED)
        fields[name if usual else f"{PROPERTY}{at}.{name}"] = value
    if "content_type" in properties:
        fields[CONTENT_TYPE] = properties["content_type"]
    if "correlation_data" in properties:
        fields[CORRELATION] = properties["correlation_data"]
    if "payload_format" in properties:
        fields[FORMAT] = str(properties["payload_format"])
    if "message_expiry" in properties:
        fields[EXPIRES] = str(now + properties["message_expiry"] * 1000)
    return fields
