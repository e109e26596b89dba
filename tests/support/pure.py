"""The tests that start no process and open no socket: what they say depends on the code alone."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.suites import REPORTS

PURE = (
    "tests/client/control/test_breaker.py",
    "tests/client/publisher/test_window.py",
    "tests/client/subscriber/test_machine.py",
    "tests/client/subscriber/test_outgoing.py",
    "tests/client/subscriber/test_renewal.py",
    "tests/client/subscriber/test_state.py",
    "tests/client/subscriber/test_subscription_set.py",
    "tests/client/subscriber/transports/test_ladder.py",
    "tests/client/subscriber/transports/test_stream.py",
    "tests/client/test_options.py",
    "tests/client/test_servers.py",
    "tests/client/test_vectors.py",
    "tests/core/",
    "tests/engine/journal/test_format.py",
    "tests/engine/redis/test_entries.py",
    "tests/engine/test_order_fence.py",
    "tests/entitlement/following/test_compiler.py",
    "tests/entitlement/test_patterns.py",
    "tests/spark/sink/test_dead_letters.py",
    "tests/spark/sink/test_frames.py",
    "tests/spark/source/test_columns.py",
    "tests/spark/source/test_options.py",
    "tests/spark/source/test_positions.py",
    "tests/spark/test_lake_log.py",
)
"""Folders and files, from the root of the tests."""

OUTSIDE = frozenset(
    {"os.exec", "os.fork", "os.posix_spawn", "os.system", "socket.bind", "socket.connect", "subprocess.Popen"}
)
"""The audit events of Python for what these tests have no need of."""


def is_pure(nodeid: str) -> bool:
    """Whether this test is one of them."""
    return nodeid.startswith(PURE)


class _Guard:
    """While such a test runs, its thread can neither start a process nor connect: that keeps the list true."""

    def __init__(self) -> None:
        self.nodeid = ""
        self._installed = False

    def begin(self, nodeid: str) -> None:
        if not self._installed:
            sys.addaudithook(self._look)  # there is no way to take one away again
            self._installed = True
        self.nodeid = nodeid

    def _look(self, event: str, _: tuple[Any, ...]) -> None:
        # Threads that earlier tests left in this process may go on.
        if event in OUTSIDE and self.nodeid and threading.current_thread() is threading.main_thread():
            raise RuntimeError(
                f"{self.nodeid} does {event}, and stands in tests/support/pure.py as a test that does not"
            )


_guard = _Guard()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Guard those of the list, but for what is slow among them, and in a suite whose database is a server."""
    if not is_pure(item.nodeid) or item.get_closest_marker("slow") or REPORTS in os.environ:
        return (yield)
    _guard.begin(item.nodeid)
    try:
        return (yield)
    finally:
        _guard.nodeid = ""
