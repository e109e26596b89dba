"""Publications of several threads leave in one frame, and none of the threads notices: nor its end, nor its error."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fastpath.client.control.client import FRAME_BYTES_MAX, Control
from fastpath.client.control.frames import FRAME_BYTES, FRAME_ROWS, Frames, PublishCall, SharedFrame
from fastpath.client.control.nodes import Nodes
from fastpath.client.errors import ControlRefused, SidecarUnavailable
from fastpath.core.protocol.packets import Unpacker
from tests.support.client.peers import Peer, framed, peer
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

SECONDS = 30.0


class Gate:
    """A ``send`` of Frames that lets one frame through at a time, when it is told; ``sent`` is what came."""

    def __init__(self) -> None:
        self.sent: list[list[Any]] = []
        self.passing = threading.Semaphore(0)
        self.errors: list[BaseException] = []

    def __call__(self, frame: SharedFrame, deadline: float) -> None:
        rows = [msgspec.msgpack.decode(row)[1] for row in frame.rows]
        self.sent.append(rows)
        assert self.passing.acquire(timeout=SECONDS)
        if self.errors:
            raise self.errors.pop(0)
        frame.settle(7, rows)


class Interrupted(BaseException):
    """What ends a thread's work from outside, as KeyboardInterrupt does."""


def call(frames: Frames, *contents: str, seconds: float = SECONDS, publisher: str = "") -> PublishCall:
    """Carried out."""
    made = PublishCall([["/a/b", content] for content in contents], time.monotonic() + seconds, publisher)
    frames.carry_out(made)
    return made


@contextmanager
def crew(frames: Frames, gate: Gate) -> Iterator[Callable[..., Future[PublishCall]]]:
    """Calls one after the other, each of a thread of its own: the first one sends, the others wait in this order."""
    with ThreadPoolExecutor(20) as pool:
        waiting = 0

        def begin(*contents: str, **options: Any) -> Future[PublishCall]:
            nonlocal waiting
            if not gate.sent:
                future = pool.submit(call, frames, *contents, **options)
                until(lambda: gate.sent)
            else:
                waiting += 1
                future = pool.submit(call, frames, *contents, **options)
                until(lambda: len(frames._waiting) == waiting)
            return future

        yield begin


def test_what_waits_leaves_in_one_frame_in_the_order_of_the_calls() -> None:
    gate = Gate()
    frames = Frames(gate)
    with crew(frames, gate) as begin:
        futures = [begin("0"), begin("1", "2"), begin("3"), begin("4")]
        gate.passing.release(2)
        outcomes = [future.result(SECONDS).outcome for future in futures]
    assert gate.sent == [["0"], ["1", "2", "3", "4"]]
    assert outcomes == [{"epoch": 7, "results": part} for part in (["0"], ["1", "2"], ["3"], ["4"])]
    assert not frames.locked()
    gate.passing.release()
    assert call(frames, "5").outcome == {"epoch": 7, "results": ["5"]}


def test_many_rows_many_bytes_and_own_numbers_go_alone() -> None:
    gate = Gate()
    frames = Frames(gate)
    long = "x" * FRAME_BYTES
    with crew(frames, gate) as begin:
        futures = [begin("0"), begin("1"), begin(*["2"] * FRAME_ROWS), begin("3"), begin(long), begin("4")]
        futures += [begin("5", publisher="outbox:1"), begin("6", publisher="outbox:1"), begin("7"), begin("8")]
        gate.passing.release(20)
        for future in futures:
            assert future.result(SECONDS).outcome is not None
    wanted = [["0"], ["1"], ["2"] * FRAME_ROWS, ["3"], [long], ["4"], ["5"], ["6"], ["7", "8"]]
    assert gate.sent == wanted


def test_a_thread_that_is_interrupted_while_it_sends_harms_nobody() -> None:
    """What it sent for others is sent again by one of them, as it was."""
    gate = Gate()
    frames = Frames(gate)
    with crew(frames, gate) as begin:
        first, *others = [begin("0"), begin("1"), begin("2"), begin("3", seconds=SECONDS * 2)]
        gate.passing.release()
        until(lambda: len(gate.sent) == 2)
        gate.errors += [Interrupted(), Interrupted()]
        gate.passing.release(3)
        ends = [future.exception(SECONDS) for future in others]
    assert gate.sent == [["0"]] + [["1", "2", "3"]] * 3
    assert [type(end) for end in ends] == [type(None), Interrupted, Interrupted], "who has most time left sends first"
    assert [future.result().outcome for future in (first, others[0])] == [
        {"epoch": 7, "results": [content]} for content in "01"
    ]
    assert not frames.locked()


def test_one_that_is_alone_and_interrupted_leaves_the_turn_to_who_waits() -> None:
    gate = Gate()
    frames = Frames(gate)
    gate.errors.append(Interrupted())
    with crew(frames, gate) as begin:
        first, second = begin("0"), begin("1")
        gate.passing.release(2)
        assert isinstance(first.exception(SECONDS), Interrupted)
        assert second.result(SECONDS).outcome == {"epoch": 7, "results": ["1"]}


