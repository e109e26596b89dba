"""A provider of identities: a real server over TLS, which has the keys that its tokens are signed with."""

from __future__ import annotations

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.certificates import Certificate
from tests.support.ports import free_port


class Provider:
    """A provider of identities, over TLS on a port of its own; ``answer`` is its status, headers and body."""

    def __init__(self, folder: Path, keys: bytes) -> None:
        self.certificate = Certificate(folder)
        self.port = free_port()
        self.url = f"https://localhost:{self.port}/keys"
        self.answer: tuple[int, dict[str, str], bytes] = (200, {}, keys)
        self.asked = 0
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        """Open the port."""
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked += 1
                status, headers, body = provider.answer
                self.send_response(status)
                for name, value in ({"Content-Length": str(len(body))} | headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate.cert, self.certificate.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        """Close it."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
