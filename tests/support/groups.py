"""Shares the tests out over the processes of `pytest -n`: a file stays together, and so do those of one Spark session.

What takes longest begins first, so that no process is left with it at the end. Of the slow tests, those that measure
or starve need the machine for themselves: ``--part alone`` runs these, ``--part beside`` the others.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

FIRST = tuple(
    f"tests/{name}/"
    for name in (
        "spark",
        "redis",
        "engine/redis",
        "workers",
        "postgres",
        "mariadb",
        "chaos",
        "realtime",
        "browser",
        "bench",
    )
)
"""Folders of long files; Spark's tests begin apart from the browsers', some of which have a Spark of their own."""

SPARK = "tests/spark/"
"""The folder whose tests share a session."""

SUITES = ("tests/postgres/", "tests/mariadb/")
"""The folders of which each test is a suite of its own."""


ALONE = tuple(
    f"tests/{name}"
    for name in (
        "chaos/",
        "edge/clients/test_slow",
        "edge/runtime/test_large_crowd",
        "edge/runtime/test_scatter",
        "engine/journal/test_speed",
        "engine/redis/test_pace",
        "hostile/",
        "measure/",
        "redis/test_awake",
        "redis/test_cluster",
        "redis/test_failover",
        "server/test_watchdog",
        "test_awake",
        "workers/test_standing",
    )
)
"""Where slow tests measure, or starve a process: they need the machine for themselves."""


class Groups(LoadScopeScheduling):
    """Gives out a file at a time, or a suite."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(SUITES):
            return nodeid
        return SPARK if nodeid.startswith(SPARK) else nodeid.partition("::")[0]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Hook of pytest."""
    parser.addoption(
        "--part", choices=("alone", "beside"), help="tests that need the machine for themselves, or others"
    )


def _rank(item: pytest.Item) -> int:
    return next((rank for rank, folder in enumerate(FIRST) if item.nodeid.startswith(folder)), len(FIRST))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups:
    """Hook of pytest-xdist."""
    return Groups(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only those of the part; in its processes, the long files first, while in one process the order stays."""
    if part := config.getoption("part"):
        others = [item for item in items if item.nodeid.startswith(ALONE) != (part == "alone")]
        config.hook.pytest_deselected(items=others)
        left = set(others)
        items[:] = [item for item in items if item not in left]
    if hasattr(config, "workerinput"):
        items.sort(key=_rank)
