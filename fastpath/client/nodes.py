"""The control sockets of several nodes as one, for Django: the first that answers, and another when it is away."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Self

from .control import Answer, Control
from .errors import SidecarUnavailable

UNAVAILABLE = "unavailable"
"""The code of a publication that a node cannot store safely now; another may be able to."""

NOT_READY = "not_ready"

PATIENCE = 1.5
"""After so many times the time to answer no further node is asked: a caller waits for two that are silent at most."""


class Nodes:
    """Asks the node that answered last; when it does not, the others in their order. Safe to share between threads.

    ``addresses`` are those of ``Control``; ``timeout_seconds`` is for each of them. Each verb raises
    SidecarUnavailable when no node answers, and ControlRefused when one says no.
    """

    def __init__(
        self, addresses: Sequence[str | os.PathLike[str]], timeout_seconds: float = 5, client: str = "py/1"
    ) -> None:
        if not addresses:
            raise ValueError("no address of a control socket")
        self._timeout = timeout_seconds
        self.controls = [Control(address, timeout_seconds, client) for address in addresses]
        self._current = 0
        self._publishing = threading.Lock()
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

    def hello(self) -> Answer:
        """As ``Control.hello``, of the node that is asked first."""
        return self._ask(lambda control: control.hello())

    def check(self, subject: str, action: str, token: str | None = None) -> Answer:
        """As ``Control.check``."""
        return self._ask(lambda control: control.check(subject, action, token))

    def subjects(self, pattern: str = "", prefix: str = "", after: str = "", limit: int = 100) -> Answer:
        """As ``Control.subjects``."""
        return self._ask(lambda control: control.subjects(pattern, prefix, after, limit))

    def snapshot(self, subject: str, token: str | None = None) -> Answer:
        """As ``Control.snapshot``; a node whose rights have not arrived yet is passed over while another has them."""
        return self._ask(
            lambda control: control.snapshot(subject, token), lambda answer: answer.get("status") == NOT_READY
        )

    def publish(self, messages: Sequence[Sequence[Any]]) -> Answer:
        """Publish rows ``[subject, content, fields, meta]``; answers ``epoch`` and ``results`` as ``Control.publish``.

        Every row has a number of this process, so that one which is sent again is stored once: to the next node when
        one does not answer or cannot store it now (``unavailable``). A result ``[epoch, seq]`` is a row stored under
        another epoch than that of the answer. Of standard quality, for which numbers do not count, it may come twice.

        Nothing is sent again by a later call. So rows that stay ``unavailable``, or of which nobody knows, end the
        series of numbers: a node would make what is behind them wait for them.
        """
        with self._publishing:  # numbers must arrive in their order
            rows = self._numbered(messages)
            results: list[Any] = [None] * len(rows)
            left = list(range(len(rows)))
            epoch = 0

            def send(control: Control) -> Answer:
                nonlocal left, epoch
                answer = control.publish([rows[place] for place in left], publisher=self._publisher)
                epoch = epoch or answer["epoch"]
                for place, result in zip(left, answer["results"], strict=True):
                    stored = isinstance(result, int) and result and answer["epoch"] != epoch
                    results[place] = [answer["epoch"], result] if stored else result
                left = [place for place in left if _is(results[place], UNAVAILABLE)]
                return answer

            try:
                self._ask(send, lambda _: bool(left))
            finally:
                if left:
                    self._owner = 0
            return {"epoch": epoch, "results": results}

    def _ask(self, ask: Callable[[Control], Answer], wanting: Callable[[Answer], bool] = lambda _: False) -> Answer:
        """The first answer that wants for nothing, else the last one; raises SidecarUnavailable when there is none."""
        first, count = self._current, len(self.controls)
        found: Answer | None = None
        failures: list[SidecarUnavailable] = []
        deadline = time.monotonic() + self._timeout * PATIENCE
        for index in range(first, first + count):
            control = self.controls[index % count]
            if time.monotonic() > deadline:
                break
            try:
                found = ask(control)
            except SidecarUnavailable as error:
                failures.append(error)
                continue
            if not wanting(found):
                self._current = index % count
                return found
        if found is not None:
            return found
        if count == 1:
            raise failures[0]
        raise SidecarUnavailable(
            ", ".join(label(failure.path) for failure in failures), "; ".join(failure.why for failure in failures)
        )

    def _numbered(self, messages: Sequence[Sequence[Any]]) -> list[list[Any]]:
        if self._owner != os.getpid():  # after a fork two processes would use the same numbers
            self._owner, self._publisher, self._number = os.getpid(), f"django:{secrets.token_hex(8)}", 0
        rows = []
        for message in messages:
            self._number += 1
            subject, content, fields, meta = [*message, None, None][:4]
            rows.append([subject, content, fields, (meta or {}) | {"id": self._number}])
        return rows


def label(address: str) -> str:
    """The address without its files, for people."""
    return address.partition("?")[0]


def _is(result: Any, code: str) -> bool:
    return isinstance(result, list | tuple) and result[0] == code
