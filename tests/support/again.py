"""In CI, a test that is marked ``timing`` and fails runs once more; every other first failure fails the run.

A test of time also measures the machine, which may stand still for a second. It runs again at once: with the same seed,
in the same process, beside the tests that ran beside it. What failed the first time is shown in any case. With
``timing(only="TooSlow")`` it runs again only where it failed with this exception.
"""

from __future__ import annotations

from typing import Any

import pytest

from .no_skips import IN_CI


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The mark that pytest-rerunfailures looks for."""
    if IN_CI:
        for item in items:
            if mark := item.get_closest_marker("timing"):
                item.add_marker(
                    pytest.mark.flaky(reruns=1, **({"only_rerun": [mark.kwargs["only"]]} if mark.kwargs else {}))
                )


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What failed once, whole."""
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.write_sep("_", f"FAILED ONCE, run again: {report.nodeid}")
        report.toterminal(terminalreporter._tw)
        for title, text in report.sections:
            terminalreporter.write_sep("-", title)
            terminalreporter.write_line(text)
