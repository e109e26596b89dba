"""`subscribe` and `publish` against a running sidecar: all is counted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fastpath.bench.__main__ import main
from fastpath.bench.by_hand.subscribe import Seen
from fastpath.client.control.client import Control
from fastpath.client.message import Message
from tests.support.sidecar import ROOT, Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until


@pytest.mark.slow
def test_what_is_published_is_counted_by_every_subscriber(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten connections for each of four subjects, at a rate and as fast as it goes; Ctrl-C ends with the summary."""
    progress, published = tmp_path / "progress", 0
    with Sidecar(mode="none") as sidecar, Control(sidecar.control) as control, progress.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "fastpath.bench", "subscribe", "--url", sidecar.client_url, "--connections", "40",
             "--count", "4", "--json"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            # Whoever runs the tests in the background has them ignore it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        until(lambda: control.stats()["subscriptions"] == 40)
        for rate, seconds in (("300", "1"), ("0", "0.2")):
            more = ("--connections", "2", "--rate", rate, "--duration", seconds, "--json")
            assert main(["publish", "--url", sidecar.publisher_url, "--count", "4", *more]) == 0
            published += json.loads(capsys.readouterr().out)["acknowledged"]
            assert published == control.stats()["messages_in"] > 100
        until(lambda: f"{published * 10:,} deliveries" in progress.read_text(), 3 * PATIENCE_SECONDS)
        process.send_signal(signal.SIGINT)
        found = json.loads(process.communicate(timeout=3 * PATIENCE_SECONDS)[0])

    assert process.returncode == 0
    assert found["deliveries"] == published * 10
    assert [found[key] for key in ("lost", "doubled", "reordered", "disconnected")] == [0, 0, 0, 0]
    assert found["p99_ms"] is not None


@pytest.mark.parametrize(
    ("numbers", "faults"), [((1, 2, 3), (0, 0, 0)), ((1, 4), (2, 0, 0)), ((1, 1), (0, 1, 0)), ((2, 1), (0, 0, 1))]
)
def test_what_is_missing_doubled_or_out_of_order_is_counted(
    numbers: tuple[int, ...], faults: tuple[int, int, int]
) -> None:
    """By subject and client; another epoch counts from anew."""
    seen = Seen(merged=False)
    for number in numbers:
        seen.message(0, Message(subject="/a", content="x", fields={}, epoch=1, seq=number, time=0))
    seen.message(0, Message(subject="/a", content="x", fields={}, epoch=2, seq=9, time=0))
    seen.message(1, Message(subject="/a", content="x", fields={}, epoch=1, seq=7, time=0))

    assert (seen.lost, seen.doubled, seen.reordered) == faults


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["subscribe", "--url", "http://x"], "an address is ws://host"),
        (["publish", "--connections", "2"], "each connection needs a subject"),
        (["publish", "--url", "nowhere"], "nowhere"),
        (["publish", "--url", "127.0.0.1:1", "--duration", "1"], "127.0.0.1:1"),
        (["subscribe", "--url", "ws://127.0.0.1:1/ws", "--connections", "1"], "127.0.0.1:1"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit status 2."""
    assert main(arguments) == 2
    assert says in capsys.readouterr().err
