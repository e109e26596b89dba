"""Ask every worker of the node the same, and gather what they answer; what takes long runs in slices."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Mapping
from typing import Any

from ...core.protocol.errors import InvalidMessage
from ..node import messages
from ..node.workers import Workers
from .component import Answer, Answering, ControlPeer, Done, Offers
from .scheduler import Scheduler

ANSWER_SECONDS = 1.5
"""Seconds that the workers have: less than Django waits for the whole answer."""

OPEN_MAX = 64
"""Questions that may be open at a time: what is asked by more is answered ``limit``."""

LARGE = frozenset(("client", "clients", "crowded", "crowds", "subject", "suppliers"))
"""Kinds whose answers may take some hundred KiB."""

LARGE_MAX = 4
"""Such questions that one worker may have at a time, until it has answered, however late: others wait for it."""

UNSENT_BYTES_MAX = 4 << 20
"""Bytes that wait for the first worker above which such a question is answered ``limit``: its link also carries what is
published, and is cut when far more waits (edge/workers/link.py)."""

Gathered = Callable[[dict[int, Answer], list[int]], None]
"""Gets the answers by worker, the first one's first, and the numbers of those that gave none in time."""

Work = Generator[None, None, Answer]
"""Yields as often as it may be interrupted, every 0.1 ms or so."""

log = logging.getLogger("fastpath.control")


