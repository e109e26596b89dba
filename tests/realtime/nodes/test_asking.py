"""Nodes are asked beside each other: one that is away, hangs or refuses holds up nobody and is told apart."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

from fastpath.client.control.client import Control
from fastpath.client.errors import SidecarSilent
from realtime.nodes.asking import Background, ask, ask_each, beside
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS


def test_each_says_its_own_in_the_order_of_the_addresses(tmp_path: Path) -> None:
    hanging = str(tmp_path / "hanging")
    with socket.socket(socket.AF_UNIX) as listening, Sidecar() as sidecar:
        listening.bind(hanging)
        listening.listen()
        away, hangs, there, slow = ask_each(
            [str(tmp_path / "away"), hanging, sidecar.control, hanging], Control.hello, seconds=2
        )
    assert there.value is not None
    assert there.value["server"]
    assert (there.error, there.code) == ("", "")
    assert away.value is None
    assert away.error
    assert away.code == ""
    assert hangs.value is None
    assert hangs.error.startswith("no answer")
    assert slow == hangs


def test_what_a_node_refuses_has_its_code() -> None:
    with Sidecar() as sidecar:
        said = ask(sidecar.control, lambda control: control.call("no such verb", {}))
    assert said.value is None
    assert said.code
    assert said.error


def test_in_the_background_each_goes_on_beside_one_that_hangs(tmp_path: Path) -> None:
    """With a connection for each question, and over one that is kept."""
    hanging = str(tmp_path / "hanging")
    with socket.socket(socket.AF_UNIX) as listening, Sidecar() as sidecar:
        listening.bind(hanging)
        listening.listen()
        for kept in ("", "keeper/1"):
            nodes = Background([hanging, sidecar.control], kept)
            hangs = nodes.ask(hanging, Control.hello)
            first, again = (nodes.ask(sidecar.control, _connection).result(PATIENCE_SECONDS) for _ in range(2))
            assert not hangs.done()
            assert (first.value is again.value) is bool(kept)
            assert hangs.result(PATIENCE_SECONDS).error.startswith("no answer")
            assert isinstance(hangs.result().failure, SidecarSilent)
            nodes.close()


def _connection(control: Control) -> Control:
    """Who was asked, which is another one with each connection."""
    control.hello()
    return control


def test_works_run_beside_each_other() -> None:
    """None of them could end if one waited for another."""
    barrier = threading.Barrier(3)
    assert beside([2, 0, 1], lambda number: (barrier.wait(10), number)[1]) == [2, 0, 1]
    assert beside([5], lambda number: number + 1) == [6]
    assert beside([], lambda number: number) == []
