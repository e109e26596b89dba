"""Questions to nodes: one that is slow at something is asked other things, one that is silent is passed over."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastpath.core.protocol.packets import Unpacker, pack
from realtime.monitoring import questions
from realtime.monitoring.questions import ask_node


class Node:
    """Answers the verbs that are named, and notes all."""

    def __init__(self, path: str, *answers: str) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(16)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        """It is no more."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            with peer:
                unpacker = Unpacker(1 << 20)
                while data := peer.recv(65_536):
                    for number, verb, _ in unpacker.feed(data):
                        self.asked.append(verb)
                        if verb in self.answers:
                            peer.sendall(pack([number, "ok", {"verb": verb}]))


@pytest.fixture
def node(settings: Any, tmp_path: Path) -> Iterator[Node]:
    """The only one."""
    path = str(tmp_path / "node.sock")
    settings.REALTIME = settings.REALTIME | {"CONTROL": path}
    one = Node(path, "hello", "clients", "disconnect")
    yield one
    one.close()


def test_a_node_that_is_slow_at_one_thing_is_asked_others(node: Node) -> None:
    """A worker of it may hang: it is no reason to look away."""
    answer = ask_node(0, "top", {}, 0.05)
    assert (answer.error, answer.refused, answer.value) == ("no answer within 0.05 s", False, {})
    assert ask_node(0, "clients", {}).value == {"verb": "clients"}
    assert ask_node(0, "disconnect", {}).value == {"verb": "disconnect"}
    assert node.asked == ["top", "hello", "clients", "disconnect"]


def test_a_silent_node_is_passed_over_but_not_by_actions(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until one of them was answered, and not only until its time is over."""
    monkeypatch.setattr(questions, "AWAY_SECONDS", 3600)
    node.answers = ("disconnect",)
    assert ask_node(0, "clients", {}, 0.05).error
    assert ask_node(0, "top", {}).error == "no answer within 0.05 s"
    assert node.asked == ["clients", "hello"]
    node.answers = ("disconnect", "top")
    assert ask_node(0, "disconnect", {}).value
    assert ask_node(0, "top", {}).value
