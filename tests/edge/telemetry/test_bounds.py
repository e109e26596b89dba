"""How near the process and the machine are to their bounds, in the figures."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastpath.client.control.client import Control
from fastpath.edge.telemetry import bounds
from tests.support.edge.wire import WireClient
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

GIB = 1 << 30


@pytest.fixture(scope="module")
def node() -> Iterator[Sidecar]:
    """With bounds that are told apart from the machine's."""
    with tempfile.TemporaryDirectory() as folder:
        kept = {"journal": "interval", "data": folder}
        with Sidecar(
            connections_max=321, subjects_max=654, cache_bytes=987654, memory_bytes_max=GIB, **kept
        ) as sidecar:
            yield sidecar


def test_each_bound_is_beside_what_is_used(node: Sidecar) -> None:
    """As it was set; files are those of the process, and rise with each connection."""
    with Control(node.control) as control:
        figures = control.stats()
        assert (figures["connections_max"], figures["subjects_max"]) == (321, 654)
        assert (figures["cached_bytes_max"], figures["memory_bytes_max"]) == (987654, GIB)
        assert figures["files_max"] > 100
        before = figures["files"]
        assert before > 0
        with WireClient(node), WireClient(node), WireClient(node):
            until(lambda: control.stats()["files"] >= before + 3)


def test_how_busy_the_machine_is(node: Sidecar) -> None:
    """All its processors, since the last look; of memory and of the journal's disk less is left than there is."""
    with Control(node.control) as control:
        figures = until(
            lambda: (found := control.stats()) and {"machine_cpu_percent", "journal_disk_bytes"} <= set(found) and found
        )
    assert 0 <= figures["machine_cpu_percent"] <= 100
    assert 0 < figures["machine_memory_available_bytes"] < figures["machine_memory_bytes"]
    assert 0 < figures["journal_disk_free_bytes"] < figures["journal_disk_bytes"]


@pytest.mark.parametrize(
    ("told", "expected"),
    [(str(GIB), GIB), ("max", None), ("9223372036854771712", None), (None, None)],
    ids=["a bound", "no bound, version 2", "no bound, version 1", "no control groups"],
)
def test_a_container_has_less_memory_than_its_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, told: str | None, expected: int | None
) -> None:
    """Where a control group bounds it that counts, else what the machine has."""
    path = tmp_path / "memory.max"
    if told is not None:
        path.write_text(f"{told}\n")
    monkeypatch.setattr(bounds, "CGROUPS", (str(path),))
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert bounds.machine_memory_bytes() == (expected or machine)
