"""The control sockets of several nodes as one, for Django: the first that answers, and another when it is away."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import msgspec
from msgspec import Raw

from ..errors import ControlRefused, SidecarBusy, SidecarSilent, SidecarUnavailable
from .breaker import Breaker
from .client import Answer, Control
from .frames import Frames, PublishCall, SharedFrame

UNAVAILABLE = "unavailable"
"""The code of a publication that a node cannot store safely now; another may be able to."""

NOT_READY = "not_ready"

SILENT_MAX = 2
"""Number of silent nodes that a caller waits for at most."""

GREETING_SECONDS = 0.2
"""Seconds that a node which gave no answer in time may take to say hello: one that does is slow, and not hung."""

NUMBERED = -1
"""Number in place of the first row's, where each row has its own."""

_decode = msgspec.msgpack.Decoder(list[Any]).decode


class Nodes:
    """The control sockets of several nodes: the node that answered last is asked first, then the others in their order.
    Safe to share between threads.

    ``addresses`` are those of ``Control``; ``timeout_seconds`` is for each of them, of two at most, and counts from the
    call: time spent behind calls of other threads is part of it. A node that did not answer in time, nor says hello in
    ``GREETING_SECONDS`` then, is not asked again for some seconds (breaker.py). Each verb raises SidecarUnavailable
    when no node answers, and ControlRefused when one says no.
    """

    def __init__(
        self, addresses: Sequence[str | os.PathLike[str]], timeout_seconds: float = 5, client: str = "py/1"
    ) -> None:
        if not addresses:
            raise ValueError("no address of a control socket")
        self._timeout = timeout_seconds
        self._client = client
        self._seconds = timeout_seconds * min(len(addresses), SILENT_MAX)
        self.controls = [Control(address, timeout_seconds, client) for address in addresses]
        self._current = 0
        self._renew()
        self._owner = 0
        self._publisher = ""
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the next verb opens what it needs."""
        for control in self.controls:
            control.close()

    def abandon(self) -> None:
        """Let go of the connections in a process that was forked, where threads may have held the locks."""
        for control in self.controls:
            control.abandon()
        self._renew()

    def _renew(self) -> None:
        self._publishing = Frames(self._send)
        self._breakers = [Breaker(self._timeout) for _ in self.controls]

    def hello(self) -> Answer:
        """Return the greeting of the node that is asked first, as ``Control.hello`` does."""
        return self._ask(lambda control, deadline: control.hello(deadline), self._deadline())

    def check(self, subject: str, action: str, token: str | None = None) -> Answer:
        """Return a node's decision about a right, as ``Control.check`` does."""
        return self._ask(lambda control, deadline: control.check(subject, action, token, deadline), self._deadline())

    def subjects(self, pattern: str = "", prefix: str = "", after: str = "", limit: int = 100) -> Answer:
        """Return a page of a node's subjects, as ``Control.subjects`` does."""
        return self._ask(
            lambda control, deadline: control.subjects(pattern, prefix, after, limit, deadline), self._deadline()
        )

    def snapshot(self, subject: str, token: str | None = None) -> Answer:
        """Return a subject's snapshot, as ``Control.snapshot`` does.

        A node whose rights have not arrived yet is passed over while another has them.
        """
        return self._ask(
            lambda control, deadline: control.snapshot(subject, token, deadline),
            self._deadline(),
            lambda answer: answer.get("status") == NOT_READY,
        )

    def publish(self, messages: Sequence[Sequence[Any]], deadline: float | None = None, publisher: str = "") -> Answer:
        """Publish rows ``[subject, content, fields, meta]``; answers ``epoch`` and ``results`` as ``Control.publish``.

        Every row has a number of this process, so that one which is sent again is stored once: to the next node when
        one does not answer or cannot store it now (``unavailable``). What other threads publish while a frame is under
        way leaves in the next one, all together (frames.py). A result ``[epoch, seq]`` is a row stored under
        another epoch than that of the answer. Of standard quality, for which numbers do not count, it may come twice.

        Nothing is sent again by a later call. So rows that stay ``unavailable``, or of which nobody knows, end the
        series of numbers: a node would make what is behind them wait for them.
        With a ``deadline`` (of time.monotonic) it takes no longer than until then. With a ``publisher`` the rows have
        numbers of that name already (``id`` in their meta), and sending again what was not stored is the caller's.
        """
        deadline = self._deadline() if deadline is None else min(deadline, self._deadline())
        refusals = [breaker.refusal() for breaker in self._breakers]
        if all(refusals):  # not to wait behind the call that tries
            raise _none_answers(map(SidecarUnavailable, (control.path for control in self.controls), refusals))
        call = PublishCall(messages, deadline, publisher)
        self._publishing.carry_out(call)
        if isinstance(call.outcome, dict):
            return call.outcome
        if call.outcome is not None:
            raise call.outcome
        path = label(self.controls[self._current].path)
        if call.frame is None:
            raise SidecarBusy(path, f"calls before this one, which was not sent, took all of {self._seconds:g} s")
        raise SidecarBusy(path, f"no answer within {self._seconds:g} s, to a frame of several calls")

    def _send(self, frame: SharedFrame, deadline: float) -> None:
        """Number and send what one frame holds; only one is on its way, for numbers must arrive in order."""
        if frame.calls[0].publisher:
            frame.number(frame.calls[0].publisher, NUMBERED)
        elif not frame.first:
            frame.number(*self._numbers(len(frame.rows)))
        try:
            frame.settle(*self._publish(frame.rows, frame.publisher, frame.first, deadline))
        except ControlRefused as error:
            if len(frame.calls) == 1:
                frame.fail(error)
            else:
                self._send_each(frame, deadline)
        except SidecarUnavailable as error:
            frame.fail(error)

    def _send_each(self, frame: SharedFrame, deadline: float) -> None:
        """Send one call after the other, under the numbers that they have: the frame was refused for what is in one
        call."""
        first = frame.first
        for call in frame.calls:
            alone = SharedFrame([call])
            try:
                alone.settle(*self._publish(call.rows, frame.publisher, first, deadline))
            except (ControlRefused, SidecarUnavailable) as error:
                alone.fail(error)
            first += len(call.rows)
        frame.finish()

    def _publish(self, rows: list[Raw], publisher: str, first: int, deadline: float) -> tuple[int, list[Any]]:
        """Publish rows that are numbered from ``first`` on, or already; return epoch and results."""
        results: list[Any] = [None] * len(rows)
        left = list(range(len(rows)))
        epoch = 0

        def send(control: Control, deadline: float) -> Answer:
            nonlocal left, epoch
            if first == NUMBERED:
                answer = control.publish([rows[place] for place in left], publisher, deadline)
            elif len(left) == len(rows):
                answer = control.publish(rows, publisher, deadline, first)
            else:
                answer = control.publish([_with_id(rows[place], first + place) for place in left], publisher, deadline)
            epoch = epoch or answer["epoch"]
            for place, result in zip(left, answer["results"], strict=True):
                stored = isinstance(result, int) and result and answer["epoch"] != epoch
                results[place] = [answer["epoch"], result] if stored else result
            left = [place for place in left if _is(results[place], UNAVAILABLE)]
            return answer

        try:
            self._ask(send, deadline, lambda _: bool(left))
        finally:
            if left and first != NUMBERED:
                self._owner = 0
        return epoch, results

    def _deadline(self) -> float:
        """Return the time (of time.monotonic) until which a call that begins now may take."""
        return time.monotonic() + self._seconds

    def _ask(
        self,
        ask: Callable[[Control, float], Answer],
        deadline: float,
        wanting: Callable[[Answer], bool] = lambda _: False,
    ) -> Answer:
        """Return the first answer that wants for nothing, else the last one; raise SidecarUnavailable when there is
        none."""
        first, count = self._current, len(self.controls)
        found: Answer | None = None
        failures: list[SidecarUnavailable] = []
        for index in (place % count for place in range(first, first + count)):
            if failures and time.monotonic() > deadline:
                break
            try:
                answer = self._ask_one(index, ask, deadline)
            except SidecarUnavailable as error:
                failures.append(error)
                continue
            found = answer
            if not wanting(found):
                self._current = index
                return found
        if found is not None:
            return found
        raise _none_answers(failures)

    def _ask_one(self, index: int, ask: Callable[[Control, float], Answer], deadline: float) -> Answer:
        """Return a node's answer, and tell its breaker what came of the question."""
        control, breaker = self.controls[index], self._breakers[index]
        if refusal := breaker.admit():
            raise SidecarUnavailable(control.path, refusal)
        asked_at = time.monotonic()
        try:
            answer = ask(control, deadline)
        except SidecarSilent:
            if self._hangs(control):
                breaker.open(asked_at)
            else:
                breaker.close()
            raise
        except SidecarBusy:
            raise  # which says nothing of the node
        except (SidecarUnavailable, ControlRefused):
            breaker.close()
            raise
        breaker.close()
        return answer

    def _hangs(self, control: Control) -> bool:
        """Return True when a node answers no greeting either; a node that only waits for Redis to store a message
        greets."""
        with Control(control.path, GREETING_SECONDS, self._client) as greeting:
            try:
                greeting.hello()
            except SidecarUnavailable:
                return True
            except ControlRefused:
                return False
        return False

    def _numbers(self, count: int) -> tuple[str, int]:
        """Return the name that the next rows are numbered for, and the number of the first row."""
        if self._owner != os.getpid():  # after a fork two processes would use the same numbers
            self._owner, self._publisher, self._number = os.getpid(), f"django:{secrets.token_hex(8)}", 0
        self._number += count
        return self._publisher, self._number - count + 1


def _with_id(row: Raw, number: int) -> list[Any]:
    """Return the row with its number in its meta."""
    subject, content, fields, meta = [*_decode(row), None, None][:4]
    return [subject, content, fields, (meta or {}) | {"id": number}]


def _none_answers(failures: Iterable[SidecarUnavailable]) -> SidecarUnavailable:
    """Return the error for a call that no node answers; of several nodes it has each one's reason."""
    told = list(failures)
    if len(told) == 1:
        return told[0]
    return SidecarUnavailable(", ".join(label(one.path) for one in told), "; ".join(one.why for one in told))


def label(address: str) -> str:
    """Return the address without its files, for people."""
    return address.partition("?")[0]


def _is(result: Any, code: str) -> bool:
    return isinstance(result, list | tuple) and result[0] == code
