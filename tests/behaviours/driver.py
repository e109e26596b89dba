"""A client's driver: a program that is told one step after the other, and says what the client has done."""

from __future__ import annotations

import json
import selectors
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

ANSWER_SECONDS_MAX = 60
"""A compiler may stand between the command and its first answer, as in ``go run``."""
ANSWER_BYTES_MAX = 1 << 20


class DriverFailed(Exception):
    """The program has ended, says nothing, or what it says is no answer."""


class Driver:
    """``with Driver(["node", "driver.mjs"]) as driver:`` runs the program until the block ends."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._read = b""

    def __enter__(self) -> Self:
        try:
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            raise DriverFailed(f"{self._command[0]} does not start: {error}") from None
        return self

    def __exit__(self, error: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.close()
        except OSError:  # it has ended, and what was not written is of no use to anybody
            pass
        try:
            process.wait(0 if error else ANSWER_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """One line there and one back; DriverFailed without an answer."""
        line = json.dumps({"do": do, **request}, separators=(",", ":"))
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()
        except OSError:
            raise DriverFailed(f"the driver has ended before {line}") from None
        answer = self._line(line)
        try:
            found = json.loads(answer)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise DriverFailed(f"the answer to {line} is no object: {answer.decode(errors='replace')}")
        return found

    def _line(self, asked: str) -> bytes:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._read:
                if not selector.select(ANSWER_SECONDS_MAX):
                    raise DriverFailed(f"no answer within {ANSWER_SECONDS_MAX} s to {asked}")
                piece = self._process.stdout.read1(1 << 16)
                self._read += piece
                if not piece or len(self._read) > ANSWER_BYTES_MAX:
                    why = "an answer without end" if piece else "the driver has ended"
                    raise DriverFailed(f"{why}, asked {asked}")
        line, _, self._read = self._read.partition(b"\n")
        return line
