"""The head of a request and the opening handshake: vectors by section of RFC 9112, RFC 9110 and RFC 6455."""

from __future__ import annotations

from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.websocket.handshake import (
    HEAD_BYTES_MAX,
    HEADERS_MAX,
    BadRequest,
    Request,
    accept_response,
    error_response,
    has_token,
    parse_request,
)

HANDSHAKE = {
    "Host": "localhost:8800",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="  # RFC 6455 1.3 gives it for this key.


def head(first: str = "GET /ws HTTP/1.1", **changes: str | None) -> bytes:
    """A handshake; a keyword sets the header of that name (underscores for hyphens), None takes it away."""
    headers = {name.lower(): (name, value) for name, value in HANDSHAKE.items()}
    for keyword, value in changes.items():
        name = keyword.replace("_", "-")
        headers.pop(name.lower(), None)
        if value is not None:
            headers[name.lower()] = (name, value)
    lines = [first, *(f"{name}: {value}" for name, value in headers.values())]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


def lines(*texts: bytes) -> bytes:
    return b"GET / HTTP/1.1\r\nHost: a\r\n" + b"".join(text + b"\r\n" for text in texts) + b"\r\n"


def parse(data: bytes) -> Request:
    request = parse_request(data)
    assert request is not None
    return request


def singly(data: bytes) -> Request | None:
    """What a caller gets that has one byte more each time."""
    for size in range(len(data)):
        assert parse_request(data[:size]) is None
    return parse_request(data)


def refused(data: bytes) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        accept_response(parse(data))
    return caught.value


@pytest.mark.parametrize(
    "data",
    [
        head(),
        head(Connection="keep-alive, Upgrade"),  # 9110 7.6.1: a list
        head(connection="UPGRADE"),
        head(Connection="keep-alive ,\tupgrade , "),
        head(Upgrade="WebSocket"),  # 6455 4.2.1: in any case
        head(Upgrade="h2c, websocket"),
        head(upgrade="websocket"),
        head("GET http://localhost/ws HTTP/1.1"),  # 9112 3.2.2: absolute form
        head("GET WS://localhost:8800/ws HTTP/1.1"),
        head(X_Name="caf\xe9 \xff\xfe"),  # bytes that are no UTF-8
        head(Content_Length="0"),
        head(Host=""),  # 9112 3.2: empty when the target has no authority
        head(Sec_WebSocket_Key="AQIDBAUGBwgJCgsMDQ4PEC=="),  # 6455 4.1: its own example ends in stray bits
        head(**{"X-Tab": "\ta\tb \t"}),
        b"\r\n\r\n" + head(),  # 9112 2.2: empty lines before
    ],
)
def test_accepted(data: bytes) -> None:
    request = singly(data)

    assert request is not None
    assert request.path == "/ws"
    assert request.head_bytes == len(data)
    assert accept_response(request).startswith(b"HTTP/1.1 101 ")
    assert parse(data + b"\x81\x80") == request


def test_the_answer_is_that_of_the_rfc() -> None:
    """RFC 6455 1.3."""
    request = parse(head(Sec_WebSocket_Protocol="chat, superchat"))

    assert request.subprotocols == ["chat", "superchat"]
    assert (
        accept_response(request)
        == (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {ACCEPT}\r\n\r\n"
        ).encode()
    )
    assert accept_response(request, "superchat").endswith(
        f"\r\nSec-WebSocket-Accept: {ACCEPT}\r\nSec-WebSocket-Protocol: superchat\r\n\r\n".encode()
    )


@pytest.mark.parametrize(
    ("line", "path", "query"),
    [
        ("GET /ws HTTP/1.1", "/ws", ""),
        ("GET /ws? HTTP/1.1", "/ws", ""),
        ("GET /ws?token=a.b-c_d HTTP/1.1", "/ws", "token=a.b-c_d"),
        ("GET /a%20b?x=?&y=%C3%A9 HTTP/1.1", "/a%20b", "x=?&y=%C3%A9"),
        ("GET http://h HTTP/1.1", "/", ""),
        ("GET https://h:1?q=/ HTTP/1.1", "/", "q=/"),
        ("POST / HTTP/1.1", "/", ""),
    ],
)
def test_request_line(line: str, path: str, query: str) -> None:
    request = parse(head(line))

    assert [request.method, request.target, request.version] == line.split(" ")
    assert (request.path, request.query) == (path, query)


def test_headers() -> None:
    request = parse(lines(b"X-One:1", b"x-one:\t2 ", b"Cookie: a=1", b"cookie: b=2", b"X: \xe9", b"X-Empty:"))

    assert request.headers == {"host": "a", "x-one": "1, 2", "cookie": "a=1; b=2", "x": "\xe9", "x-empty": ""}
    assert request.subprotocols == []
    assert not request.is_upgrade


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (lines(b"Folded: a", b" b"), 400),  # 9112 5.2
        (lines(b"\tb: c"), 400),
        (b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400),  # 9112 2.2
        (lines(b"Name : value"), 400),  # 9112 5.1
        (lines(b": value"), 400),
        (lines(b"no colon"), 400),
        (lines(b"Origin"), 400),
        (lines(b"N\xe9: value"), 400),
        (lines(b"a: b\nc: d"), 400),  # 9112 2.2: a bare LF
        (lines(b"a: b\rc: d"), 400),  # and a bare CR
        (lines(b"a: b\0"), 400),  # 9110 5.5
        (lines(b"a: \x1b[2J"), 400),
        (lines(b"a: \x7f"), 400),
        (b"GET / HTTP/1.1\n\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),  # 9112 3.2: no Host
        (lines(b"Host: b"), 400),  # and two
        (lines(b"host: a"), 400),
        (lines(b"Content-Length: 1", b"Content-Length: 2"), 400),  # 9112 6.3
        (lines(b"Authorization: a", b"Authorization: b"), 400),
        (lines(b"Sec-WebSocket-Key: a", b"Sec-WebSocket-Key: a"), 400),  # 6455 11.3.1
        (lines(b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Version: 8"), 400),  # 6455 11.3.5
        (head("GET /ws"), 400),  # 9112 3
        (head("GET  /ws HTTP/1.1"), 400),
        (head(" GET /ws HTTP/1.1"), 400),
        (head("GET /ws HTTP/1.1 "), 400),
        (head("GET /w s HTTP/1.1"), 400),
        (head("G(T /ws HTTP/1.1"), 400),
        (head("GET /ws http/1.1"), 400),  # 9112 2.3: the name is in capitals
        (head("GET /ws HTTP/1.10"), 400),
        (head("GET /ws HTTP/2.0"), 505),
        (head("GET /ws HTTP/0.9"), 505),
        (head("GET ws HTTP/1.1"), 400),  # 9112 3.2
        (head("OPTIONS * HTTP/1.1"), 400),
        (head("CONNECT localhost:80 HTTP/1.1"), 400),
        (head("GET /ws#top HTTP/1.1"), 400),
        (head("GET /\xe9 HTTP/1.1"), 400),
        (lines(*[b"a: b"] * HEADERS_MAX), 431),
        (lines(b"a: " + b"b" * HEAD_BYTES_MAX), 431),
        (b"GET / HTTP/1.1\r\na: " + b"b" * HEAD_BYTES_MAX, 431),  # before its end is there
        (b"GET /" + b"b" * HEAD_BYTES_MAX, 414),
        (head("GET /?" + "b" * HEAD_BYTES_MAX + " HTTP/1.1"), 414),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),  # the start of TLS
    ],
)
def test_not_a_request(data: bytes, status: int) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_request(data)

    assert caught.value.status == status
    with pytest.raises(BadRequest):
        singly(data)


@pytest.mark.parametrize(
    ("data", "status", "header"),
    [
        (head("POST /ws HTTP/1.1"), 405, b"Allow: GET"),  # 6455 4.2.1
        (head("HEAD /ws HTTP/1.1"), 405, b"Allow: GET"),
        (head("GET /ws HTTP/1.0"), 426, b"Upgrade: websocket"),  # 9110 7.8
        (head(Upgrade=None), 426, b"Upgrade: websocket"),
        (head(Upgrade="websockets"), 426, b"Connection: Upgrade, close"),
        (head(Connection=None), 400, b"Connection: close"),
        (head(Connection="keep-alive"), 400, b"Connection: close"),
        (head(Sec_WebSocket_Version=None), 426, b"Sec-WebSocket-Version: 13"),  # 6455 4.4
        (head(Sec_WebSocket_Version="8"), 426, b"Sec-WebSocket-Version: 13"),
        (head(Sec_WebSocket_Version="013"), 426, b"Sec-WebSocket-Version: 13"),
        (head(Sec_WebSocket_Key=None), 400, b"Connection: close"),
        (head(Sec_WebSocket_Key=""), 400, b"Connection: close"),
        (head(Sec_WebSocket_Key="dGhlIHNhbXBsZSBub25jZQ"), 400, b"Connection: close"),
        (head(Sec_WebSocket_Key="dGhlIHNhbXBsZSBub25jZ==="), 400, b"Connection: close"),
        (head(Sec_WebSocket_Key="dGhlIHNhbXBsZSBub25jZQ==" * 2), 400, b"Connection: close"),
        (head(Sec_WebSocket_Key="dGhlIHNhbXBsZSBub25jZ\xe9=="), 400, b"Connection: close"),
        (head(Content_Length="3"), 400, b"Connection: close"),
        (head(Transfer_Encoding="chunked"), 400, b"Connection: close"),
    ],
)
def test_not_a_handshake(data: bytes, status: int, header: bytes) -> None:
    error = refused(data)
    top, _, body = error.response().partition(b"\r\n\r\n")

    assert top.startswith(f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode())
    assert header in top.split(b"\r\n")
    assert body.decode() == error.reason + "\n"


def test_the_bound_of_a_head_is_inclusive() -> None:
    """A caller with a full buffer always gets an answer, and so never has to hold more."""
    room = HEAD_BYTES_MAX - len(lines(b"a: "))

    assert parse(lines(b"a: " + b"b" * room) + b"more").head_bytes == HEAD_BYTES_MAX
    for data in (lines(b"a: " + b"b" * (room + 1)), b"\r\n" * HEAD_BYTES_MAX):
        with pytest.raises(BadRequest):
            parse_request(data)
    assert len(parse(lines(*[b"a: b"] * (HEADERS_MAX - 1))).headers) == 2


def test_error_response() -> None:
    assert (
        error_response(403, "Not from this origin: é", [("X-Reason", "origin")])
        == (
            "HTTP/1.1 403 Forbidden\r\nX-Reason: origin\r\nConnection: close\r\n"
            "Content-Type: text/plain; charset=utf-8\r\nContent-Length: 25\r\n\r\n"
            "Not from this origin: é\n"
        ).encode()
    )


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("upgrade", True),
        ("a,Upgrade", True),
        ("a, b ,UPGRADE ", True),
        ("", False),
        ("upgrades", False),
        ("up grade", False),
        ("a upgrade", False),
        ("a;upgrade", False),
    ],
)
def test_has_token(value: str, found: bool) -> None:
    assert has_token(value, "upgrade") is found


