"""The pure parsers of the client port: frames, compressed messages, requests, commands."""

from __future__ import annotations

import msgspec

from fastpath.core.events.cursor import UNKNOWN, decode_cursor, encode_cursor
from fastpath.core.events.framing import split_events
from fastpath.core.events.request import opening, parse_events_request
from fastpath.core.matching.subscribed_patterns import covers
from fastpath.core.mqtt.decoding import Splitter
from fastpath.core.mqtt.decoding import decode as decode_packet
from fastpath.core.mqtt.encoding import encode as encode_packet
from fastpath.core.mqtt.packets import ConnectPacket
from fastpath.core.mqtt.reasons import MqttError
from fastpath.core.mqtt.topics import check_filter, matches, patterns_of, subject_of, topic_of
from fastpath.core.protocol.codec import FORMS, decode_command, decode_server, encode, encode_data
from fastpath.core.protocol.errors import BadFrame, FrameError, InvalidMessage
from fastpath.core.protocol.limits import SUBJECTS_PER_COMMAND_MAX
from fastpath.core.protocol.messages import Publish
from fastpath.core.protocol.subject import is_system, is_wildcard
from fastpath.core.websocket.frames import FrameReader, encode_frame, split_frames
from fastpath.core.websocket.handshake import BadRequest, accept_response, parse_request
from fastpath.core.websocket.permessage_deflate import compress, inflate, negotiate
from tests.support.edge.wire import BINARY, CLOSE, PING, TEXT, masked, request

from .targets import Target, check

MESSAGE_BYTES_MAX = 1 << 14


def frames(data: bytes) -> None:
    """However the network cuts the stream, the same messages and the same end come out of it, within the bounds."""
    if not data:
        return
    cut, deflate, data = data[0] & 0x7F, bool(data[0] & 0x80), data[1:]

    def read(pieces: list[bytes]) -> tuple[list[tuple[int, bytes]], int | None]:
        reader = FrameReader(MESSAGE_BYTES_MAX, fragments_max=64, deflate=deflate)
        events = []
        for piece in pieces:
            events += reader.feed(piece)
            while reader.inflating:
                events += reader.feed(b"")
        check(all(len(payload) <= MESSAGE_BYTES_MAX for _, payload in events), "a message over the bound")
        return events, reader.error.code if reader.error is not None else None

    whole = read([data])
    for size in {1, cut or 3}:
        check(read([data[at : at + size] for at in range(0, len(data), size)]) == whole, f"cut every {size} bytes")
    for opcode, payload in whole[0]:
        if opcode < CLOSE:
            check(
                list(split_frames(encode_frame(opcode, payload))) == [encode_frame(opcode, payload)], "not split again"
            )


def deflated(data: bytes) -> None:
    """What cannot be inflated is a FrameError, what can stays within the bound; what we compress comes back."""
    try:
        check(len(inflate(data, MESSAGE_BYTES_MAX)) <= MESSAGE_BYTES_MAX, "inflated over the bound")
    except FrameError:
        pass
    for bits in (9, 15):
        check(inflate(compress(data, bits), max(1, len(data))) == data, "compressed and inflated is another")
    answer = negotiate(data.decode("latin-1"))
    if answer is not None:
        check(9 <= answer[0] <= 15 and "\r" not in answer[1] and "\n" not in answer[1], f"negotiated {answer}")


