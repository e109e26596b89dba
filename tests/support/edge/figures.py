"""What has become of a sidecar's figures meanwhile."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from fastpath.client.control.client import Control
from tests.support.sidecar import Sidecar

BATCH_MS = 60
LISTEN = f"clients://127.0.0.1:0,clients://127.0.0.1:0?batch_ms={BATCH_MS},publishers://127.0.0.1:0"
SUBJECTS_MAX = 60


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """One for all tests: they look at what has changed."""
    with Sidecar(listen=LISTEN, subjects_max=SUBJECTS_MAX) as running:
        yield running
        assert "Traceback" not in running.log, running.log


@pytest.fixture
def control(sidecar: Sidecar) -> Iterator[Control]:
    """As Django asks."""
    with Control(sidecar.control) as connection:
        yield connection


class Change:
    """What has happened to figures since this was made."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._before = control.stats()
        self._latency = latencies(control)

    def of(self, *names: str) -> list[float]:
        """By how much they have risen."""
        figures = self._control.stats()
        return [figures[name] - self._before[name] for name in names]

    def by(self, prefix: str, names: tuple[str, ...]) -> dict[str, float]:
        """The same of all that begin so and end with one of the names; only those that have risen."""
        risen = zip(names, self.of(*(f"{prefix}_{name}" for name in names)), strict=True)
        return {name: count for name, count in risen if count}

    def of_latencies(self) -> tuple[int, float]:
        """How many deliveries were measured, and their sum in s."""
        count, total = latencies(self._control)
        return count - self._latency[0], total - self._latency[1]


def latencies(control: Control) -> tuple[int, float]:
    """Count and sum (s) of the histogram."""
    text = control.metrics()
    count, total = (re.search(rf"^fastpath_latency_seconds_{part} (.*)$", text, re.M) for part in ("count", "sum"))
    assert count is not None
    assert total is not None
    return int(count[1]), float(total[1])
