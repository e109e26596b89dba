"""A JWK set is fetched from where the operator says, by no way round, and in bounded time."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fastpath.edge.listen import key_fetch
from fastpath.edge.listen.key_fetch import fetch
from tests.support.certificates import Certificate
from tests.support.ports import free_port

HEAD = b"HTTP/1.1 200 OK\r\nX: "


@contextmanager
def server(head: bytes, drop: bytes, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """The port of a server that answers with a head, and then with the same bytes twice a tenth of a second."""
    over = threading.Event()

    def serve(listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
            with context.wrap_socket(connection, server_side=True) if context else connection as peer:
                peer.recv(65536)
                peer.sendall(head)
                while drop and not over.wait(0.05):
                    peer.sendall(drop)
        except OSError:
            return  # who asked has gone

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_this_machines_address_is_asked_by_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a proxy answers in the clear is not what lies on this machine."""
    with server(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nours", b"") as port:
        for name in ("http_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
        assert fetch(f"http://127.0.0.1:{port}/keys") == b"ours"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("head", [HEAD, b"HTTP/1.1 100 Continue\r\nX: ", HEAD + b"\r\n\r\n"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_answer_in_drops_ends(scheme: str, head: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its head or after it: a thread that waits for ever would be the last that asks for keys."""
    certificate = Certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.cert, certificate.key)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.cert))
    monkeypatch.setattr(key_fetch, "FETCH_SECONDS", 0.5)
    with (
        server(head, b"a", context if scheme == "https" else None) as port,
        pytest.raises(TimeoutError, match="it takes longer"),
    ):
        fetch(f"{scheme}://localhost:{port}/keys")
