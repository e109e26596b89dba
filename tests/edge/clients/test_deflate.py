"""permessage-deflate through real sockets: what is agreed on, both ways, and what a malicious client can do with it."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path

import pytest
from websockets.sync.client import connect

from tests.support.certificates import Certificate
from tests.support.edge.wire import (
    BINARY,
    PING,
    PONG,
    TEXT,
    WireClient,
    WirePublisher,
    masked,
    resident_bytes,
    undisturbed,
)
from tests.support.sidecar import Sidecar

OFFER = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n"
ANSWER = b"Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover"
RSV1 = 0x40
BIG = json.dumps([{"id": number, "name": f"instrument {number}"} for number in range(100)])


@pytest.fixture(scope="module")
def deflating() -> Iterator[Sidecar]:
    """One that compresses from 100 bytes on, and must survive everything here."""
    listen = "clients://127.0.0.1:0?deflate=100,clients://127.0.0.1:0,publishers://127.0.0.1:0"
    with Sidecar(listen=listen) as running:
        yield running
        assert running.process is not None
        assert running.process.poll() is None
        assert "Traceback" not in running.log, running.log


def plain_url(sidecar: Sidecar) -> str:
    """The listener beside it, without compression."""
    return f"ws://{sidecar.ready['clients'][1]}/ws"


def deflated(payload: bytes, level: int = 6) -> bytes:
    """A message as a client compresses it."""
    stream = zlib.compressobj(level, zlib.DEFLATED, -15)
    return (stream.compress(payload) + stream.flush(zlib.Z_SYNC_FLUSH))[:-4]


def inflated(payload: bytes) -> bytes:
    """A message as a client inflates it."""
    return zlib.decompressobj(-15).decompress(payload + b"\x00\x00\xff\xff")


def peak_bytes(pid: int) -> int:
    """The most memory that a process has used since its peak began anew."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def raw_frame(client: WireClient) -> tuple[int, bytes]:
    """The first byte of the next frame as it is, and its payload."""
    first, length = client.read(2)
    if length > 125:
        length = int.from_bytes(client.read(2 if length == 126 else 8))
    return first, client.read(length)


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_a_library_that_compresses(deflating: Sidecar, form: str) -> None:
    """The `websockets` library offers, compresses what it sends, and gets what others get."""
    import msgspec

    coder = msgspec.json if form == "json" else msgspec.msgpack
    with (
        connect(deflating.client_url, subprotocols=[f"fastpath.v1.{form}"], max_size=None) as client,
        WireClient(plain_url(deflating), form) as plain,
    ):
        assert "permessage-deflate" in client.response.headers["Sec-WebSocket-Extensions"]

        def say(**command: object) -> None:
            data = coder.encode(command)
            client.send(data.decode() if form == "json" else data)

        def told() -> object:
            return coder.decode(client.recv(decode=False))

        subject = f"/deflate/{form}"
        plain.subscribe(subject)
        say(op="subscribe", id=1, subjects=[subject])
        while told()["op"] != "subscribed":
            pass
        for content in (BIG, "short", "", "é" * 40_000):
            say(op="publish", subject=subject, content=content)
            assert told()[3] == content
            assert plain.message()[3] == content
        say(op="subscribe", id=2, subjects=[subject], history=4)
        assert told()["results"][0]["messages"] == 4
        assert [told()[3] for _ in range(4)] == [BIG, "short", "", "é" * 40_000]


def test_what_is_agreed_on(deflating: Sidecar) -> None:
    for offer, answer in (
        (OFFER, ANSWER + b"\r\n"),
        (
            OFFER.replace("client_max_window_bits", "server_max_window_bits=10"),
            ANSWER + b"; server_max_window_bits=10\r\n",
        ),
        (OFFER.replace("client_max_window_bits", "unknown"), b""),
        ("Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=8\r\n" + OFFER, ANSWER + b"\r\n"),
        ("Sec-WebSocket-Extensions: x-webkit-deflate-frame\r\n", b""),
        ("", b""),
    ):
        with WireClient(deflating, headers=offer) as client:
            assert (answer in client.head) if answer else (b"Extensions" not in client.head)
            assert client.ask("ping", "pong")
    with WireClient(plain_url(deflating), headers=OFFER) as client:
        assert b"Extensions" not in client.head


