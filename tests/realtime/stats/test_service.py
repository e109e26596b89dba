"""The collector at work with real sidecars, and what is read of it: over HTTP, from the meta-subjects, in Python."""

from __future__ import annotations

import csv
import io
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connections
from django.test import Client

from entitlement.tokens import mint
from fastpath.client.control.client import Control
from realtime.models import StatisticsState
from realtime.stats import collector, read, service
from realtime.stats.collector import steady
from realtime.stats.service import NodeLine, RoundAnswer, Service
from realtime.stats.windows import INDICATORS, KEPT, WINDOWS
from tests.support.edge.wire import WireClient
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def collecting(*addresses: str) -> Iterator[None]:
    """What `runrealtime` has in a thread."""
    stop = threading.Event()
    thread = threading.Thread(target=service.keep_collecting, args=(list(addresses), stop), name="collector")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """In which everybody may do everything."""
    with Sidecar() as running:
        yield running


@pytest.fixture
def viewer() -> User:
    """May see the monitoring."""
    user = User.objects.create_user("viewer", password="demo")
    user.user_permissions.add(Permission.objects.get(codename="view_monitoring"))
    return user


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def get(client: Client, path: str, **headers: str) -> Any:
    """The JSON of an answer that is one."""
    response = client.get(path, headers=headers)
    assert response.status_code == 200, response.content
    assert "no-cache" in response["Cache-Control"]
    return json.loads(response.content)


def rows(client: Client, path: str, **headers: str) -> list[list[str]]:
    """The table of an answer that is one."""
    response = client.get(path, headers=headers)
    assert (response.status_code, response["Content-Type"]) == (200, "text/csv; charset=utf-8")
    return list(csv.reader(io.StringIO(response.content.decode())))


def message(control: Control, subject: str) -> dict[str, Any]:
    return control.snapshot(subject)["message"] or {"content": "{}", "fields": {}}


