"""Tells a sidecar how far a job is, over the publisher port (protocol.md 6.20)."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from fastpath.core.protocol.errors import BadFrame
from fastpath.core.protocol.packets import pack

from ..errors import RefusedMessage
from .connection import PortConnection


class Reporter(PortConnection):
    """A job's reports to the one server at ``url``; the user of ``token`` needs the right to publish to
    ``/__sys__/jobs/JOB``.

    ``timeout_seconds`` bounds a connect and the wait for an answer; with ``retry_seconds`` 0 the first trouble raises.
    Not for several threads at once.
    """

    def __init__(
        self,
        url: str,
        token: str | Callable[[], str] | None = None,
        timeout_seconds: float = 2,
        retry_seconds: float = 0,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(url, token, None, timeout_seconds, retry_seconds, tls)
        self._numbers = count(1)
        self._report: tuple[int, bytes] | None = None
        self._is_sent = False
        self._refusal: RefusedMessage | None = None

    def report(self, job: str, fields: Mapping[str, str]) -> None:
        """Tell what is known of a job, all of it each time: what is not told again counts as empty.

        Returns when the server has taken it. Raises RefusedMessage, ConnectionRejected, PublishTimeout.
        """
        number = next(self._numbers)
        self._report, self._is_sent, self._refusal = (number, pack(["report", number, job, dict(fields)])), False, None
        self._pump(lambda: self._report is None)
        if self._refusal is not None:
            raise self._refusal

    def _take(self) -> bytes | None:
        if self._report is None or self._is_sent:
            return None
        self._is_sent = True
        return self._report[1]

    def _rewind(self) -> None:
        self._is_sent = False

    def _released(self) -> None:
        """Do nothing: reports are never held back."""

    def _answer(self, frame: list[Any]) -> bool:
        number = self._report[0] if self._report is not None else 0
        match frame:
            case ["reported", int(told)] if told == number:
                pass
            case ["failed", int(told), str(code), str(reason)] if told == number:
                self._refusal = RefusedMessage(0, code, reason)
            case ["reported" | "failed", *_]:
                raise BadFrame(f"an answer to no report: {str(frame)[:80]}")
            case _:
                return False
        self._report = None
        return True
