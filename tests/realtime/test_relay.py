"""The relay at /ws, through a real Daphne process and a real sidecar."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections import deque
from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.sync.server import ServerConnection, serve

from fastpath.client import blocking
from fastpath.client.control.client import Control
from fastpath.client.errors import TooLarge
from tests.support.edge.largest import LARGEST as FIELDS
from tests.support.edge.largest import SUBJECT as LARGE
from tests.support.edge.largest import fill, lengths
from tests.support.edge.sessions import Caller, ProxiedSession
from tests.support.realtime.server import WebServer
from tests.support.sidecar import Sidecar
from tests.support.tokens import mint
from tests.support.waiting import PATIENCE_SECONDS, until

NUMBERS = count()


@pytest.fixture
def subject() -> str:
    """One that no other test has."""
    return f"/stocks/{next(NUMBERS)}"


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """One for all tests that need no other."""
    with Sidecar(mode="none") as running:
        yield running


@pytest.fixture(scope="module")
def web(sidecar: Sidecar) -> Iterator[WebServer]:
    """Daphne, relaying to a sidecar in which everybody may do everything."""
    with WebServer(sidecar.settings["listen"]) as running:
        yield running


def ask(client: ClientConnection, op: str, **arguments: Any) -> Any:
    """Send a command in JSON and return the next frame."""
    client.send(json.dumps({"op": op, "id": 1} | arguments))
    return json.loads(client.recv(timeout=PATIENCE_SECONDS))


def closed(client: ClientConnection, seconds: float = 10) -> tuple[int, str]:
    """Read until the server closes; the code and the reason of its frame."""
    while True:
        try:
            client.recv(timeout=seconds)
        except ConnectionClosed as error:
            assert error.rcvd is not None, "there was no close frame"
            return error.rcvd.code, error.rcvd.reason


def test_frames_pass_both_ways_in_order(web: WebServer, subject: str) -> None:
    """Text in the JSON form, and nothing in between is lost or doubled."""
    with connect(web.url, subprotocols=["fastpath.v1.json"]) as reader, connect(web.url) as writer:  # type: ignore[list-item]
        assert reader.subprotocol == "fastpath.v1.json"
        assert ask(reader, "connect")["op"] == "connected"
        assert ask(reader, "subscribe", subjects=[subject])["op"] == "subscribed"
        for number in range(500):
            writer.send(json.dumps({"op": "publish", "subject": subject, "content": f"{number} é"}))
        got = [json.loads(reader.recv(timeout=PATIENCE_SECONDS))[3] for _ in range(500)]
        assert got == [f"{number} é" for number in range(500)]


def test_the_binary_form_passes(web: WebServer) -> None:
    """Binary frames stay binary."""
    with connect(web.url, subprotocols=["fastpath.v1.msgpack"]) as client:  # type: ignore[list-item]
        assert client.subprotocol == "fastpath.v1.msgpack"
        client.send(msgspec.msgpack.encode({"op": "connect", "id": 7}))
        answer = msgspec.msgpack.decode(client.recv(timeout=PATIENCE_SECONDS))
        assert (answer["op"], answer["id"]) == ("connected", 7)


def test_the_sidecars_close_codes_reach_the_browser(web: WebServer, sidecar: Sidecar) -> None:
    """A bad frame, a clean stop, a crash, and a sidecar that is not there."""
    with connect(web.url) as client:
        client.send("{")
        code, reason = closed(client)
        assert (code, reason.split(":")[0]) == (4500, "bad_message")
    for end in (sidecar.stop, sidecar.kill):
        with connect(web.url) as client:
            ask(client, "connect")
            end()
            code, reason = closed(client)
            assert (code, reason.split(":")[0]) == (4000, "drain")
        with connect(web.url) as client:
            assert closed(client)[0] == 4000
        sidecar.start()
    with connect(web.url) as client:
        assert ask(client, "connect")["op"] == "connected"


def test_a_bad_token_in_the_address_is_told(rules_sidecar: Sidecar) -> None:
    """The query string is kept, and the log does not hold it."""
    with WebServer(rules_sidecar.settings["listen"]) as web:
        with connect(f"{web.url}?token=nonsense") as client:
            assert closed(client)[0] == 4501
        with connect(f"{web.url}?token={mint('alice', superuser=True)}") as client:
            assert ask(client, "ping")["op"] in ("pong", "base")
        assert "nonsense" not in web.output


def test_daphne_as_it_comes_hands_on_the_protocols_codes(sidecar: Sidecar) -> None:
    """Other projects may run the plain program."""
    with WebServer(sidecar.settings["listen"], module="daphne") as web, connect(web.url) as client:
        client.send("{")
        assert closed(client)[0] == 4500


def test_a_browser_that_leaves_leaves_the_sidecar(web: WebServer, sidecar: Sidecar) -> None:
    """Closing, and breaking off."""
    with Control(sidecar.control) as control:
        with connect(web.url) as client:
            ask(client, "connect")
            until(lambda: control.stats()["connections"] == 1)
        until(lambda: control.stats()["connections"] == 0)
        with connect(web.url) as client:
            ask(client, "connect")
            client.socket.shutdown(socket.SHUT_RDWR)
        until(lambda: control.stats()["connections"] == 0)


def test_what_the_sidecar_is_told_of_the_browser() -> None:
    """The address, the query string and the subprotocols; a real peer in the sidecar's place notes them."""
    seen: list[ServerConnection] = []
    codes: list[int | None] = []

    def note(connection: ServerConnection) -> None:
        seen.append(connection)
        with pytest.raises(ConnectionClosed):
            connection.recv()
        codes.append(connection.close_code)

    with serve(note, "127.0.0.1", 0, subprotocols=["b"]) as peer:  # type: ignore[list-item]
        thread = threading.Thread(target=peer.serve_forever)
        thread.start()
        try:
            with WebServer(f"clients://127.0.0.1:{peer.socket.getsockname()[1]}") as web:
                headers = {"X-Forwarded-For": "10.1.2.3"}
                with connect(
                    f"{web.url}?token=a%2Fb&x=1",
                    subprotocols=["a%0d%0aX-Evil", "b"],  # type: ignore[list-item]
                    additional_headers=headers,
                ) as client:
                    until(lambda: seen)
                    client.close(4321, "bye")
                    assert client.subprotocol == "b"
                until(lambda: codes)
        finally:
            peer.shutdown()
            thread.join()
    request = seen[0].request
    assert request is not None
    assert request.path == "/ws?token=a%2Fb&x=1"
    assert request.headers["X-Forwarded-For"] == "10.1.2.3, 127.0.0.1"
    assert "X-Evil" not in request.headers
    assert codes == [4321]


