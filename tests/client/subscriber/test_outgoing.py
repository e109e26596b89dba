"""The queue of publications, without I/O: stored once, in order, bounded, within its time."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.client.errors import Failed, Invalid, NotReady, QueueFull, Unavailable, Unknown
from fastpath.client.subscriber.outgoing import HOLD_SECONDS, OutgoingPublication, OutgoingPublications, Settled
from tests.support.client.ledger import LedgerServer


def publication(content: str = "x", **options: str) -> OutgoingPublication:
    return OutgoingPublication("/a/b", content, **options)  # type: ignore[arg-type]


class Wire:
    """A queue and a server, and between them what is on its way."""

    def __init__(self, **options: int) -> None:
        self.now = 0.0
        self.queue = OutgoingPublications(**options)
        self.server = LedgerServer()
        self.there: deque[tuple[int, OutgoingPublication]] = deque()
        self.back: deque[tuple[int, str, int]] = deque()
        self.settled: list[tuple[str, str]] = []
        self.ids = 0

    def publish(self, content: str) -> None:
        assert self.queue.put(publication(content), self.now) is None

    def send(self) -> None:
        for one in self.queue.take(self.now):
            self.ids += 1
            self.queue.on_wire(one, self.ids)
            self.there.append((self.ids, one))

    def serve(self, trouble: str) -> None:
        if self.there:
            command, one = self.there.popleft()
            result = self.server.store(one.number, one.content, trouble)
            status, seq = ("ok", result) if isinstance(result, int) else (result[0], 0)
            self.back.append((command, status, seq))

    def answer(self) -> None:
        if self.back:
            command, status, seq = self.back.popleft()
            done = self.queue.answered(command, status, self.now)
            if done is not None:
                self.note(Settled(done, status, seq=seq))

    def cut(self) -> None:
        self.there.clear()
        self.back.clear()
        for one in self.queue.lose():
            self.note(one)

    def note(self, settled: Settled) -> None:
        self.settled.append((str(settled.publication.content), settled.status))


steps = st.lists(
    st.sampled_from(["publish", "send", "", "", "lost", "unavailable", "not_ready", "answer", "answer", "cut", "pass"]),
    max_size=80,
)


@given(steps)
def test_through_any_trouble_each_is_stored_once(steps: list[str]) -> None:
    wire = Wire(seconds=10_000)
    published = []
    for step in steps:
        match step:
            case "publish":
                published.append(f"{len(published)}")
                wire.publish(published[-1])
            case "send":
                wire.send()
            case "answer":
                wire.answer()
            case "cut":
                wire.cut()
            case "pass":
                wire.now += HOLD_SECONDS
            case trouble:
                wire.serve(trouble)
    for _ in range(500):
        wire.now += HOLD_SECONDS
        wire.send()
        wire.serve("")
        wire.answer()
    assert sorted(wire.server.stored) == sorted(published)
    assert sorted(wire.settled) == sorted((content, "ok") for content in published)
    assert len(wire.queue) == 0
    assert wire.queue.due() is None
    if "not_ready" not in steps:  # what was refused comes later than what was accepted meanwhile
        assert wire.server.stored == published


def test_numbers_are_given_when_sent_and_rise() -> None:
    wire = Wire()
    for content in "abc":
        wire.publish(content)
    wire.send()
    assert [one.number for _, one in wire.there] == [1, 2, 3]
    wire.queue.answered(1, "not_ready", 0)
    wire.queue.answered(2, "unavailable", 0)
    wire.there.clear()
    wire.publish("d")
    wire.now = HOLD_SECONDS
    wire.send()
    assert not wire.there  # c is not answered yet
    wire.queue.answered(3, "ok", 0)
    wire.now = HOLD_SECONDS - 0.01
    wire.send()
    assert not wire.there
    assert wire.queue.due() == HOLD_SECONDS
    wire.now = HOLD_SECONDS
    wire.send()
    assert [(one.number, one.content) for _, one in wire.there] == [(2, "b"), (4, "a"), (5, "d")]


def test_who_may_be_stored_keeps_its_number_where_the_server_is_not_ready_to_look() -> None:
    """Else a retry that meets a server without rights, then comes under another number, would be stored twice."""
    wire = Wire(seconds=10)
    wire.publish("a")
    wire.send()
    wire.cut()
    for command in (2, 3):
        wire.now += HOLD_SECONDS
        wire.send()
        assert [(one.number, one.content) for _, one in wire.there] == [(1, "a")]
        wire.there.clear()
        assert wire.queue.answered(command, "not_ready", wire.now) is None
    [settled] = wire.queue.expire(10)
    assert settled.status == "unknown"


def test_what_came_too_late_is_sent_again_at_once_under_a_new_number() -> None:
    wire = Wire()
    for content in "ab":
        wire.publish(content)
    wire.send()
    wire.there.clear()
    wire.queue.answered(1, "out_of_order", 0)
    wire.send()
    assert [(one.number, one.content) for _, one in wire.there] == [(3, "a")]


def test_standard_quality_has_no_number_and_is_sent_once() -> None:
    wire = Wire()
    wire.queue.put(publication("x", qos="standard"), 0)
    wire.publish("y")
    wire.send()
    assert [one.number for _, one in wire.there] == [0, 1]
    wire.cut()
    assert wire.settled == [("x", "unknown")]
    wire.send()
    assert [one.content for _, one in wire.there] == ["y"]


def test_it_is_bounded() -> None:
    queue = OutgoingPublications(messages_max=2, bytes_max=10)
    assert queue.put(publication("12345"), 0) is None
    assert queue.put(publication("é" * 3), 0) is not None
    assert queue.put(OutgoingPublication("/a/b", b"123", {"f": "4"}), 0) is None
    refused = queue.put(publication(""), 0)
    assert refused is not None
    assert refused.status == "queue_full"
    assert isinstance(refused.outcome(), QueueFull)
    [one, _] = queue.take(0)
    queue.on_wire(one, 1)
    assert queue.answered(1, "ok", 0) is one
    assert queue.put(publication("12345"), 0) is None


@pytest.mark.parametrize(
    ("answer", "status", "error"),
    [(None, "unknown", Unknown), ("unavailable", "unknown", Unknown), ("not_ready", "not_ready", NotReady)],
)
def test_when_its_time_is_over(answer: str | None, status: str, error: type[Exception]) -> None:
    queue = OutgoingPublications(seconds=60)
    queue.put(publication("a"), 0)
    [first] = queue.take(0)
    queue.on_wire(first, 1)
    queue.put(publication("b"), 5)
    if answer:
        queue.answered(1, answer, 6)
    assert queue.expire(59) == []
    [settled] = queue.expire(60)
    assert (settled.publication, settled.status) == (first, status)
    assert isinstance(settled.outcome(), error)
    assert queue.answered(1, "ok", 61) is None
    [other] = queue.take(61)
    queue.on_wire(other, 2)
    assert queue.due() == 65


def test_what_was_never_sent() -> None:
    queue = OutgoingPublications(seconds=60)
    queue.put(publication("a"), 0)
    [settled] = queue.expire(60)
    assert isinstance(settled.outcome(), Unavailable)
    assert isinstance(Settled(publication(), "failed", "disk full").outcome(), Failed)
    queue.put(publication("b"), 0)
    assert [settled.status for settled in queue.end("closed")] == ["failed"]


def test_the_largest_is_what_was_too_big() -> None:
    queue = OutgoingPublications()
    for size in (5, 50, 500, 50):
        queue.put(publication("x" * size), 0)
    for command, one in enumerate(queue.take(0)):
        if command < 3:
            queue.on_wire(one, command + 1)
    [settled] = queue.lose(too_big=True)
    assert (settled.status, settled.publication.size) == ("too_large", 500)
    assert [len(one.content) for one in queue.take(0)] == [5, 50]


@pytest.mark.parametrize("part", ["subject", "reply_to", "closure", "content", "fields"])
def test_half_a_character_is_no_text(part: str) -> None:
    """It is refused at once: later it would stop all that comes behind it."""
    queue = OutgoingPublications()
    values: dict[str, Any] = {"subject": "/a/b", "content": "x"} | {part: "\ud800"}
    if part == "fields":
        values["fields"] = {"\ud800": "x"}
        part = "field"
    with pytest.raises(Invalid, match=f"half a character .* in .*{part}"):
        queue.put(OutgoingPublication(**values), 0)
    assert len(queue) == 0
    assert not list(queue.take(0))
