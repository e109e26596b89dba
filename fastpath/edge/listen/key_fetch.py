"""Fetches a JWK set from its address over HTTP."""

from __future__ import annotations

import socket
import ssl
import threading
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, NoReturn
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

from .key_file import KEY_FILE_BYTES_MAX

FETCH_SECONDS = 10.0
"""Seconds for the connection, and then for the whole answer."""

PIECE_BYTES = 64 << 10


class _NoRedirect(HTTPRedirectHandler):
    """An address that sends elsewhere is not the one that the operator has named and trusts."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> NoReturn:
        del req, fp, msg, headers
        raise URLError(f"it answers {code} and names {newurl[:200]!r}: give that address, if it is the right one")


class _Deadline:
    """Cuts a connection when its time is over: a server that sends a byte now and then never lets a read time out."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ended = threading.Event()
        self.passed = False

    def begin(self, connected: socket.socket) -> None:
        """Begin when the connection is there."""
        threading.Thread(target=self._watch, args=(connected,), name="token keys deadline", daemon=True).start()

    def end(self) -> None:
        """End a deadline that is not needed any more."""
        self._ended.set()

    def _watch(self, connected: socket.socket) -> None:
        if self._ended.wait(self._seconds):
            return
        self.passed = True
        try:
            # That of TLS would take the cipher from under the thread that reads.
            socket.socket.shutdown(connected, socket.SHUT_RDWR)
        except OSError:
            return  # it has just ended by itself


class _Https(HTTPSHandler):
    def __init__(self, deadline: _Deadline) -> None:
        self._tls = ssl.create_default_context()
        super().__init__(context=self._tls)
        self._deadline = deadline

    def https_open(self, req: Request) -> HTTPResponse:
        deadline = self._deadline

        class BoundedHttps(HTTPSConnection):
            def connect(self) -> None:
                super().connect()
                deadline.begin(self.sock)

        return self.do_open(BoundedHttps, req, context=self._tls)


class _Http(HTTPHandler):
    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: Request) -> HTTPResponse:
        deadline = self._deadline

        class BoundedHttp(HTTPConnection):
            def connect(self) -> None:
                super().connect()
                deadline.begin(self.sock)

        return self.do_open(BoundedHttp, req)


def fetch(address: str) -> bytes:
    """Return what lies at the address; raise OSError, of which URLError is one, or ValueError. It blocks: call it in a
    thread."""
    deadline = _Deadline(FETCH_SECONDS)
    handlers: list[Any] = [_NoRedirect, _Https(deadline), _Http(deadline)]
    if urlsplit(address).scheme == "http":
        # It is this machine's, and would leave it for a proxy, which could answer what it likes.
        handlers.append(ProxyHandler({}))
    request = Request(address, headers={"Accept": "application/jwk-set+json, application/json"})  # noqa: S310 - checked
    try:
        found = _read(build_opener(*handlers), request)
    except (OSError, HTTPException) as error:
        if not deadline.passed and not _timed_out(error):
            raise
    else:
        if not deadline.passed:
            return found
    finally:
        deadline.end()
    raise TimeoutError(f"it takes longer than {FETCH_SECONDS:.0f} s")


def _timed_out(error: Exception) -> bool:
    """Return whether nothing came for so long, which may be found out before the deadline is: it is told alike."""
    return isinstance(error, TimeoutError) or isinstance(getattr(error, "reason", None), TimeoutError)


def _read(opener: Any, request: Request) -> bytes:
    found = bytearray()
    with opener.open(request, timeout=FETCH_SECONDS) as answer:
        while piece := answer.read1(PIECE_BYTES):
            found += piece
            if len(found) > KEY_FILE_BYTES_MAX:
                raise ValueError(f"it has over {KEY_FILE_BYTES_MAX} bytes")
    return bytes(found)
