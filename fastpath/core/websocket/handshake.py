"""The head of an HTTP/1.1 request, and the answer that makes it a WebSocket (RFC 9112, RFC 6455 4)."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha1
from http import HTTPStatus
from typing import NamedTuple

from ..protocol.errors import FastpathError

HEAD_BYTES_MAX = 32 << 10
"""The default bound: a browser's head has half a KiB, but a handshake brings all cookies of the site along."""

HEAD_BYTES_MOST = 64 << 10
"""The highest bound that may be set: so much of each connection is held before anybody knows who it is."""

_CHECKED_BYTES = 1024
"""Bytes of an unfinished head that are looked at each time that more comes: TLS on a plain port begins with what no
head has."""

HEADERS_MAX = 100
"""Header lines of one request: bounds the work of one head further than its bytes do."""

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KEY = re.compile(r"[A-Za-z0-9+/]{22}==")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TARGET = re.compile(r"[!-\"$-~]+")
_VERSION = re.compile(r"HTTP/[0-9]\.[0-9]")
_ABSOLUTE = re.compile(r"(?:https?|wss?)://[^/?]+", re.IGNORECASE)

_TEXT = bytes(byte for byte in range(256) if byte == 9 or 32 <= byte != 127)
"""RFC 9110 5.5: what a line may hold; bytes from 128 on have no meaning, and are no error either."""

_ONCE = frozenset({"host", "sec-websocket-key", "sec-websocket-version", "authorization", "origin", "content-length"})
"""RFC 9112 3.2 and RFC 6455 11.3: these may come once; a second one is an error or an attack."""

_COMMON = """
    Host Upgrade Connection Sec-WebSocket-Key Sec-WebSocket-Version Sec-WebSocket-Protocol
    Sec-WebSocket-Extensions Origin User-Agent Accept Accept-Encoding Accept-Language Pragma Cache-Control
    Cookie Authorization X-Forwarded-For X-Forwarded-Proto X-Real-IP Content-Length Content-Type Referer
    Sec-Fetch-Dest Sec-Fetch-Mode Sec-Fetch-Site Forwarded
"""
_NAMES = {spelling: name.lower() for name in _COMMON.split() for spelling in (name, name.lower())}
"""Spares nearly every header the check of its name and the lowering of it."""

_ACCEPT_START = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
)

Headers = Sequence[tuple[str, str]]


class BadRequest(FastpathError):
    """A request that is refused: send ``response()`` and close. ``reason`` says in a sentence what to do."""

    def __init__(self, status: int, reason: str, headers: Headers = ()) -> None:
        super().__init__(f"{status}: {reason}")
        self.status = status
        self.reason = reason
        self.headers = headers

    def response(self) -> bytes:
        """Return the answer to send."""
        return error_response(self.status, self.reason, self.headers)


class Request(NamedTuple):
    """The head of a request. Header names are lower-case, values are latin-1; ``path`` and ``query`` are not
    decoded.

    Lines of one name are joined by commas. ``head_bytes`` is where the head ends in the buffer: what follows
    it is the start of the body or, after an upgrade, of the first frame.
    """

    method: str
    target: str
    path: str
    query: str
    version: str
    headers: dict[str, str]
    head_bytes: int

    @property
    def is_upgrade(self) -> bool:
        """True if the client asks for a WebSocket; accept_response checks the rest."""
        return has_token(self.headers.get("upgrade", ""), "websocket")

    @property
    def subprotocols(self) -> list[str]:
        """The subprotocols on offer, the preferred one first (RFC 6455 4.2.1)."""
        offered = self.headers.get("sec-websocket-protocol", "")
        return [name for part in offered.split(",") if (name := part.strip())] if offered else []


def parse_request(buffer: bytes, bytes_max: int = HEAD_BYTES_MAX) -> Request | None:
    """Return the request at the start of ``buffer``, or None: then call again with more.

    Raises BadRequest for what RFC 9112 calls an error, as soon as it can be seen, and with 431 or 414 when the head is
    over ``bytes_max``; so a caller never holds more than that and one read.
    """
    start = 0
    # RFC 9112 2.2: a server ignores empty lines before the request line.
    while buffer.startswith(b"\r\n", start):
        start += 2
    end = buffer.find(b"\r\n\r\n", start)
    if end < 0 or end > bytes_max - 4:
        if len(buffer) > bytes_max or end >= 0:
            raise _too_long(buffer.find(b"\r\n", start, bytes_max) < 0, bytes_max)
        _check_unfinished(buffer[start : start + _CHECKED_BYTES])
        return None
    head = buffer[start:end]
    lines = head.decode("latin-1").split("\r\n")
    # Without the bytes that a line may hold nothing but the line ends is left: no bare CR or LF (2.2).
    if head.translate(None, _TEXT) != b"\r\n" * (len(lines) - 1):
        raise _bad_byte()
    if len(lines) > HEADERS_MAX + 1:
        raise BadRequest(431, f"The request has more than {HEADERS_MAX} header lines: send fewer.")
    method, target, path, query, version = _parse_request_line(lines[0])
    headers = _parse_headers(lines)
    if "host" not in headers and version != "HTTP/1.0":
        raise BadRequest(400, "The request has no Host header: send one with the name of this server.")
    return Request(method, target, path, query, version, headers, end + 4)