def test_only_large_messages_to_those_who_agreed(deflating: Sidecar) -> None:
    with (
        WireClient(deflating, headers=OFFER) as client,
        WireClient(deflating) as plain,
        WirePublisher(deflating) as publisher,
    ):
        for one in (client, plain):
            one.subscribe("/deflate/sizes")
        publisher.publish(["/deflate/sizes", "small"], ["/deflate/sizes", BIG])
        first, payload = raw_frame(client)
        assert (first, json.loads(payload)[3]) == (0x80 | TEXT, "small")
        first, payload = raw_frame(client)
        assert first == 0x80 | RSV1 | TEXT
        assert len(payload) < len(BIG) / 4
        assert json.loads(inflated(payload))[3] == BIG
        assert plain.texts(2) == ["small", BIG]
    with WireClient(deflating, headers=OFFER) as client:
        client.say("subscribe", subjects=["/deflate/sizes"])
        while (frame := raw_frame(client))[0] != 0x80 | RSV1 | TEXT:
            pass
        assert json.loads(inflated(frame[1]))[3] == BIG, "the snapshot too"


def test_fragments_with_a_ping_between_them(deflating: Sidecar) -> None:
    with WireClient(deflating, headers=OFFER) as client:
        command = deflated(json.dumps({"op": "ping", "id": 7, "note": BIG}).encode())
        client.frame(TEXT | RSV1, command[:10], final=False)
        client.frame(PING, b"?")
        client.frame(0, b"", final=False)
        client.frame(0, command[10:])
        assert client.next_frame() == (PONG, b"?")
        assert client.answer("pong")["id"] == 7
        client.frame(TEXT, b'{"op":"ping","id":8}')
        assert client.answer("pong")["id"] == 8


def test_the_bit_without_the_agreement(deflating: Sidecar) -> None:
    for url, headers in ((deflating.client_url, ""), (plain_url(deflating), OFFER)):
        with WireClient(url, headers=headers) as client:
            client.frame(TEXT | RSV1, deflated(b'{"op":"ping"}'))
            assert client.closed() == (1002, "protocol_error")


def test_what_cannot_be_inflated(deflating: Sidecar) -> None:
    with undisturbed(deflating):
        for payload in (b"\xff\xff\xff", deflated(BIG.encode())[:-9], deflated(b"\xff\xfe")):
            with WireClient(deflating, headers=OFFER) as client:
                client.frame(TEXT | RSV1, payload)
                assert client.closed() == (1007, "invalid_data")


def test_a_bomb_is_too_big(deflating: Sidecar) -> None:
    """A command of 256 MiB in a quarter of one."""
    stream = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = b"".join(stream.compress(bytes(1 << 20)) for _ in range(256)) + stream.flush(zlib.Z_SYNC_FLUSH)[:-4]
    with undisturbed(deflating):
        before = resident_bytes(deflating.pid)
        for _ in range(5):
            with WireClient(deflating, headers=OFFER) as client:
                client.frame(TEXT | RSV1, bomb)
                assert client.closed() == (1009, "too_big")
        assert resident_bytes(deflating.pid) - before < 24 << 20


