"""In CI, a test that skips has failed: nobody reads the reason for a skip on a green run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

IN_CI = os.environ.get("CI") == "true"


def _fail_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure that names its reason; an expected failure (`xfail`) is none."""
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} skipped, which fails in CI: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """A test, or its set-up, that skips."""
    report: Any = yield
    _fail_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Iterator[None]:
    """A module that skips itself when it is collected."""
    report: Any = yield
    _fail_skip(report)
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A kind of test of which there is none (`-m slow`) is no fault; an empty choice by name or `not slow` is."""
    option = session.config.option
    wanted = option.markexpr and "not slow" not in option.markexpr and not option.keyword
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and wanted:
        session.exitstatus = pytest.ExitCode.OK
