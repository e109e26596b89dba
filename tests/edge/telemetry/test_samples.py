"""The control verbs of the statistics: a sample each second, and what the collector hands in (protocol.md 8.12)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import pytest

from fastpath.client.control.client import Control
from fastpath.client.errors import ControlRefused, SidecarUnavailable
from fastpath.core.telemetry.figures import FIGURES
from fastpath.core.telemetry.samples import FIRST, GAUGES, NAMES, RATES
from fastpath.edge.telemetry.figures import Statistics
from fastpath.edge.telemetry.samples import Samples
from fastpath.server.components import make_runtime
from fastpath.settings import Settings
from tests.support.edge.operators import Leading, Peer
from tests.support.edge.wire import WireClient
from tests.support.sidecar import Sidecar
from tests.support.waiting import until


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """Two workers."""
    with Sidecar(workers=2) as running:
        yield running


def test_what_is_sampled_is_a_figure_and_added_up_as_one() -> None:
    """The first worker's where that one alone counts; the largest where a sum means nothing."""
    counters = {name: FIGURES[name] for name in RATES.values()}
    assert {one.kind for one in counters.values()} == {"counter"}
    assert {name for name, one in counters.items() if one.across_workers == "first"} == FIRST
    assert {FIGURES[name].kind for name in GAUGES} == {"gauge"}


def values(row: list[float]) -> dict[str, float]:
    return dict(zip(NAMES, row[1:], strict=True))


def total(control: Control, name: str) -> float:
    """What was counted in all samples."""
    rows = map(values, control.call("samples")["rows"])
    return round(sum(row["seconds"] * row[name] for row in rows), 6)


@pytest.mark.slow
def test_each_second_has_a_sample_of_all_workers(sidecar: Sidecar) -> None:
    """Their numbers rise with the seconds; who has had some gets those that follow."""
    with Control(sidecar.control) as control:
        with ExitStack() as clients:
            for _ in range(12):  # on both workers
                clients.enter_context(WireClient(sidecar))
        until(lambda: total(control, "connections_per_s") == 12)
        until(lambda: total(control, "disconnections_per_s") == 12)
        until(lambda: len(control.call("samples")["rows"]) > 1)
        answer = control.call("samples")
        assert answer["server"] == control.hello()["server"]
        assert answer["names"] == list(NAMES)
        assert answer["shared"] is False
        rows = answer["rows"]
        numbers = [row[0] for row in rows]
        assert numbers == sorted(set(numbers))
        assert [row[1] for row in rows[1:]] == [now - before for before, now in pairwise(numbers)]
        assert 0 < answer["now"] - numbers[-1] < 1.5 + rows[-1][1]
        assert values(rows[-1])["memory_bytes"] > 2 * 10_000_000
        more = {"server": answer["server"], "after": numbers[-2]}
        assert control.call("samples", more)["rows"][0][0] == numbers[-1]
        assert control.call("samples", {"server": "another", "after": numbers[-1]})["rows"][0][:2] == rows[0][:2]


def test_what_the_collector_hands_in_is_published(sidecar: Sidecar) -> None:
    """Figures as fields and as JSON, windows as JSON; what is none is refused."""
    with Control(sidecar.control) as control:
        fields = {"connections": 12, "cpu_percent": 1.25, "memory_bytes": 123456789.0}
        control.call("figures", {"fields": fields, "content": '{"nodes":[]}', "windows": '{"connections":{}}'})
        control.call("figures", {"fields": {}, "content": '{"nodes":[1]}'})
        until(lambda: json.loads(client_snapshot(control, "/__sys__/cluster")["content"]) == {"nodes": [1]})
        cluster = client_snapshot(control, "/__sys__/cluster")["fields"]
        assert cluster == {"connections": "12", "cpu_percent": "1.25", "memory_bytes": "123456789"}
        assert client_snapshot(control, "/__sys__/windows")["content"] == '{"connections":{}}'
        for wrong in (
            {"fields": {"connections": "12"}, "content": ""},
            {"fields": {"": 1}, "content": ""},
            {"fields": dict.fromkeys(map(str, range(257)), 1), "content": ""},
            {"fields": {}, "content": 7},
            {"fields": {}, "content": "", "windows": b"{}"},
            {"fields": {}, "content": "", "windows": '{"connections":{"1min":{"maximum":"3"}}}'},
            {"fields": {}},
        ):
            with pytest.raises(ControlRefused, match="invalid"):
                control.call("figures", wrong)
        with pytest.raises(ControlRefused, match="too_large"):
            control.call("figures", {"fields": {}, "content": "x" * (1 << 20) + "x"})


def client_snapshot(control: Control, subject: str) -> dict[str, Any]:
    """What is there of a subject."""
    message: dict[str, Any] = control.snapshot(subject)["message"]
    return message


async def test_a_worker_that_ended_before_the_first_sample_is_not_told_of() -> None:
    runtime = make_runtime(Settings(mode="none"), asyncio.get_running_loop())
    statistics = Statistics(runtime)
    ended = [statistics.own() | {"worker": 1, "pid": 7, "connects": 5, "uptime_s": -1.0}]
    runtime.workers.lead(Leading(ended=ended))
    samples = Samples(runtime, statistics)
    runtime.serve(samples)
    samples.start()
    samples._tick()
    [row] = runtime.verbs["samples"](Peer(), {})["rows"]
    assert [values(row)[name] for name in ("connections_per_s", "disconnections_per_s")] == [0, 0]
    runtime.stop()


@pytest.mark.slow
def test_a_first_worker_that_was_killed_tells_nothing_twice(sidecar: Sidecar) -> None:
    """The next one has samples of its own, in which what the others had counted before is not told again."""
    with Control(sidecar.control) as control, ExitStack() as clients:
        before = total(control, "connections_per_s")
        for _ in range(12):
            clients.enter_context(WireClient(sidecar))
        until(lambda: total(control, "connections_per_s") == before + 12)
        server = control.hello()["server"]
        left = [one["connections"] for one in control.stats()["by_worker"] if one["worker"] == 1]
        os.kill(sidecar.ready["workers"][0], signal.SIGKILL)
    with Control(sidecar.control) as control:
        until(lambda: answers(control) not in ("", server))
        until(lambda: len(control.call("samples")["rows"]) > 2)
        rows = list(map(values, control.call("samples")["rows"]))
        assert max(row["connections"] for row in rows) <= left[0]
        assert total(control, "connections_per_s") == 0


def answers(control: Control) -> str:
    """Which first worker answers; empty while none does."""
    try:
        return str(control.hello()["server"])
    except SidecarUnavailable:
        return ""
