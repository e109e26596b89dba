"""Sockets through each web server: who comes, how long they live, what a reload and a slow reader do to others."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from fastpath.client import Status, connect
from tests.support import web_servers
from tests.support.audit import Written
from tests.support.certificates import Certificate
from tests.support.edge.wire import PING, PONG, WireClient, WirePublisher
from tests.support.ports import free_port
from tests.support.reconnecting import SOON
from tests.support.sidecar import Sidecar
from tests.support.web_servers import Front, Places

pytestmark = [pytest.mark.slow, pytest.mark.webservers]

PUBLISHING, OTHER = "127.0.0.3", "127.0.0.2"
"""An address that may publish, and one that may not."""

PING_SECONDS, IDLE_SECONDS = 2, 5
"""How often the sidecar pings, and the shortened time-out of the web servers; as 25 and 75 are on the pages."""

PER_ADDRESS = 4
SITES = ("nginx", "nginx by unix sockets", "apache", "apache by unix sockets", "haproxy")
STREAMS = ("nginx stream", "haproxy tcp")
DOORS = (*SITES, *STREAMS)


class World(NamedTuple):
    """One sidecar with listeners of all kinds, its audit, and a web server of each kind in front of it."""

    sidecar: Sidecar
    audit: Written
    doors: dict[str, Front]

    def publisher(self) -> WirePublisher:
        """On the sidecar's own port, from where one may publish."""
        return WirePublisher(self.sidecar, source=PUBLISHING)


def _with_ports(place: Places) -> Places:
    """With ports of its own for clients and publishers."""
    return place._replace(sidecar=f"127.0.0.1:{free_port()}", publishers=f"127.0.0.1:{free_port()}")


@pytest.fixture(scope="module")
def world(folder: Path) -> Iterator[World]:
    """One for all tests of this module, which use subjects of their own."""
    (folder / "static").mkdir()
    metrics = f"127.0.0.1:{free_port()}"
    place = Places(folder, Certificate(folder), "", f"127.0.0.1:{free_port()}", metrics=metrics, seconds=IDLE_SECONDS)
    plain, unix, first, second = (_with_ports(place) for _ in range(4))
    by_unix, by_line = web_servers.listeners(f"{web_servers.PAGES}/nginx.md")
    [by_binary] = web_servers.listeners(f"{web_servers.PAGES}/haproxy.md")
    listen = [f"clients://{plain.sidecar},publishers://{plain.publishers}"]
    listen += [unix.in_place(by_unix), first.in_place(by_line), second.in_place(by_binary)]
    audit = folder / "audit"
    with (
        Sidecar(
            listen=",".join(listen),
            trusted_proxies="127.0.0.1,unix",
            publish_from=PUBLISHING,
            connections_per_address_max=PER_ADDRESS,
            ping_seconds=PING_SECONDS,
            outbox_bytes_max=1 << 20,
            audit="access",
            audit_folder=audit,
        ) as sidecar,
        web_servers.nginx_site(plain) as nginx,
        web_servers.nginx_site(unix, unix=True) as nginx_unix,
        web_servers.apache_site(plain) as apache,
        web_servers.apache_site(unix, unix=True) as apache_unix,
        web_servers.haproxy_site(plain) as haproxy,
        web_servers.nginx_stream(first) as nginx_stream,
        web_servers.haproxy_tcp(second) as haproxy_tcp,
    ):
        fronts = (nginx, nginx_unix, apache, apache_unix, haproxy, nginx_stream, haproxy_tcp)
        yield World(sidecar, Written(audit), dict(zip(DOORS, fronts, strict=True)))
        assert "Traceback" not in sidecar.log


@pytest.fixture(params=DOORS)
def name(request: pytest.FixtureRequest) -> str:
    """Of a door."""
    return str(request.param)


def publishes(client: WireClient) -> str:
    """What a publication of the client is answered: its status, and why."""
    answer = client.answer("published", client.say("publish", subject="/web/one", content="x", closure="c"))
    return f"{answer['status']} {answer.get('reason', '')}".strip()


def test_what_is_said_goes_through_both_ways(world: World, name: str) -> None:
    subject = f"/web/{name.replace(' ', '-')}"
    with world.doors[name].client(source=PUBLISHING) as client, world.publisher() as publisher:
        client.subscribe(subject)
        assert publishes(client) == "ok"
        long = "x" * 300_000
        publisher.publish([subject, "one"], [subject, long])
        assert client.texts(2) == ["one", long]


def test_events_come_at_once(world: World, name: str) -> None:
    """Each by itself, and more than what a buffer holds behind it."""
    subject = f"/events/{name.replace(' ', '-')}"
    with world.publisher() as publisher, world.doors[name].answer(f"/events?subjects={subject}") as answer:
        assert (answer.status, answer.headers["Content-Type"]) == (200, "text/event-stream")
        seen = b""
        while b"event: subscribed" not in seen:
            seen += answer.read1(1000)
        for text in ("first", "second", "x" * 100_000, "last"):
            publisher.publish([subject, text])
            while f'"content":"{text}"'.encode() not in seen:
                seen += answer.read1(10_000)
        assert b"resynchronised" not in seen


@pytest.mark.parametrize("kind", ["stream", "poll"])
def test_a_session_over_http_goes_through(world: World, name: str, kind: str) -> None:
    """Each message at once, and what is posted."""
    subject = f"/sessions-{kind}/{name.replace(' ', '-')}"
    with world.publisher() as publisher, world.doors[name].session(kind, PUBLISHING) as session:
        session.subscribe(subject)
        for text in ("first", "second", "x" * 100_000, "last"):
            publisher.publish([subject, text])
            assert session.texts(1) == [text]
        assert publishes(session) == "ok"
        assert session.leave().status == 204  # or its place would be taken for a while


