"""HTTP/1.1 on client ports: connections that are kept, bodies in every form, and what is refused before it is read."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fastpath.client.control.client import Control
from fastpath.core.websocket.frames import BINARY
from fastpath.edge.plain_http import exchange
from tests.support.certificates import Certificate
from tests.support.edge.calling import HttpPeer, call_bytes
from tests.support.edge.wire import WireClient, masked, open_files, request, undisturbed, wait_gone
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

ONE = b'{"subject":"/http/one","content":"1"}'
LOOK = "/api/history?subject=/http/one"


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    """A body in chunks."""
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + end


def posted(*lines: str, body: bytes = b"", path: str = "/api/publish") -> bytes:
    """A publication with these header lines and no others but Host."""
    head = "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", "Content-Type: application/json", *lines])
    return head.encode() + b"\r\n\r\n" + body


IN_CHUNKS = "Transfer-Encoding: chunked"

REFUSED: dict[str, tuple[bytes, int, str]] = {
    "an unknown path": (call_bytes("GET", "/nothing"), 404, "open a WebSocket at /ws"),
    "an upgrade elsewhere": (request("/snapshot"), 404, "open a WebSocket at /ws"),
    "another method": (call_bytes("DELETE", "/snapshot"), 405, "GET, HEAD, OPTIONS"),
    "GET where POST is": (call_bytes("GET", "/api/publish"), 405, "POST, OPTIONS"),
    "another method with a body": (call_bytes("PUT", "/api/publish", ONE), 405, "POST, OPTIONS"),
    "no length": (posted(), 411, "Content-Length"),
    "another content type": (call_bytes("POST", "/api/publish", ONE, Content_Type="text/plain"), 415, "msgpack"),
    "no content type": (b"POST /api/publish HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", 415, "msgpack"),
    "a coding of the content": (posted("Content-Length: 37", "Content-Encoding: gzip", body=ONE), 415, "as it is"),
    "a body over the limit, announced": (posted("Content-Length: 9999999"), 413, "bytes are read"),
    "GET with a body": (call_bytes("GET", "/snapshot?subject=/a/b", b"x"), 400, "has no body"),
    "an expectation": (posted("Content-Length: 2", "Expect: a-miracle", body=b"{}"), 417, "100-continue"),
    # Request smuggling: what a proxy in front might read differently.
    "both lengths": (posted("Content-Length: 4", IN_CHUNKS, body=chunked(ONE)), 400, "not both"),
    "two lengths": (posted("Content-Length: 37", "Content-Length: 3", body=ONE), 400, "only once"),
    "a list of lengths": (posted("Content-Length: 37, 37", body=ONE), 400, "number of the body's bytes"),
    "a length with a sign": (posted("Content-Length: +37", body=ONE), 400, ""),
    "a length in hex": (posted("Content-Length: 0x25", body=ONE), 400, ""),
    "a negative length": (posted("Content-Length: -1", body=ONE), 400, ""),
    "two codings": (posted(IN_CHUNKS, IN_CHUNKS, body=chunked(ONE)), 501, "coding"),
    "another coding": (posted("Transfer-Encoding: gzip, chunked", body=chunked(ONE)), 501, ""),
    "a hidden coding": (posted("Transfer-Encoding: xchunked", body=chunked(ONE)), 501, ""),
    "a space before the colon": (posted("Transfer-Encoding : chunked", body=chunked(ONE)), 400, "right after it"),
    "a folded line": (posted("X: y\r\n Transfer-Encoding: chunked", "Content-Length: 0"), 400, "right after it"),
    "a bare line feed": (posted("X: y\nContent-Length: 3", body=ONE), 400, "CR LF"),
    "a bare carriage return": (posted("X: y\rContent-Length: 3", body=ONE), 400, "CR LF"),
    "a NUL": (posted("X: \0", "Content-Length: 37", body=ONE), 400, "control character"),
    "chunks in HTTP/1.0": (posted(IN_CHUNKS, body=chunked(ONE)).replace(b"1.1", b"1.0"), 400, "HTTP/1.0"),
    "a chunk's length that is none": (posted(IN_CHUNKS, body=b"zz\r\n" + ONE), 400, "no HTTP"),
    "a chunk that is longer than it says": (posted(IN_CHUNKS, body=b"2\r\n" + ONE + b"\r\n"), 400, "no HTTP"),
    "a chunk with bare line feeds": (posted(IN_CHUNKS, body=b"25\n" + ONE + b"\n0\n\n\r\n"), 400, "no HTTP"),
    "an end with a bare line feed": (posted(IN_CHUNKS, body=chunked(ONE, end=b"0\r\n\n")), 400, "CR LF"),
    "trailers": (posted(IN_CHUNKS, body=chunked(ONE, end=b"0\r\nContent-Length: 3\r\n\r\n")), 400, "trailers"),
    "a chunk's length without end": (posted(IN_CHUNKS, body=b"0" * 20_000), 431, ""),
}


@pytest.mark.parametrize(("data", "status", "text"), REFUSED.values(), ids=REFUSED)
def test_refused_with_a_status_and_an_end(shared: Sidecar, data: bytes, status: int, text: str) -> None:
    """On a new connection, and behind a request that was answered; nothing of it is published."""
    with undisturbed(shared):
        for first in (b"", call_bytes("GET", LOOK)):
            if first and b"Upgrade:" in data:
                continue
            with HttpPeer(shared) as peer:
                peer.send(first + data)
                if first:
                    assert peer.response().status == 200
                if b"Upgrade:" in data:
                    assert peer.rest().startswith(b"HTTP/1.1 404 ")
                    continue
                answer = peer.response()
                assert answer.status == status, answer
                assert answer.headers["connection"] == "close"
                if not first and answer.headers["content-type"].startswith("text/plain"):
                    assert text in answer.body.decode()
                else:
                    assert answer.headers["content-type"] == "application/problem+json"
                    assert answer.json["status"] == status
                    assert text in answer.json["detail"]
                if status == 405:
                    assert answer.headers["allow"] in answer.json["detail"]
                assert peer.ended
        with HttpPeer(shared) as peer:
            assert peer.history(subject="/http/one")[0]["messages"] == []


def test_a_connection_is_kept_and_may_end(shared: Sidecar) -> None:
    with HttpPeer(shared) as peer:
        for _ in range(3):
            assert "connection" not in peer.ask("GET", LOOK).headers
        assert peer.ask("HEAD", LOOK).body == b""
        assert int(peer.ask("HEAD", LOOK).headers["content-length"]) > 50
        assert peer.ask("GET", LOOK, Connection="close").headers["connection"] == "close"
        assert peer.ended
    with HttpPeer(shared) as peer:
        peer.send(f"GET {LOOK} HTTP/1.0\r\n\r\n".encode())
        assert peer.response().headers["connection"] == "close"
        assert peer.ended


def test_a_thousand_requests_on_one_connection(shared: Sidecar) -> None:
    """One by one, and a thousand more in one piece: the answers come in order."""
    files = open_files(shared.pid)
    with HttpPeer(shared) as peer:
        for _ in range(1000):
            assert peer.ask("GET", "/snapshot?subject=/none/here").status == 404
        peer.send(b"".join(call_bytes("GET", f"/api/history?subject=/in/n{number}") for number in range(1000)))
        for number in range(1000):
            assert peer.response().json["subjects"][0]["subject"] == f"/in/n{number}"
    wait_gone(shared, files)


def test_pipelined_publications_are_published_in_order(shared: Sidecar) -> None:
    with HttpPeer(shared) as peer:
        bodies = [json.dumps({"subject": "/http/line", "content": str(number)}).encode() for number in range(50)]
        mixed = [
            call_bytes("POST", "/api/publish", body)
            if number % 2
            else posted(IN_CHUNKS, body=chunked(body[:7], body[7:]))
            for number, body in enumerate(bodies)
        ]
        peer.send(b"".join(mixed))
        assert [peer.response().json["results"][0]["seq"] for _ in bodies] == list(range(1, 51))
        (found,) = peer.history(subject="/http/line", limit=50)
        assert [message["content"] for message in found["messages"]] == [str(number) for number in range(50)]


def test_a_request_in_single_bytes(shared: Sidecar) -> None:
    body = ONE.replace(b"one", b"bit")
    for data in (call_bytes("POST", "/api/publish", body), posted(IN_CHUNKS, body=chunked(body))):
        with HttpPeer(shared) as peer:
            for at in range(len(data)):
                peer.send(data[at : at + 1])
            assert peer.response().status == 200


def test_a_body_that_is_waited_for_is_asked_for(shared: Sidecar) -> None:
    """As curl does with a large one; one that is too large is refused at once."""
    with HttpPeer(shared) as peer:
        body = ONE.replace(b"one", b"expected")
        peer.send(posted(f"Content-Length: {len(body)}", "Expect: 100-continue"))
        assert peer.response().status == 100
        peer.send(body)
        assert peer.response().status == 200
        peer.send(posted("Content-Length: 99999999", "Expect: 100-continue"))
        assert peer.response().status == 413


def test_a_chunked_body_over_the_limit(shared: Sidecar) -> None:
    with undisturbed(shared), HttpPeer(shared) as peer:
        peer.send(posted(IN_CHUNKS, body=b"1\r\n \r\n" * 10_001))
        assert "chunks" in peer.response().json["detail"]
    with undisturbed(shared), HttpPeer(shared) as peer:
        peer.send(posted(IN_CHUNKS))
        chunk = chunked(b" " * 60_000, end=b"")
        for _ in range(37):
            peer.send(chunk)
        assert peer.response().status == 413
        assert peer.ended


def test_a_head_that_does_not_come_in_time() -> None:
    """It has the time of a handshake, also the second one; a body has TRANSFER_SECONDS, an idle connection
    IDLE_SECONDS."""
    with (
        Sidecar(handshake_seconds=1) as hasty,
        HttpPeer(hasty) as late,
        HttpPeer(hasty) as busy,
        HttpPeer(hasty) as idle,
    ):
        for peer in (late, idle):
            assert peer.ask("GET", LOOK).status == 200
        busy.send(posted("Content-Length: 100", body=b"x"))
        late.send(b"GET /snap")
        answer = late.response()
        assert (answer.status, answer.headers["connection"]) == (408, "close")
        assert late.ended
        assert busy.silent()
        assert idle.ask("GET", LOOK).status == 200


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sidecar, str, str, Certificate]]:
    """A sidecar with a plain port, one of TLS and a unix socket, and a subject that is large."""
    certificate = Certificate(tmp_path_factory.mktemp("tls"))
    sidecar = Sidecar()
    path = str(sidecar.folder / "h.sock")
    sidecar.settings["listen"] = f"clients://127.0.0.1:0,{certificate.url('clients')},clients+unix://{path}"
    with sidecar:
        with HttpPeer(sidecar) as peer:
            peer.publish({"subject": "/large/one", "content": "x" * 1_000_000})
        _, secure, unix = sidecar.ready["clients"]
        assert unix == path
        yield sidecar, secure, unix, certificate
        assert "Traceback" not in sidecar.log


def test_every_kind_of_port(large: tuple[Sidecar, str, str, Certificate]) -> None:
    sidecar, secure, unix, certificate = large
    with ExitStack() as stack:
        peers = [
            stack.enter_context(HttpPeer(sidecar)),
            stack.enter_context(HttpPeer(secure, tls=certificate.trusting())),
            stack.enter_context(HttpPeer(unix)),
        ]
        for number, peer in enumerate(peers, 1):
            assert peer.publish({"subject": "/kinds/one", "content": "x"})[0]["seq"] == number
            for _ in range(3):
                assert len(peer.ask("GET", "/snapshot?subject=/large/one").json["content"]) == 1_000_000
            peer.send(call_bytes("GET", "/snapshot?subject=/kinds/one") * 100)
            assert [peer.response().status for _ in range(100)] == [200] * 100
            assert peer.ask("GET", "/nothing").status == 404
            assert peer.ended


def test_a_slow_reader_holds_up_itself(large: tuple[Sidecar, str, str, Certificate]) -> None:
    """It asks for 200 MB and takes none: no more is prepared for it than one answer, and all come when it reads."""
    sidecar, secure, unix, certificate = large
    del unix
    for where, keys in ((sidecar.client_url, {}), (secure, {"tls": certificate.trusting()})):
        with HttpPeer(where, receive_bytes=4096, **keys) as slow, WireClient(sidecar) as other:
            slow.send(call_bytes("GET", "/snapshot?subject=/large/one") * 200)
            before = memory(sidecar.pid)
            for _ in range(20):
                assert other.ask("ping", "pong")
                time.sleep(0.02)
            assert memory(sidecar.pid) - before < 10 << 20
            for _ in range(20):
                assert len(slow.response().body) > 1_000_000


def memory(pid: int) -> int:
    """The resident bytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def test_many_slow_bodies_cost_others_nothing(shared: Sidecar) -> None:
    """A hundred that send a byte now and then, and tiny chunks as fast as they go, beside one who behaves."""
    files = open_files(shared.pid)
    with ExitStack() as stack:
        slow = [stack.enter_context(HttpPeer(shared)) for _ in range(100)]
        for peer in slow:
            peer.send(posted(IN_CHUNKS, body=b"1\r\n \r\n" * 400))
        with WireClient(shared) as client, HttpPeer(shared) as caller:
            for _ in range(10):
                for peer in slow:
                    peer.send(b"1\r\n \r\n")
                assert client.ask("ping", "pong")
                assert caller.ask("GET", LOOK).status == 200
    wait_gone(shared, files)


