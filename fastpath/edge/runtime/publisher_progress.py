"""How far a publisher is: what was taken from it, and what of it has no acknowledgement yet."""

from __future__ import annotations

from collections import deque

RATE_SECONDS = 10
"""Rates are over so long."""


class Frame:
    """Rows that came to be staged, and when."""

    __slots__ = ("moment", "rows", "transaction")

    def __init__(self, transaction: str, rows: int, moment: int) -> None:
        self.transaction = transaction
        self.rows = rows
        self.moment = moment


class Progress:
    """The progress of one publisher's connection; times are in ms since 1970."""

    __slots__ = ("_marks", "_open", "_staging", "last", "messages", "transaction", "unacknowledged")

    def __init__(self) -> None:
        self.messages = 0
        """All that was taken, refused ones included."""
        self.unacknowledged = 0
        """Messages of batches that have no acknowledgement."""
        self.last = 0
        """When the last batch came; 0: none has."""
        self._open: dict[int, tuple[int, int]] = {}  # batch → messages and when it came, the oldest first
        self.transaction = ""
        """For which it staged last; empty: it does not stage."""
        self._staging: set[Frame] = set()  # frames that the store has not answered
        self._marks: deque[int] = deque((0,), maxlen=RATE_SECONDS + 1)

    def took(self, batch: int, messages: int, moment: int) -> None:
        """A batch came."""
        self.messages += messages
        self.unacknowledged += messages
        self.last = moment
        self._open[batch] = messages, moment

    def acknowledged(self, batch: int) -> None:
        """Note that the publisher is told what became of a batch."""
        self.unacknowledged -= self._open.pop(batch, (0, 0))[0]

    def stages(self, transaction: str, rows: int, moment: int) -> Frame:
        """Rows came for a transaction; they wait until ``staged``."""
        frame = Frame(transaction, rows, moment)
        self.messages += rows
        self.last = moment
        self.transaction = transaction
        self._staging.add(frame)
        return frame

    def staged(self, frame: Frame) -> None:
        """Note that the publisher is told what became of staged rows."""
        self._staging.discard(frame)

    def staging(self) -> list[Frame]:
        """Return the frames of staged rows that the store has not answered."""
        return list(self._staging)

    def mark(self) -> None:
        """A second is over."""
        self._marks.append(self.messages)

    @property
    def messages_per_s(self) -> float:
        """Over the last ten seconds, or since it came."""
        return round((self._marks[-1] - self._marks[0]) / max(len(self._marks) - 1, 1), 1)

    @property
    def batches(self) -> int:
        """The number of batches without an acknowledgement."""
        return len(self._open)

    def oldest_ms(self, moment: int) -> int:
        """For how long the oldest of them waits; 0 when none does."""
        return max(0, moment - self.since) if self._open else 0

    @property
    def since(self) -> int:
        """The time when the oldest of the waiting batches came; 0 when none waits."""
        oldest = next(iter(self._open.values()), None)
        return oldest[1] if oldest is not None else 0
