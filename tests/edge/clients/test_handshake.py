"""Before there is a WebSocket: half-open connections, plain HTTP, garbage, heads that are too long, and too many."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.edge.wire import Ended, Socket, WireClient, open_files, request, undisturbed, wait_gone
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

PLAIN = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
REFUSED: dict[str, tuple[bytes, int, str]] = {
    "plain GET": (b"GET /ws HTTP/1.1\r\nHost: x\r\n\r\n", 426, "This address speaks WebSocket"),
    "another path": (PLAIN.encode(), 404, "open a WebSocket at /ws"),
    "echo is off": (request("/echo"), 404, "open a WebSocket at /ws"),
    "POST": (request().replace(b"GET", b"POST"), 405, "opened with GET"),
    "version 8": (request().replace(b"13\r\n", b"8\r\n"), 426, "version 13"),
    "short key": (request().replace(b"dGhl", b""), 400, "Sec-WebSocket-Key"),
    "no Connection": (request().replace(b"Connection: Upgrade\r\n", b""), 400, "Connection header"),
    "two hosts": (request(headers="Host: y\r\n"), 400, "host may come only once"),
    "a body": (request(headers="Content-Length: 5\r\n") + b"hello", 400, "no body"),
    "HTTP/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "HTTP/1.1"),
    "TLS on a plain port": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100), 400, "For TLS use a port"),
    "garbage": (bytes(range(256)), 400, "no HTTP"),
    "nonsense lines": (b"hello\r\nworld\r\n\r\n", 400, "The first line"),
    "head of 33 KiB": (request(headers=f"X-Long: {'x' * 33_000}\r\n"), 431, "32768 bytes"),
    "endless head": (b"GET /ws HTTP/1.1\r\n" + b"X: y\r\n" * 40_000, 431, "32768 bytes"),
    "address of 33 KiB": (request("/ws?" + "x" * 33_000), 414, "32768 bytes"),
    "101 header lines": (request(headers="X: y\r\n" * 101), 431, "more than 100 header lines"),
}


@pytest.mark.parametrize(("data", "status", "text"), REFUSED.values(), ids=REFUSED)
def test_refused_with_a_status_and_a_sentence(shared: Sidecar, data: bytes, status: int, text: str) -> None:
    with undisturbed(shared), Socket(shared.client_url) as peer:
        peer.send(data)
        answer = peer.rest().decode()
        assert answer.startswith(f"HTTP/1.1 {status} "), answer
        assert text in answer
        assert "Connection: " in answer


def cookies(count: int) -> str:
    """A header with so many cookies of a KiB each, as a site has whose identity provider cuts its token in pieces."""
    return "Cookie: " + "; ".join(f"c{number}={'x' * 1020}" for number in range(count)) + "\r\n"


@pytest.mark.parametrize("path", ["/ws", "/mqtt", "/events?subject=/a/b", "/snapshot?subject=/a/b"])
def test_the_cookies_of_the_site_come_along(shared: Sidecar, path: str) -> None:
    """A browser sends them with each request to that host, whether anybody here reads them or not."""
    offer = "Sec-WebSocket-Protocol: mqtt\r\n" if path == "/mqtt" else ""
    head = request(path, offer + cookies(16))
    if path.startswith(("/events", "/snapshot")):
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\n{cookies(16)}\r\n".encode()
    with Socket(shared.client_url) as peer:
        for at in range(0, len(head), 1400):
            peer.send(head[at : at + 1400])
        status = peer.read(12)
        assert status in (b"HTTP/1.1 101", b"HTTP/1.1 200", b"HTTP/1.1 404"), status


@pytest.mark.parametrize(("most", "fits"), [(65_536, 63), (2048, 1)])
def test_the_bound_of_a_head_is_a_setting(most: int, fits: int) -> None:
    """On the ports of clients and of metrics: up to it a head is taken."""
    listen = "clients://127.0.0.1:0,metrics://127.0.0.1:0"
    with Sidecar(mode="none", listen=listen, head_bytes_max=str(most)) as sidecar:
        for port in ("clients", "metrics"):
            address = f"ws://{sidecar.ready[port][0]}"
            path = "/ws" if port == "clients" else "/healthz"
            with Socket(address) as peer:
                peer.send(request(path, cookies(fits)))
                assert peer.read(12) == (b"HTTP/1.1 101" if port == "clients" else b"HTTP/1.1 200")
            with Socket(address) as peer:
                peer.send(request(path, cookies(fits + 1)))
                answer = peer.rest()
                assert answer.startswith(b"HTTP/1.1 431 ")
                assert f"{most} bytes".encode() in answer


def test_a_head_in_single_bytes_is_a_head(shared: Sidecar) -> None:
    with Socket(shared.client_url) as peer:
        for byte in request():
            peer.send(bytes((byte,)))
        assert peer.read(12) == b"HTTP/1.1 101"


def test_commands_right_behind_the_head_are_read(shared: Sidecar) -> None:
    with Socket(shared.client_url) as peer:
        peer.send(request() + b"\x81\x94\0\0\0\0" + b'{"op":"ping","id":7}')
        assert b'{"op":"pong","id":7,' in peer.read(190)


@pytest.fixture(scope="module")
def hasty() -> Iterator[Sidecar]:
    """A sidecar that waits one second for a handshake."""
    with Sidecar(handshake_seconds=1) as running:
        yield running


def test_a_request_that_does_not_come_in_time(hasty: Sidecar) -> None:
    """Nothing, a letter, all but the last line."""
    files = open_files(hasty.pid)
    with ExitStack() as stack:
        peers = [stack.enter_context(Socket(hasty.client_url)) for _ in range(3)]
        for peer, begun in zip(peers, (b"", b"G", request()[:-2]), strict=True):
            peer.send(begun)
        for peer in peers:
            assert peer.rest().startswith(b"HTTP/1.1 408 ")
    wait_gone(hasty, files)


def test_bytes_that_dribble_do_not_buy_time(hasty: Sidecar) -> None:
    """The head would take much longer than it may, a byte each hundredth of a second."""
    with Socket(hasty.client_url) as peer:
        head = iter(request(headers="X-Slow: yes\r\n" * 90))

        def refused() -> bool:
            if peer.silent():
                peer.send(bytes((next(head),)))
                return False
            return True

        until(refused)
        assert peer.rest().startswith(b"HTTP/1.1 408 ")


def test_a_websocket_without_a_command_in_time(hasty: Sidecar) -> None:
    def good_one() -> WireClient | None:
        """One that says something in time, which a machine that stands still may miss."""
        client = WireClient(hasty)
        try:
            client.ask("ping", "pong")
        except Ended:
            client.sock.close()
            return None
        return client

    with until(good_one) as good, WireClient(hasty) as silent, WireClient(hasty) as chatty:  # type: ignore[union-attr]
        chatty.frame(9, b"a ping of the WebSocket is no command")
        assert silent.closed() == (4003, "handshake_timeout")
        assert chatty.closed() == (4003, "handshake_timeout")
        assert good.quiet()


def test_a_publisher_that_says_no_hello_in_time(hasty: Sidecar) -> None:
    with Socket(hasty.publisher_url) as silent, Socket(hasty.publisher_url) as begun:
        begun.send(b"\x00\x00")
        for peer in (silent, begun):
            assert b"handshake_timeout: no hello in time" in peer.rest()


def test_who_does_not_answer_the_goodbye_is_let_go(hasty: Sidecar) -> None:
    """Also when the first command of all was the one that ended it."""
    files = open_files(hasty.pid)
    with ExitStack() as stack:
        peers = [stack.enter_context(WireClient(hasty)) for _ in range(3)]
        peers[0].frame(1, b"[]")
        peers[1].say("ping")
        peers[1].frame(1, b"[]")
        peers[2].send(b"\x00\x00")
        wait_gone(hasty, files)


def test_a_refused_connection_takes_no_place() -> None:
    with Sidecar(connections_max=2) as sidecar, ExitStack() as stack:
        first, second = (stack.enter_context(WireClient(sidecar)) for _ in range(2))
        for _ in range(5):
            with Socket(sidecar.client_url) as peer:
                peer.send(request())
                answer = peer.rest()
                assert answer.startswith(b"HTTP/1.1 503 ")
                assert b"Retry-After: 5\r\n" in answer
        assert first.ask("ping", "pong")
        assert second.ask("ping", "pong")
        second.sock.close()
        third = until(lambda: _try(sidecar))
        stack.enter_context(third)
        assert third.ask("ping", "pong")


def _try(sidecar: Sidecar) -> WireClient | None:
    try:
        return WireClient(sidecar)
    except AssertionError:
        return None


def test_five_hundred_half_open_connections_disturb_nobody() -> None:
    with Sidecar(handshake_seconds=2) as sidecar, undisturbed(sidecar), ExitStack() as stack:
        files = open_files(sidecar.pid)
        peers = [stack.enter_context(Socket(sidecar.client_url)) for _ in range(500)]
        for peer in peers:
            peer.send(request()[:40])
        until(lambda: open_files(sidecar.pid) >= files + 500)
        wait_gone(sidecar, files)