def test_who_goes_before_the_answer_is_let_go(shared: Sidecar) -> None:
    with Control(shared.control) as control:
        until(lambda: control.stats()["http_connections"] == 0)  # nobody of the test before is left
        files = open_files(shared.pid)
        with ExitStack() as stack:
            for _ in range(20):
                peer = stack.enter_context(HttpPeer(shared))
                peer.send(call_bytes("GET", f"{LOOK}&since=1,0&wait=30"))
            until(lambda: control.stats()["http_connections"] == 20)
        wait_gone(shared, files)


PAGE = "https://app.example.com"


def test_pages_of_browsers() -> None:
    """The origins that may open a WebSocket may ask here, after a preflight; others are refused."""
    with Sidecar(origins=PAGE) as sidecar, HttpPeer(sidecar) as peer:
        asked = {"Origin": PAGE, "Access_Control_Request_Method": "POST"}
        answer = peer.ask("OPTIONS", "/api/publish", **asked)
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (204, PAGE)
        assert answer.headers["access-control-allow-methods"] == answer.headers["allow"] == "POST, OPTIONS"
        assert "Idempotency-Key" in answer.headers["access-control-allow-headers"]
        answer = peer.ask("GET", LOOK, Origin=PAGE)
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, PAGE)
        assert answer.headers["vary"] == "Origin"
        assert peer.ask("OPTIONS", "/snapshot").headers["allow"] == "GET, HEAD, OPTIONS"
        assert "access-control-allow-origin" not in peer.ask("GET", LOOK).headers
        answer = peer.ask("GET", LOOK, Origin="https://evil.example.org")
        assert (answer.status, "access-control-allow-origin" in answer.headers) == (403, False)
        assert peer.ended


