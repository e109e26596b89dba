"""One message on its way: how much of our code lies between a publisher's socket and a subscriber's.

A publisher with numbers sends one message to one subscriber: one worker, the engine in memory, no rights. All of our
functions that run count, until the message is at the subscriber and the acknowledgement at the publisher. To see them:
``pytest -s tests/test_walk.py``.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.guide import one
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.walk import Call

ROOT = Path(__file__).parents[1]

FUNCTIONS_MAX = 43
"""Different functions on the way. It may fall, and is lowered then; it does not rise."""

FILES_MAX = 19
"""Files that these stand in. It may fall, and is lowered then; it does not rise."""

DEPTH_MAX = 11
"""The deepest stack of them, the event loop's own call being 1. It may fall, and is lowered then; it does not rise."""

FIRST = 5
"""Messages that go before: the subject, the publisher's numbers and the snapshot are made by the first."""

REPEATS = 20
"""Messages that are followed. A timer that ends meanwhile is on the way of one of them, and not of the shortest."""


class Walk(NamedTuple):
    """The calls of one message."""

    calls: list[Call]

    @property
    def functions(self) -> set[tuple[str, str]]:
        """Names and files."""
        return {(function, file) for _, function, file in self.calls}

    @property
    def files(self) -> set[str]:
        """Where they stand."""
        return {file for _, _, file in self.calls}

    @property
    def depth(self) -> int:
        """Of the deepest call."""
        return max(depth for depth, _, _ in self.calls)

    def __str__(self) -> str:
        lines = [f"{'  ' * depth}{function}  {file}" for depth, function, file in self.calls]
        counts = f"{len(self.functions)} functions, {len(self.files)} files, depth {self.depth}"
        return "\n".join(["", *lines, counts])


@pytest.fixture(scope="module")
def walk() -> Iterator[Walk]:
    """The shortest of some."""
    sidecar = Sidecar()
    path = str(sidecar.folder / "walk")
    sidecar.command = [sys.executable, "-m", "tests.support.walk", path]
    with ExitStack() as stack:
        stack.enter_context(sidecar)
        recorder = stack.enter_context(socket.socket(socket.AF_UNIX))
        recorder.settimeout(PATIENCE_SECONDS)
        recorder.connect(path)
        answers = stack.enter_context(recorder.makefile("rb"))
        client = stack.enter_context(WireClient(sidecar))
        publisher = stack.enter_context(WirePublisher(sidecar, publisher="walker"))
        client.subscribe("/walk/a")
        walks = []
        for number in range(1, FIRST + REPEATS + 1):
            recorder.sendall(b"b")
            answers.readline()
            publisher.packet("batch", number, [["/walk/a", str(number)]], number)
            assert publisher.next()[3] == [number]
            assert client.message()[1] == number
            recorder.sendall(b"e")
            walks.append(Walk([(depth, function, file) for depth, function, file in json.loads(answers.readline())]))
        yield min(walks[FIRST:], key=lambda one: len(one.functions))


def test_the_walk_of_a_message_gets_no_longer(walk: Walk) -> None:
    sys.stdout.write(f"{walk}\n")
    assert walk.calls
    assert len(walk.functions) <= FUNCTIONS_MAX, walk
    assert len(walk.files) <= FILES_MAX, walk
    assert walk.depth <= DEPTH_MAX, walk


def test_the_walk_is_that_of_the_message(walk: Walk) -> None:
    roots = [function for depth, function, _ in walk.calls if depth == 1]
    assert roots[0].endswith("data_received")
    names = {function.rpartition(".")[2] for function, _ in walk.functions}
    assert {"publish", "append", "deliver", "offer", "flush"} <= names


def test_the_page_shows_the_walk(walk: Walk) -> None:
    page = (ROOT / "docs" / "explain" / "architecture.md").read_text()
    shown = one("docs/explain/architecture.md", "text", "PublisherConnection.data_received").split()
    assert {*zip(shown[::2], shown[1::2], strict=True)} == walk.functions
    assert f"{len(walk.functions)} functions, {len(walk.files)} files, depth {walk.depth}" in " ".join(page.split())
