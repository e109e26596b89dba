"""What publishing processes write down, a line at a time, and what a publication of a number is."""

from __future__ import annotations

import json
import os
import time
from typing import Any


def now_ms() -> int:
    """As in watcher.py."""
    return time.monotonic_ns() // 1_000_000


def say(*line: Any) -> None:
    """One line, at once."""
    data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
    while data:
        data = data[os.write(1, data) :]


def subject_of(number: int, subjects: list[str]) -> str:
    """Where a publication goes; whoever reads the record computes the same."""
    return subjects[number * 7 % len(subjects)]


def content_of(name: str, number: int) -> str:
    """What it says: unique."""
    return f"{name}:{number}"