def test_what_happens_in_a_sidecar_is_read_over_http_and_pushed(
    sidecar: Sidecar, viewer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it, within a few seconds; the windows that are pushed are those that are read."""
    monkeypatch.setattr(service, "ROUND_SECONDS", 0.1)
    monkeypatch.setattr(collector, "SAVE_SECONDS", 0.1)
    client = signed_in(viewer)
    nothing = get(client, "/api/stats/")
    assert {name: list(windows) for name, windows in nothing.items()} == {name: list(WINDOWS) for name in INDICATORS}
    assert nothing["connections"]["15mo"] == {"maximum": None, "average": None, "deviation": None}
    with Control(sidecar.control) as control, collecting(sidecar.control), ExitStack() as clients:
        for _ in range(7):
            clients.enter_context(WireClient(sidecar))
        path = "/api/stats/series/?indicator=connections_per_s&window=5min"
        until(lambda: get(client, path)["connections_per_s"]["total"] == 7)
        told = until(lambda: (found := get(client, "/api/stats/"))["connections"]["1min"]["maximum"] == 7 and found)
        assert set(told) == set(INDICATORS)
        assert {tuple(sorted(one)) for windows in told.values() for one in windows.values()} == {
            ("average", "deviation", "maximum")
        }
        assert told["connections"]["15mo"]["maximum"] == 7
        pushed = until(lambda: json.loads(message(control, "/__sys__/windows")["content"]))
        assert (set(pushed), list(pushed["connections"])) == (set(INDICATORS), list(WINDOWS))
        until(lambda: message(control, "/__sys__/cluster")["fields"].get("connections") == "7")
        cluster = message(control, "/__sys__/cluster")
        [node] = json.loads(cluster["content"])["nodes"]
        assert (node["node"], node["error"], node["figures"]["connections"]) == (sidecar.control, "", 7)
        assert [worker["pid"] for worker in node["workers"]] == [sidecar.pid]
        assert cluster["fields"]["nodes"] == "1"
    check_http(client)


def check_http(client: Client) -> None:
    """Which names and forms may be asked for."""
    assert set(get(client, "/api/stats/?indicators=all")) == set(KEPT)
    assert list(get(client, "/api/stats/?indicators=subjects,memory_bytes")) == ["subjects", "memory_bytes"]
    head, *table = rows(client, "/api/stats/?format=csv")
    assert head == ["indicator", "window", "maximum", "average", "deviation"]
    assert [(row[0], row[1]) for row in table] == [(name, window) for name in INDICATORS for window in WINDOWS]
    assert table[0][2] == "7.0"
    table = rows(client, "/api/stats/series/?indicator=connections,subjects&window=1h", Accept="text/csv")
    assert table[0][:4] == ["time", "connections average", "connections maximum", "connections deviation"]
    assert len(table) == 1 + 61
    assert table[-1][0].endswith(":00Z")
    series = get(client, "/api/stats/series/?indicator=all&window=15min")
    assert set(series) == {"window", "seconds", "t", *KEPT}
    assert len(series["t"]) == len(series["subjects"]["maximum"]) == 900
    for path, why in (
        ("/api/stats/?indicators=nonsense", "no indicator 'nonsense'"),
        ("/api/stats/series/?indicator=connections&window=2h", "no window '2h'"),
    ):
        response = client.get(path)
        assert response.status_code == 400
        assert why in response.json()["detail"]
        assert client.get(path, headers={"Accept": "text/csv"}).status_code == 400


@pytest.mark.slow
def test_a_clock_that_is_set_back_in_the_middle_of_a_round_stops_nothing(sidecar: Sidecar) -> None:
    """After a node has answered, and before that is looked at."""
    back = [0.0]
    clock = collector.Clock(lambda: time.time() + back[0])
    running = Service([sidecar.control], threading.Event(), clock)
    one, [line] = running._collector, running._lines
    try:
        assert one.begin()
        until(lambda: running.round() and one.timeline.through > 0)
        asking = until(lambda: line.ask(one.timeline.wanted(line.name)) or line.asking)
        wait([asking])
        back[0] = -3600.0
        running.round()
        before = one.timeline.through
        assert abs(before - clock.wall()) < 5
        until(lambda: running.round() and one.timeline.through > before)
        assert abs(one.timeline.through - clock.wall()) < 5
    finally:
        one.end()
        running._nodes.close()
        connections.close_all()


@pytest.mark.parametrize(
    "told",
    [
        lambda line: RoundAnswer(steady(), {"now": "soon", "server": "x", "names": [], "rows": [], "shared": 0}, {}),
        lambda line: RoundAnswer(steady(), {"names": ["second", "span", "x"], "rows": [[1, 1, "much"]]}, {}),
        lambda line: {}["nothing"],
    ],
    ids=["a clock", "a figure", "no answer"],
)
def test_a_node_whose_figures_cannot_be_read_stops_no_other(sidecar: Sidecar, told: Any) -> None:
    """It is named in the log, and the seconds of the others go on."""

    class Strange(NodeLine):
        def _round(self, control: Control, wanted: dict[str, Any]) -> RoundAnswer:
            return told(self)

    with Sidecar() as other:
        running = Service([sidecar.control, other.control], threading.Event())
        one = running._collector
        strange = Strange(other.control, running._nodes, steady)
        running._lines[1] = strange
        try:
            assert one.begin()
            until(lambda: running.round() and one.timeline.through > 0)
            before = one.timeline.through
            until(lambda: running.round() and one.timeline.through > before, 20)
            assert "cannot be read" in strange.answer.error
        finally:
            one.end()
            running._nodes.close()
            connections.close_all()


def test_only_who_may_see_the_monitoring_reads_it(viewer: User) -> None:
    """With a session or a token (tests/realtime/stats/test_access.py has all of the ways)."""
    other = User.objects.create_user("other", password="demo", is_staff=True)
    for path in ("/api/stats/", "/api/stats/series/"):
        assert Client().get(path).status_code == 401
        assert signed_in(other).get(path).status_code == 403
        for user, status in ((viewer, 200), (other, 403)):
            token, _ = mint(user)
            assert Client().get(path, headers={"Authorization": f"Bearer {token}"}).status_code == status


def test_while_the_database_does_not_answer_it_says_so(viewer: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is signed in was found out before."""
    client = signed_in(viewer)
    monkeypatch.setattr(StatisticsState._meta, "db_table", "elsewhere")
    for path in ("/api/stats/", "/api/stats/series/"):
        response = client.get(path)
        assert (response.status_code, response.json()) == (503, {"detail": "the statistics cannot be read now"})


def test_names_and_windows_in_python() -> None:
    assert set(read.newest()) == set(INDICATORS)
    assert set(read.newest(["subjects", "subjects"])) == {"subjects"}


@pytest.mark.slow
def test_two_nodes_are_added_up_and_one_that_dies_is_missing() -> None:
    """And counted again when it is back; the node that is away is named on the meta-subject."""
    with ExitStack() as stack:
        one, other = stack.enter_context(Sidecar()), stack.enter_context(Sidecar())
        control = stack.enter_context(Control(one.control))
        stack.enter_context(collecting(one.control, other.control))
        clients = [stack.enter_context(WireClient(node)) for node in (one, one, other, other, other)]

        def newest() -> float | None:
            """The newest second that is saved."""
            return read.series(["connections"], "1min")["connections"]["average"][-1]

        def nodes() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = json.loads(message(control, "/__sys__/cluster")["content"]).get("nodes", [])
            return found

        until(lambda: newest() == 5)
        until(lambda: message(control, "/__sys__/cluster")["fields"].get("connections") == "5")
        other.kill()
        until(lambda: newest() == 2)
        until(lambda: nodes()[1]["error"] != "")
        assert nodes()[1]["node"] == other.control
        assert nodes()[0]["error"] == ""
        assert message(control, "/__sys__/cluster")["fields"]["connections"] == "2"
        other.start()
        clients.append(stack.enter_context(WireClient(other)))
        until(lambda: newest() == 3)
        assert read.newest()["connections"]["5min"]["maximum"] == 5
        assert read.series(["connections_per_s"], "5min")["connections_per_s"]["total"] == 6


@pytest.mark.slow
def test_a_collector_that_is_replaced_doubles_nothing(sidecar: Sidecar) -> None:
    """One ends, and another begins, while connections come: each is counted once."""
    before, clients = count(sidecar), list[WireClient]()
    all_counted = lambda: counted() >= before + len(clients)
    with ExitStack() as stack:
        for _ in range(3):
            with collecting(sidecar.control):
                clients += [stack.enter_context(WireClient(sidecar)) for _ in range(4)]
                until(all_counted)
        assert counted() == count(sidecar) == before + len(clients)


def test_a_collector_that_fails_begins_anew(
    sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In a way that it does not know: it lets go of what it held, says so, and nothing is counted twice."""
    monkeypatch.setattr(service, "RESTART_SECONDS", 0.1)
    whole, rounds = Service.round, []

    def fails_once(self: Service) -> tuple[bool, bool]:
        done = whole(self)
        rounds.append(done)
        if len(rounds) == 3:
            raise ArithmeticError("planted")
        return done

    monkeypatch.setattr(Service, "round", fails_once)
    with collecting(sidecar.control), WireClient(sidecar):
        until(lambda: len(rounds) > 5)
        until(lambda: counted() == count(sidecar))
    assert caplog.text.count("the collector failed; starting it again") == 1
    assert caplog.text.count("ArithmeticError: planted") == 1


def count(sidecar: Sidecar) -> float:
    """The connections that the sidecar's samples tell of."""
    with Control(sidecar.control) as control:
        answer = control.call("samples")
    at = answer["names"].index("connections_per_s") + 1
    return round(sum(row[1] * row[at] for row in answer["rows"]), 6)


def counted() -> float:
    """Those that are in the database."""
    return read.series(["connections_per_s"], "15min")["connections_per_s"]["total"] or 0.0
