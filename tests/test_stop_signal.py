"""A program that is told to end, ends: whatever its main thread did when the signal came, and however many come."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading

import pytest

from fastpath.stop_signal import StopEvent, stop_on_signals
from tests.support.sidecar import ROOT
from tests.support.waiting import PATIENCE_SECONDS, until

AT_EVERY_LINE = """
import os, signal, sys, threading
import fastpath.stop_signal

def once(at):
    "Interrupt what runs under it by SIGTERM before its line number `at`; whether it has so many."
    left = at
    def trace(frame, event, argument):
        nonlocal left
        if event == "line" and frame.f_code.co_filename in FILES and left:
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGTERM)
        return trace
    stop = make()
    sys.settrace(trace)
    os.kill(os.getpid(), signal.SIGINT)
    told = stop.wait(5)
    sys.settrace(None)
    assert told
    return not left

{make}
at = 1
while once(at):
    at += 1
print(at)
"""
EVENT = """
FILES = {fastpath.stop_signal.__file__, threading.__file__}

def make():
    stop = fastpath.stop_signal.StopEvent()
    for number in fastpath.stop_signal.SIGNALS:
        signal.signal(number, lambda *_: stop.set())
    return stop
"""
JOB = """
import spark.jobs.process as process
FILES = {fastpath.stop_signal.__file__, threading.__file__, process.__file__}
process.STOP_SECONDS_MAX = 60

def make():
    stop = process.Stop()
    stop._started = True
    return stop
"""


@pytest.mark.parametrize("make", [EVENT, JOB], ids=["programs", "jobs"])
def test_a_second_signal_comes_at_any_line_of_the_first_one_s_handler(make: str) -> None:
    code = AT_EVERY_LINE.format(make=make)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 5


def test_whoever_waits_is_woken_and_whoever_waits_later_does_not_wait() -> None:
    stop = StopEvent()
    woken: list[bool] = []
    waiting = [threading.Thread(target=lambda: woken.append(stop.wait(30))) for _ in range(3)]
    for thread in waiting:
        thread.start()
    assert not stop.wait(0)
    assert not stop.is_set()
    stop.set()
    stop.set()
    for thread in waiting:
        thread.join(PATIENCE_SECONDS)
    assert woken == [True, True, True]
    assert stop.wait()
    assert stop.wait(0)


def descriptors() -> set[str]:
    """Those of this process, but for the one by which they are listed."""
    return {one for one in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{one}")}


def test_an_event_that_is_gone_leaves_no_descriptor() -> None:
    gc.collect()  # what others have left behind is closed before, and its numbers are free
    before = descriptors()
    stop = StopEvent()
    own = descriptors() - before
    assert len(own) == 2
    del stop
    until(lambda: not own & descriptors())


def test_afterwards_a_signal_does_what_it_did_before() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signals() as stop:
        assert signal.getsignal(signal.SIGTERM) is not before
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(5)
    assert signal.getsignal(signal.SIGTERM) is before
