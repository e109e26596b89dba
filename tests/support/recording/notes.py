"""An outlet that only takes note."""

from __future__ import annotations

import time
from collections.abc import Sequence

from fastpath.recording.lines import Recorded
from fastpath.recording.outlets import Outlet


class Notes(Outlet):
    """Takes note of what is sent, and when; ``busy`` is how long a send takes."""

    def __init__(self, busy: float = 0) -> None:
        super().__init__()
        self.batches: list[tuple[float, list[Recorded]]] = []
        self.busy = busy
        self.finished = 0
        self.waited = 0.0
        self.began = time.monotonic()

    def connect(self) -> None:
        """There is nobody."""

    def interrupt(self) -> None:
        """Nothing blocks."""

    def send(self, messages: Sequence[Recorded]) -> None:
        self.batches.append((time.monotonic() - self.began, list(messages)))
        self.sent += len(messages)
        time.sleep(self.busy)

    def wait(self, seconds: float) -> None:
        self.waited += seconds
        time.sleep(seconds)

    def finish(self) -> None:
        self.finished += 1
        self.acknowledged = self.sent

    def close(self) -> None:
        """There is nobody."""

    @property
    def subjects(self) -> list[str]:
        """Of all messages in their order."""
        return [one.subject for _, batch in self.batches for one in batch]

    @property
    def times(self) -> list[float]:
        """When each message was sent, in seconds."""
        return [at for at, batch in self.batches for _ in batch]