PIECES = st.one_of(
    st.binary(max_size=20),
    st.sampled_from(
        [
            b"\r\n",
            b"\r\n\r\n",
            b"GET /ws HTTP/1.1\r\n",
            b": ",
            b"Host: a\r\n",
            b"Upgrade: websocket\r\n",
            b" ",
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
            b"Connection: Upgrade\r\n",
            b"Sec-WebSocket-Version: 13\r\n",
            b"\xff",
        ]
    ),
)
DAMAGED = st.builds(
    lambda place, bytes_: head()[:place] + bytes_ + head()[place + 1 :],
    st.integers(0, len(head())),
    st.binary(max_size=3),
)
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=255, exclude_characters="\x7f"))
NAMES = st.from_regex(r"\A[A-Za-z0-9-]{1,12}\Z").filter(lambda name: name.lower() != "host")


@given(st.one_of(st.lists(PIECES, max_size=20).map(b"".join), DAMAGED))
def test_anything_gives_a_request_or_bad_request(data: bytes) -> None:
    try:
        request = parse_request(data)
        answer = accept_response(request) if request else b""
    except BadRequest as error:
        answer, status = error.response(), error.status
    else:
        status = 101
        assert request or len(data) <= HEAD_BYTES_MAX
        assert not request or 0 < request.head_bytes <= len(data)

    assert not answer or answer.startswith(b"HTTP/1.1 %d " % status)


@given(st.dictionaries(NAMES, VALUES))
def test_headers_come_back(headers: dict[str, str]) -> None:
    headers = {name.lower(): value for name, value in headers.items()}

    request = parse(lines(*(f"{name}: {value}".encode("latin-1") for name, value in headers.items())))

    assert request.headers == {"host": "a", **headers}
