"""Who comes from where: proxies, addresses that may publish, pages that may connect, unix sockets."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from fastpath.edge.listen.accept import ARRIVING_MAX
from fastpath.edge.listen.addresses import bind_unix
from fastpath.listen_address import Listener, SettingsError
from tests.support.certificates import Certificate
from tests.support.edge.wire import Socket, WireClient, WirePublisher, open_files, request, wait_gone
from tests.support.proxied import header, line
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

INSIDE, OUTSIDE = "203.0.113.5", "198.51.100.1"
"""An address that may publish, and one that may not."""

PAGE = "https://app.example.com"


class Ports:
    """A sidecar with a port of each kind."""

    def __init__(self, sidecar: Sidecar, certificate: Certificate, path: str) -> None:
        self.sidecar = sidecar
        self.plain, self.proxied, self.proxied_tls, self.lined, self.lined_tls, self.unix = sidecar.ready["clients"]
        self.publishers = sidecar.ready["publishers"][0]
        self.context = certificate.trusting()
        assert self.unix == path


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    """One for all tests of this module; its folder is short enough for a unix socket."""
    certificate = Certificate(tmp_path_factory.mktemp("tls"))
    sidecar = Sidecar(
        trusted_proxies="127.0.0.1, unix",
        publish_from="203.0.113.0/24,127.0.0.3",
        origins=f"{PAGE},*.example.org",
        handshake_seconds=3,
    )
    path = str(sidecar.folder / "clients.sock")
    sidecar.settings["listen"] = ",".join(
        (
            "clients://127.0.0.1:0",
            "clients+publishers://127.0.0.1:0?proxy=v2",
            certificate.url("clients+publishers", "&proxy=v2"),
            "clients+publishers://127.0.0.1:0?proxy=v1",
            certificate.url("clients+publishers", "&proxy=v1"),
            f"clients+publishers+unix://{path}?mode=660",
            "publishers://127.0.0.1:0",
        )
    )
    with sidecar:
        # Of the publishers' addresses the last one is for publishers alone.
        sidecar.ready["publishers"] = sidecar.ready["publishers"][-1:]
        yield Ports(sidecar, certificate, path)
        assert "Traceback" not in sidecar.log


def publishes(client: WireClient) -> str:
    """What a publication of the client is answered: its status, and why."""
    number = client.say("publish", subject="/ports/one", content="x", closure="c")
    answer = client.answer("published", number)
    return f"{answer['status']} {answer.get('reason', '')}".strip()


def denied(address: str) -> str:
    """The answer to who may not."""
    return f"denied publishing is not allowed from {address}"


# From whom it comes


def test_a_proxy_says_whom_it_speaks_for(ports: Ports) -> None:
    for address, answer in ((INSIDE, "ok"), (OUTSIDE, denied(OUTSIDE)), ("2001:db8::9", denied("2001:db8::9"))):
        with WireClient(ports.proxied, first=header(address, 1)) as client:
            assert publishes(client) == answer
        with WireClient(ports.proxied_tls, first=header(address, 1), tls=ports.context) as client:
            assert publishes(client) == answer
        with WireClient(ports.lined, first=line(address, 1)) as client:
            assert publishes(client) == answer
        with WireClient(ports.lined_tls, first=line(address, 1), tls=ports.context) as client:
            assert publishes(client) == answer
    with WireClient(ports.unix, first=b"", headers=f"X-Forwarded-For: {INSIDE}\r\n") as client:
        assert publishes(client) == "ok"
    with WirePublisher(ports.proxied, first=header(INSIDE, 1)) as publisher:
        assert publisher.publish(["/ports/two", "x"]) == [1]
    with WirePublisher(ports.proxied_tls, first=header(INSIDE, 1), tls=ports.context) as publisher:
        assert publisher.publish(["/ports/two", "x"]) == [2]
    with WirePublisher(ports.lined, first=line(INSIDE, 1)) as publisher:
        assert publisher.publish(["/ports/two", "x"]) == [3]
    with WirePublisher(ports.lined_tls, first=line(INSIDE, 1), tls=ports.context) as publisher:
        assert publisher.publish(["/ports/two", "x"]) == [4]


def test_a_header_may_come_in_pieces_with_what_follows_behind_it(ports: Ports) -> None:
    for where, data in (
        (ports.proxied, header(INSIDE, 7, tlvs=b"\x04\x00\x02ab") + request()),
        (ports.lined, line(INSIDE, 7) + request()),
    ):
        with Socket(where) as slow:
            for at in range(50):
                slow.send(data[at : at + 1])
            slow.send(data[50:])
            assert slow.read(12) == b"HTTP/1.1 101"


NO_HEADERS = {
    "none": request(),
    "version 1": b"PROXY TCP4 203.0.113.5 192.0.2.1 1 2\r\n" + request(),
    "a lie about its length": header(INSIDE, 1)[:14] + b"\xff\xff" + bytes(100),
    "garbage": bytes(100),
}


@pytest.mark.parametrize("data", NO_HEADERS.values(), ids=NO_HEADERS)
def test_without_a_header_nobody_comes_in(ports: Ports, data: bytes) -> None:
    with Socket(ports.proxied, first=data) as bare:
        assert bare.rest() == b""
    with Socket(ports.lined, first=data.replace(b"PROXY TCP4", b"PROXY TCP6")) as bare:
        assert bare.rest() == b""


def test_a_listener_speaks_one_version(ports: Ports) -> None:
    with Socket(ports.lined, first=header(INSIDE, 1) + request()) as newer:
        assert newer.rest() == b""
    until(lambda: "begins with a line of the proxy protocol, version 1" in ports.sidecar.log)


@pytest.mark.slow
def test_half_a_header_is_cut_in_time(ports: Ports) -> None:
    files = open_files(ports.sidecar.pid)
    with (
        Socket(ports.proxied, first=header(INSIDE, 1)[:20]) as half,
        Socket(ports.lined, first=line(INSIDE, 1)[:20]) as line_half,
        Socket(ports.proxied) as silent,
    ):
        assert half.rest() == b""
        assert line_half.rest() == b""
        assert silent.rest() == b""
    wait_gone(ports.sidecar, files)


def test_a_header_of_somebody_else_is_not_believed(ports: Ports) -> None:
    with Socket(ports.proxied, source="127.0.0.2", first=header(INSIDE, 1) + request()) as liar:
        assert liar.rest() == b""
    until(lambda: 'address=127.0.0.2 reason="not one of FASTPATH_TRUSTED_PROXIES' in ports.sidecar.log)


def test_a_health_check_of_the_proxy_speaks_for_itself(ports: Ports) -> None:
    local = b"\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"
    with WireClient(ports.proxied, first=local) as client:
        assert publishes(client) == denied("127.0.0.1")
    with WireClient(ports.lined, first=b"PROXY UNKNOWN\r\n") as client:
        assert publishes(client) == denied("127.0.0.1")


def test_forwarded_for_is_believed_of_proxies_alone(ports: Ports) -> None:
    def answer(forwarded: str, **more: Any) -> str:
        with WireClient(ports.plain, headers=f"X-Forwarded-For: {forwarded}\r\n", **more) as client:
            return publishes(client)

    assert answer(INSIDE) == "ok"
    assert answer(f"{OUTSIDE}, {INSIDE}") == "ok"
    assert answer(f"{INSIDE}, {OUTSIDE}") == denied(OUTSIDE)
    assert answer("nonsense") == denied("unknown"), "it is not the proxy that wrote so"
    assert answer(f"{INSIDE}, unix:") == denied("unknown")
    assert answer(INSIDE, source="127.0.0.2") == denied("127.0.0.2")
    assert answer(OUTSIDE, source="127.0.0.3") == "ok"
    # A proxy behind the proxy that speaks version 2: the header says who connected, the request for whom.
    with WireClient(ports.proxied, first=header("127.0.0.1", 1), headers=f"X-Forwarded-For: {OUTSIDE}\r\n") as client:
        assert publishes(client) == denied(OUTSIDE)
    with WireClient(ports.proxied, first=header(OUTSIDE, 1), headers=f"X-Forwarded-For: {INSIDE}\r\n") as client:
        assert publishes(client) == denied(OUTSIDE)


def test_those_on_their_way_in_are_bounded() -> None:
    """Who says nothing takes no more places than a few beyond the port's own."""
    with Sidecar(connections_max=5, listen="clients+publishers://127.0.0.1:0") as sidecar, ExitStack() as stack:
        files = open_files(sidecar.pid)
        silent = [stack.enter_context(Socket(sidecar.client_url)) for _ in range(2 * ARRIVING_MAX)]
        assert silent[-1].rest() == b""
        assert open_files(sidecar.pid) - files <= 5 + ARRIVING_MAX + 1


