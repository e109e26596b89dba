"""The web port and the client port answer the same, byte for byte; streams, slow readers, and ends of either side."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from fastpath.client.control.client import Control
from realtime.forwarding.application import http_application
from tests.support.edge.calling import HttpPeer, Response, call_bytes
from tests.support.edge.events import EventReader
from tests.support.edge.wire import Ended
from tests.support.realtime.server import WebServer
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint
from tests.support.waiting import PATIENCE_SECONDS, until

SUBJECT = "/stocks/us/IBM"
OF_THE_HOP = {"date", "server", "connection", "transfer-encoding", "keep-alive"}


@pytest.fixture(scope="module")
def behind() -> Iterator[Sidecar]:
    """It asks rules, of which a superuser needs none; pages of one origin may ask."""
    origins = "http://page.example"
    with Sidecar(mode="rules", token_secret=SECRET, origins=origins, message_bytes_max=100_000) as running:
        let_in(running)
        yield running


@pytest.fixture(scope="module")
def web(behind: Sidecar) -> Iterator[WebServer]:
    with WebServer(behind.settings["listen"], REALTIME_ALLOWED_HOSTS="localhost,x") as running:
        yield running


def let_in(sidecar: Sidecar) -> None:
    """Send the rights: no rule."""
    with Control(sidecar.control) as control:
        control.rules_begin(1)
        control.rules_commit(1)


def at(web: WebServer) -> str:
    """Where a peer finds the web port."""
    return f"127.0.0.1:{web.port}"


def asked(where: Sidecar | str, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Response:
    """An answer, without what is for the hop."""
    with HttpPeer(where) as peer:
        answer = peer.ask(method, path, body, **headers)
        kept = {name: value for name, value in answer.headers.items() if name not in OF_THE_HOP}
        return answer._replace(headers=kept)


TOKEN = mint("ann", superuser=True)
BEARER = {"Authorization": f"Bearer {TOKEN}"}
MANY = b'[{"subject":"x"},{"subject":"/a/b","content":""}]'
MESSAGE = json.dumps({"subject": SUBJECT, "content": "193", "fields": {"volume": "6.62M"}}).encode()

REQUESTS: dict[str, tuple[str, str, bytes | None, dict[str, str]]] = {
    "publish once": ("POST", "/api/publish", MESSAGE, BEARER | {"Idempotency-Key": "k"}),
    "publish many": ("POST", "/api/publish", MANY, BEARER | {"Idempotency-Key": "m"}),
    "publish what is no JSON": ("POST", "/api/publish", b"{", BEARER),
    "publish without a type": ("POST", "/api/publish", b"{}", BEARER | {"Content_Type": "text/plain"}),
    "publish with an empty body": ("POST", "/api/publish", b"", BEARER),
    "snapshot": ("GET", f"/snapshot?subject={SUBJECT}", None, BEARER),
    "snapshot by token": ("GET", f"/snapshot?subject={SUBJECT}&token={TOKEN}", None, {}),
    "in MessagePack": ("GET", f"/snapshot?subject={SUBJECT}", None, BEARER | {"Accept": "application/msgpack"}),
    "snapshot's head": ("HEAD", f"/snapshot?subject={SUBJECT}", None, BEARER),
    "nothing there": ("GET", "/snapshot?subject=/none/here", None, BEARER),
    "no subject": ("GET", "/snapshot", None, BEARER),
    "a malformed subject": ("GET", "/snapshot?subject=stocks", None, BEARER),
    "a misspelt parameter": ("GET", "/snapshot?subject=/a&tokn=1", None, BEARER),
    "a query that is no UTF-8": ("GET", "/snapshot?subject=/%ff", None, BEARER),
    "a bad token": ("GET", f"/snapshot?subject={SUBJECT}", None, {"Authorization": "Bearer x.y.z"}),
    "a token that is no ASCII": ("GET", f"/snapshot?subject={SUBJECT}", None, {"Authorization": "Bearer é€"}),
    "another method": ("DELETE", "/snapshot", None, BEARER),
    "a body where none belongs": ("GET", f"/snapshot?subject={SUBJECT}", b"x", BEARER),
    "history": ("GET", f"/api/history?subject={SUBJECT}&limit=1", None, BEARER),
    "history behind": ("GET", f"/api/history?subject={SUBJECT}&since=1,1", None, BEARER),
    "presence": ("GET", f"/api/presence?subject={SUBJECT}", None, BEARER),
    "events with a token that is no ASCII": ("GET", "/events?subjects=/a/b", None, {"Authorization": "Bearer é€"}),
    "disconnect": ("POST", "/api/disconnect", b'{"user":"nobody"}', BEARER),
    "unsubscribe": ("POST", "/api/unsubscribe", b'{"user":"nobody","subject":"/a/**"}', BEARER),
    "disconnect without the right": ("POST", "/api/disconnect", b'{"user":"nobody"}', {}),
    "events of a page that may not": ("GET", "/events?subjects=/a/b", None, BEARER | {"Origin": "http://evil.example"}),
    "the document for a page": ("GET", "/api/schema/", None, {"Origin": "http://page.example"}),
    "the document": ("GET", "/api/schema/", None, {}),
    "events' head": ("HEAD", "/events", None, BEARER),
    "events of nothing": ("GET", "/events", None, BEARER),
    "events with a bad token": ("GET", "/events?subjects=/a/b&token=é€".replace("é€", "%C3%A9"), None, {}),
    "a preflight": ("OPTIONS", "/api/publish", None, {
        "Origin": "http://page.example", "Access-Control-Request-Method": "POST",
    }),
    "a page that may": ("GET", f"/snapshot?subject={SUBJECT}", None, BEARER | {"Origin": "http://page.example"}),
    "a page that may not": ("GET", f"/snapshot?subject={SUBJECT}", None, BEARER | {"Origin": "http://evil.example"}),
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_both_ports_answer_the_same(name: str, behind: Sidecar, web: WebServer) -> None:
    """Status, body and headers, but for what is for the hop."""
    request = REQUESTS[name]
    with HttpPeer(behind) as peer:
        peer.publish(
            {"subject": SUBJECT, "content": "193", "fields": {"volume": "6.62M"}}, **BEARER, Idempotency_Key="t"
        )
    assert asked(at(web), *request) == asked(behind, *request)


def test_bodies_in_chunks_and_bodies_over_the_limit(web: WebServer) -> None:
    """A body goes on as it comes, and one over the limit is refused as on the client port."""
    head = call_bytes("POST", "/api/publish", Content_Type="application/json", **BEARER)[:-2]
    with HttpPeer(at(web)) as peer:
        peer.send(head + b"Transfer-Encoding: chunked\r\n\r\n")
        for piece in (MESSAGE[:10], MESSAGE[10:]):
            peer.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        peer.send(b"0\r\n\r\n")
        assert peer.response().json["results"][0]["status"] == "ok"
        assert peer.ask("POST", "/api/publish", b"x" * 400_000, **BEARER).status == 413


def test_a_page_of_the_site_itself_may_ask(web: WebServer) -> None:
    """Though the sidecar lets in other origins: as over the relay."""
    for site, status in (("localhost:8000", 200), ("evil.example", 400)):
        request = call_bytes("GET", f"/snapshot?subject={SUBJECT}", Origin=f"http://{site}", **BEARER)
        with HttpPeer(at(web)) as peer:
            peer.send(request.replace(b"Host: x", b"Host: " + site.encode()))
            assert peer.response().status == status


def test_events_come_one_by_one_and_end_with_either_side(behind: Sidecar, web: WebServer) -> None:
    """Each as soon as it is published; who goes leaves the sidecar at once."""
    with Control(behind.control) as control:
        with Chunked(at(web), SUBJECT, token=TOKEN) as reader:
            assert "X-Accel-Buffering: no" in reader.head
            assert reader.next().name == "subscribed"
            for number in range(3):
                control.publish([[SUBJECT, f"{number} é"]])
                until_content(reader, f"{number} é")
            until(lambda: control.stats()["connections"] == 1)  # who read before may just be leaving
        until(lambda: control.stats()["connections"] == 0)


def test_a_reader_that_does_not_read_costs_a_bounded_amount(behind: Sidecar, web: WebServer) -> None:
    """The sidecar sees it as slow, and the web server does not keep what it does not read."""
    with Chunked(at(web), SUBJECT, token=TOKEN, receive_bytes=4096), Control(behind.control) as control:
        before, closed = web.memory_bytes, control.stats()["slow_closed"]
        rows = [[SUBJECT, "x" * 90_000]] * 10
        published = 0
        while control.stats()["slow_closed"] == closed:
            control.publish(rows)
            published += 1
            assert published < 400, "360 MB went somewhere"
        assert web.memory_bytes - before < 30 << 20
        assert asked(at(web), "HEAD", "/events", None, BEARER).status == 200, "others are not held up"


def test_a_sidecar_that_goes_ends_streams_and_is_missed(behind: Sidecar, web: WebServer) -> None:
    """A stream ends in order; then it is 503, until the sidecar is back."""
    with Chunked(at(web), SUBJECT, token=TOKEN) as reader:
        behind.kill()
        with pytest.raises(Ended):
            until_content(reader, "never")
    away = asked(at(web), "GET", f"/snapshot?subject={SUBJECT}", None, BEARER)
    assert (away.status, away.headers["retry-after"], away.json["status"]) == (503, "1", 503)
    assert away.headers["content-type"] == "application/problem+json"
    behind.start()
    let_in(behind)
    assert asked(at(web), "GET", "/snapshot?subject=/none/here", None, BEARER).status == 404


class Chunked(EventReader):
    """A reader of events whose answer comes in chunks."""

    def __init__(self, *arguments: Any, **keys: Any) -> None:
        self._text = b""
        super().__init__(*arguments, **keys)
        assert "transfer-encoding: chunked" in self.head.lower()

    def _block(self) -> list[str]:
        while b"\n\n" not in self._text:
            size = b""
            while not size.endswith(b"\r\n"):
                size += self.read(1)
            if not (count := int(size, 16)):
                raise Ended(0, "the last chunk")
            self._text += self.read(count)
            self.read(2)
        block, _, self._text = self._text.partition(b"\n\n")
        return block.decode().split("\n")


def until_content(reader: EventReader, content: str) -> None:
    """Read until this comes."""
    while reader.any().content.get("content") != content:
        pass


# The application alone, by ASGI


async def call(
    application: Any, path: str, query: str = "", headers: Any = (), events: Any = None, **more: Any
) -> list[Any]:
    """What the application sends for one GET, whose caller stays; ``more`` is of the scope."""
    sent: list[Any] = []
    incoming: asyncio.Queue[Any] = asyncio.Queue()
    for event in events or [{"type": "http.request", "body": b""}]:
        incoming.put_nowait(event)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost"), *headers],
        "client": ("127.0.0.1", 1),
    } | more
    await application(scope, incoming.get, send)
    return sent


async def fallen(scope: Any, receive: Any, send: Any) -> None:
    """What stands behind."""
    await send({"type": "http.response.start", "status": 299})


def status(sent: list[Any]) -> int:
    return cast(int, sent[0]["status"])


@contextmanager
def peer_in_its_place(settings: Any, answer: bytes) -> Iterator[Callable[[], bytes]]:
    """A port that takes one request, says this, and ends; what it was told."""
    got: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        settings.REALTIME = settings.REALTIME | {"RELAY_URL": f"ws://127.0.0.1:{listener.getsockname()[1]}/ws"}

        def serve() -> None:
            with listener.accept()[0] as one:
                while not got or b"\r\n\r\n" not in got[0]:
                    got[:] = [b"".join(got) + one.recv(65536)]
                one.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield lambda: got[0]
        thread.join(PATIENCE_SECONDS)


def test_everything_else_is_djangos_and_so_is_a_sessions_snapshot(settings: Any) -> None:
    application = http_application(fallen)
    cookie = [(b"cookie", f"{settings.SESSION_COOKIE_NAME}=abc".encode())]
    assert status(asyncio.run(call(application, "/admin/"))) == 299
    assert status(asyncio.run(call(application, "/snapshot", "subject=/a", cookie))) == 299
    settings.REALTIME = settings.REALTIME | {"RELAY_URL": "ws://127.0.0.1:1/ws"}
    assert status(asyncio.run(call(application, "/snapshot", "subject=/a&token=x", cookie))) == 503
    assert status(asyncio.run(call(application, "/api/history", "subject=/a", cookie))) == 503


def test_an_answer_that_breaks_off_is_told_as_an_error(settings: Any) -> None:
    """Nothing of it is told before it is whole; what is no HTTP is 502 too."""
    for answer in (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", b"", b"nonsense\r\n\r\n"):
        with peer_in_its_place(settings, answer):
            sent = asyncio.run(call(http_application(fallen), "/snapshot", "subject=/a"))
            assert status(sent) == 502
            assert json.loads(sent[1]["body"])["status"] == 502


def test_the_caller_is_told_and_a_stream_that_ends_ends_in_order(settings: Any) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n: one\n\n"
    with peer_in_its_place(settings, answer) as told:
        sent = asyncio.run(
            call(http_application(fallen), "/events", "subjects=/a", [(b"x-forwarded-for", b"10.1.2.3")])
        )
    assert b"x-forwarded-for: 10.1.2.3, 127.0.0.1\r\n" in told()
    assert told().startswith(b"GET /events?subjects=/a HTTP/1.1\r\n")
    assert [message.get("body") for message in sent[1:]] == [b": one\n\n", b""]


def test_a_body_over_http_2_need_not_say_its_length(settings: Any, behind: Sidecar) -> None:
    settings.REALTIME = settings.REALTIME | {"RELAY_URL": behind.client_url}
    headers = [(b"authorization", f"Bearer {TOKEN}".encode()), (b"content-type", b"application/json")]
    body = [{"type": "http.request", "body": part, "more_body": bool(part)} for part in (MESSAGE[:9], MESSAGE[9:], b"")]
    for version in ("2", "3"):
        posted = {"method": "POST", "http_version": version}
        sent = asyncio.run(call(http_application(fallen), "/api/publish", "", headers, body, **posted))
        assert status(sent) == 200
        asked = {"http_version": version}
        sent = asyncio.run(call(http_application(fallen), "/snapshot", f"subject={SUBJECT}", headers, **asked))
        assert status(sent) == 200, "a request without a body says nothing of one"


def test_no_more_than_the_setting_says(settings: Any) -> None:
    """Who comes beyond is told when to come back; who goes makes room."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings.REALTIME = settings.REALTIME | {
            "RELAY_URL": f"ws://127.0.0.1:{silent.getsockname()[1]}/ws",
            "FORWARDED_MAX": 1,
        }

        async def course() -> None:
            application = http_application(fallen)
            first = asyncio.create_task(call(application, "/events", "subjects=/a"))
            connection, _ = await asyncio.get_running_loop().run_in_executor(None, silent.accept)
            full = await call(application, "/events", "subjects=/a")
            assert status(full) == 503
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            connection.close()
            gone = [{"type": "http.request", "body": b""}, {"type": "http.disconnect"}]
            assert await call(application, "/events", "subjects=/a", events=gone) == []

        asyncio.run(course())