def test_whose_time_is_over_before_it_was_sent_is_never_sent() -> None:
    gate = Gate()
    frames = Frames(gate)
    with crew(frames, gate) as begin:
        first = begin("0")
        late = call(frames, "1", seconds=0.1)
        assert (late.outcome, late.frame) == (None, None)
        gate.passing.release()
        assert first.result(SECONDS).outcome == {"epoch": 7, "results": ["0"]}
    assert gate.sent == [["0"]]
    assert not frames.locked()


def test_whose_time_is_over_while_its_frame_is_under_way_returns_and_the_others_have_theirs() -> None:
    gate = Gate()
    frames = Frames(gate)
    with crew(frames, gate) as begin:
        _, patient, brief = begin("0"), begin("1"), begin("2", seconds=3)
        gate.passing.release()
        until(lambda: len(gate.sent) == 2)
        late = brief.result(SECONDS)
        assert late.outcome is None
        assert late.frame is not None
        assert not patient.done()
        gate.passing.release()
        assert patient.result(SECONDS).outcome == {"epoch": 7, "results": ["1"]}
    assert gate.sent == [["0"], ["1", "2"]]


def test_what_publishes_while_a_thread_publishes_waits_for_it_and_not_for_ever() -> None:
    """As the handler of a signal: its thread cannot go on before."""
    found: list[PublishCall] = []

    def nested(frame: SharedFrame, deadline: float) -> None:
        found.append(call(frames, "nested", seconds=0.1))
        frame.settle(7, ["0"])

    frames = Frames(nested)
    assert call(frames, "0").outcome == {"epoch": 7, "results": ["0"]}
    assert (found[0].outcome, found[0].frame) == (None, None)


def hang(sidecar: Sidecar) -> None:
    os.kill(sidecar.pid, signal.SIGSTOP)


def go_on(sidecar: Sidecar) -> None:
    os.kill(sidecar.pid, signal.SIGCONT)


def queued(nodes: Nodes, count: int) -> None:
    """So many calls wait behind the one that is under way."""
    until(lambda: nodes._publishing.locked() and len(nodes._publishing._waiting) == count)


def test_each_gets_what_became_of_its_own_rows(sidecar: Sidecar) -> None:
    """Of a real sidecar, which refuses some of a frame; and what cannot be encoded is the error of one."""
    with Nodes([sidecar.control], SECONDS) as nodes, ThreadPoolExecutor(20) as pool:
        nodes.publish([["/a/b", "0"]])
        hang(sidecar)
        try:
            futures = [pool.submit(nodes.publish, [["/a/first", "x"]])]
            queued(nodes, 0)
            for number in range(9):
                rows = [[f"/a/{number}", "x"], ["/bad" if number % 3 == 0 else f"/a/{number}", "y"]]
                futures.append(pool.submit(nodes.publish, rows))
                queued(nodes, number + 1)
            with pytest.raises(TypeError):
                nodes.publish([["/a/b", object()]])
        finally:
            go_on(sidecar)
        answers = [future.result(SECONDS)["results"] for future in futures]
        assert answers[0] == [1]
        for number, (first, second) in enumerate(answers[1:]):
            assert first == 1
            assert second[0] == "invalid" if number % 3 == 0 else second == 2
        with Control(sidecar.control) as control:
            assert [control.subject(f"/a/{number}")["seq"] for number in range(9)] == [1, 2, 2] * 3


def test_others_publish_on_while_one_closes_the_connections(sidecar: Sidecar) -> None:
    with Nodes([sidecar.control], SECONDS) as nodes, ThreadPoolExecutor(8) as pool:

        def publish(number: int) -> list[Any]:
            return [nodes.publish([[f"/a/{number}", "x"]])["results"][0] for _ in range(50)]

        futures = [pool.submit(publish, number) for number in range(8)]
        while not all(future.done() for future in futures):
            nodes.close()
        assert [future.result() for future in futures] == [list(range(1, 51))] * 8


def test_a_fork_while_several_wait_leaves_the_child_a_way_of_its_own(sidecar: Sidecar) -> None:
    with Nodes([sidecar.control], SECONDS) as nodes, ThreadPoolExecutor(8) as pool:
        hang(sidecar)
        try:
            futures = []
            for number in range(5):
                futures.append(pool.submit(nodes.publish, [["/a/b", "x"]]))
                queued(nodes, number)
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                code = 1
                try:
                    nodes.abandon()
                    code = 0 if isinstance(nodes.publish([["/a/child", "x"]])["results"][0], int) else 2
                finally:
                    os._exit(code)
        finally:
            go_on(sidecar)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert sorted(future.result(SECONDS)["results"][0] for future in futures) == [1, 2, 3, 4, 5]


Heard = list[Any]
"""A request: its number, the verb, the arguments."""


