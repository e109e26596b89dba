"""A test that fails shows what the sidecars that still run have written to their logs; one that has ended is gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from .sidecar import Sidecar, tail


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """One section for each."""
    report: Any = yield
    if report.failed:
        for sidecar in tuple(Sidecar.running):
            report.sections.append((f"Log of the sidecar {sidecar.folder.name}", tail(sidecar.log)))
    return report
