"""When it is said that nobody looks for changes: by the time that the process has run, not by the wall's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError

from entitlement.following import polling


class Clock:
    """Stands for ``time``, and is moved on by the test."""

    def __init__(self) -> None:
        self.moment = 1000.0

    def monotonic(self) -> float:
        return self.moment


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(polling, "time", SimpleNamespace(monotonic=found.monotonic))
    return found


def asked(poll: polling.Poll, clock: Clock, seconds: float) -> str:
    """What it says after so long, in which an agent has asked it five times a second."""
    said = ""
    for _ in range(round(seconds * 5)):
        clock.moment += 0.2
        said = poll.trouble()
    return said


def test_a_look_that_does_not_come_back_is_told(clock: Clock) -> None:
    poll = polling.Poll(threading.Event())
    assert asked(poll, clock, 1.8) == ""
    assert asked(poll, clock, 3.2) == "Django has not looked for changes for 5 s"


@pytest.mark.parametrize("stood", [2.0, 60.0, 86_400.0])
def test_a_process_that_stood_still_is_in_no_trouble(clock: Clock, stood: float) -> None:
    """Whichever of its threads is the first to run again; and what hung before hangs on."""
    poll = polling.Poll(threading.Event())
    assert asked(poll, clock, 1.0) == ""
    clock.moment += stood
    assert poll.trouble() == ""
    assert asked(poll, clock, 2.0).startswith("Django has not looked for changes for ")


def test_a_process_that_hardly_runs_is_in_no_trouble_for_that(clock: Clock) -> None:
    """A moment of each second, in which it looks; an agent asks before and after."""
    poll = polling.Poll(threading.Event())
    poll._look = lambda connection, now: None  # type: ignore[method-assign]
    for _ in range(60):
        clock.moment += 1.0
        assert poll.trouble() == ""
        poll._attempt()
        assert poll.trouble() == ""


class Copies:
    """Stands for copies of the tables: between two of them something has always changed."""

    numbers: Iterator[int] = count()

    def __init__(self, _: Any) -> None:
        self.number = next(self.numbers)

    def changes_since(self, older: Copies) -> set[tuple[str, str]]:
        """All that changed from one copy to the other."""
        return {("user", str(number)) for number in range(older.number, self.number)}


def test_what_changed_is_noted_though_the_database_takes_nothing_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of SQLite that is locked: when triggers are found missing, and while they are."""
    there: set[str] = {"one"}
    noted: list[tuple[set[tuple[str, str]], bool]] = []
    locked = [False]

    def note(_: Any, changes: set[tuple[str, str]], *, forget: bool = False) -> int:
        if locked[0]:
            raise OperationalError("database is locked")
        noted.append((changes, forget))
        return 1

    monkeypatch.setattr(Copies, "numbers", count())
    monkeypatch.setattr(polling, "Copy", Copies)
    monkeypatch.setattr(polling, "note", note)
    names = SimpleNamespace(
        present=lambda _: dict.fromkeys(there), wanted=lambda _: {"one"}, install=lambda *_, **__: 0
    )
    monkeypatch.setattr(polling, "triggers", names)
    monkeypatch.setattr(polling, "generation", lambda _: 1)
    poll = polling.Poll(threading.Event())
    poll._attempt()
    assert noted == []
    there.clear()
    locked[0] = True
    for _ in range(3):
        poll._attempt()
    locked[0] = False
    poll._attempt()
    assert noted == [({("user", str(number)) for number in range(4)}, True)]
    locked[0] = True
    poll._attempt()
    locked[0] = False
    poll._attempt()
    assert noted[1:] == [({("user", "4"), ("user", "5")}, False)]
