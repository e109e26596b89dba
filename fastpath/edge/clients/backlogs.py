"""What takes clients more than a turn: slices of what they missed, and commands of many subjects, a millisecond in each
turn of the loop for all of them."""

from __future__ import annotations

import logging
from collections.abc import Generator
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from ...core.delivery.audience import Client
from ...core.protocol.errors import Close
from ...core.sessions.subscribe_commands import CommandInSteps
from ..runtime.runtime import now
from ..runtime.scheduler import TURN_SECONDS

if TYPE_CHECKING:
    from ..runtime.runtime import Runtime

FAULT = "fault while handling a command of client %s"

log = logging.getLogger("fastpath.clients")


class RecoveryTurns:
    """Runs core/delivery/backlogs.py, in turns with all others who want much at once."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._recoveries = runtime.sessions.recoveries
        self._due = False

    def wake(self) -> None:
        """Take a turn, as somebody has become ready for a slice."""
        if not self._due:
            self._due = True
            self._runtime.scheduler.later(self._step)

    def _step(self) -> None:
        self._due = False
        until = perf_counter() + TURN_SECONDS
        while self._recoveries.busy and perf_counter() < until:
            client = self._recoveries.next()
            try:
                self._recoveries.step(client)
            except Exception as error:
                _end(client, "fault while sending client %s what it missed", error)
        if self._recoveries.busy:
            self.wake()
        self._runtime.end()


class LongCommands:
    """Runs core/sessions/subscribe_commands.py, with all other work in steps: each step has its turn."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def run(self, command: CommandInSteps) -> None:
        """Take the steps of a command whose turn has come."""
        done, failed = partial(self._done, command), partial(self._failed, command)
        self._runtime.scheduler.run(_steps(command), done, failed)

    def _done(self, command: CommandInSteps, _: None) -> None:
        commands = self._runtime.sessions.long_commands
        commands.stopped()
        try:
            commands.ended(command, now())
        except Exception as error:  # in what the client has said behind it
            _end(command.client, FAULT, error)
        self._runtime.end()

    def _failed(self, command: CommandInSteps, error: Exception) -> None:
        self._runtime.sessions.long_commands.stopped()
        _end(command.client, FAULT, error)
        self._runtime.end()


def _steps(command: CommandInSteps) -> Generator[None, None, None]:
    while command.step(now()):
        yield


def _end(client: Client, fault: str, error: Exception) -> None:
    """End the connection for a fault of ours: the client comes back."""
    log.error(fault, client.address, exc_info=error)
    client.link.close(Close.INTERNAL_ERROR, "internal_error: a fault of the server; reconnect")
