"""What is fuzzed: for each target the function that reads the bytes, where to begin, and the words of its language.

A target returns for whatever is good or refused as it should be, and raises for everything else: an exception that the
code under test does not name, an answer that breaks the protocol, a neighbour that was disturbed, something left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


class Finding(AssertionError):
    """What a target raises by itself."""


def check(holds: object, what: str) -> None:
    """Raise Finding unless it holds; an assertion that no switch of the interpreter turns off."""
    if not holds:
        raise Finding(what)


@dataclass(frozen=True)
class Target:
    """One parser; ``read`` takes one input, ``words`` go into the fuzzer's dictionary."""

    read: Callable[[bytes], None]
    seeds: tuple[bytes, ...]
    words: tuple[bytes, ...] = ()
    bytes_max: int = 4096


def targets() -> dict[str, Target]:
    """All targets by name; they are imported here, so that the fuzzer can instrument what they import."""
    from . import parsers, places, settled, streams, trust

    return {**parsers.TARGETS, **streams.TARGETS, **trust.TARGETS, **places.TARGETS, **settled.TARGETS}
