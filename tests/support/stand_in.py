"""A server that stands where a web server expects Django or a sidecar, and tells what it was asked."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


def _accept(key: str) -> str:
    """RFC 6455 4.2.2."""
    return base64.b64encode(hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()).decode()  # noqa: S324


class _Server(ThreadingHTTPServer):
    """Quiet about askers that have gone, as health checks do."""

    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Nothing: a test sees what it did not get."""


class StandIn:
    """``with StandIn("django") as server:``; ``address`` is HOST:PORT.

    Most paths answer with a JSON document of its name, the path and the headers. ``/events`` is a stream of Server-Sent
    Events, whose second one comes when ``go_on`` is set; ``/ws`` opens a WebSocket and never says a word; ``/readyz``
    answers 503 once ``is_draining``.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.go_on = threading.Event()
        self.is_draining = False
        self._ended = threading.Event()
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                stand_in._answer(self)

            def log_message(self, *_: Any) -> None:
                """Nothing: tests read what was answered."""

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.go_on.set()
        self._server.shutdown()
        self._thread.join()
        self._server.socket.close()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        path = request.path.partition("?")[0]
        if path == "/ws":
            request.send_response(101)
            request.send_header("Upgrade", "websocket")
            request.send_header("Connection", "Upgrade")
            request.send_header("Sec-WebSocket-Accept", _accept(request.headers["Sec-WebSocket-Key"]))
            request.end_headers()
            request.close_connection = True
            self._ended.wait()
        elif path == "/events":
            self._stream(request)
        else:
            said = {
                "server": self.name,
                "path": request.path,
                "headers": {key.lower(): text for key, text in request.headers.items()},
            }
            body = json.dumps(said).encode()
            request.send_response(503 if path == "/readyz" and self.is_draining else 200)
            request.send_header("Content-Type", "application/json")
            request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            request.wfile.write(body)

    def _stream(self, request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Type", "text/event-stream")
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        for event in (b"data: first\n\n", b"data: second\n\n", b""):
            request.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            request.wfile.flush()
            self.go_on.wait()