@pytest.mark.parametrize("tls", [False, True])
def test_many_bombs_in_one_write_are_taken_one_a_turn(
    tls: bool, deflating: Sidecar, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """200 that inflate to 250 KiB each are 60 KiB: others are served between them."""
    count = 200
    command = deflated(b'{"op":"ping","id":1,"note":"' + b" " * (250 << 10) + b'"}', 9)
    certificate = Certificate(tmp_path_factory.mktemp("tls"))
    url = certificate.url("clients") + "&deflate=100"
    with Sidecar(listen=url) if tls else nullcontext(deflating) as sidecar:
        context = certificate.trusting() if tls else None
        with (
            WireClient(sidecar, headers=OFFER, tls=context) as client,
            WireClient(sidecar, tls=context) as other,
        ):
            assert client.ask("ping", "pong")
            assert other.ask("ping", "pong")
            client.subscribe("/between/bombs")
            before = resident_bytes(sidecar.pid)
            with sidecar.paused():
                client.send(masked(TEXT | RSV1, command) * count)
                other.say("publish", subject="/between/bombs", content="x")
            heard = [client.next() for _ in range(count + 1)]
            assert resident_bytes(sidecar.pid) - before < 24 << 20
            [place] = [at for at, value in enumerate(heard) if isinstance(value, list)]
            assert place < count - 1, "the other one waited for all of them"
            client.say("ping")
            assert client.answer("pong")


LARGE = {
    "zeros": "0" * 900_000,
    "the same object again and again": json.dumps([{"symbol": "AAPL", "bid": 1.5}] * 25_000),
    "a whole message of one letter": "x" * ((1 << 20) - 100),
}


@pytest.mark.parametrize("form", ["json", "msgpack"])
@pytest.mark.parametrize("name", LARGE)
def test_a_publication_may_shrink_as_far_as_it_can(deflating: Sidecar, name: str, form: str) -> None:
    """To a thousandth of its size: the bound is that of a message, and others get it; what comes behind it too."""
    import msgspec

    encode = msgspec.json.encode if form == "json" else msgspec.msgpack.encode
    first = (TEXT if form == "json" else BINARY) | RSV1
    subject = f"/deflate/shrunk/{form}/{name.split()[0]}"
    with WireClient(deflating, form, headers=OFFER) as client, WireClient(plain_url(deflating), form) as reader:
        reader.subscribe(subject)
        for content in (LARGE[name], "behind"):
            command = {"op": "publish", "subject": subject, "content": content, "closure": content[:6]}
            client.frame(first, deflated(encode(command), 9))
        assert [client.answer("published")["closure"] for _ in range(2)] == [LARGE[name][:6], "behind"]
        assert reader.texts(2) == [LARGE[name], "behind"]


def test_the_largest_frame_and_one_byte_more(deflating: Sidecar) -> None:
    """What `connected` says of a frame holds for what it inflates to."""
    with WireClient(deflating, headers=OFFER) as client:
        client.say("connect", id=1)
        bytes_max = client.answer("connected")["frame_bytes"]

        def padded(size: int) -> bytes:
            command = b'{"op":"ping","id":2,"note":""}'
            return deflated(command[:-2] + b" " * (size - len(command)) + command[-2:], 9)

        client.frame(TEXT | RSV1, padded(bytes_max))
        assert client.answer("pong")["id"] == 2
        client.frame(TEXT | RSV1, padded(bytes_max + 1))
        assert client.closed() == (1009, "too_big")


def test_many_who_inflate_at_once_hold_one_message_together(deflating: Sidecar) -> None:
    """Thirty clients send 2 KiB each that become 2 MiB: they are taken one after another, and all are answered."""
    command = deflated(b'{"op":"ping","id":1,"note":"' + b" " * (2 << 20) + b'"}', 9)
    with ExitStack() as stack:
        clients = [stack.enter_context(WireClient(deflating, headers=OFFER)) for _ in range(30)]
        other = stack.enter_context(WireClient(deflating))
        for client in [*clients, other]:
            assert client.ask("ping", "pong")
        Path(f"/proc/{deflating.pid}/clear_refs").write_text("5")  # the peak begins anew
        before = resident_bytes(deflating.pid)
        with deflating.paused():
            for client in clients:
                client.frame(TEXT | RSV1, command)
        assert other.ask("ping", "pong")
        for client in clients:
            assert client.answer("pong")["id"] == 1
        assert peak_bytes(deflating.pid) - before < 24 << 20


def test_the_end_of_a_client_with_a_lot_to_inflate(deflating: Sidecar) -> None:
    """It goes while its commands still wait for their turn."""
    command = deflated(b'{"op":"ping","id":1,"note":"' + b" " * (250 << 10) + b'"}', 9)
    with undisturbed(deflating):
        for _ in range(5):
            with WireClient(deflating, headers=OFFER) as client:
                client.send(masked(TEXT | RSV1, command) * 20 + b"\x88\x80\0\0\0\0")
        with WireClient(deflating, headers=OFFER) as client:
            client.send(masked(TEXT | RSV1, command) * 20 + masked(TEXT | RSV1, b"\xff\xff") + masked(TEXT, b"never"))
            assert client.closed() == (1007, "invalid_data")
