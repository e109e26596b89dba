"""The search for the greatest load, against servers that are one line of arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fastpath.bench.scenarios.capacity_search import Plan, Probe, lines, search


def server(limit: float, fault: str = "slow") -> Callable[[float], Probe]:
    """A server that holds any load up to ``limit`` and beyond it is slow, loses, or falls behind."""

    def measure(load: float) -> Probe:
        over = load > limit
        return Probe(
            load=load,
            p99_ms=80.0 if over and fault == "slow" else 3.0,
            lost=7 if over and fault == "loses" else 0,
            deliveries_per_s=0.8 * load if over and fault == "behind" else load,
            expected_per_s=load,
        )

    return measure


@pytest.mark.parametrize("fault", ["slow", "loses", "behind"])
@pytest.mark.parametrize(
    ("limit", "start"), [(5_000, 100), (5_000, 5_000), (5_000, 80_000), (130, 100), (99_000, 1_000)]
)
def test_the_greatest_load_is_found_within_the_precision(limit: float, start: float, fault: str) -> None:
    """From below and from above, whatever it is that gives way."""
    found = search(server(limit, fault), start, 100_000, precision=0.1, probes_max=40)

    assert found.held is not None
    assert found.failed is not None
    assert found.held.load <= limit < found.failed.load
    assert found.failed.load <= found.held.load * 1.1
    assert {"slow": "p99 80.0 ms", "loses": "7 messages lost", "behind": "only"}[fault] in found.why


def test_a_server_that_holds_everything_ends_the_search_at_the_greatest_load() -> None:
    """Then there is no failed load, and the caller says that the search was cut off."""
    found = search(server(1e9), 100, 1_000)

    assert found.held is not None
    assert (found.held.load, found.failed, found.why) == (1_000, None, "")


def test_a_server_that_holds_nothing_has_no_capacity() -> None:
    """The search gives up below a load of one."""
    found = search(server(0), 4, 100)

    assert found.held is None
    assert found.failed is not None


def test_one_busy_moment_of_the_machine_does_not_count() -> None:
    """Each load fails the first time that it is measured, and holds the second."""
    seen: set[float] = set()

    def measure(load: float) -> Probe:
        first = load not in seen
        seen.add(load)
        return Probe(load, 99.0 if first else 2.0, 0, load, load)

    found = search(measure, 100, 800)

    assert found.held is not None
    assert found.held.load == 800


def test_the_number_of_measurements_is_bounded() -> None:
    """A search that would be too exact stops with what it has."""
    found = search(server(5_000), 1, 100_000, precision=1e-6, probes_max=20)

    assert len(found.probes) <= 20
    assert found.held is not None


def test_a_latency_that_was_not_measured_does_not_pass() -> None:
    """NaN is no answer."""
    assert Probe(1, float("nan"), 0, 1, 1).fault(15) == "p99 nan ms"


def plan(**changes: float) -> Plan:
    """A million users with one message a second on machines like a small server."""
    values = {
        "users": 1_000_000,
        "rate": 1.0,
        "deliveries_per_core_s": 80_000,
        "connections_per_core_max": 100_000,
        "cores": 8,
        "headroom": 0.3,
        "bytes_per_connection": 7_000,
        "memory_bytes": 32 * 2**30,
    }
    return Plan(**(values | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "machines", "bound"),
    [
        ({}, 3, "CPU"),
        ({"rate": 0.01}, 2, "open files"),
        ({"rate": 0.01, "connections_per_core_max": 1_000_000, "memory_bytes": 2**30}, 10, "memory"),
        ({"users": 10}, 1, "CPU"),
    ],
)
def test_the_machines_for_a_number_of_users(changes: dict[str, float], machines: int, bound: str) -> None:
    """The scarcest of CPU, files and memory decides."""
    estimate = plan(**changes)

    assert (estimate.machines, estimate.bound) == (machines, bound)


def test_the_estimate_says_what_it_assumes() -> None:
    """Nobody should take the number without them."""
    text = "\n".join(lines(plan()))

    for part in ("3 machines", "80,000 deliveries/s a core", "30%", "load generator was on this machine"):
        assert part in text