def test_rates_count_requests_and_what_they_publish() -> None:
    """Who is ahead of its rate is not read from for a while; nothing is lost."""
    with Sidecar(publications_per_second_max=100) as sidecar, HttpPeer(sidecar) as peer:
        peer.publish([{"subject": "/rate/one", "content": "x"}] * 250)
        assert peer.ask("GET", LOOK).status == 200
        with Control(sidecar.control) as control:
            until(lambda: control.stats()["limited_publications"])


def test_what_is_counted(shared: Sidecar) -> None:
    with HttpPeer(shared) as peer, Control(shared.control) as control:
        before = control.stats()["http_requests"]
        for _ in range(5):
            peer.ask("GET", LOOK)
        stats = control.stats()
        assert stats["http_requests"] - before == 5
        assert stats["http_connections"] >= 1


def test_connections_count() -> None:
    """Those that are kept take places; who comes when there are none is told so."""
    with Sidecar(connections_max=2) as sidecar, HttpPeer(sidecar) as one, HttpPeer(sidecar) as two:
        assert one.ask("GET", LOOK).status == two.ask("GET", LOOK).status == 200
        with HttpPeer(sidecar) as third:
            assert third.response().status == 503
        assert one.ask("GET", "/nothing").status == 404
        until(lambda: asked(sidecar) == 200)