def requests(data: bytes) -> None:
    """A head is the same however it comes; an answer is one head, whatever the request put into it."""
    try:
        whole = parse_request(data)
    except BadRequest as error:
        check(error.response().startswith(b"HTTP/1.1 4") or b"HTTP/1.1 505" in error.response(), "no refusal")
        return
    if whole is None:
        return
    for end in (whole.head_bytes // 2, whole.head_bytes - 1):
        # An early refusal may not come for what is good in the end.
        check(parse_request(data[:end]) is None, "read before its end")
    offered = whole.subprotocols
    try:
        response = accept_response(whole, offered[0] if offered else None)
    except (BadRequest, UnicodeEncodeError):
        return
    head, end_of_head, rest = response.partition(b"\r\n\r\n")
    check(end_of_head and not rest and head.count(b"\r\n") == (4 if offered else 3), "the answer has other lines")


def commands(data: bytes) -> None:
    """A command is read, or refused in one of two ways; what was read is written and read again as the same."""
    for form in FORMS:
        try:
            command = decode_command(data, form)
        except (BadFrame, InvalidMessage):
            pass
        else:
            if not isinstance(command, Publish):  # its values stay as they were written until they are published
                check(decode_command(encode(command, form), form) == command, "another command")
        try:
            value = decode_server(data, form)
        except BadFrame:
            continue
        again = (
            encode(value, form)
            if isinstance(value, msgspec.Struct)
            and hasattr(value, "__struct_config__")
            and (value.__struct_config__.tag)
            else encode_data(value, form)
        )  # type: ignore[arg-type]
        check(decode_server(again, form) == value, "another answer")


def event_requests(data: bytes) -> None:
    """A request for events is read, or refused with a reason; a cursor of what was read is read as the same."""
    query, _, header = data.decode("latin-1").partition("\n")
    try:
        asked = parse_events_request(query, header.strip())
    except InvalidMessage as error:
        check(error.reason and error.code in ("invalid", "limit"), "refused without a reason")
        return
    check(0 < len(asked.subjects) <= SUBJECTS_PER_COMMAND_MAX, "no subjects, or too many")
    check(all(event.count(b"\n") <= 3 for event in split_events(opening(asked))), "an event of more lines")
    cursor = encode_cursor(asked.since, asked.subjects)
    check(cursor == UNKNOWN or decode_cursor(cursor, asked.subjects) == asked.since, "another cursor")


COMMANDS: tuple[dict[str, object], ...] = (
    {"op": "connect", "id": 1, "client": "f", "publisher": "p", "token": ""},
    {"op": "subscribe", "id": 2, "subjects": ["/a/b", "/a/c"], "history": 2, "since": {"/a/b": [1700000000000, 1]}},
    {"op": "subscribe", "id": 3, "subjects": ["/a/*", "/a/**"], "conflation": 500, "slow": "conflate"},
    {"op": "unsubscribe", "id": 4, "subjects": ["/a/b"]},
    {"op": "publish", "id": 5, "subject": "/a/b", "content": "x", "fields": {"f": {"b": "AA=="}}, "closure": "c"},
    {"op": "publish", "subject": "/a/b", "content": "y", "qos": "standard", "retained": False, "publication": 1},
    {"op": "token", "id": 6, "token": "x.y.z"},
    {"op": "ping", "id": 7},
    {"op": "presence", "id": 8, "subject": "/a/b"},
    {"op": "advertise", "id": 9, "patterns": ["/a/**"]},
)
LINES = tuple(msgspec.json.encode(command) for command in COMMANDS)
WORDS = (
    *(f'"{word}"'.encode() for command in COMMANDS for word in (*command, command["op"])),
    *(
        b'"/a/b"',
        b'"/a/*"',
        b'"/**"',
        b'"close"',
        b'"guaranteed"',
        b"null",
        b"true",
        b"-1",
        b"1e400",
        b"18446744073709551616",
    ),
    *(b'{"b":""}', b"[[", b"\\ud800", b"\\u0000", b"\xf0\x9f\x98\x80"),
)
HEADERS = (
    b"Sec-WebSocket-Protocol: fastpath.v1.json\r\n",
    b"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n",
    b"X-Forwarded-For: 10.0.0.1\r\n",
    b"Origin: https://example.com\r\n",
    b"Content-Length: 0\r\n",
    b"Transfer-Encoding: chunked\r\n",
    *(b"GET ", b" HTTP/1.1\r\n", b"/ws?token=", b"http://a/ws", b"\r\n\r\n", b"Upgrade, close", b"\x00", b"\xff"),
)
FRAMES = (
    masked(TEXT, b"hello") + masked(PING, b"p"),
    masked(TEXT, b"\xe2", final=False) + masked(PING, b"") + masked(0, b"\x82\xac"),
    masked(BINARY, bytes(300)) + masked(CLOSE, b"\x03\xe8bye"),
    masked(TEXT | 0x40, compress(b"hello hello hello", 15)),
    masked(BINARY | 0x40, compress(bytes(5000), 15), final=False) + masked(0, b""),
)


def mqtt(data: bytes) -> None:
    """However the stream is cut, the same packets come out of it; each is read or refused, and comes back as it was."""
    if not data:
        return
    level, data = 4 + (data[0] & 1), data[1:]

    def read(pieces: list[bytes]) -> tuple[list[bytes], int | None]:
        splitter = Splitter(MESSAGE_BYTES_MAX)
        packets = [packet for piece in pieces for packet in splitter.feed(piece)]
        check(splitter.waits <= MESSAGE_BYTES_MAX, "more waits than a packet may have")
        return packets, splitter.error.code if splitter.error is not None else None

    whole = read([data])
    check(read([data[at : at + 1] for at in range(len(data))]) == whole, "cut at each byte")
    for packet in whole[0]:
        try:
            found = decode_packet(packet, level)
        except MqttError:
            continue
        at = found.level if isinstance(found, ConnectPacket) else level
        check(decode_packet(encode_packet(found, at), at) == found, "encoded and read it is another")


def topics(data: bytes) -> None:
    """A topic has a subject that leads back to it, or none; a filter's patterns cover a topic if it matches."""
    topic, _, wanted = data.decode("latin-1").partition("\n")
    try:
        subject = subject_of(topic)
        check(topic_of(subject) == topic, f"{subject} is no way back to {topic}")
        levels = check_filter(wanted)
        patterns = patterns_of(levels)
    except MqttError:
        return
    # Wildcards in the first segment bring nobody what is the server's own (core/matching).
    open_ones = [one for one in patterns if is_system(one) or not is_system(subject)]
    found = any(covers(one, subject) if is_wildcard(one) else one == subject for one in open_ones)
    check(found == matches(levels, topic.split("/")), f"{patterns} for {wanted} and {topic}")


TARGETS = {
    "events": Target(
        event_requests,
        (
            b"subjects=/stocks/us/IBM,/chat/**&history=10&conflation=500&slow=conflate&token=x.y.z\n",
            b"subject=/a/%2Cb&since=1700000000000,41\n",
            b"subjects=/a/b\n" + encode_cursor({"/a/b": (1_700_000_000_000, 41), "/c/d": (1, 0)}, ["/a/b"]).encode(),
            b"subjects=/a/b\n-",
        ),
        (
            b"subjects=",
            b"subject=",
            b"since=",
            b"history=",
            b"&",
            b"%2C",
            b"%00",
            b"/a/b",
            b"**",
            b"gc8AAAGiEcO0t4EAAg",
        ),
        6000,
    ),
    "frames": Target(
        frames,
        tuple(bytes((flags,)) + one for one in FRAMES for flags in (0, 5, 0x80, 0x87)),
        (
            b"\x81\x80\0\0\0\0",
            b"\x01\x80\0\0\0\0",
            b"\x80\x80\0\0\0\0",
            b"\x88\x82\0\0\0\0\x03\xe8",
            b"\x82\xff",
            b"\xc1\xfe",
        ),
    ),
    "deflate": Target(
        deflated,
        (
            *(compress(one, 15) for one in (b"", b"hello hello", bytes(20000), bytes(range(256)))),
            b"permessage-deflate; client_max_window_bits=15; server_max_window_bits=9",
        ),
        (b"permessage-deflate", b"server_no_context_takeover", b"client_max_window_bits", b"\x00\x00\xff\xff"),
    ),
    "requests": Target(
        requests,
        (
            request(),
            request("/ws?token=a.b.c", "".join(line.decode("latin-1") for line in HEADERS[:3])),
            b"GET / HTTP/1.0\r\n\r\n",
        ),
        HEADERS,
        12_000,
    ),
    "commands": Target(
        commands,
        (
            *LINES,
            *(msgspec.msgpack.encode(command) for command in COMMANDS),
            b'[17,42,5230,"193.20",{"bid":"193.19"},{"kind":"snapshot"}]',
            b'{"op":"subscribed","id":2,"results":[{"subject":"/a/b","sid":17,"epoch":1,"seq":41}]}',
        ),
        WORDS,
    ),
    "mqtt": Target(
        mqtt,
        tuple(
            bytes((level,)) + data
            for level in (0, 1)
            for data in (
                b"\x10\x0d\0\4MQTT\4\2\0\x3c\0\1a",
                b"\x10\x13\0\4MQTT\5\2\0\x3c\5\x11\0\0\0\x0a\0\1a",
                b"\x32\x0c\0\3a/b\0\x0a\2\1\1hi\xc0\0",
                b"\x82\x0b\0\x0a\2\x0b\5\0\3a/#\x2d\xe0\1\4",
                b"\x40\3\0\x0a\x10\xa2\7\0\x0a\0\3a/#",
            )
        ),
        (b"\0\4MQTT", b"\x26\0\1a\0\1b", b"\xff\xff\xff\x7f"),
    ),
    "topics": Target(
        topics,
        (b"/stocks/us/IBM\n/stocks/+/#", b"a//b\n+/+/b", b"/\n#", b"100%/*/**\n/#", b"/__sys__/a\n/__sys__/+"),
        (b"$SYS", b"/__mqtt__/", b"%2A", b"{username}"),
    ),
}
