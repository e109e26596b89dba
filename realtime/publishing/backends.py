"""Where publish() sends: the sidecar, its core in this process, or nowhere, as in test runs (REALTIME["BACKEND"])."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Protocol

from fastpath.client.control.client import FRAME_BYTES_MAX
from fastpath.client.control.nodes import SILENT_MAX, Nodes
from fastpath.client.errors import ControlRefused, SidecarBusy, SidecarUnavailable
from fastpath.core.protocol.packets import BATCH_MESSAGES_MAX
from realtime.conf import conf
from realtime.nodes.control_sockets import control
from realtime.publishing.outcomes import Outcome, Position, PublishFailed, outcome, refused
from realtime.publishing.rows import Row

_FRAME_BYTES = FRAME_BYTES_MAX - (1 << 10)
"""Bytes that rows may take of a frame: the rest is for what stands around them."""


class Backend(Protocol):
    """Takes messages whose form is known to be good."""

    in_process: bool
    """Sending waits for nobody."""
    commits_tests: bool
    """The transaction of a test case itself, which never commits, counts as none."""

    def bytes_max(self) -> int:
        """Return how many bytes a message may have; raise SidecarUnavailable when nobody would take one."""

    def send(self, rows: Sequence[Row], began: float) -> list[Outcome]:
        """Send them in this order, for a call that began then (of time.monotonic); what became of each."""


class Sidecar:
    """The nodes of REALTIME["CONTROL"]."""

    in_process = False
    commits_tests = False

    def bytes_max(self) -> int:
        """Return what the node says that is asked first; one of a version that does not say has the default."""
        hello = self._nodes(conf.publish_seconds).hello()
        return int(hello.get("message_bytes_max", conf.message_bytes_max))

    def send(self, rows: Sequence[Row], began: float) -> list[Outcome]:
        """Send in one frame, unless the rows fill several; behind a frame of which a message could not be stored send
        none."""
        outcomes: list[Outcome] = []
        seconds = conf.publish_seconds
        deadline = began + seconds
        nodes = self._nodes(seconds)
        for frame in _frames(rows):
            try:
                if time.monotonic() >= deadline:
                    why = f"not sent: calls and messages before took all of {seconds:g} s"
                    raise SidecarBusy(conf.controls[0], why)
                answer = nodes.publish([row.wire for row in frame], deadline)
            except ControlRefused as error:
                outcomes += [refused(error.code, error.reason, row.subject) for row in frame]
                return outcomes + _not_sent(rows[len(outcomes) :], frame[0])
            except SidecarUnavailable as error:
                return outcomes + [error] * (len(rows) - len(outcomes))
            told = [
                outcome(result, answer["epoch"], row.subject)
                for row, result in zip(frame, answer["results"], strict=True)
            ]
            outcomes += told
            # Refused is what would be the next time, too. But no end of a transaction is stored without its beginning
            # only because a disk was full, or Redis away, for a moment.
            lost = next((row for row, one in zip(frame, told, strict=True) if isinstance(one, PublishFailed)), None)
            if lost is not None:
                return outcomes + _not_sent(rows[len(outcomes) :], lost)
        return outcomes

    @staticmethod
    def _nodes(seconds: float) -> Nodes:
        """Return the connections that give each node its share of the time: a silent one leaves some for the next."""
        return control(seconds / min(len(conf.controls), SILENT_MAX))


class Memory:
    """The core in this process, with a clock that tests move (realtime/memory)."""

    in_process = True
    commits_tests = True

    def bytes_max(self) -> int:
        """Return the settings' own limit."""
        return conf.message_bytes_max

    def send(self, rows: Sequence[Row], began: float) -> list[Outcome]:
        """Publish at once."""
        from realtime.memory.current import current  # noqa: PLC0415 - no process of production loads the core

        site = current()
        results = site.publish([row.wire for row in rows])
        return [outcome(result, site.epoch, row.subject) for row, result in zip(rows, results, strict=True)]


class Dummy:
    """Refuses what the sidecar would refuse, and sends nothing."""

    in_process = True
    commits_tests = False

    def bytes_max(self) -> int:
        """Return the settings' own limit."""
        return conf.message_bytes_max

    def send(self, rows: Sequence[Row], began: float) -> list[Outcome]:
        """Return positions of 0: no message has one."""
        for row in rows:
            row.check_size(self.bytes_max())
        return [Position(0, 0)] * len(rows)


_BACKENDS: dict[str, type[Backend]] = {"sidecar": Sidecar, "memory": Memory, "dummy": Dummy}


def backend() -> Backend:
    """Return the backend that the settings name; raise ImproperlyConfigured."""
    return _BACKENDS[conf.backend]()


def _not_sent(rows: Sequence[Row], lost: Row) -> list[Outcome]:
    """Return what becomes of messages behind one that could not be stored."""
    why = f"not sent: a message before it, to {lost.subject}, was not stored"
    return [PublishFailed("failed", why, row.subject) for row in rows]


def _frames(rows: Sequence[Row]) -> Iterator[list[Row]]:
    if len(rows) == 1:
        yield [*rows]
        return
    frame: list[Row] = []
    size = 0
    for row in rows:
        if frame and (len(frame) == BATCH_MESSAGES_MAX or size + row.frame_bytes > _FRAME_BYTES):
            yield frame
            frame, size = [], 0
        frame.append(row)
        size += row.frame_bytes
    if frame:
        yield frame
