"""Whole connections: what a client or a publisher sends, from its first byte on, beside a witness."""

from __future__ import annotations

import asyncio
import re

import msgspec

from fastpath.core.delivery.link import PauseReason
from fastpath.core.protocol.codec import JSON, decode_command
from fastpath.core.protocol.errors import BadFrame, InvalidMessage
from fastpath.core.protocol.messages import Asked, MakeRequest, Response
from fastpath.core.protocol.packets import pack
from fastpath.core.websocket.permessage_deflate import compress
from tests.support.edge.wire import BINARY, TEXT, masked, request

from .parsers import COMMANDS, FRAMES, HEADERS, LINES, WORDS
from .targets import Target, check
from .world import World

MSGPACK = b"Sec-WebSocket-Protocol: fastpath.v1.msgpack\r\n"
DEFLATE = b"Sec-WebSocket-Extensions: permessage-deflate\r\n"
RAW = 4
_PUBLISH = b"POST /api/publish HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
HTTP_REQUESTS = (
    b"GET /snapshot?subject=/a/b HTTP/1.1\r\nHost: x\r\n\r\n",
    _PUBLISH + b'Content-Length: 32\r\n\r\n{"subject":"/a/b","content":"x"}',
    _PUBLISH + b'Transfer-Encoding: chunked\r\n\r\n20\r\n{"subject":"/a/b","content":"y"}\r\n0\r\n\r\n',
    b"GET /api/history?subject=/a/b&limit=5 HTTP/1.1\r\nHost: x\r\nAccept: application/msgpack\r\n\r\n",
    b"OPTIONS /api/publish HTTP/1.1\r\nHost: x\r\nOrigin: https://a.b\r\n\r\n",
    b"HEAD /api/presence HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /session/poll HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /session/poll?session=0-a&ack=1 HTTP/1.1\r\nHost: x\r\n\r\n",
    b'POST /session/0-a?n=1 HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\n{"op":"ping"}',
    b"DELETE /session/0-a HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /session/stream HTTP/1.1\r\nHost: x\r\n\r\n",
)


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


def http(data: bytes) -> None:
    """Requests over plain HTTP have the same answers however the network cuts them; nobody else notices."""
    if len(data) < 2:
        return
    cut, data = data[0], data[1:]
    found = []
    for size in (len(data), cut or 1):
        world = World()
        connection = world.piped()
        for at in range(0, len(data), size):
            if connection.ended:
                break
            connection.received(data[at : at + size])
            world.turn()
        while connection.held & PauseReason.TURN:  # a slice that took long is followed by a pause
            world.loop.run_until_complete(asyncio.sleep(0.001))
        world.second()
        statuses = [status for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", connection.written) if status != b"100"]
        check(b"500" not in statuses, "a fault of the server")
        found.append((statuses, connection.closing))
        world.end(connection)
    check(found[0] == found[1], f"cut elsewhere it means something else: {found}")


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


def asking(data: bytes) -> None:
    """A client that asks and one that answers say commands in turns, and may go; nobody else notices.

    A line's first byte says whose command it is: ``a`` or ``r``; ``A`` and ``R`` go. ``@`` in a command stands for the
    inbox that the one who answers was told last. Each request has one last answer at most, none before the next
    command of its number, and no more replies than it has asked for; nothing is owed when both have gone.
    """
    world = World()
    asks, responds = world.client(b""), world.client(b"")
    inbox, read = b"@", 0
    wanted: dict[int, list[int]] = {}  # by id: the replies that each request with it may have
    for line in data.split(b"\n")[:40]:
        kind, line = line[:1].lower(), line[1:].replace(b"@", inbox)
        connection = responds if kind == b"r" else asks
        if connection.ended:
            continue
        if not line:
            connection.lost()
            world.turn()
            continue
        if connection is asks:
            _note_request(wanted, line)
        connection.received(masked(TEXT, line))
        world.turn()
        for told in responds.answers():
            inbox = told.to.encode() if isinstance(told, Asked) else inbox
        answers = [one for one in asks.answers() if isinstance(one, Response)]
        for one in answers[read:]:
            left = wanted.get(one.id) or [0]
            left[0] -= 1
            check(left[0] >= 0, f"the request {one.id} has one answer more than it may")
            if not one.more:
                left.pop(0)
        read = len(answers)
    world.second()
    world.end(asks, responds)
    figures = {name: value for figures in world.runtime.figures for name, value in figures().items()}
    check(figures["requests_open"] == 0, f"{figures['requests_open']} requests are left")
    check(figures["responders"] == 0, f"{figures['responders']} responders are left")


def _note_request(wanted: dict[int, list[int]], line: bytes) -> None:
    try:
        command = decode_command(line, JSON)
    except (BadFrame, InvalidMessage):
        return
    if isinstance(command, MakeRequest):
        wanted.setdefault(command.id, []).append(max(1, command.replies))


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

_RESPOND = b'r{"op":"respond","id":1,"patterns":["/a/*","/b/**"]}'
_ASK = b'a{"op":"request","id":5,"subject":"/a/b","content":"x","fields":{"f":"v"},"timeout":1000,"replies":3}'
_MORE = b'r{"op":"reply","id":7,"to":"@","content":"y","more":true}'
_LAST = b'r{"op":"reply","to":"@","content":"z"}'

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
    "http": Target(
        http,
        tuple(
            bytes((cut,)) + b"".join(requests)
            for cut in (0, 7)
            for requests in (
                *((one,) for one in HTTP_REQUESTS),
                HTTP_REQUESTS,
                HTTP_REQUESTS[::-1],
            )
        ),
        (
            *(
                b"GET ",
                b"POST ",
                b"HEAD ",
                b"OPTIONS ",
                b" HTTP/1.0\r\n",
                b"/api/publish",
                b"/api/history?subject=/a/b",
                b"/session/poll",
                b"/session/0-a/close",
            ),
            *(b"Transfer-Encoding: chunked\r\n", b"Content-Length: 5\r\n", b"Expect: 100-continue\r\n", b"0\r\n\r\n"),
            *(
                b"Connection: close\r\n",
                b"Content-Type: application/json\r\n",
                b"Idempotency-Key: k\r\n",
                b"&since=1,2",
            ),
        ),
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
    "asking": Target(
        asking,
        (
            b"\n".join((_RESPOND, _ASK, b'r{"op":"reply","id":9,"to":"@","content":"y"}', _ASK)),
            b"\n".join((_RESPOND, _ASK, _MORE, _MORE, _MORE, _LAST, _LAST, _ASK, _ASK, b"R")),
            b"\n".join((_RESPOND, _ASK, b"A", _LAST)),
            b"\n".join((_ASK, _RESPOND, _ASK, b'r{"op":"respond","id":2,"patterns":[]}', _LAST, b"R", _ASK)),
            b"\n".join((_RESPOND, _ASK, b'r{"op":"reply","to":"@","error":"no","reason":"today"}', _LAST)),
            b"\n".join((b'a{"op":"respond","id":1,"patterns":["/a/*"]}', _ASK, _LAST.replace(b"r", b"a", 1))),
        ),
        (
            *(b"\na", b"\nr", b"\nA", b"\nR", b'"op":"request"', b'"op":"reply"', b'"op":"respond"', b'"patterns":['),
            *(b'"to":"@"', b'"more":true', b'"error":"', b'"reason":"', b'"timeout":', b'"replies":', b'"content":'),
            *(b"/__sys__/inbox/", b"/a/**", b"/a/b"),
        ),
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