# From where one may publish


def test_a_publisher_from_elsewhere_is_closed(ports: Ports) -> None:
    with WirePublisher(ports.publishers, source="127.0.0.3") as publisher:
        assert publisher.publish(["/ports/three", "x"]) == [1]
    for where, more in (
        (ports.publishers, {}),
        (ports.proxied, {"first": header(OUTSIDE, 1)}),
        (ports.unix, {}),
    ):
        with WirePublisher(where, hello=False, **more) as publisher:
            publisher.packet("hello", {"version": 1})
            code, reason = publisher.closed()
        assert (code, reason[:38]) == (4503, "denied: publishing is not allowed from")


def test_who_may_not_publish_may_read(ports: Ports) -> None:
    with WireClient(ports.plain) as client, WirePublisher(ports.publishers, source="127.0.0.3") as publisher:
        client.subscribe("/ports/four")
        assert publishes(client) == denied("127.0.0.1")
        assert publisher.publish(["/ports/four", "x"]) == [1]
        assert client.texts(1) == ["x"]


# Pages


def test_a_page_of_a_strange_origin_is_refused(ports: Ports) -> None:
    for origin in (PAGE, "https://APP.example.com:443", "http://a.b.example.org:8000"):
        with WireClient(ports.plain, headers=f"Origin: {origin}\r\n") as client:
            assert client.ask("ping", "pong")
    for origin in ("http://app.example.com", "https://evil.test", "null", "https://example.org"):
        with Socket(ports.plain) as page:
            page.send(request(headers=f"Origin: {origin}\r\n"))
            answer = page.rest()
            assert answer.startswith(b"HTTP/1.1 403 ")
            assert b"Pages of this origin may not connect here" in answer
    with Socket(ports.plain) as twice:
        twice.send(request(headers=f"Origin: {PAGE}\r\nOrigin: https://evil.test\r\n"))
        assert twice.rest().startswith(b"HTTP/1.1 400 ")


# Unix sockets


def test_a_unix_socket_serves_who_may_open_it(ports: Ports) -> None:
    assert stat.S_IMODE(os.stat(ports.unix).st_mode) == 0o660
    with WireClient(ports.unix) as client, WirePublisher(ports.publishers, source="127.0.0.3") as publisher:
        client.subscribe("/ports/unix")
        assert publishes(client) == denied("unix")
        publisher.publish(["/ports/unix", "x"])
        assert client.texts(1) == ["x"]


def test_a_unix_socket_that_is_left_over_is_replaced_and_one_that_is_served_is_not(ports: Ports) -> None:
    sidecar = Sidecar()
    own = str(sidecar.folder / "own.sock")
    sidecar.settings["listen"] = f"clients+unix://{own}"
    with sidecar:
        sidecar.kill()
        assert os.path.exists(own)
        sidecar.start()
        with WireClient(own) as client:
            assert client.ask("ping", "pong")
        sidecar.stop()
        assert not os.path.exists(own)
        for path, words in ((ports.unix, "another sidecar serves"), (str(sidecar.log_path), "is no socket")):
            with pytest.raises(SettingsError, match=f"FASTPATH_LISTEN: .*{words}"):
                bind_unix(Listener.parse(f"clients+unix://{path}"))
