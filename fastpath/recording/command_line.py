"""The parts that the commands share: tokens, lengths of time, moments, sizes, progress, and being told to stop."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import FrameType
from typing import Any

from .outlets import Interruption, Token, token_of
from .replayer import Moment

TOKEN = "RECORDING_TOKEN"  # noqa: S105 - a name
"""The environment variable with the token: on the command line every user of the machine could read it."""

STOP_SECONDS = 5
"""Seconds that what was begun may take to end in order, once the program was told to stop."""

PROGRESS_SECONDS = 1
LINES_SECONDS = 10
"""Seconds after which progress is told where it does not overwrite itself, but makes a log longer."""

_LENGTH = re.compile(r"(\d+(?:\.\d+)?)(ms|s|min|h|d|)")
_UNITS = {"ms": 0.001, "": 1, "s": 1, "min": 60, "h": 3600, "d": 86400}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)(k|M|G|)")
_POWERS = {"": 1, "k": 1000, "M": 1000**2, "G": 1000**3}


def add_token_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for the token and for the authorities to trust."""
    parser.add_argument(
        "--token-file", default="", metavar="FILE", help=f"file with the token; else the environment's {TOKEN}"
    )
    parser.add_argument("--ca", default="", metavar="FILE", help="certificates of authorities to trust, for TLS")


def token(arguments: argparse.Namespace) -> Token:
    """Return the token of a command line; None: anonymous. Raises RecordingError."""
    return token_of(arguments.token_file, os.environ.get(TOKEN, ""))


def length(text: str) -> float:
    """Read a length as seconds: ``90``, ``1.5s``, ``10min``, ``6h``; for argparse."""
    found = _LENGTH.fullmatch(text)
    if found is None or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no length of time such as 90, 1.5s, 10min or 6h")
    return float(found[1]) * _UNITS[found[2]]


def size(text: str) -> int:
    """Read a size as bytes: ``500000``, ``100M``, ``2G``; for argparse."""
    found = _SIZE.fullmatch(text)
    if found is None or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 500000, 100M or 2G")
    return int(float(found[1]) * _POWERS[found[2]])


def moment(text: str) -> Moment:
    """Read a moment: ``+90``, ``+5min`` after the beginning, or ``2026-11-22T07:45`` (UTC unless it says otherwise);
    for argparse."""
    if text.startswith("+"):
        return Moment(0 if text in ("+0", "+0s") else int(length(text[1:]) * 1e6), True)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 2026-11-22T07:45:00 or +5min") from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return Moment(round(found.timestamp() * 1e6), False)


def positive(text: str) -> int:
    """Read a whole number above 0; for argparse."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def count(text: str) -> int:
    """Read a whole number, 0 or more; for argparse."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)


def instant(at_us: int) -> str:
    """Return a time for people, UTC."""
    return datetime.fromtimestamp(at_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"


class ProgressLine:
    """A progress line on the standard error: in place on a terminal, else a line now and then."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._at = 0.0 if self._terminal else time.monotonic()
        self._shown = False

    def show(self, line: Callable[[], str]) -> None:
        """Show a line, if it is time to."""
        now = time.monotonic()
        if self._quiet or now - self._at < (PROGRESS_SECONDS if self._terminal else LINES_SECONDS):
            return
        self._at = now
        self._shown = True
        self._write(f"\r{line():<100}" if self._terminal else line() + "\n")

    def say(self, line: str) -> None:
        """Write a line that stays."""
        if not self._quiet:
            self._write(("\n" if self._terminal and self._shown else "") + line + "\n")
            self._shown = False

    @staticmethod
    def _write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


@contextmanager
def stopping(stop: Callable[[], object]) -> Iterator[None]:
    """Call ``stop`` at SIGINT, SIGTERM and SIGHUP; ``nohup`` keeps its meaning.

    At a second signal, or five seconds later, Interruption is raised where the program is.
    """
    told = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal told
        del number, frame
        if told:
            raise Interruption
        told = True
        signal.setitimer(signal.ITIMER_REAL, STOP_SECONDS)
        stop()

    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGALRM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def say(result: dict[str, Any], as_json: bool) -> None:
    """Print a result on the standard output: a figure a line, or one line of JSON."""
    if as_json:
        print(json.dumps(result), flush=True)
        return
    for name, value in result.items():
        if isinstance(value, dict):
            print(f"{name.replace('_', ' ')}:")
            for key, one in value.items():
                print(f"  {key:<40} {_shown(one)}")
        elif isinstance(value, list):
            print(f"{name.replace('_', ' ')}:")
            for one in value:
                print("  " + "  ".join(f"{key.replace('_', ' ')} {_shown(part)}" for key, part in one.items()))
        else:
            print(f"{name.replace('_', ' '):<24} {_shown(value)}")
    sys.stdout.flush()


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
