"""Blocking clients that stage rows and commit them once, on the publisher port (protocol.md 6.5).

``Stager`` sends the rows of one attempt at one partition of a batch; ``Committer`` has the attempts that count
published. A transaction is a name; its batches are numbered and rise.
"""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from fastpath.core.protocol.errors import BadFrame
from fastpath.core.protocol.packets import FRAME_BYTES_MAX, pack

from ..errors import StagingFailed
from .connection import PortConnection

GAP = "gap"
INVALID = "invalid"
TOO_LARGE = "too_large"

RETRIED = frozenset({"staging_full", "unavailable", "not_ready", "busy"})
"""Codes of refusals after which the same request may work in a moment."""

ELSEWHERE = frozenset({"unavailable", "not_ready"})
"""Codes of refusals after which the same request may work at another server at once."""

ENVELOPE_BYTES_MAX = 1100
"""Room that a frame needs beside its runs: a transaction has up to 256 characters."""

Url = str | Iterable[str]
Token = str | Callable[[], str] | None


class Attempt(NamedTuple):
    """An attempt at a partition of a batch; ``attempt`` is a number below 2^53 that no other attempt ever has."""

    transaction: str
    batch: int
    partition: int
    attempt: int


class RefusedRow(NamedTuple):
    """A row that was not staged: its place in the frame, counted over all runs, a code of protocol.md 4.4 and why."""

    place: int
    code: str
    reason: str


@dataclass(slots=True, eq=False)
class StageFrame:
    """Some runs on their way: its place in the attempt, and its number on the connection."""

    rows: int
    runs: bytes
    tag: Any
    chunk: int
    number: int = 0


