"""What outboxes say is done on any socket: what is written arrives whole and in order, or the socket is let go."""

from __future__ import annotations

import pytest

from fastpath.core.delivery.outbox import Effect
from fastpath.core.delivery.wire import terms_of
from fastpath.core.protocol.errors import Close
from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import Subscribe
from tests.support.core.lines import JsonLines
from tests.support.core.stage import Actor, Stage

LIMIT = 200


class Notebook(Actor):
    """A client over lines of JSON, whose socket takes what the test says and notes what it is asked for."""

    def __init__(self, stage: Stage) -> None:
        self.room: int | None = None
        self.lines = b""
        self.notes: list[str] = []
        super().__init__(stage, "ann", "", terms_of(JsonLines()))
        stage.actors["ann"] = self

    def send(self, data: bytes | memoryview) -> int:
        count = len(data) if self.room is None else min(self.room, len(data))
        if count >= 0:
            self.lines += data[:count]
        return count

    def wait(self, data: bytes, sent: int) -> None:
        self.notes.append(f"wait {len(data) - sent}")

    def await_room(self, wanted: bool) -> None:
        self.notes.append("await room" if wanted else "no more")

    def end(self, effect: int) -> None:
        self.notes.append({Effect.LOST: "lost", Effect.OVERFLOW: "overflow", Effect.ENDED: "ended"}[effect])
        super().end(effect)

    def noted(self) -> list[str]:
        """What it was asked for since the last call."""
        notes, self.notes = self.notes, []
        return notes


@pytest.fixture
def stage() -> Stage:
    return Stage(limits=Limits(outbox_bytes_max=LIMIT))


def test_what_is_taken_asks_for_nothing(stage: Stage) -> None:
    ann = Notebook(stage)
    ann.write(b"=[1]\n")
    assert (ann.lines, ann.noted()) == (b"=[1]\n", [])


def test_what_is_not_taken_is_written_when_there_is_room(stage: Stage) -> None:
    ann = Notebook(stage)
    ann.room = 3
    ann.write(b"=[1]\n")
    ann.write(b"=[2]\n")
    assert (ann.lines, ann.noted()) == (b"=[1", ["wait 2", "await room", "wait 5"])
    ann.room = 4
    ann.writable()
    assert (ann.lines, ann.noted()) == (b"=[1]\n=[2]", [])
    ann.room = None
    ann.writable()
    assert (ann.lines, ann.noted()) == (b"=[1]\n=[2]\n", ["no more"])
    assert ann.client.queue is None


def test_a_socket_that_takes_too_little_is_let_go_with_what_it_has_begun(stage: Stage) -> None:
    ann = Notebook(stage)
    ann.room = 1
    ann.write(b"=[1]\n")
    ann.write(b"=[2" + b" " * LIMIT + b"]\n")
    goodbye = JsonLines().close(*stage.outboxes.overflow)
    assert ann.noted() == ["wait 4", "await room", f"wait {LIMIT + 5}", "overflow", f"wait {len(goodbye)}"]
    ann.room = None
    ann.writable()
    assert ann.noted() == ["no more", "ended"]
    assert ann.lines == b"=[1]\n" + goodbye
    assert ann.closed is not None and ann.closed[0] == Close.SLOW_CONSUMER


@pytest.mark.parametrize("queued", [False, True])
def test_a_broken_socket_is_told_of_between_two_handlers_where_the_core_writes(stage: Stage, queued: bool) -> None:
    ann = Notebook(stage)
    if queued:
        ann.room = 0
        ann.write(b"=[1]\n")
        ann.noted()
    ann.room = -1
    if queued:
        ann.writable()  # called by no handler of the core's
    else:
        ann.write(b"=[1]\n")
        assert ann.noted() == []
        stage.turn()
    assert ann.noted() == ["lost"]


def test_who_lags_falls_behind_and_is_pulled_level_between_two_handlers(stage: Stage) -> None:
    ann = Notebook(stage)
    ann.say(Subscribe(id=1, subjects=["/a/b"], slow="conflate"))
    ann.room = 0
    for number in range(5):
        stage.publish("/a/b", f"{number}" * 40)
    assert ann.client.lag is not None and ann.client.lag.behind
    ann.room, ann.lines = None, b""
    ann.writable()
    stage.end()
    assert not ann.client.lag.behind
    assert ann.lines.count(b"4" * 40) == 1