class Scatter:
    """The questions of one process: what it asks of all, on the first worker, and what it is asked."""

    def __init__(self, loop: asyncio.AbstractEventLoop, workers: Workers) -> None:
        self._loop = loop
        self._peers = workers
        self._workers: set[int] = set()
        self._open: dict[int, _Question] = {}
        self._asked = 0
        self._large: dict[int, set[int]] = {}  # by worker, what it has not answered
        self._waiting: dict[int, dict[int, None]] = {}  # by worker, what it will be asked then, in order
        self._answered: dict[int, float] = {}  # by worker, when it has last answered such a question
        self._scheduler = Scheduler(loop)  # its own: who waits in runtime.scheduler does not hold up an operator
        self._kinds: dict[str, Answering] = {}
        self.offers = Offers(
            messages={messages.Gather: self._asked_by_first, messages.Gathered: self._answered_by},
            linked=self._linked,
            parted=self._parted,
        )

    def answer(self, kinds: Mapping[str, Answering]) -> None:
        """Let this process answer more kinds of questions."""
        self._kinds.update(kinds)

    def ask(
        self,
        kind: str,
        arguments: Answer,
        done: Gathered,
        *,
        worker: int | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> None:
        """Ask all workers, or one; raises InvalidMessage ``limit`` when too much is being asked already.

        ``done`` is called in a later turn of the loop, once. A worker that is not there has not answered, nor has one
        that could not be asked in time, because of what else it has to answer; where that is all, the answer is
        ``failed`` with ``limit``. Where this raises, ``done`` is not called.
        """
        if len(self._open) >= OPEN_MAX:
            raise InvalidMessage("limit", f"{OPEN_MAX} questions to the workers are under way; ask again")
        asked = {0, *self._workers} if worker is None else {worker}
        self._asked += 1
        number = self._asked
        question = _Question(kind, arguments, asked, done, self._loop.time())
        there = sorted(asked & {0, *self._workers}, reverse=True)  # this process last, which cannot fail
        try:
            for one in there:
                self._ask_one(one, number, question)
        except BaseException:
            self._wait_no_more(number)
            raise
        self._open[number] = question
        question.timer = self._loop.call_later(seconds, self._end, number)
        if not there:
            self._loop.call_soon(self._end, number)

    def run(self, work: Work, done: Done) -> None:
        """Do what takes long, and answer: in turns with all other works of this process, of which each turn of the loop
        does one millisecond altogether."""
        self._scheduler.run(work, done, lambda error: done(failure(error)))

    def _ask_one(self, worker: int, number: int, question: _Question) -> None:
        """Ask a worker that is there, now or when it has answered others."""
        if question.kind in LARGE:
            large = self._large.setdefault(worker, set())
            if len(large) >= LARGE_MAX:
                self._waiting.setdefault(worker, {})[number] = None
                return
            self._send(worker, number, question)
            large.add(number)
        else:
            self._send(worker, number, question)
        question.sent = True

    def _send(self, worker: int, number: int, question: _Question) -> None:
        kind, arguments = question.kind, question.arguments
        if worker:
            self._peers.to_others(messages.Gather(number, kind, arguments), worker)
        else:
            self._loop.call_soon(self._run, kind, arguments, lambda answer: self._note(0, number, answer))

    def _run(self, kind: str, arguments: Answer, done: Done) -> None:
        try:
            self._kinds[kind](arguments, done)
        except Exception as error:
            done(failure(error))

    def _asked_by_first(self, worker: int, asked: messages.Gather) -> None:
        del worker
        number, kind, workers = asked.number, asked.kind, self._peers

        def done(answer: Answer) -> None:
            if number:
                workers.to_first(messages.Gathered(number, answer))

        if kind in LARGE and workers.unsent() > UNSENT_BYTES_MAX:
            done({"failed": ["limit", f"worker {workers.number} has too much to tell; ask again"]})
        else:
            self._run(kind, asked.arguments, done)

    def _answered_by(self, worker: int, gathered: messages.Gathered) -> None:
        self._note(worker, gathered.number, gathered.answer)

    def _note(self, worker: int, number: int, answer: Answer) -> None:
        large = self._large.get(worker)
        if large is not None and number in large:
            large.discard(number)
            self._answered[worker] = self._loop.time()
        question = self._open.get(number)
        if question is not None:
            question.answers[worker] = answer
            if question.missing <= question.gone:
                self._end(number)
        self._ask_next(worker)

    def _ask_next(self, worker: int) -> None:
        """Send the questions that wait, as the worker has room for them."""
        waiting = self._waiting.get(worker)
        while waiting and len(self._large[worker]) < LARGE_MAX:
            number = next(iter(waiting))
            del waiting[number]
            try:
                self._ask_one(worker, number, self._open[number])
            except Exception as error:
                self._note(worker, number, failure(error))

    def _wait_no_more(self, number: int) -> list[int]:
        """Do not ask who has not been asked yet; which workers those are."""
        waited = [worker for worker, waiting in self._waiting.items() if number in waiting]
        for worker in waited:
            del self._waiting[worker][number]
        return waited

    def _end(self, number: int) -> None:
        question = self._open.pop(number, None)
        if question is not None:
            if question.timer is not None:
                question.timer.cancel()
            waited = self._wait_no_more(number)
            # One that has answered nothing all the while is away.
            waited = [one for one in waited if self._answered.get(one, 0) > question.since]
            if waited and not question.sent:
                busy = f"{LARGE_MAX} large questions to a worker are under way; ask again"
                question.answers = {worker: {"failed": ["limit", busy]} for worker in waited}
            try:
                question.done(dict(sorted(question.answers.items())), sorted(question.missing))
            except Exception:  # it is no fault of the link whose packet has ended the question
                log.exception("fault while handling what the workers answered")

    def _linked(self, worker: int) -> None:
        if worker:
            self._workers.add(worker)

    def _parted(self, worker: int) -> None:
        """Stop waiting for a worker that is gone."""
        self._workers.discard(worker)
        self._large.pop(worker, None)
        self._waiting.pop(worker, None)
        for number, question in list(self._open.items()):
            if worker in question.asked and worker not in question.answers:
                question.asked.discard(worker)
                question.gone.add(worker)
                if question.missing <= question.gone:
                    self._end(number)


class _Question:
    """An open question to workers."""

    __slots__ = ("answers", "arguments", "asked", "done", "gone", "kind", "sent", "since", "timer")

    def __init__(self, kind: str, arguments: Answer, asked: set[int], done: Gathered, since: float) -> None:
        self.kind = kind
        self.arguments = arguments
        self.asked = asked
        self.done = done
        self.answers: dict[int, Answer] = {}
        self.gone: set[int] = set()
        self.sent = False
        self.since = since
        self.timer: Any = None

    @property
    def missing(self) -> set[int]:
        """Workers that have not answered."""
        return (self.asked | self.gone) - self.answers.keys()


def failure(error: Exception) -> Answer:
    """Return the answer that says why there is none."""
    if isinstance(error, InvalidMessage):
        return {"failed": [error.code, error.reason]}
    log.error("fault while answering a question about this process", exc_info=error)
    return {"failed": ["failed", f"{type(error).__name__}: {error}"]}


def answer_to(peer: ControlPeer, number: int, answer: Answer) -> None:
    """Answer a request with what a work has found, or why it has not."""
    if "failed" in answer:
        peer.refuse(number, *answer["failed"])
    else:
        peer.reply(number, answer)


def away_of(answers: dict[int, Answer], away: list[int]) -> list[int]:
    """Return the workers whose part is missing: those that gave no answer, or said why there is none."""
    return sorted({*away, *(worker for worker, answer in answers.items() if "failed" in answer)})


def chosen(value: Any, least: int, most: int, name: str, default: int) -> int:
    """Return a number of a request; raise InvalidMessage."""
    value = default if value is None else value
    if type(value) is not int or not least <= value <= most:
        raise InvalidMessage("invalid", f"{name} is a number from {least} to {most}")
    return value


def text(arguments: Answer, name: str, chars_max: int = 1024) -> str:
    """Return a text of a request, empty when it is absent; raise InvalidMessage."""
    value = arguments.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > chars_max:
        raise InvalidMessage("invalid", f"{name} is a text of at most {chars_max} characters")
    return value