class Stager(PortConnection):
    """A client that stages frames of rows, at most ``window`` of them without an answer, and again after a lost
    connection.

    ``rows`` counts those that are staged, ``collect()`` gives those that are not.
    """

    def __init__(
        self,
        url: Url,
        token: Token,
        attempt: Attempt,
        window: int = 4,
        timeout_seconds: float = 10,
        retry_seconds: float = 60,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(url, token, None, timeout_seconds, retry_seconds, tls)
        self.rows = 0
        self._attempt = attempt
        self._window_asked = self._window = window
        self._not_staged: list[tuple[Any, list[RefusedRow]]] = []
        self._queued: deque[StageFrame] = deque()
        self._unanswered: deque[StageFrame] = deque()
        self._back: list[StageFrame] = []
        self._chunks = 0
        self._number = 0
        self._why: tuple[str, str] | None = None

    def stage(self, rows: int, runs: bytes, tag: Any) -> None:
        """Send a frame: ``runs`` is a MessagePack array of runs that have ``rows`` rows, or a binary of it compressed.

        Returns when it is on its way. Raises StagingFailed, and as ``Publisher.send_batch``.
        """
        if len(runs) > FRAME_BYTES_MAX - ENVELOPE_BYTES_MAX:
            reason = f"{len(runs)} bytes do not fit a frame of {FRAME_BYTES_MAX} bytes"
            self._not_staged.append((tag, [RefusedRow(place, TOO_LARGE, reason) for place in range(rows)]))
            return
        self._queued.append(StageFrame(rows, runs, tag, self._chunks))
        self._chunks += 1
        self._pump(lambda: not self._queued and not self._out)

    def flush(self) -> int:
        """Wait until every frame is answered; how many rows are staged. Raises as ``stage``."""
        self._pump(lambda: not self._queued and not self._unanswered and not self._back)
        return self.rows

    def collect(self) -> list[tuple[Any, list[RefusedRow]]]:
        """Return the rows that were refused since the last call: the ``tag`` of each frame that had some, and these."""
        refused, self._not_staged = self._not_staged, []
        return refused

    def _take(self) -> bytes | None:
        if self._why is not None or not self._queued or len(self._unanswered) >= self._window:
            return None
        frame = self._queued.popleft()
        self._number += 1
        frame.number = self._number
        self._unanswered.append(frame)
        return pack(["stage", frame.number, [*self._attempt, frame.chunk], frame.rows, msgspec.Raw(frame.runs)])

    def _answer(self, frame: list[Any]) -> bool:
        match frame:
            case ["staged", int(number), int(rows), list(refused)]:
                sent = self._first(number)
                self.rows += rows
                if refused:
                    self._not_staged.append((sent.tag, [RefusedRow(*row) for row in refused]))
                if self._why is None:
                    return True
            case ["failed", int(number), str(code), str(reason)]:
                self._failed(self._first(number), code, reason)
            case ["staged" | "failed", *_]:
                raise BadFrame(f"unexpected: {str(frame)[:80]}")
        if not self._unanswered and self._why is not None and self._why[0] == GAP:
            self._released()
        return False

    def _first(self, number: int) -> StageFrame:
        if not self._unanswered or self._unanswered[0].number != number:
            raise BadFrame(f"an answer that fits no frame: {number}")
        return self._unanswered.popleft()

    def _failed(self, frame: StageFrame, code: str, reason: str) -> None:
        """Note that nothing of the frame is staged. What was sent behind it fails for that, and is sent again after
        it."""
        if code == INVALID and frame.rows == 1:
            # Where one row makes no frame it is the row that is wrong: what follows takes its place.
            self._not_staged.append((frame.tag, [RefusedRow(0, TOO_LARGE, reason)]))
            for later in (*self._unanswered, *self._queued):
                later.chunk -= 1
            self._chunks -= 1
            self._why = self._why or (GAP, reason)
            return
        if self._why is None:
            if code not in RETRIED:
                raise StagingFailed(code, reason)
            self._why = (code, reason)
        self._back.append(frame)

    def _held(self) -> tuple[str, bool] | None:
        if self._why is None or self._unanswered:
            return None
        code, reason = self._why
        return f"{code}: {reason}", code in ELSEWHERE

    def _released(self) -> None:
        self._return()
        self._why = None

    def _rewind(self) -> None:
        self._return()
        self._why = None
        self._number = 0

    def _return(self) -> None:
        """Queue the frames that have no answer, or were not staged, to be sent again in their order."""
        self._queued = deque(sorted((*self._back, *self._unanswered, *self._queued), key=lambda frame: frame.chunk))
        self._unanswered.clear()
        self._back.clear()

    def _welcomed(self) -> bool:
        allowed = int(self._welcome.get("window", 1))
        self._window = min(self._window_asked, allowed)
        return not self._queued


class Committed(NamedTuple):
    """The result of a commit: rows published, by this commit or, ``repeated``, one before it.

    ``refused`` has at most 100 of the ``refused_rows``: partition, place among the rows that were sent for it, subject,
    code, reason. ``outdated`` rows were below the version of their subject. ``winners`` are the attempts that count.
    """

    rows: int
    repeated: bool
    refused: list[tuple[int, int, str, str, str]]
    refused_rows: int
    outdated: int
    winners: list[tuple[int, int, int]]


class Committer(PortConnection):
    """A client that commits batches of transactions, and drops what is staged and not wanted any more."""

    def __init__(
        self,
        url: Url,
        token: Token,
        timeout_seconds: float = 10,
        retry_seconds: float = 60,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(url, token, None, timeout_seconds, retry_seconds, tls)
        self._number = 0
        self._request: list[Any] = []
        self._asked = False
        self._result: Committed | None = None
        self._why = ("", "")

    def commit(
        self, transaction: str, batch: int, attempts: Sequence[tuple[int, int, int]], once: bool = False
    ) -> Committed:
        """Have the staged rows of attempts ``(partition, attempt, rows)`` published, and wait until all are stored.

        ``once``: nothing of this name will be committed again, so that nothing has to be remembered. Raises
        StagingFailed (``missing``, ``stale``, ``denied``, …), ConnectionRejected, and PublishTimeout after
        ``retry_seconds`` in which it did not get on; the same commit may be tried again then.
        """
        options = {"once": True} if once else {}
        self._ask(["commit", transaction, batch, [list(attempt) for attempt in attempts], options])
        self._pump(lambda: self._result is not None)
        assert self._result is not None
        return self._result

    def abort(self, transaction: str, batch: int, partition: int | None = None, attempt: int | None = None) -> None:
        """Drop what is staged of a batch, a partition or an attempt; nothing of a commit that was begun."""
        self._ask(["abort", transaction, batch, partition, attempt])
        self._pump(lambda: not self._request)

    def _ask(self, request: list[Any]) -> None:
        self._request, self._asked, self._result, self._why = request, False, None, ("", "")

    def _take(self) -> bytes | None:
        if not self._request or self._asked or self._why[0]:
            return None
        self._asked = True
        self._number += 1
        name, *rest = self._request
        return pack([name, self._number, *rest])

    def _answer(self, frame: list[Any]) -> bool:
        match frame:
            case ["committed", int(number), dict(told)] if number == self._number:
                self._result = msgspec.convert(told, _CommittedMap).committed()
                self._request = []
            case ["aborted", int(number)] if number == self._number:
                self._request = []
            case ["failed", int(number), str(code), str(reason)] if number == self._number:
                if code not in RETRIED:
                    raise StagingFailed(code, reason)
                self._why = (code, reason)
                return False
            case ["progress", *_]:
                pass
            case ["committed" | "aborted" | "failed", *_]:
                raise BadFrame(f"unexpected: {str(frame)[:80]}")
            case _:
                return False
        return True

    def _held(self) -> tuple[str, bool] | None:
        code, reason = self._why
        return (f"{code}: {reason}", code in ELSEWHERE) if code else None

    def _released(self) -> None:
        self._asked, self._why = False, ("", "")

    def _rewind(self) -> None:
        self._released()
        self._number = 0

    def _welcomed(self) -> bool:
        return False


class _CommittedMap(msgspec.Struct):
    """The map of ``committed``."""

    rows: int
    repeated: bool
    refused: list[tuple[int, int, str, str, str]]
    refused_rows: int
    outdated: int
    winners: list[tuple[int, int, int]]

    def committed(self) -> Committed:
        """Return the commit's result, as the caller gets it."""
        return Committed(self.rows, self.repeated, self.refused, self.refused_rows, self.outdated, self.winners)
