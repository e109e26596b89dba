"""What runs beside a development server: a command of the project that outlives its reloads and ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

_LIFELINE = str(Path(__file__).with_name("lifeline.py"))
_LINES_KEPT = 20
_STOP_SECONDS_MAX = 30
"""Longer than the command gives its own children, the sidecar's drain included."""


class CompanionFailed(Exception):
    """The end of a companion before it was ready; the text is what it said last."""


class Companion:
    """``with Companion(argv, environment, ready, say) as companion:``; to be entered by the main thread.

    ``ready`` is the text in a line of its output that says it is up, from which on it stays without anybody looking;
    ``say`` takes each line of its output, from a thread. Entering raises CompanionFailed.
    """

    def __init__(self, argv: list[str], environment: Mapping[str, str], ready: str, say: Callable[[str], None]) -> None:
        self._argv = argv
        self._environment = environment
        self._ready_text = ready
        self._say = say
        self._lines: deque[str] = deque(maxlen=_LINES_KEPT)
        self._is_ready = False
        self._known = threading.Event()
        """Event that is set when the companion is ready, or will never be."""
        self._reader = threading.Thread(target=self._read, daemon=True)

    @property
    def pid(self) -> int:
        """Number of the companion's process, which reloads what runs the project's code at SIGHUP."""
        return self._process.pid

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            # Whoever kills this process hard leaves no other behind (on Linux).
            [sys.executable, "-I", "-S", _LIFELINE, str(os.getpid()), *self._argv],
            env=dict(self._environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._reader.start()
        try:
            self._known.wait()
        except BaseException:
            self.__exit__()
            raise
        if not self._is_ready:
            self.__exit__()
            raise CompanionFailed("\n".join(self._lines) or "it said nothing")
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(1)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for data in output:
                line = data.decode(errors="replace").rstrip()
                self._lines.append(line)
                if self._is_ready:
                    self._tell(line)
                elif self._ready_text in line:
                    self._is_ready = True
                    self._known.set()
        self._known.set()

    def _tell(self, line: str) -> None:
        try:
            self._say(line)
        except (OSError, ValueError):  # a terminal that is gone
            return