def test_pages_of_other_sites_are_refused(web: WebServer) -> None:
    """Programs that are no browsers send no Origin, and may come."""
    for welcome in (None, "http://localhost:8000"):
        with connect(web.url, origin=welcome) as client:  # type: ignore[arg-type]
            assert ask(client, "connect")["op"] == "connected"
    for other in ("http://evil.example.com", "null"):
        with pytest.raises(InvalidStatus, match="403"):
            connect(web.url, origin=other)  # type: ignore[arg-type]


def test_another_path_is_refused(web: WebServer) -> None:
    """Quietly: it is no fault of the server."""
    before = len(web.output)
    with pytest.raises(InvalidStatus, match="403"):
        connect(f"ws://127.0.0.1:{web.port}/other")
    assert "Traceback" not in web.output[before:]


def test_a_browser_that_does_not_read_costs_a_bounded_amount(web: WebServer, sidecar: Sidecar, subject: str) -> None:
    """The sidecar sees it as slow, and the web server does not keep what it does not read."""
    # The reading thread of this client stops when its own queue is full, and then the kernel's buffers fill.
    with connect(web.url, max_queue=1, close_timeout=1) as client, Control(sidecar.control) as control:
        ask(client, "connect")
        ask(client, "subscribe", subjects=[subject])
        before, slow = web.memory_bytes, control.stats()["slow_closed"]
        rows = [[subject, "x" * 100_000]] * 10
        published = 0
        while control.stats()["slow_closed"] == slow:
            control.publish(rows)
            published += 1
            assert published < 400, "400 MB went somewhere"
        assert web.memory_bytes - before < 30 << 20
        with connect(web.url) as other:
            assert ask(other, "connect")["op"] == "connected", "others are not held up"


