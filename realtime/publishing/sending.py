"""Rows are sent now, and what became of them is told: signals, the log, an error for the caller."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from fastpath.client.errors import ClientError, SidecarUnavailable
from realtime.conf import conf
from realtime.publishing import signals
from realtime.publishing.backends import backend
from realtime.publishing.failures import failures
from realtime.publishing.outcomes import Outcome, Position, PublishFailed, PublishManyFailed, ShuttingDown
from realtime.publishing.rows import Row

THREADS = 2
"""Number of threads for asynchronous code, in each process: its messages leave one behind the other anyhow."""


def send(rows: Sequence[Row], *, silent: bool = False, loud: bool = False) -> list[Position] | None:
    """Send them now; the positions, or None where ``silent`` or the settings have what failed logged.

    ``loud``: every failure is raised, whatever the settings say. Raises the error of a message that is alone, else
    PublishManyFailed; that no sidecar answered, as it is.
    """
    outcomes = backend().send(rows, time.monotonic())
    signals.tell(rows, outcomes)
    return _settled(rows, outcomes, not loud and (silent or conf.on_failure == "log"))


async def asend(rows: Sequence[Row], *, silent: bool = False) -> list[Position] | None:
    """Send in asynchronous code: a thread of this module waits for the sidecar, and no other code's."""
    target, began = backend(), time.monotonic()
    if target.in_process:
        outcomes = target.send(rows, began)
    else:
        try:
            work = asyncio.get_running_loop().run_in_executor(_threads(), target.send, rows, began)
        except RuntimeError as error:
            outcomes = [ShuttingDown(str(error), row.subject) for row in rows]
        else:
            outcomes = await work
    await signals.atell(rows, outcomes)
    return _settled(rows, outcomes, silent or conf.on_failure == "log")


def _settled(rows: Sequence[Row], outcomes: Sequence[Outcome], silent: bool) -> list[Position] | None:
    """Return the positions; raise what failed, or note it where nobody is to be told."""
    positions = [one for one in outcomes if isinstance(one, Position)]
    if len(positions) == len(outcomes):
        return positions
    failed = [(row, error) for row, error in zip(rows, outcomes, strict=True) if isinstance(error, ClientError)]
    passing = all(isinstance(error, PublishFailed | SidecarUnavailable) for _, error in failed)
    if passing and silent:
        failures.note(failed, len(rows), "outside of a transaction")
        return None
    if len(rows) == 1 or all(one is outcomes[0] for one in outcomes):
        raise failed[0][1]
    raise PublishManyFailed(outcomes) from failed[0][1]


class _Threads:
    """The threads of one process."""

    def __init__(self) -> None:
        self.pool: ThreadPoolExecutor | None = None

    def forget(self) -> None:
        """Forget the threads in a process that was forked: they are not there."""
        self.pool = None


_own = _Threads()
os.register_at_fork(after_in_child=_own.forget)


def _threads() -> ThreadPoolExecutor:
    if _own.pool is None:
        _own.pool = ThreadPoolExecutor(THREADS, thread_name_prefix="publish")
    return _own.pool
