"""Shares the tests out over the processes of `pytest -n`: a file stays together, and so do those of one Spark session.

What takes longest begins early, so that no process is left with it at the end; but Spark, PostgreSQL, Redis and
Chromium do not start beside each other: light files lie between what starts them. Of the slow tests, those that measure
or starve need the machine for themselves: ``--part alone`` runs these, ``--part beside`` the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

STARTERS = (
    ("tests/spark/",),
    ("tests/postgres/", "tests/mariadb/"),
    ("tests/redis/", "tests/engine/redis/"),
    ("tests/browser/",),
    ("tests/workers/",),
    ("tests/chaos/", "tests/bench/"),
    ("tests/realtime/",),
)
"""Folders of long files, by what they start; a file of each in turn."""

APART = 20
"""As many light files lie behind the first file of each kind, which starts what the later ones find in memory."""

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


def scope_of(nodeid: str) -> str:
    """What stays together: a suite, all of Spark's, a file."""
    if nodeid.startswith(SUITES):
        return nodeid
    return SPARK if nodeid.startswith(SPARK) else nodeid.partition("::")[0]


def spread(scopes: Iterable[str]) -> list[str]:
    """The order in which they are given out, each once: those of STARTERS in turn, and light ones in between."""
    kinds: dict[int, list[str]] = {}
    for scope in dict.fromkeys(scopes):
        kind = next((index for index, folders in enumerate(STARTERS) if scope.startswith(folders)), len(STARTERS))
        kinds.setdefault(kind, []).append(scope)
    light = kinds.pop(len(STARTERS), [])
    rounds = zip_longest(*(kinds[kind] for kind in sorted(kinds)))
    firsts, *later = [[scope for scope in one if scope is not None] for one in rounds] or [[]]
    rest = [scope for one in later for scope in one]
    found: list[str] = []

    def give(heavy: list[str], lights: list[str]) -> None:
        """These light ones, shared out evenly behind the heavy ones."""
        for index, scope in enumerate(heavy):
            found.append(scope)
            found.extend(lights[index * len(lights) // len(heavy) : (index + 1) * len(lights) // len(heavy)])

    apart = min(APART * len(firsts), len(light) // 2)
    # Half of what is left comes last: a process that is done early has something to do beside the last long file.
    between = apart + (len(light) - apart) // 2
    give(firsts, light[:apart])
    give(rest, light[apart:between])
    return found + light[between if rest else apart :]


class Groups(LoadScopeScheduling):
    """Gives out a file at a time, or a suite."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Hook of pytest."""
    parser.addoption(
        "--part", choices=("alone", "beside"), help="tests that need the machine for themselves, or others"
    )


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups:
    """Hook of pytest-xdist."""
    return Groups(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only those of the part; in its processes they are spread, while in one process the order stays."""
    if part := config.getoption("part"):
        others = [item for item in items if item.nodeid.startswith(ALONE) != (part == "alone")]
        config.hook.pytest_deselected(items=others)
        left = set(others)
        items[:] = [item for item in items if item not in left]
    if hasattr(config, "workerinput"):
        order = {scope: index for index, scope in enumerate(spread(scope_of(item.nodeid) for item in items))}
        items.sort(key=lambda item: order[scope_of(item.nodeid)])
