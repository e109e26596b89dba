"""One seed for a run of the tests: what is chosen by chance can be chosen again with ``make test SEED=…``."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

NAME = "SEED"


def run_seed() -> int:
    """The seed of this run; the processes of `pytest -n` inherit it."""
    return int(os.environ[NAME])


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose a seed unless one is given; Hypothesis takes it too, but in CI, where its examples never change."""
    if os.environ.get("CI") != "true":  # where Hypothesis has a profile of its own, which does the same
        settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
        settings.load_profile("unhurried")
    os.environ.setdefault(NAME, str(random.SystemRandom().randrange(1 << 31)))
    if config.getoption("--hypothesis-seed", None) is None:
        config.option.hypothesis_seed = os.environ[NAME]


def pytest_report_header() -> str:
    """How to choose the same again."""
    return f"{NAME}={run_seed()}"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Each test begins at a place of its own, so that it chooses the same alone, in any order, and a second time."""
    random.seed(f"{run_seed()} {item.nodeid}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """A failure says its seed."""
    report: Any = yield
    if report.failed:
        report.sections.append(("Seed", f"{NAME}={run_seed()}"))
    return report
