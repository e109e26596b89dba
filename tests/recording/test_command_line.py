"""The command line's own words: lengths of time, sizes, moments, speeds; progress and results."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from fastpath.recording import command_line
from fastpath.recording.command_line import (
    Interruption,
    ProgressLine,
    count,
    length,
    moment,
    positive,
    say,
    size,
    stopping,
)
from fastpath.recording.replay import speed
from fastpath.recording.replayer import Moment


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (length, "90", 90),
        (length, "1.5s", 1.5),
        (length, "20ms", 0.02),
        (length, "10min", 600),
        (length, "6h", 21600),
        (length, "1d", 86400),
        (size, "500", 500),
        (size, "1.5k", 1500),
        (size, "100M", 100_000_000),
        (size, "2G", 2_000_000_000),
        (moment, "+90", Moment(90_000_000, True)),
        (moment, "+0", Moment(0, True)),
        (moment, "+5min", Moment(300_000_000, True)),
        (moment, "2027-01-15T08:00", Moment(1_800_000_000_000_000, False)),
        (moment, "2027-01-15T09:00:00.5+01:00", Moment(1_800_000_000_500_000, False)),
        (speed, "1", 1),
        (speed, "0.5", 0.5),
        (speed, "max", 0),
        (positive, "3", 3),
        (count, "0", 0),
    ],
)
def test_what_is_understood(read: Callable[[str], Any], text: str, value: Any) -> None:
    """With its unit."""
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "texts"),
    [
        (length, ["", "0", "-1", "1x", "s", "0ms"]),
        (size, ["", "0", "-1", "1T", "M"]),
        (moment, ["", "yesterday", "+", "+x", "12:00"]),
        (speed, ["", "0", "-1", "fast", "inf", "nan"]),
        (positive, ["", "0", "-1", "1.5"]),
        (count, ["", "-1", "x"]),
    ],
)
def test_what_is_not_understood_is_said(read: Callable[[str], Any], texts: list[str]) -> None:
    """In a sentence that argparse shows."""
    for text in texts:
        with pytest.raises(argparse.ArgumentTypeError, match="no "):
            read(text)


def test_the_first_signal_asks_and_the_second_ends() -> None:
    """Also when the program waits for something; the handlers are put back."""
    before = signal.getsignal(signal.SIGTERM)
    asked: list[int] = []

    def told() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked == [1]
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interruption), stopping(lambda: asked.append(1)):
        told()
    assert signal.getsignal(signal.SIGTERM) is before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_nohup_keeps_its_meaning() -> None:
    """A program that was started to outlive its terminal does."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopping(lambda: None):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_does_not_end_in_time_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a service manager need not kill it."""
    monkeypatch.setattr(command_line, "STOP_SECONDS", 0.02)

    def told() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()

    with pytest.raises(Interruption), stopping(lambda: None):
        told()


def test_progress_does_not_flood_a_log(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the standard error is no terminal, a line comes now and then; none at all with --quiet."""
    progress = ProgressLine(quiet=False)
    for _ in range(1000):
        progress.show(lambda: "line")
    progress.say("word")
    monkeypatch.setattr(command_line, "LINES_SECONDS", 0)
    progress.show(lambda: "line")
    quiet = ProgressLine(quiet=True)
    quiet.show(lambda: "no")
    quiet.say("no")

    assert capsys.readouterr().err == "word\nline\n"


def test_results_for_people_and_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """The same, in words or in one line of JSON."""
    result = {
        "sent_per_s": 1234.5,
        "cut": "no",
        "reasons": {"denied": 2000},
        "top": [{"bytes": 1, "subject": "/a"}],
    }
    say(result, as_json=True)
    say(result, as_json=False)

    assert capsys.readouterr().out == (
        '{"sent_per_s": 1234.5, "cut": "no", "reasons": {"denied": 2000}, "top": [{"bytes": 1, "subject": "/a"}]}\n'
        "sent per s               1,234.5\ncut                      no\nreasons:\n"
        "  denied                                   2,000\ntop:\n  bytes 1  subject /a\n"
    )