def test_a_browser_that_sends_more_than_the_sidecar_takes_is_closed(
    web: WebServer, sidecar: Sidecar, subject: str
) -> None:
    """With the code that says so, and without keeping what it sent."""
    with connect(web.url) as client:
        ask(client, "connect")
        os.kill(sidecar.pid, signal.SIGSTOP)
        try:
            frame = json.dumps({"op": "publish", "subject": subject, "content": "x" * 500_000})
            flood = [frame] * 200
            with pytest.raises(ConnectionClosed):
                deque(map(client.send, flood), maxlen=0)
            assert closed(client)[0] == 4001
        finally:
            os.kill(sidecar.pid, signal.SIGCONT)


def test_a_restart_of_the_web_server_says_reconnect(sidecar: Sidecar) -> None:
    """The browsers' sockets end with a code that means it."""
    with WebServer(sidecar.settings["listen"]) as web, connect(web.url) as client:
        ask(client, "connect")
        web.process.terminate()
        assert closed(client)[0] == 4000


LARGEST = 1_048_576
"""The bytes of a message that is allowed, at the default."""


@pytest.mark.parametrize("content", ["x" * LARGEST, '"' * LARGEST], ids=["plain", "escaped"])
def test_the_largest_message_passes_both_ways(web: WebServer, content: str, subject: str) -> None:
    """What Daphne takes of a browser is no bound of what is sent to one, and is what the sidecar takes."""
    with connect(web.url, max_size=None) as reader, connect(web.url, max_size=None) as writer:
        assert ask(reader, "connect")["op"] == "connected"
        assert ask(reader, "subscribe", subjects=[subject])["op"] == "subscribed"
        assert ask(writer, "connect")["op"] == "connected"
        for number in range(3):
            writer.send(json.dumps({"op": "publish", "subject": subject, "content": content, "closure": str(number)}))
            assert json.loads(writer.recv(timeout=10))["status"] == "ok"
        got: list[str] = []
        while len(got) < 3:
            message = json.loads(reader.recv(timeout=10))
            if isinstance(message, list):
                got.append(message[3])
        assert got == [content] * 3


def test_a_client_is_told_what_passes(web: WebServer, subject: str) -> None:
    """A frame over it is not sent: behind the relay as well the call fails alone, and the connection stands."""
    with blocking.connect(web.url, form="json", publish_queue_bytes=8 << 20) as client:
        with pytest.raises(TooLarge):
            client.publish(subject, "\1" * LARGEST)
        with pytest.raises(TooLarge):
            client.publish(subject, b"x" * (LARGEST + 1))
        assert client.publish(subject, "x" * LARGEST).seq == 1


def test_the_largest_snapshot_passes(web: WebServer, sidecar: Sidecar) -> None:
    """By the relay, by what is forwarded, and by Django itself."""
    fill(sidecar)
    with connect(web.url, max_size=None) as reader:
        ask(reader, "subscribe", subjects=[LARGE])
        while not isinstance(message := json.loads(reader.recv(timeout=10)), list):
            pass
        assert lengths(message[4]) == FIELDS
    for headers in ({}, {"Cookie": "sessionid=none"}):  # the second is Django's to answer
        with Caller(f"127.0.0.1:{web.port}") as caller:
            told = caller.ask("GET", f"/snapshot?subject={LARGE}", **headers)
            assert told.status == 200, told
            assert lengths(told.body["fields"]) == FIELDS
    with ProxiedSession(f"127.0.0.1:{web.port}", lambda: Caller(f"127.0.0.1:{web.port}")) as session:
        session.say("subscribe", id=1, subjects=[LARGE])
        assert lengths(session.message()[4]) == FIELDS
