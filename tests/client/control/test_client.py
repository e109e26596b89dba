"""The client of the control socket against a real sidecar, and against peers that misbehave."""

from __future__ import annotations

import copy
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fastpath.client import ControlRefused, SidecarUnavailable
from fastpath.client.control.client import Control
from tests.support.client.peers import Peer, framed, peer
from tests.support.rights import load_rights, rule
from tests.support.sidecar import Sidecar
from tests.support.tokens import mint


def says(data: bytes) -> Peer:
    """A peer that reads a request, says this and waits for the end."""

    def behave(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(data)
        connection.recv(1 << 16)

    return behave


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """One for all tests that need no other."""
    with Sidecar(mode="none") as running:
        yield running


def test_the_verbs(sidecar: Sidecar) -> None:
    with Control(sidecar.control) as control:
        hello = control.hello()
        assert (hello["version"], hello["pid"], hello["mode"], hello["generation"]) == (1, sidecar.pid, "none", None)
        rows = [["/a/b", "x", {"f": "1"}], ["/a/b", "y", None, {"qos": "standard"}], ["/bad", "z"]]
        answer = control.publish(rows)
        assert (answer["epoch"], answer["results"][:2], answer["results"][2][0]) == (hello["epoch"], [1, 0], "invalid")
        found = control.snapshot("/a/b")
        assert (found["status"], found["message"]["content"], found["message"]["fields"]) == ("found", "y", {"f": "1"})
        assert control.snapshot("/a/none")["status"] == "none"
        assert control.snapshot("a")["status"] == "invalid"
        assert control.check("/a/b", "publish")["allowed"] is True
        assert control.stats()["subjects"] >= 1
        with pytest.raises(ControlRefused) as caught:
            control.call("no_such_verb")
        assert caught.value.code == "invalid"
        assert control.hello() == hello


def test_rights(rules_sidecar: Sidecar) -> None:
    token = mint("ann", uid="5")
    with Control(rules_sidecar.control) as control:
        assert control.snapshot("/a/b", token)["status"] == "not_ready"
        load_rights(rules_sidecar.control, rule(1, "user:5", "/a/**", "subscribe"), generation=7)
        assert control.hello()["generation"] == 7
        assert control.check("/a/b", "subscribe", token)["allowed"] is True
        assert control.check("/a/b", "publish", token)["allowed"] is False
        assert control.check("/a/b", "subscribe")["allowed"] is False
        with pytest.raises(ControlRefused) as caught:
            control.rules_diff(6, 8)
        assert caught.value.code == "stale"
        control.rules_diff(7, 8, removed=[1])
        assert control.check("/a/b", "subscribe", token)["allowed"] is False


def test_without_a_sidecar_the_error_says_what_to_do(tmp_path: Path) -> None:
    path = str(tmp_path / "none.sock")
    with pytest.raises(SidecarUnavailable) as caught:
        Control(path).hello()
    for error in (caught.value, copy.copy(caught.value)):
        assert path in str(error)
        assert "python manage.py runrealtime" in str(error)


def test_after_a_restart_of_the_sidecar_the_next_verb_works(sidecar: Sidecar) -> None:
    with Control(sidecar.control) as control:
        first = control.hello()["pid"]
        sidecar.kill()
        with pytest.raises(SidecarUnavailable):
            control.hello()
        sidecar.start()
        assert control.hello()["pid"] == sidecar.pid != first
        sidecar.stop()
        sidecar.start()
        assert control.hello()["pid"] == sidecar.pid


def test_threads_get_the_answer_to_their_own_question(sidecar: Sidecar) -> None:
    subjects = [f"/thread/{number}" for number in range(16)]
    with Control(sidecar.control) as control, ThreadPoolExecutor(8) as pool:
        control.publish([[subject, subject] for subject in subjects])
        asked = subjects * 20
        answers = pool.map(lambda subject: control.snapshot(subject)["message"]["content"], asked)
        assert list(answers) == asked


def test_an_answer_that_comes_too_late_is_not_taken_for_the_next(tmp_path: Path) -> None:
    path = str(tmp_path / "c.sock")

    def late(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        assert connection.recv(1 << 16) == b""  # the client has given up, and the connection with it

    with peer(path, late, says(framed([2, "ok", {"pid": 7}]))), Control(path, timeout_seconds=0.1) as control:
        with pytest.raises(SidecarUnavailable, match=r"0\.1 s"):
            control.hello()
        assert control.hello() == {"pid": 7}


@pytest.mark.parametrize(
    "data",
    [
        framed([9, "ok", {}]),
        framed([]),
        framed([1, "maybe", {}]),
        framed([1, "ok"]),
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x01\xc1",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
)
def test_a_peer_that_does_not_speak_the_protocol(tmp_path: Path, data: bytes) -> None:
    path = str(tmp_path / "c.sock")
    with peer(path, says(data)), Control(path) as control, pytest.raises(SidecarUnavailable):
        control.hello()


def test_a_peer_that_ends_in_the_middle(tmp_path: Path) -> None:
    path = str(tmp_path / "c.sock")

    def half(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(framed([1, "ok", {"pid": 7}])[:-1])

    with peer(path, half), Control(path) as control, pytest.raises(SidecarUnavailable, match="closed"):
        control.hello()


def test_a_forked_process_opens_a_connection_of_its_own(sidecar: Sidecar) -> None:
    with Control(sidecar.control) as control:
        before = control.hello()
        child = os.fork()
        if child == 0:
            os._exit(0 if control.hello() == before else 1)
        assert control.hello() == before
        assert os.waitpid(child, 0)[1] == 0


def test_what_passes_the_bound_is_refused_before_it_is_sent(sidecar: Sidecar) -> None:
    with Control(sidecar.control) as control:
        with pytest.raises(ControlRefused, match="too_large"):
            control.publish([["/a/b", "x" * (17 << 20)]])
        assert control.hello()["pid"] == sidecar.pid
