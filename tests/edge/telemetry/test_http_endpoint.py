"""What a load balancer and a monitoring system are told over HTTP."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import resource
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fastpath.client.control.client import Control
from fastpath.core.telemetry.figures import FIGURES
from fastpath.core.websocket.handshake import HEAD_BYTES_MAX, BadRequest
from fastpath.edge.runtime.component import MetricsPage, Offers, Plain
from fastpath.edge.telemetry.http_endpoint import WATCHERS_MAX, MetricsConnection
from fastpath.edge.telemetry.prometheus import metric_of
from fastpath.server.components import Node, make_runtime
from fastpath.settings import Settings
from tests.support.certificates import Certificate
from tests.support.edge.metrics import LISTEN, SECRET
from tests.support.edge.wire import Socket, WireClient, WirePublisher
from tests.support.ports import free_port
from tests.support.realtime.server import Program
from tests.support.redis import RedisServer
from tests.support.rights import load_rights, rule
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until

SAMPLE = re.compile(r'([a-z_][a-z0-9_]*)(\{[a-z]+="[^"]+"(?:,[a-z]+="[^"]+")?\})? (-?[0-9.e+-]+)')
HISTOGRAM = "fastpath_latency_seconds"


def ask(sidecar: Sidecar, path: str, method: str = "GET") -> tuple[int, str]:
    """Status and body."""
    connection = http.client.HTTPConnection(sidecar.ready["metrics"][0], timeout=PATIENCE_SECONDS)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def readiness(sidecar: Sidecar) -> tuple[int, dict[str, Any]]:
    """What /readyz says."""
    status, body = ask(sidecar, "/readyz")
    return status, json.loads(body)


def figures(sidecar: Sidecar) -> dict[str, float]:
    """What Prometheus reads; each sample follows the help and the type of its metric."""
    status, body = ask(sidecar, "/metrics")
    assert status == 200
    found: dict[str, float] = {}
    types: dict[str, str] = {}
    helped: list[str] = []
    for line in body.splitlines():
        if line.startswith("# HELP "):
            helped.append(line.split(" ")[2])
            assert line.endswith(".")
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types, line
            assert name == helped[-1], line
            types[name] = kind
            continue
        match = SAMPLE.fullmatch(line)
        assert match is not None, line
        if match[1].startswith(HISTOGRAM):
            assert types[HISTOGRAM] == "histogram"
        else:
            assert types[match[1]] == ("counter" if match[1].endswith("_total") else "gauge")
        found[match[1] + (match[2] or "")] = float(match[3])
    return found


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """Two workers, which begin without rights."""
    with Sidecar(listen=LISTEN, mode="rules", token_secret=SECRET, workers=2, handshake_seconds=3) as running:
        yield running


def test_ready_when_the_rights_have_arrived_and_not_while_it_is_drained(sidecar: Sidecar) -> None:
    assert ask(sidecar, "/healthz") == (200, '{"status":"ok"}\n')
    reasons = {"rights": "they have not arrived from Django yet"}
    assert readiness(sidecar) == (503, {"status": "unavailable", "reasons": reasons})
    assert figures(sidecar)["fastpath_ready"] == 0
    load_rights(sidecar.control, rule(1, "everyone", "/**"))
    assert readiness(sidecar) == (200, {"status": "ok"})
    with Control(sidecar.control) as control:
        control.drain()
        assert readiness(sidecar) == (
            503,
            {"status": "unavailable", "reasons": {"draining": "clients are sent elsewhere"}},
        )
        assert ask(sidecar, "/healthz")[0] == 200, "the process is well: nobody should restart it"
        control.undrain()
    assert readiness(sidecar)[0] == 200


def test_the_figures_of_all_workers_and_of_each(sidecar: Sidecar) -> None:
    load_rights(sidecar.control, rule(1, "everyone", "/**"), generation=2)
    with WireClient(sidecar) as client, WirePublisher(sidecar) as publisher:
        client.subscribe("/metrics/one")
        publisher.publish(["/metrics/one", "x"])

        def delivered_once() -> dict[str, float]:
            now = figures(sidecar)
            delivered = now["fastpath_messages_out_total"] == now[f"{HISTOGRAM}_count"] >= 1
            return now if delivered and now["fastpath_subscriptions"] == 1 else {}

        with Control(sidecar.control) as control:  # first: what is known only after a second is not looked for in it
            names = set(control.stats()) - {"by_worker"}
        found = until(delivered_once)
    told = {name.partition("{")[0].removeprefix("fastpath_") for name in found}
    assert names <= FIGURES.keys(), "each has its line of help, and its name for Prometheus"
    metrics = {metric_of(name, FIGURES[name]) for name in names}
    assert told >= (metrics - {""}) | {"ready", "latency_seconds_count"}
    assert found["fastpath_workers"] == 2
    assert found["fastpath_publishers"] == 1
    assert found[f'{HISTOGRAM}_bucket{{le="+Inf"}}'] == found[f"{HISTOGRAM}_count"]
    assert found[f'{HISTOGRAM}_bucket{{le="0.0001"}}'] <= found[f'{HISTOGRAM}_bucket{{le="0.5"}}']
    assert sorted(found[f'fastpath_worker_subscriptions{{worker="{n}"}}'] for n in (0, 1)) == [0, 1]


def test_what_is_none_of_its_pages(sidecar: Sidecar) -> None:
    load_rights(sidecar.control, rule(1, "everyone", "/**"), generation=3)
    assert ask(sidecar, "/")[0] == 404
    assert ask(sidecar, "/ws")[0] == 404
    assert ask(sidecar, "/metrics", "POST")[0] == 405
    status, body = ask(sidecar, "/readyz", "HEAD")
    assert (status, body) == (200, "")
    address = sidecar.ready["metrics"][0]
    for data in (b"\x16\x03\x01\x02\x00", b"x" * (HEAD_BYTES_MAX + 1), b"GET /healthz HTTP/1.1\r\n\r\n"):
        with Socket(address, first=data) as strange:
            assert strange.rest().startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 414 ", b"HTTP/1.1 431 "))


@pytest.mark.slow
def test_who_asks_nothing_is_cut_and_takes_no_place_for_long(sidecar: Sidecar) -> None:
    address = sidecar.ready["metrics"][0]
    with ExitStack() as stack:
        silent = [stack.enter_context(Socket(address))]
        assert silent[0].silent(), "it has its time"
        silent += [stack.enter_context(Socket(address)) for _ in range(WATCHERS_MAX + 4)]
        for one in silent[WATCHERS_MAX:]:
            assert one.rest() == b""
        until(lambda: answers(sidecar))
        assert [one.rest() for one in silent] == [b""] * len(silent)


def answers(sidecar: Sidecar) -> bool:
    """Whether there is a place for a question."""
    try:
        return ask(sidecar, "/healthz")[0] == 200
    except (OSError, http.client.HTTPException):
        return False


async def test_a_component_offers_a_page_of_its_own(tmp_path: Path) -> None:
    """It knows who asks, may refuse, and stands among those that a wrong path is told of; a fault of it is its own."""

    def weather(known: bool) -> MetricsPage:
        if not known:
            raise BadRequest(401, "Not for you.")
        return MetricsPage(200, "text/plain", b"fine")

    runtime = make_runtime(Settings(mode="none", metrics_password="secret"), asyncio.get_running_loop())
    Node(runtime)  # the pages that are there already
    runtime.serve(Plain(Offers(routes={"/weather": weather, "/fault": lambda known: MetricsPage(*())})))
    watchers: set[MetricsConnection] = set()
    path = str(tmp_path / "pages.sock")
    server = await asyncio.get_running_loop().create_unix_server(lambda: MetricsConnection(runtime, watchers), path)

    async def asked(path_and_more: str, method: str = "GET") -> bytes:
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(f"{method} {path_and_more}\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        return answer

    knows = "HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret"
    async with server:
        answer = await asked(f"/weather {knows}")
        assert answer.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n")
        assert answer.endswith(b"\r\n\r\nfine")
        assert (await asked(f"/weather {knows}", "HEAD")).endswith(b"\r\n\r\n")
        assert (await asked("/weather HTTP/1.1\r\nHost: x")).startswith(b"HTTP/1.1 401 ")
        assert (await asked(f"/fault {knows}")).startswith(b"HTTP/1.1 500 ")
        assert (await asked(f"/healthz {knows}")).startswith(b"HTTP/1.1 200 ")
        nothing = await asked(f"/nothing {knows}")
        assert nothing.startswith(b"HTTP/1.1 404 ")
        assert b"There are /healthz, /readyz, /metrics, /weather and /fault." in nothing
    assert not watchers


def test_with_certificates_on_both_sides(tmp_path_factory: pytest.TempPathFactory) -> None:
    own, other = (Certificate(tmp_path_factory.mktemp(name)) for name in ("own", "other"))
    listen = f"clients://127.0.0.1:0,{own.url('metrics', f'&ca={other.cert}&tls_min=1.3')}"
    with Sidecar(listen=listen) as sidecar:
        host, _, port = sidecar.ready["metrics"][0].partition(":")
        known = own.trusting()
        known.load_cert_chain(other.cert, other.key)
        connection = http.client.HTTPSConnection(host, int(port), timeout=PATIENCE_SECONDS, context=known)
        connection.request("GET", "/readyz")
        assert connection.getresponse().status == 200
        connection.close()
        with pytest.raises((ssl.SSLError, ConnectionError)):  # noqa: PT012 - TLS 1.3 tells at the first read
            unknown = http.client.HTTPSConnection(host, int(port), timeout=PATIENCE_SECONDS, context=own.trusting())
            unknown.request("GET", "/readyz")
            unknown.getresponse()
        unknown.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_it_answers_while_the_node_starts(workers: int) -> None:
    """There is no Redis at that address: the node waits for it."""
    port = free_port()
    sidecar = Sidecar(engine="redis://127.0.0.1:1", listen=f"clients://127.0.0.1:0,metrics://127.0.0.1:{port}")
    environment = {f"FASTPATH_{name.upper()}": str(value) for name, value in sidecar.settings.items()}
    with Program(sidecar.command, environment | {"FASTPATH_WORKERS": str(workers)}, ready="."):
        sidecar.ready["metrics"] = [f"127.0.0.1:{port}"]
        until(lambda: answers(sidecar))
        reasons = readiness(sidecar)[1]["reasons"]
        assert reasons["starting"] == "it restores its state, or waits for Redis"


def test_not_ready_while_the_journal_cannot_be_written() -> None:
    sidecar = Sidecar(listen=LISTEN, journal="interval")
    sidecar.settings["data"] = sidecar.folder / "data"
    with sidecar, WirePublisher(sidecar) as publisher:
        publisher.publish(["/metrics/full", "x"])
        assert readiness(sidecar) == (200, {"status": "ok"})
        most = max(file.stat().st_size for file in (sidecar.folder / "data").iterdir() if file.is_file())
        _, hard = resource.prlimit(sidecar.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(sidecar.pid, resource.RLIMIT_FSIZE, (most, hard))
        assert publisher.publish(["/metrics/full", "x"])[0][0] == "failed"
        assert figures(sidecar)['fastpath_publications_failed_total{code="failed"}'] == 1
        assert readiness(sidecar)[1]["reasons"] == {"journal": "the journal cannot be written"}


@pytest.mark.slow
@pytest.mark.redis
def test_not_ready_while_redis_is_away() -> None:
    with RedisServer() as redis, Sidecar(engine=redis.url, listen=LISTEN) as sidecar:
        assert readiness(sidecar) == (200, {"status": "ok"})
        redis.kill()
        status, answer = until(lambda: readiness(sidecar) if readiness(sidecar)[0] != 200 else None)
        assert status == 503
        assert list(answer["reasons"]) == ["engine"]
