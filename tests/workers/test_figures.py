"""What is measured on each worker, and put together on the first (docs/operate/figures.md)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest

from fastpath.client.control.client import Control
from fastpath.core.telemetry.counters import ENDS
from realtime.stats.figures import starved
from tests.support.edge.figures import Change
from tests.support.edge.spread import Spread, spread
from tests.support.edge.wire import WireClient
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

LISTEN = "clients+publishers://127.0.0.1:0"
METRICS = f"{LISTEN},metrics://127.0.0.1:0"


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """Two workers; publishers come to either."""
    with Sidecar(workers=2, listen=LISTEN) as running:
        yield running


@pytest.fixture
def clients(sidecar: Sidecar) -> Iterator[Spread]:
    """One on each worker."""
    with spread(sidecar, 2) as both:
        yield both


def test_deliveries_of_all_workers_are_measured_from_their_acceptance(sidecar: Sidecar, clients: Spread) -> None:
    subject = f"/all/latency/{time.monotonic_ns()}"  # another one at a second try
    with Control(sidecar.control) as control:
        for client in clients.all:
            client.subscribe(subject)
        change = Change(control)
        for publishing, reading in ((clients.first, clients.others[0]), (clients.others[0], clients.first)):
            publishing.say("publish", subject=subject, content="x")
            publishing.message()
            reading.message()
        until(lambda: change.of_latencies()[0] == 4)
        assert change.of_latencies()[1] > 0
        for number in range(40):
            clients.first.say("publish", subject=subject, content=str(number))
        figures = until(lambda: (now := control.stats())["latency_p99_ms"] and now)
        each = [one["latency_p99_ms"] for one in figures["by_worker"]]
        assert min(each) <= figures["latency_p99_ms"] <= max(each)
        assert figures["loop_lag_ms"] >= max(one["loop_lag_ms"] for one in figures["by_worker"])


@pytest.mark.slow
@pytest.mark.parametrize(("how", "reason"), [(signal.SIGKILL, "lost"), (signal.SIGTERM, "drain")])
def test_clients_of_a_worker_that_ends_have_gone(how: signal.Signals, reason: str) -> None:
    """Also in the samples, of which the statistics are made."""
    with Sidecar(workers=2) as sidecar, Control(sidecar.control) as control, ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(WireClient(sidecar)).ask("ping", "pong")
        figures = until(lambda: (now := control.stats())["connections"] == 20 and now)
        left, there = (int(one["connections"]) for one in figures["by_worker"])
        assert there
        os.kill(sidecar.ready["workers"][1], how)
        figures = until(lambda: (now := control.stats())["disconnects"] and now["connections"] == left and now)
        assert (figures["connects"], figures["disconnects"], figures[f"disconnects_{reason}"]) == (20, there, there)
        assert sum(figures[f"disconnects_{name}"] for name in ENDS) == there
        if reason == "lost":
            until(lambda: control.stats()["disconnections_per_s"] >= there / 2)

        def told() -> float:
            answer = control.call("samples")
            at = 1 + answer["names"].index("disconnections_per_s")
            return round(sum(row[1] * row[at] for row in answer["rows"]), 3)

        until(lambda: told() == there)


@pytest.mark.slow
def test_without_statistics_the_workers_are_counted_bounded_and_asked_all_the_same() -> None:
    options = {"workers": 2, "statistics": "off", "hang_seconds": 60, "listen": METRICS}
    with Sidecar(**options) as sidecar, spread(sidecar, 2), Control(sidecar.control) as control:
        figures = until(lambda: (now := control.stats())["connections"] == 2 and now)
        assert [one["connections"] for one in figures["by_worker"]] == [1, 1]
        assert figures["workers"] == 2
        assert 'fastpath_worker_connections{worker="1"} 1' in control.metrics()
        assert control.call("drain", {"per_second": 1}) == {"clients": 2}
        control.call("undrain")
        assert control.reload() == {"errors": []}
        os.kill(hung := sidecar.ready["workers"][1], signal.SIGSTOP)
        try:
            assert control.reload()["errors"] == ["1 of the workers did not answer within 3 s"]
            reloads = sidecar.log.count("reloaded certificates")
            with ThreadPoolExecutor(1) as pool:
                answer = pool.submit(control.reload)
                until(lambda: sidecar.log.count("reloaded certificates") > reloads)
                os.kill(hung, signal.SIGKILL)
                assert answer.result() == {"errors": []}, "nobody waits for one that has ended"
        finally:
            with suppress(ProcessLookupError):
                os.kill(hung, signal.SIGCONT)
        one = int(figures["by_worker"][0]["memory_bytes"])
    with Sidecar(workers=2, statistics="off", memory_bytes_max=one * 3 // 2) as sidecar:
        until(lambda: "more than memory_bytes_max" in sidecar.log)


@pytest.mark.slow
def test_what_a_worker_that_hangs_told_last_is_not_shown_as_live() -> None:
    with Sidecar(workers=2) as sidecar, Control(sidecar.control) as control, spread(sidecar, 2) as clients:
        clients.others[0].subscribe("/hung/one")

        def busy() -> bool:
            clients.first.say("publish", subject="/hung/one", content="x")
            return control.stats()["by_worker"][1]["messages_out_per_s"] > 0

        until(busy)
        os.kill(hung := sidecar.ready["workers"][1], signal.SIGSTOP)
        try:
            figures = until(lambda: (now := control.stats())["silent_s"] and now)
            row = figures["by_worker"][1]
            assert (row["messages_out_per_s"], row["cpu_percent"], row["latency_p99_ms"]) == (0, 0, 0)
            assert row["silent_s"] >= 2.5
            assert figures["loop_lag_ms"] >= 2500
            assert figures["connections"] == sum(one["connections"] for one in figures["by_worker"]), "they are there"
            assert figures["by_worker"][0]["silent_s"] == 0
        finally:
            os.kill(hung, signal.SIGCONT)
        until(lambda: control.stats()["silent_s"] == 0)


@pytest.mark.slow
def test_a_worker_that_gets_no_cpu_is_counted_as_starved() -> None:
    """It has what others leave of one core, and that is next to nothing."""
    with Sidecar(workers=2, hang_seconds=60) as sidecar, Control(sidecar.control) as control:
        before = until(lambda: (now := control.stats())["workers"] == 2 and now)
        assert starved(before | {"by_worker": []}) == []
        core, pid = min(os.sched_getaffinity(0)), sidecar.ready["workers"][1]
        burn = f"import os\nos.sched_setaffinity(0, [{core}])\nwhile True: pass"
        burners = [subprocess.Popen([sys.executable, "-c", burn]) for _ in range(3)]
        try:
            os.sched_setaffinity(pid, [core])
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
            figures = until(lambda: 1 in starved(now := control.stats()) and now, 20)
            row = figures["by_worker"][1]
            assert figures["cpu_waited_percent"] >= row["cpu_waited_percent"] > 50
            assert 'fastpath_worker_cpu_waited_seconds_total{worker="1"} ' in control.metrics()
        finally:
            for burner in burners:
                burner.kill()
                burner.wait()
        until(lambda: 1 not in starved(control.stats()), 60)
        # It counts its waiting itself, and tells of it when it runs again.
        waited = before["by_worker"][1]["cpu_waited_seconds"] + 0.4
        until(lambda: control.stats()["by_worker"][1]["cpu_waited_seconds"] > waited)


@pytest.mark.slow
def test_what_is_handed_in_counts_from_where_its_publisher_is(sidecar: Sidecar, clients: Spread) -> None:
    other = clients.others[0]
    with Control(sidecar.control) as control:
        other.subscribe("/all/handed")
        change = Change(control)
        first = sidecar.ready["workers"][0]
        os.kill(first, signal.SIGSTOP)
        try:
            other.say("publish", subject="/all/handed", content="x")
            other.ask("ping", "pong")  # it has read that
            time.sleep(0.3)  # the fault itself: for so long the first worker does not run
        finally:
            os.kill(first, signal.SIGCONT)
        other.message()
        until(lambda: change.of_latencies()[0] == 1)
        assert change.of_latencies()[1] >= 0.3