def answers(heard: list[Heard], *replies: Callable[[Heard], object]) -> Peer:
    """A peer that gives each request its reply: the results, an error, or None for no answer."""

    def behave(connection: socket.socket) -> None:
        unpacker = Unpacker(FRAME_BYTES_MAX)
        left = list(replies)
        while left:
            data = connection.recv(1 << 16)
            if not data:
                return
            for request in unpacker.feed(data):
                heard.append(request)
                reply = left.pop(0)(request)
                if isinstance(reply, list):
                    connection.sendall(framed([request[0], "ok", {"epoch": 7, "results": reply}]))
                elif reply is not None:
                    connection.sendall(framed([request[0], "error", reply]))

    return behave


REFUSAL = {"code": "too_large", "reason": "not this one"}


def shape(request: Heard) -> tuple[list[str], int]:
    """The contents of a request's rows, and the number of the first."""
    return [row[1] for row in request[2]["messages"]], request[2]["first"]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where a peer listens."""
    return str(tmp_path / "c.sock")


def test_of_a_frame_that_is_refused_each_call_is_sent_alone_under_its_numbers(path: str) -> None:
    gate = threading.Event()
    heard: list[Heard] = []

    def first(_: Heard) -> list[int]:
        assert gate.wait(SECONDS)
        return [1]

    replies = [lambda _: REFUSAL, lambda _: [2], lambda _: REFUSAL, lambda _: [4, 5]]
    with peer(path, answers(heard, first, *replies)), Nodes([path], SECONDS) as nodes, ThreadPoolExecutor(8) as pool:
        futures = []
        for number, contents in enumerate(("0", "1", "2", "34")):
            futures.append(pool.submit(nodes.publish, [["/a/b", content] for content in contents]))
            queued(nodes, number)
        gate.set()
        ends = [future.exception(SECONDS) for future in futures]
        assert [type(end) for end in ends] == [type(None), type(None), ControlRefused, type(None)]
        assert futures[1].result()["results"] == [2]
        assert futures[3].result()["results"] == [4, 5]
    wanted = [(["0"], 1), (["1", "2", "3", "4"], 2), (["1"], 2), (["2"], 3), (["3", "4"], 4)]
    assert [shape(request) for request in heard] == wanted
    assert len({request[2]["publisher"] for request in heard}) == 1


def test_each_has_an_error_of_its_own_when_no_answer_comes(path: str) -> None:
    gate = threading.Event()
    heard: list[Heard] = []

    def gone(_: Heard) -> None:
        assert gate.wait(SECONDS)

    with peer(path, answers(heard, gone)), Nodes([path], SECONDS) as nodes, ThreadPoolExecutor(8) as pool:
        futures = []
        for number in range(4):
            futures.append(pool.submit(nodes.publish, [["/a/b", "x"]]))
            queued(nodes, number)
        os.unlink(path)  # there is no second connection
        gate.set()
        errors = [future.exception(SECONDS) for future in futures]
    assert all(isinstance(error, SidecarUnavailable) for error in errors)
    assert len({id(error) for error in errors}) == 4


def test_what_one_node_cannot_store_goes_to_the_next_under_its_number(tmp_path: Path) -> None:
    heard: list[Heard] = []
    one, other = str(tmp_path / "one.sock"), str(tmp_path / "other.sock")
    rows = [["/a/b", "0"], ["/a/b", "1", None, {"retained": False}], ["/a/b", "2"]]
    with (
        peer(one, answers(heard, lambda _: [1, ["unavailable", "no replica"], 3])),
        peer(other, answers(heard, lambda _: [2])),
        Nodes([one, other], SECONDS) as nodes,
    ):
        assert nodes.publish(rows)["results"] == [1, 2, 3]
    assert shape(heard[0]) == (["0", "1", "2"], 1)
    assert heard[1][2]["messages"] == [["/a/b", "1", None, {"retained": False, "id": 2}]]
    assert heard[0][2]["publisher"] == heard[1][2]["publisher"]


def test_a_signal_that_ends_the_call_of_who_sends_for_others(path: str) -> None:
    """They get what they would have got: the frame comes again as it was, on another connection."""
    gate = threading.Event()
    heard: list[Heard] = []

    def first(_: Heard) -> list[int]:
        assert gate.wait(SECONDS)
        return [1]

    def strike(_: Heard) -> None:
        os.kill(os.getpid(), signal.SIGUSR1)

    def raises(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, raises)
    try:
        with (
            peer(path, answers(heard, first, strike, lambda _: []), answers(heard, lambda _: [2, 3])),
            Nodes([path], SECONDS) as nodes,
            ThreadPoolExecutor(4) as pool,
        ):
            futures = [pool.submit(nodes.publish, [["/a/b", "0"]])]
            queued(nodes, 0)
            futures.append(pool.submit(nodes.publish, [["/a/b", "1"]]))
            queued(nodes, 1)
            opener = threading.Thread(target=lambda: (queued(nodes, 2), gate.set()))
            opener.start()
            with pytest.raises(Interrupted):
                nodes.publish([["/a/b", "2"]])  # it has most time left: it sends what waits
            opener.join(SECONDS)
            assert [future.result(SECONDS)["results"] for future in futures] == [[1], [2]]
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert [shape(request) for request in heard] == [(["0"], 1), (["1", "2"], 2), (["1", "2"], 2)]
    assert len({request[2]["publisher"] for request in heard}) == 1