def asked(sidecar: Sidecar) -> int:
    """The status that a new connection gets."""
    with HttpPeer(sidecar) as peer:
        return peer.ask("GET", LOOK).status


def test_the_limits_have_their_order() -> None:
    """What is kept idle is kept longer than a minute, as pools and proxies count on."""
    assert exchange.IDLE_SECONDS > 60 >= exchange.TRANSFER_SECONDS


class _KeptFirst(WireClient):
    """A WebSocket that is asked for on a connection over which something else was answered before, as a proxy does."""

    def send(self, data: bytes) -> None:
        if b"Upgrade: websocket" in data:
            super().send(call_bytes("GET", LOOK) + data)
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += self.read(1)
            found = re.search(rb"content-length: ([0-9]+)", head.lower())
            assert found is not None
            self.read(int(found[1]))
        else:
            super().send(data)


def test_a_websocket_on_a_kept_connection(sidecar: Sidecar) -> None:
    """Right behind another request, and its first command right behind it."""
    with _KeptFirst(sidecar) as client, WireClient(sidecar) as other:
        client.subscribe("/kept/one")
        other.say("publish", subject="/kept/one", content="first", closure="c")
        assert client.texts(1) == ["first"]


def test_a_websocket_elsewhere_on_a_kept_connection_is_refused(sidecar: Sidecar) -> None:
    with HttpPeer(sidecar) as peer:
        peer.send(call_bytes("GET", LOOK) + request("/nowhere"))
        assert b" 200 " in peer.read(20)
        assert b"open a WebSocket at /ws" in peer.rest()


def test_mqtt_over_a_websocket_on_a_kept_connection(sidecar: Sidecar) -> None:
    connect = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01m"
    with HttpPeer(sidecar) as peer:
        assert peer.ask("GET", LOOK).status == 200
        peer.send(request("/mqtt", "Sec-WebSocket-Protocol: mqtt\r\n") + masked(BINARY, connect))
        answer = peer.response()
        assert (answer.status, answer.headers.get("sec-websocket-protocol")) == (101, "mqtt")
        assert peer.read(6) == b"\x82\x04\x20\x02\x00\x00"  # CONNACK in a message


@pytest.mark.parametrize("path", ["/events?subjects=/a/b", "/session/stream", "/session/poll"])
def test_a_head_tells_no_length_that_nobody_knows(sidecar: Sidecar, path: str) -> None:
    """RFC 9110 8.6: a length would have to be that of the answer to a GET."""
    with HttpPeer(sidecar) as peer:
        answer = peer.ask("HEAD", path)
        assert (answer.status, answer.headers.get("content-length")) == (200, None)
        assert answer.headers["content-type"] in ("text/event-stream", "application/x-ndjson")
        assert peer.ask("GET", LOOK).status == 200, "the connection goes on"
