"""A publishing process (publishing.py) as the run sees it: started, killed, and what it wrote down."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Sequence
from typing import Any

from tests.support.sidecar import ROOT

from .lines import content_of, subject_of
from .model import ACKED, REFUSED, UNKNOWN, Publication

LINE_BYTES_MAX = 1 << 22


class Pusher:
    """One publisher over all its processes."""

    def __init__(self, name: str, kind: str, addresses: Sequence[str], subjects: Sequence[str], rate: int) -> None:
        self.name = name
        self.addresses = list(addresses)
        self.subjects = list(subjects)
        self.rate = rate
        self.kind = kind
        self.publications: dict[int, Publication] = {}
        self.acks_ms: list[int] = []
        self.acks_from: list[tuple[int, str]] = []
        """When, and by which server; empty where it is not known."""
        self.errors: list[tuple[int, str]] = []
        self.held = 0
        """Answers after which it had to wait and send again."""
        self.refused = 0
        self.last = 0
        self._again: list[int] = []
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.returncode is None

    @property
    def last_ack_ms(self) -> int:
        """When something was acknowledged last."""
        return self.acks_ms[-1] if self.acks_ms else 0

    @property
    def unanswered_before_last_start(self) -> list[int]:
        """What an earlier process left without an answer."""
        return [number for number in self._again if self.publications[number].outcome == UNKNOWN]

    async def start(self, **options: Any) -> None:
        """Start a process; it goes on after the last number, and first sends again what was not answered."""
        self._again = again = [number for number, one in self.publications.items() if one.outcome == UNKNOWN]
        options = {
            "name": self.name,
            "addresses": self.addresses,
            "subjects": self.subjects,
            "rate": self.rate,
            "first": self.last + 1,
            "again": again,
            "kind": self.kind,
        } | options
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.chaos.publishing",
            json.dumps(options),
            cwd=ROOT,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES_MAX,
        )
        self._reader = asyncio.create_task(self._read(self._process))

    async def kill(self) -> None:
        """The process dies at once."""
        await self._signal(signal.SIGKILL)

    async def stop(self) -> None:
        """Publish nothing new, and end when all is answered."""
        await self._signal(signal.SIGTERM)

    async def ended(self) -> None:
        """Until the process has ended, and all that it wrote is read."""
        if self._process is not None and self._reader is not None:
            await self._process.wait()
            await self._reader
            status = self._process.returncode
            assert status in (0, -signal.SIGKILL, -signal.SIGTERM), f"publisher {self.name} ended with {status}"

    async def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)
            await self.ended()

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            if line.endswith(b"\n"):  # else the process was killed while it wrote, before what the line tells of
                self._line(json.loads(line))

    def _line(self, line: list[Any]) -> None:
        kind, at, *rest = line
        match kind:
            case "s":
                for number in range(rest[0], rest[1] + 1):
                    subject, content = subject_of(number, self.subjects), content_of(self.name, number)
                    self.publications[number] = Publication(content, self.name, number, subject, sent_ms=at)
                self.last = max(self.last, rest[1])
            case "a":
                self.acks_ms.append(at)
                self.acks_from.append((at, rest[1]))
                for number, epoch, seq in rest[0]:
                    one = self.publications[number]
                    one.outcome, one.acked_ms = ACKED, one.acked_ms or at
                    if epoch:
                        one.positions.append((epoch, seq))
                        one.position = one.position or (epoch, seq)
            case "d":
                again, anew = rest
                for number in again:
                    self.publications[number].resent += 1
                for number in anew:
                    self.publications[number].anew += 1
            case "h":
                self.held += rest[0]
            case "r":
                self.refused += len(rest[0])
                for number, code, _ in rest[0]:
                    one = self.publications[number]
                    if one.outcome != ACKED:
                        one.outcome, one.code = REFUSED, code
            case "e":
                self.errors.append((at, rest[0]))