def test_the_address_is_that_of_the_client_whatever_it_says_itself(world: World, name: str) -> None:
    lies = f"X-Forwarded-For: {PUBLISHING}\r\nX-Real-IP: {PUBLISHING}\r\nForwarded: for={PUBLISHING}\r\n"
    door = world.doors[name]
    agent = name.replace(" ", "-")
    with door.client(source=OTHER, headers=f"{lies}User-Agent: {agent}\r\n") as liar:
        assert publishes(liar) == f"denied publishing is not allowed from {OTHER}"
        assert world.audit.find(event="connected", agent=agent)["address"] == OTHER
    with door.client(source=PUBLISHING, headers=f"X-Forwarded-For: {OTHER}\r\n") as client:
        assert publishes(client) == "ok"


def test_the_limit_of_an_address_counts_clients_and_not_the_web_server(world: World, name: str) -> None:
    door, busy = world.doors[name], f"127.0.1.{DOORS.index(name) + 1}"
    with ExitStack() as stack:
        for _ in range(PER_ADDRESS):
            assert stack.enter_context(door.client(source=busy)).ask("ping", "pong")
        one_more = stack.enter_context(door.client(source=busy))
        assert one_more.closed()[0] == 4006
        assert stack.enter_context(door.client(source=OTHER)).ask("ping", "pong")


@pytest.mark.parametrize("name", STREAMS)
def test_publishers_come_through_as_themselves(world: World, name: str) -> None:
    door, subject = world.doors[name], f"/published/{name.replace(' ', '-')}"
    with door.publisher(source=PUBLISHING) as publisher:
        assert publisher.publish([subject, "x"]) == [1]
    with door.publisher(source=OTHER, hello=False) as publisher:
        publisher.packet("hello", {"version": 1})
        assert publisher.closed() == (4503, f"denied: publishing is not allowed from {OTHER}")


def answer_pings(clients: list[WireClient]) -> None:
    """Of those that the sidecar has pinged."""
    for client in clients:
        while not client.silent():
            opcode, payload = client.next_frame()
            assert opcode in (PING, PONG), (opcode, payload)
            if opcode == PING:
                client.frame(PONG, payload)


def test_pings_keep_idle_sockets(world: World) -> None:
    with ExitStack() as stack:
        doors = enumerate(world.doors.values(), 1)
        clients = [stack.enter_context(door.client(source=f"127.0.2.{number}")) for number, door in doors]
        for client in clients:
            client.subscribe("/web/idle")
        end = time.monotonic() + IDLE_SECONDS + PING_SECONDS
        while time.monotonic() < end:
            select.select([client.sock for client in clients], [], [], 0.5)
            answer_pings(clients)
        with world.publisher() as publisher:
            publisher.publish(["/web/idle", "still here"])
        assert [client.texts(1) for client in clients] == [["still here"]] * len(DOORS)


def test_a_reload_keeps_sockets(world: World, name: str) -> None:
    door, subject = world.doors[name], f"/reloaded/{name.replace(' ', '-')}"
    with door.client(source=OTHER) as old, world.publisher() as publisher:
        old.subscribe(subject)
        door.reload()
        with door.client(source=PUBLISHING) as new:
            new.subscribe(subject)
            publisher.publish([subject, "after"])
            assert (old.texts(1), new.texts(1)) == (["after"], ["after"])


@pytest.mark.parametrize("name", ["nginx", "apache", "haproxy", *STREAMS])
async def test_a_restart_loses_nothing(world: World, name: str) -> None:
    """Clients connect again by themselves, and get what was published meanwhile."""
    door, subject = world.doors[name], f"/restarted/{name.replace(' ', '-')}"
    told: list[Status] = []
    url = f"wss://localhost:{door.port}/ws"
    async with connect(url, tls=door.trusting, on_status=told.append, **SOON) as client:
        stream = client.subscribe(subject)
        with world.publisher() as publisher:
            publisher.publish([subject, "0"])
            assert (await anext(stream)).content == "0"
            door.__exit__()
            publisher.publish([subject, "1"])
            door.__enter__()
            publisher.publish([subject, "2"])
        assert [(await anext(stream)).content for _ in range(2)] == ["1", "2"]
    assert "recovered" in {status.name for status in told}


def test_a_slow_reader_slows_nobody_and_is_closed(world: World, name: str) -> None:
    door, subject = world.doors[name], f"/slow/{name.replace(' ', '-')}"
    agent = f"slow-{name.replace(' ', '-')}"
    megabyte = [[subject, "x" * 32_768]] * 32
    with (
        door.client(source=PUBLISHING, receive_bytes=4096, headers=f"User-Agent: {agent}\r\n") as slow,
        door.client(source=OTHER) as fast,
        world.publisher() as publisher,
    ):
        slow.subscribe(subject)
        fast.subscribe(subject)
        connection = world.audit.find(event="connected", agent=agent)["connection"]
        for _ in range(64):
            publisher.publish(*megabyte)
            fast.texts(len(megabyte))  # within its own bound, before the next ones
            if world.audit.all(event="disconnected", connection=connection):
                break
        assert world.audit.find(event="disconnected", connection=connection)["code"] == 4001
