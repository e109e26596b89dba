"""Where publish() sends: the sidecar, or nowhere, as in test runs (REALTIME["BACKEND"])."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from fastpath.client.control.client import FRAME_BYTES_MAX
from fastpath.client.errors import ControlRefused, SidecarUnavailable
from fastpath.core.protocol.packets import BATCH_MESSAGES_MAX
from realtime.conf import conf
from realtime.nodes.control_sockets import control
from realtime.publishing.outcomes import Outcome, Position, PublishRefused, outcome
from realtime.publishing.rows import Row

_FRAME_BYTES = FRAME_BYTES_MAX - (1 << 10)
"""What rows may take of a frame: the rest is for what stands around them."""


class Backend(Protocol):
    """Takes messages whose form is known to be good."""

    def bytes_max(self) -> int:
        """How large a message may be; raises SidecarUnavailable when nobody would take one."""

    def send(self, rows: Sequence[Row]) -> list[Outcome]:
        """Send them in this order; what became of each."""


class Sidecar:
    """The nodes of REALTIME["CONTROL"]."""

    def bytes_max(self) -> int:
        """As the node says that is asked first; one of a version that does not say has the default."""
        return int(control().hello().get("message_bytes_max", conf.message_bytes_max))

    def send(self, rows: Sequence[Row]) -> list[Outcome]:
        """In one frame, unless they fill several; behind one that no node takes nothing more is sent."""
        outcomes: list[Outcome] = []
        for frame in _frames(rows):
            try:
                answer = control().publish([row.wire for row in frame])
            except ControlRefused as error:
                outcomes += [PublishRefused(error.code, error.reason, row.subject) for row in frame]
            except SidecarUnavailable as error:
                return outcomes + [error] * (len(rows) - len(outcomes))
            else:
                for row, result in zip(frame, answer["results"], strict=True):
                    outcomes.append(outcome(result, answer["epoch"], row.subject))
        return outcomes


class Dummy:
    """Refuses what the sidecar would refuse, and sends nothing."""

    def bytes_max(self) -> int:
        """The settings' own limit."""
        return conf.message_bytes_max

    def send(self, rows: Sequence[Row]) -> list[Outcome]:
        """No message has a position; 0 stands for that."""
        for row in rows:
            row.check_size(self.bytes_max())
        return [Position(0, 0)] * len(rows)


def backend() -> Backend:
    """The one that the settings name; raises ImproperlyConfigured."""
    return Dummy() if conf.backend == "dummy" else Sidecar()


def _frames(rows: Sequence[Row]) -> Iterator[list[Row]]:
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
