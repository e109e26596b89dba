"""A blocking reader of what a server has cached, by positions, for Spark jobs and scripts (protocol.md 6.13, 6.14)."""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from fastpath.core.protocol.errors import BadFrame
from fastpath.core.protocol.messages import Value
from fastpath.core.protocol.packets import pack

from ..errors import refusal
from .connection import PortConnection

RANGES_MAX = 2000
"""Ranges in one question (protocol.md 6.14)."""

RETRY_CODES = frozenset({"behind", "not_ready"})
"""Codes of refusals that another server, or this one a moment later, may not give."""

Place = tuple[int, int]
"""Epoch and sequence number."""


class Head(NamedTuple):
    """A subject's newest position and the number of its oldest cached message (``seq`` + 1 when none is cached).

    ``then`` is where it stood at the time that was asked about; None: before everything that is cached, or not asked.
    """

    epoch: int
    seq: int
    first: int
    then: Place | None = None


class Range(NamedTuple):
    """Messages of a subject: behind ``after``, None for the oldest there is; up to ``upto``, None for the newest."""

    subject: str
    after: Place | None = None
    upto: Place | None = None


class Run(NamedTuple):
    """Messages of a range whose numbers rise by one from ``seq`` on, as columns.

    ``epochs`` is one for all, or one each; ``times`` in ms since 1970. In ``fields`` None stands where a message has no
    such field. ``metas`` has by place what of a message differs from the default (protocol.md 6.2).
    """

    at: int
    seq: int
    epochs: int | list[int]
    times: list[int]
    contents: list[Value]
    fields: dict[str, list[Value | None]] | None
    metas: dict[int, dict[str, Any]] | None


class Missing(NamedTuple):
    """Messages of a range that cannot be read, ``first`` to ``last``; ``why`` is ``evicted`` or ``replaced``."""

    at: int
    first: int
    last: int
    why: str


class Reader(PortConnection):
    """A reader that asks how far subjects have come, and reads messages between positions, over a connection that is
    replaced.

    Arguments as those of ``fastpath.client.publisher.Publisher``; a subject may be read by who may subscribe to it. The
    methods raise CommandRefused (``Denied``, ``Invalid``, ``Limited``), ConnectionRejected, and PublishTimeout after an
    outage of ``retry_seconds``. Not for several threads at once.
    """

    def __init__(
        self,
        url: str | Iterable[str],
        token: str | Callable[[], str] | None = None,
        timeout_seconds: float = 10,
        retry_seconds: float = 60,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(url, token, None, timeout_seconds, retry_seconds, tls)
        self._number = 0
        self._question: Callable[[], list[Any]] | None = None  # that has no answer yet
        self._asked = False
        self._told: Callable[[list[Any]], None] = lambda frame: None
        self._trouble = ""  # a refusal that may pass
        self._refused_before = False  # so that a connection alone is no sign that it has

    def positions(
        self, patterns: Sequence[str], *, wait_ms: int = 0, news: bool = False, time: int | None = None
    ) -> dict[str, Head]:
        """Return how far the subjects have come that the patterns cover or name, and that may be read.

        With ``news`` only those that went on since the last answer over this connection; over a new one all. Waits up
        to ``wait_ms`` while there are none. ``time`` asks where they stood then, too: just before the first message
        of that time (ms) or later.
        """
        found: dict[str, Head] = {}
        options: dict[str, Any] = {"news": news, "wait_ms": wait_ms}
        if time is not None:
            options["time"] = time

        def told(frame: list[Any]) -> None:
            for subject, epoch, seq, first, *then in frame[2]:
                found[subject] = Head(epoch, seq, first, tuple(then[0]) if then and then[0] else None)

        self._ask(lambda: ["positions", self._number, list(patterns), options], told)
        self._pump(self._is_answered)
        return found

    def read(self, ranges: Iterable[Range]) -> Iterator[list[Run | Missing]]:
        """Read the messages of the ranges, in their order; ``at`` of a run is the place of its range among them.

        After a lost connection it goes on where it was. What is read is asked for as fast as it is taken.
        """
        left = dict(enumerate(ranges))
        while left:
            asked = dict(list(left.items())[:RANGES_MAX])
            yield from self._read(asked)
            for index in asked:
                del left[index]

    def _read(self, left: dict[int, Range]) -> Iterator[list[Run | Missing]]:
        order: list[int] = []
        ready: deque[list[Run | Missing]] = deque()

        def question() -> list[Any]:
            order[:] = left
            return ["read", self._number, [list(left[index]) for index in order]]

        def told(frame: list[Any]) -> None:
            runs = [_run(order, run) for run in frame[2]]
            for run in runs:
                _went_on(left, run)
            ready.append(runs)

        self._ask(question, told)
        while True:
            self._pump(lambda: bool(ready) or self._is_answered())
            while ready:
                yield ready.popleft()
            if self._is_answered():
                return

    def _ask(self, question: Callable[[], list[Any]], told: Callable[[list[Any]], None]) -> None:
        if self._question is not None:
            self._drop()  # an answer that nobody wanted to have whole
        self._question, self._told, self._asked = question, told, False

    def _is_answered(self) -> bool:
        return self._question is None

    def _take(self) -> bytes | None:
        if self._question is None or self._asked:
            return None
        self._asked = True
        self._number += 1
        return pack(self._question())

    def _answer(self, frame: list[Any]) -> bool:
        match frame:
            case ["position" | "rows", int(number), list()]:
                self._refused_before = False
                if number == self._number and self._question is not None:
                    self._told(frame)
                return True
            case ["positions" | "read", int(number), int()]:
                self._refused_before = False
                if number == self._number:
                    self._question = None
                return True
            case ["failed", int(number), str(code), str(reason)]:
                if number == self._number:
                    self._failed(code, reason)
                return False
            case ["position" | "rows" | "positions" | "read" | "failed", *_]:
                raise BadFrame(f"unexpected: {str(frame)[:80]}")
            case _:
                return False  # a frame of a later version of the protocol

    def _failed(self, code: str, reason: str) -> None:
        if code in RETRY_CODES:
            self._trouble, self._refused_before, self._asked = f"{code}: {reason}", True, False
            return
        self._question = None
        raise refusal(code, reason)

    def _rewind(self) -> None:
        self._trouble, self._asked = "", False

    def _welcomed(self) -> bool:
        return not self._refused_before

    def _held(self) -> tuple[str, bool] | None:
        return (self._trouble, True) if self._trouble else None

    def _released(self) -> None:
        self._trouble = ""


def _run(order: list[int], run: list[Any]) -> Run | Missing:
    """Return a run as it came, with the place of its range among all that are read."""
    try:
        return (Missing if len(run) == 4 else Run)(order[run[0]], *run[1:])
    except (TypeError, IndexError):
        raise BadFrame(f"unexpected: {str(run)[:80]}") from None


def _went_on(left: dict[int, Range], run: Run | Missing) -> None:
    """Shorten the run's range in ``left`` to the part that is still to be read."""
    subject, after, upto = left[run.at]
    if isinstance(run, Run):
        last = len(run.times) - 1
        after = run.epochs[-1] if isinstance(run.epochs, list) else run.epochs, run.seq + last
    elif upto is not None and (after is None or run.first > after[1]):
        after = upto[0], run.last
    elif upto is not None:
        after = upto[0], run.first - 1  # what had been read under these numbers before has been replaced
    left[run.at] = Range(subject, after, upto)
