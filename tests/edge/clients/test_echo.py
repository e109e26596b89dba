"""The echo path, for conformance suites: the same framing as /ws, other limits, and off unless asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.edge.wire import BINARY, CLOSE, PING, TEXT, Ended, WireClient, resident_bytes
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until


@pytest.fixture(scope="module")
def echo() -> Iterator[Sidecar]:
    """A sidecar that echoes."""
    with Sidecar(echo=1, outbox_bytes_max=100_000) as running:
        yield running


def test_it_answers_what_was_sent(echo: Sidecar) -> None:
    with WireClient(echo, path="/echo") as client:
        for opcode, payload in ((TEXT, "é".encode()), (BINARY, b"\xff"), (TEXT, b""), (BINARY, b"x" * (15 << 20))):
            client.frame(opcode, payload)
            assert client.next_frame() == (opcode, payload)
        client.frame(TEXT, b"a", final=False)
        client.frame(PING, b"between")
        client.frame(0, b"b")
        assert [client.next_frame() for _ in range(2)] == [(10, b"between"), (TEXT, b"ab")]
        client.frame(CLOSE, (1000).to_bytes(2) + b"bye")
        assert client.next_frame() == (CLOSE, (1000).to_bytes(2))
        assert client.rest() == b""


def test_its_limit_is_sixteen_mebibytes(echo: Sidecar) -> None:
    with WireClient(echo, path="/echo") as client:
        client.send(b"\x82\xff" + ((16 << 20) + 1).to_bytes(8) + bytes(4))
        assert client.closed() == (1009, "too_big")


def test_who_does_not_read_its_echo_is_not_read_either(echo: Sidecar) -> None:
    """It is no slow consumer: reading stops until what waits has gone."""
    with WireClient(echo, path="/echo", receive_bytes=4096) as client:
        before = resident_bytes(echo.pid)
        frame = b"\x82\xfe\xff\xff\0\0\0\0" + b"x" * 65_535
        client.sock.setblocking(False)
        sent = 0

        def stuck() -> bool:
            nonlocal sent
            try:
                while sent < 400 * len(frame):
                    sent += client.sock.send(frame[sent % len(frame) :])
            except BlockingIOError:
                return True
            return False

        until(stuck)
        assert resident_bytes(echo.pid) - before < 16 << 20
        client.sock.settimeout(PATIENCE_SECONDS)
        for _ in range(sent // len(frame)):
            assert client.next_frame()[0] == BINARY


def test_commands_still_work_beside_it(echo: Sidecar) -> None:
    with WireClient(echo) as client:
        assert client.ask("ping", "pong")


def test_it_is_off_unless_asked_for(shared: Sidecar) -> None:
    with pytest.raises((AssertionError, Ended)):
        WireClient(shared, path="/echo")
