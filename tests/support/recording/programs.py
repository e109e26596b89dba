"""`python -m fastpath.recording` as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from tests.support.recording.samples import messages
from tests.support.sidecar import ROOT
from tests.support.waiting import until

COMMAND = [sys.executable, "-m", "fastpath.recording"]


def _heed_signals() -> None:
    """Whoever runs the tests in the background has them ignore some."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Program:
    """``with Program(folder, "record", …) as program:``; it is ended in the end, if need be."""

    def __init__(self, folder: Path, *words: str, stdin: Any = subprocess.DEVNULL, **environment: str) -> None:
        self._errors = folder / f"{words[0]}.errors"
        with self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                [*COMMAND, *words], cwd=ROOT, stdin=stdin, stdout=subprocess.PIPE, stderr=errors,
                env=os.environ | environment, preexec_fn=_heed_signals,
            )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    @property
    def errors(self) -> str:
        """What it said so far."""
        return self._errors.read_text()

    def end(self, how: signal.Signals = signal.SIGINT) -> int:
        """Tell it to stop, or kill it; its status."""
        self.process.send_signal(how)
        return self.process.wait(15)

    def summary(self) -> dict[str, Any]:
        """What it says with ``--json`` when it has ended."""
        out, _ = self.process.communicate(timeout=60)
        found: dict[str, Any] = json.loads(out.splitlines()[-1])
        return found


class Recording(Program):
    """A recorder that has begun."""

    def __init__(self, folder: Path, path: Path, url: str, *words: str, **environment: str) -> None:
        super().__init__(folder, "record", *words, "--output", str(path), "--url", url, **environment)
        self.path = path
        until(lambda: f"recording {words[0]}" in self.errors or self.process.poll() is not None, 20)
        assert self.process.poll() is None, self.errors

    def until(self, count: int) -> None:
        """Wait until so many messages are in the file."""
        until(lambda: self.path.exists() and len(messages(self.path)) >= count, 20)
