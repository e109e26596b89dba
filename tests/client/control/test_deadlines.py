"""Nobody waits longer than he was told at a sidecar that hangs (SIGSTOP), however many ask it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fastpath.client.control.client import Control
from fastpath.client.control.nodes import Nodes
from fastpath.client.errors import SidecarBusy, SidecarSilent, SidecarUnavailable
from tests.support.client.peers import framed, peer
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until

ROW = ["/a/b", "x"]
CALLERS = 6
SECONDS = 1.0


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """One for all tests here."""
    with Sidecar() as running:
        yield running


@contextmanager
def hung(*sidecars: Sidecar) -> Iterator[None]:
    """They run no further."""
    for one in sidecars:
        os.kill(one.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for one in sidecars:
            os.kill(one.pid, signal.SIGCONT)


def outcome(call: Callable[[], Any]) -> Any:
    """What it returns or raises."""
    try:
        return call()
    except SidecarUnavailable as error:
        return error


def together(call: Callable[[], Any], callers: int = CALLERS) -> list[Any]:
    """The same of several threads that begin at once."""
    gate = threading.Barrier(callers)

    def one(_: int) -> Any:
        gate.wait(PATIENCE_SECONDS)
        return outcome(call)

    with ThreadPoolExecutor(callers) as pool:
        return list(pool.map(one, range(callers)))


@pytest.mark.parametrize(
    "verb", ["publish", *(pytest.param(name, marks=pytest.mark.slow) for name in ("snapshot", "hello"))]
)
def test_the_time_counts_from_the_call_whoever_else_waits(sidecar: Sidecar, verb: str) -> None:
    """Not from when the calls before it have given up."""
    with Nodes([sidecar.control], SECONDS) as nodes:
        calls = {
            "publish": lambda: nodes.publish([ROW]),
            "snapshot": lambda: nodes.snapshot("/a/b"),
            "hello": nodes.hello,
        }
        nodes.hello()
        with hung(sidecar):
            found = together(calls[verb])
        assert all(isinstance(error, SidecarUnavailable) for error in found)
        until(lambda: isinstance(outcome(nodes.hello), dict))


def test_a_connection_of_several_threads_is_waited_for_no_longer(sidecar: Sidecar) -> None:
    """Who had no turn at all is told that nothing was sent."""
    with Control(sidecar.control, SECONDS) as control:
        control.hello()
        with hung(sidecar):
            found = together(control.hello)
        kinds = {type(error) for error in found}
        assert SidecarSilent in kinds
        assert kinds <= {SidecarSilent, SidecarBusy}
        assert control.hello()["pid"] == sidecar.pid


def test_after_a_time_out_calls_fail_at_once_until_it_answers(sidecar: Sidecar) -> None:
    """One call at a time tries; when it has its answer all have theirs."""
    with Nodes([sidecar.control], SECONDS) as nodes:
        with hung(sidecar):
            with pytest.raises(SidecarSilent, match="no answer within 1 s"):
                nodes.publish([ROW])
            for call in (lambda: nodes.publish([ROW]), nodes.hello) * 10:
                assert "it did not answer in time; it is asked again within" in str(outcome(call))
            until(lambda: not nodes._breakers[0].refusal())
            found = sorted(str(error) for error in together(nodes.hello))
            assert sum("no answer within 1 s" in error for error in found) == 1, found
            assert sum("it is asked again within" in error for error in found) == CALLERS - 1, found
        until(lambda: isinstance(outcome(lambda: nodes.publish([ROW])), dict))
        assert all(isinstance(found, dict) for found in together(lambda: nodes.publish([ROW])))


def test_one_that_ends_while_it_hangs_is_found_when_it_is_back(sidecar: Sidecar) -> None:
    """Refused at once is no time-out: nobody waits, so nothing has to be kept from asking."""
    with Nodes([sidecar.control], SECONDS) as nodes:
        with hung(sidecar), pytest.raises(SidecarSilent):
            nodes.hello()
        sidecar.kill()
        until(lambda: "did not answer in time" not in str(outcome(nodes.hello)))
        sidecar.start()
        assert nodes.hello()["pid"] == sidecar.pid


def test_the_next_node_takes_over_for_all_who_wait(sidecar: Sidecar) -> None:
    """And is asked first while the other one is not asked."""
    with Sidecar() as other, Nodes([sidecar.control, other.control], SECONDS) as nodes:
        nodes.publish([ROW])
        with hung(sidecar):
            found = together(lambda: nodes.publish([ROW]))
            assert [type(answer) for answer in found] == [dict] * CALLERS
            sequence = [answer["results"][0] for answer in together(lambda: nodes.publish([ROW]))]
            assert len(set(map(str, sequence))) == CALLERS


@pytest.mark.slow
def test_two_nodes_that_hang_cost_twice_the_time_and_then_nothing(sidecar: Sidecar) -> None:
    with Sidecar() as other, Nodes([sidecar.control, other.control], SECONDS) as nodes, hung(sidecar, other):
        found = together(lambda: nodes.publish([ROW]))
        assert all(isinstance(error, SidecarUnavailable) for error in found)
        error = outcome(lambda: nodes.publish([ROW]))
        assert str(error).count("is asked again within") == 2


def test_a_slow_answer_is_no_hang(tmp_path: Path) -> None:
    """Whose call got its turn only at the end of its time has not found out that the node is silent."""
    path = str(tmp_path / "c.sock")

    def slow(connection: Any) -> None:
        for number in (1, 2):
            connection.recv(1 << 16)
            released.wait(SECONDS * 0.8)
            try:
                connection.sendall(framed([number, "ok", {"pid": 7}]))
            except OSError:
                return  # it has given up

    released = threading.Event()
    again = framed([3, "ok", {"pid": 7}])
    with peer(path, slow, lambda connection: connection.sendall(again)), Nodes([path], SECONDS) as nodes:
        found = together(nodes.hello, 2)
        assert sorted(type(answer).__name__ for answer in found) == ["SidecarBusy", "dict"]
        assert nodes.hello() == {"pid": 7}


def test_a_fork_while_another_thread_waits_leaves_the_child_no_held_lock(sidecar: Sidecar) -> None:
    """As where a server with threads forks its workers."""
    with Nodes([sidecar.control], 5) as nodes, ThreadPoolExecutor(1) as pool:
        with hung(sidecar):
            waiting = pool.submit(nodes.publish, [ROW])
            until(nodes._publishing.locked)
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                nodes.abandon()
                until(lambda: isinstance(outcome(lambda: nodes.publish([ROW])), dict))
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert isinstance(waiting.result()["results"][0], int)
