"""Whole connections: what a client or a publisher sends, from its first byte on, beside a witness."""

from __future__ import annotations

import msgspec

from fastpath.core.protocol.packets import pack
from fastpath.core.websocket.permessage_deflate import compress
from tests.support.edge.wire import BINARY, TEXT, masked, request

from .parsers import COMMANDS, FRAMES, HEADERS, LINES, WORDS
from .targets import Target, check
from .world import World

MSGPACK = b"Sec-WebSocket-Protocol: fastpath.v1.msgpack\r\n"
DEFLATE = b"Sec-WebSocket-Extensions: permessage-deflate\r\n"
RAW = 4


def client(data: bytes) -> None:
    """A client's bytes, from the request or from the first frame on, in pieces; nobody else notices."""
    if len(data) < 2:
        return
    flags, cut, data = data[0], data[1], data[2:]
    world = World()
    if flags & RAW:
        connection = world.piped()
    else:
        connection = world.client((MSGPACK if flags & 1 else b"") + (DEFLATE if flags & 2 else b""))
    size = cut or len(data) or 1
    for at in range(0, len(data), size):
        if connection.ended:
            break
        connection.received(data[at : at + size])
        world.turn()
    world.second()
    world.end(connection)


def dialogue(data: bytes) -> None:
    """Two clients, one of each form, say commands in turns while time passes; nobody else notices.

    A line is the command of a client, in JSON; its first byte says whose, or that time passes.
    """
    world = World()
    plain, packed = world.client(b""), world.client(MSGPACK)
    for line in data.split(b"\n")[:40]:
        kind, line = line[:1], line[1:]
        if kind == b"t":
            world.second(int.from_bytes(line[:2]))
        elif kind == b"m":
            try:
                line = msgspec.msgpack.encode(msgspec.json.decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError):
                pass
            if not packed.ended:
                packed.received(masked(BINARY, line))
        elif not plain.ended:
            plain.received(masked(TEXT, line))
        world.turn()
    world.second()
    world.end(plain, packed)


def publisher(data: bytes) -> None:
    """A publisher's bytes: packets of right lengths, or whatever comes; answers are packets, nobody else notices."""
    if not data:
        return
    flags, data = data[0], data[1:]
    world = World()
    connection, pipe = world.publisher()
    if flags & 1:
        connection.data_received(pack(["hello", {"publisher": "p"}]))
    if flags & 2:
        at = 0
        while at + 2 <= len(data):
            size = int.from_bytes(data[at : at + 2])
            body = data[at + 2 : at + 2 + size]
            connection.data_received(len(body).to_bytes(4) + body)
            at += 2 + size
    else:
        for at in range(0, len(data), 50):
            connection.data_received(data[at : at + 50])
    world.turn()
    answers = pipe.written
    while answers:
        size = int.from_bytes(answers[:4])
        check(isinstance(msgspec.msgpack.decode(answers[4 : 4 + size]), list), "an answer is no packet")
        answers = answers[4 + size :]
    connection.connection_lost(None)
    world.end()


def _sized(*packets: list[object]) -> bytes:
    bodies = [msgspec.msgpack.encode(packet) for packet in packets]
    return b"".join(len(body).to_bytes(2) + body for body in bodies)


_BATCHES: tuple[list[object], ...] = (
    ["batch", 1, [["/a/b", "x", {"f": "v"}], ["/a/c", b"\x00", None, {"qos": "standard", "as_of": 5}]]],
    ["batch", 2, [["/a/b", "x", {}, {"retained": False, "reply_to": "/r/r", "closure": "c", "id": 7}]], 5],
    ["ping", 3],
)

TARGETS = {
    "client": Target(
        client,
        (
            *(b"\x00\x00" + masked(TEXT, line) for line in LINES),
            *(b"\x01\x07" + masked(BINARY, msgspec.msgpack.encode(command)) for command in COMMANDS),
            *(b"\x02\x00" + masked(TEXT | 0x40, compress(line, 15)) for line in LINES),
            *(b"\x00\x03" + one for one in FRAMES),
            b"\x04\x00" + request(headers=HEADERS[1].decode()) + masked(TEXT, LINES[0]),
            b"\x04\x09" + request("/ws?token=x") + masked(TEXT, LINES[1]),
        ),
        (*WORDS, *HEADERS),
    ),
    "dialogue": Target(
        dialogue,
        (
            b"\n".join(b"j" + line for line in LINES),
            b"\n".join(b"m" + line for line in LINES),
            b"\n".join(
                (b"j" + LINES[1], b"m" + LINES[2], b"j" + LINES[4], b"t\x00\x64", b"m" + LINES[5], b"j" + LINES[3])
            ),
            b"\n".join(
                (b"m" + LINES[2], b"j" + LINES[4], b"j" + LINES[4], b"t\x02\x00", b"m" + LINES[3], b"t\x01\x00")
            ),
        ),
        (*WORDS, b"\nj", b"\nm", b"\nt\x00\x64"),
    ),
    "publisher": Target(
        publisher,
        (
            b"\x00" + pack(["hello", {"version": 1, "token": "", "publisher": "p", "client": "f"}]) + pack(["ping", 1]),
            *(b"\x03" + _sized(packet) for packet in _BATCHES),
            b"\x03" + _sized(*_BATCHES),
            b"\x03" + _sized(["advertise", 1, ["/a/**"]]),
            b"\x01" + b"".join(map(pack, _BATCHES)),
        ),
        (
            b"\xa5batch",
            b"\xa5hello",
            b"\xa4ping",
            b"\xa3qos",
            b"\xa5as_of",
            b"\xa2id",
            b"\xc0",
            b"\xdd\xff\xff\xff\xff",
            b"\xcf",
        ),
    ),
}