def accept_response(request: Request, subprotocol: str | None = None, extension: str = "") -> bytes:
    """Return the 101 answer to a valid opening handshake (RFC 6455 4.2).

    ``subprotocol`` is one of ``request.subprotocols``, ``extension`` the extensions agreed on. Raises BadRequest
    otherwise: 405 for a method but GET, 426 for another version of WebSocket or for plain HTTP.
    """
    headers = request.headers
    if request.method != "GET":
        raise BadRequest(405, "A WebSocket is opened with GET.", (("Allow", "GET"),))
    if request.version == "HTTP/1.0" or not request.is_upgrade:
        # RFC 9110 7.8: an Upgrade in HTTP/1.0 is ignored.
        raise _upgrade_required("This address speaks WebSocket: send HTTP/1.1 with Upgrade: websocket.")
    if not has_token(headers.get("connection", ""), "upgrade"):
        raise BadRequest(400, "The Connection header lacks the token Upgrade: a proxy may have removed it.")
    if headers.get("sec-websocket-version") != "13":
        raise _upgrade_required("This server speaks version 13 of WebSocket: send Sec-WebSocket-Version: 13.")
    key = headers.get("sec-websocket-key", "")
    if not _KEY.fullmatch(key):
        raise BadRequest(400, "Sec-WebSocket-Key must be there once and hold 16 random bytes in base64.")
    if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
        raise BadRequest(400, "The opening handshake of a WebSocket has no body.")
    accept = b64encode(sha1(key.encode() + _GUID, usedforsecurity=False).digest())
    lines = _ACCEPT_START + accept
    if subprotocol is not None:
        lines += b"\r\nSec-WebSocket-Protocol: " + subprotocol.encode("latin-1")
    if extension:
        lines += b"\r\nSec-WebSocket-Extensions: " + extension.encode("latin-1")
    return lines + b"\r\n\r\n"


def error_response(status: int, body: str, headers: Headers = ()) -> bytes:
    """Return a refusal in plain text, after which you must close; ``body`` says what is wrong and what to do."""
    content = body.encode() + b"\n"
    upgrade = any(name == "Upgrade" for name, _ in headers)
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        *(f"{name}: {value}" for name, value in headers),
        # RFC 9110 7.8: who sends Upgrade also names it in Connection.
        "Connection: Upgrade, close" if upgrade else "Connection: close",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(content)}",
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + content


def has_token(value: str, token: str) -> bool:
    """Return whether a comma-separated header value names ``token``, in any case (RFC 9110 5.6.1)."""
    value = value.lower()
    return value == token or any(part.strip() == token for part in value.split(","))


def _parse_request_line(line: str) -> tuple[str, str, str, str, str]:
    """Return method, target, path, query and version (RFC 9112 3)."""
    parts = line.split(" ")
    if len(parts) != 3 or not _TOKEN.fullmatch(parts[0]) or not _VERSION.fullmatch(parts[2]):
        raise BadRequest(400, "The first line must be a method, a target and HTTP/1.1, one space apart.")
    method, target, version = parts
    if version != "HTTP/1.1" and version != "HTTP/1.0":
        raise BadRequest(505, "This server speaks HTTP/1.1 and HTTP/1.0.")
    if not _TARGET.fullmatch(target):
        raise BadRequest(400, "The target must be percent-encoded: printable ASCII, without a fragment.")
    place = target
    if target[0] != "/":
        match = _ABSOLUTE.match(target)  # RFC 9112 3.2.2: a server must accept the absolute form.
        if not match:
            raise BadRequest(400, "The target must begin with a slash.")
        place = target[match.end() :]
    path, _, query = place.partition("?")
    return method, target, path or "/", query, version


def _parse_headers(lines: list[str]) -> dict[str, str]:
    """Return the lines from the second on, by lower-case name (RFC 9112 5)."""
    headers: dict[str, str] = {}
    for line in lines[1:]:
        spelling, colon, value = line.partition(":")
        name = _NAMES.get(spelling)
        if name is None or not colon:
            if not colon or not _TOKEN.fullmatch(spelling):
                # Also RFC 9112 5.1 (a space before the colon) and 5.2 (a folded line): both must be refused.
                raise BadRequest(400, "Each header line must be a name, a colon right after it, and a value.")
            name = spelling.lower()
        value = value.strip(" \t")
        if name in headers:
            if name in _ONCE:
                raise BadRequest(400, f"The header {name} may come only once.")
            # RFC 9110 5.3 joins by a comma; a cookie's own separator is the semicolon (RFC 6265 5.4).
            value = f"{headers[name]}{'; ' if name == 'cookie' else ', '}{value}"
        headers[name] = value
    return headers


def _check_unfinished(head: bytes) -> None:
    """Refuse at once what can never become a head, as TLS on a plain port, instead of waiting for its end."""
    rest = head.translate(None, _TEXT)
    if rest != (b"\r\n" * (len(rest) // 2 + 1))[: len(rest)]:
        raise _bad_byte()


def _too_long(in_request_line: bool, bytes_max: int) -> BadRequest:
    status, what = (414, "address") if in_request_line else (431, "request's head")
    return BadRequest(status, f"The {what} is too long: all of the head may have {bytes_max} bytes.")


def _bad_byte() -> BadRequest:
    return BadRequest(
        400,
        "This is no HTTP: a control character, or a line that does not end in CR LF."
        " For TLS use a port that is set up for it.",
    )


def _upgrade_required(sentence: str) -> BadRequest:
    """Return the refusal that names what to send instead (RFC 6455 4.4 and RFC 9110 15.5.22)."""
    return BadRequest(426, sentence, (("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")))
