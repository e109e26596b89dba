"""A failing test shows the logs of the sidecars and programs that still run; those of one that has ended are gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.realtime.server import Program

from .sidecar import Sidecar, tail


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """One section for each."""
    report: Any = yield
    if report.failed:
        for sidecar in tuple(Sidecar.running):
            report.sections.append((f"Log of the sidecar {sidecar.folder.name}", tail(sidecar.log)))
        for program in tuple(Program.running):
            report.sections.append((f"Output of {program.process.args}", tail(program.output)))
    return report
