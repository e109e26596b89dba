"""The bound on a subject's whole snapshot: judged where fields are merged, in every way a publication comes in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.core.broker.admission import Done, Outcome
from fastpath.core.broker.column_batches import RunOutcome, release_runs
from fastpath.core.cache import snapshot as snapshot_module
from fastpath.core.cache.snapshot import Snapshot, weight
from fastpath.core.protocol.columns import ColumnBatch
from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import Message
from fastpath.core.protocol.options import OptionRow
from fastpath.engine.memory import MemoryEngine
from tests.support.core.stage import Following, Stage

BOUND = 1000
SUBJECT = "/s/1"
LIMITS = Limits(message_bytes_max=600, snapshot_bytes_max=BOUND)
TOO_LARGE = ("too_large", f"the subject's snapshot would hold over {BOUND} bytes")


def filled(**options: bool) -> Stage:
    """A stage with a snapshot of 901 bytes."""
    stage = Stage(limits=LIMITS, **options)
    assert stage.publish(SUBJECT, "x", {"a": "1" * 499}) == 1
    assert stage.publish(SUBJECT, "x", {"b": "2" * 399}) == 2
    return stage


def size(stage: Stage, subject: str = SUBJECT) -> int:
    """What the subject's snapshot weighs."""
    snapshot = stage.broker.interest.topics[subject].snapshot
    return 0 if snapshot is None else weight(snapshot.newest.content, snapshot.fields)


def single(stage: Stage, fields: dict[str, str]) -> Outcome | RunOutcome:
    return stage.publish(SUBJECT, "x", fields)  # type: ignore[return-value]


def batch(stage: Stage, fields: dict[str, str]) -> Outcome | RunOutcome:
    """Between publications to other subjects, and behind one of its own that is refused for something else."""
    told: list[Outcome] = []
    rows = [Message("/s/2", "x"), Message(SUBJECT, "y" * 700), Message(SUBJECT, "x", fields), Message("/s/3", "x")]
    stage.broker.publish(None, rows, stage.now, told.extend)
    assert isinstance(told[0], int) and isinstance(told[3], int) and told[1] == ("too_large", "over 600 bytes")
    return told[2]


def columns(stage: Stage, fields: dict[str, str]) -> Outcome | RunOutcome:
    """A run of three rows, of which the last has the field."""
    told: list[RunOutcome] = []
    runs = [
        ColumnBatch("/s/2", ["x"] * 3),
        ColumnBatch(SUBJECT, ["x"] * 3, {name: [None, None, value] for name, value in fields.items()}),
    ]
    release_runs(stage.broker, runs, f"tx {len(fields)} {stage.broker.counters.messages_in}", 1, stage.now, told.extend)
    assert told[0] == 3
    return told[1]


WAYS = [single, batch, columns]


@pytest.mark.parametrize("way", WAYS)
def test_one_byte_decides(way: Callable[[Stage, dict[str, str]], Outcome | RunOutcome]) -> None:
    """A new field of so many bytes fits; one byte more is refused before it is numbered, and changes nothing."""
    stage = filled()
    assert way(stage, {"c": "3" * 99}) == TOO_LARGE
    assert (stage.broker.interest.topics[SUBJECT].seq, size(stage)) == (2, 901)
    assert isinstance(way(stage, {"c": "3" * 98}), int)
    assert size(stage) == BOUND
    assert way(stage, {"d": ""}) == TOO_LARGE, "a name counts as well"
    assert isinstance(way(stage, {"c": "4" * 98}), int)
    assert size(stage) == BOUND, "what is replaced makes room"


def test_runs_of_a_step_are_judged_with_those_before_them() -> None:
    """Also with those that need not be looked at themselves."""
    stage = Stage(limits=LIMITS)
    told: list[RunOutcome] = []
    runs = [ColumnBatch(SUBJECT, ["x"], {name: ["1" * 400]}) for name in "abcd"]
    release_runs(stage.broker, runs, "tx", 1, stage.now, told.extend)
    assert told == [1, 1, TOO_LARGE, TOO_LARGE], "rows of each"
    assert size(stage) == 803


def test_the_content_counts_too() -> None:
    stage = filled()
    assert stage.publish(SUBJECT, "x" * 101) == TOO_LARGE
    assert stage.publish(SUBJECT, "x" * 100) == 3
    assert stage.publish(SUBJECT, "é" * 50) == 4, "in bytes of UTF-8"
    assert stage.publish(SUBJECT, "é" * 51) == TOO_LARGE


def test_what_is_replaced_or_removed_makes_room() -> None:
    """Within a batch, too: each is judged with those before it."""
    stage = filled()
    told: list[Outcome] = []
    big = {"z": "9" * 500}
    rows = [
        Message(SUBJECT, "x", big),
        Message(SUBJECT, "x", big, replace=True),
        Message(SUBJECT, "x", {"y": "8" * 490}),
        Message(SUBJECT, "x", {"w": "8" * 490}),
        Message(SUBJECT, "", replace=True, removed=True),
        Message(SUBJECT, "x", {"w": "8" * 490}),
    ]
    stage.broker.publish(None, rows, stage.now, told.extend)
    assert told == [TOO_LARGE, 3, 4, TOO_LARGE, 5, 6]
    assert size(stage) == 492


@pytest.mark.parametrize(
    "message",
    [Message(SUBJECT, "x", {"c": "3" * 500}, retained=False), Message("/s/other", "x", {"c": "3" * 500})],
    ids=["not retained", "another subject"],
)
def test_what_is_not_merged_is_not_bounded(message: Message) -> None:
    stage = filled()
    told: list[Outcome] = []
    stage.broker.publish(None, [message], stage.now, told.extend)
    assert isinstance(told[0], int)


def test_where_no_snapshot_is_kept_there_is_no_bound() -> None:
    """By the settings, or by options of the subject."""
    stage = filled(snapshots=False)
    assert stage.publish(SUBJECT, "x", {"c": "3" * 500}) == 3
    stage = filled()
    stage.sessions.rights.options.replace([OptionRow(1, "/s/*", retained=False)])
    stage.end()
    for _ in range(3):
        assert isinstance(stage.publish(SUBJECT, "x", {"c": "3" * 500}), int)
        assert isinstance(stage.publish(SUBJECT, "x", {"d": "3" * 500}), int)


def test_a_snapshot_that_has_expired_does_not_count() -> None:
    stage = Stage(limits=Limits(message_bytes_max=600, snapshot_bytes_max=BOUND, snapshot_ms=1000))
    stage.publish(SUBJECT, "x", {"a": "1" * 499})
    stage.publish(SUBJECT, "x", {"b": "1" * 399})
    assert stage.publish(SUBJECT, "x", {"c": "1" * 399}) == TOO_LARGE
    stage.advance(1500)
    assert stage.publish(SUBJECT, "x", {"c": "1" * 399}) == 3
    assert size(stage) == 401


def test_one_that_is_larger_already_goes_on_but_does_not_grow() -> None:
    """As one of an earlier version is, which came from a journal, Redis or another worker."""
    stage = Stage(limits=LIMITS)
    topic = stage.broker.topic(SUBJECT, stage.broker.engine.epoch)
    topic.snapshot = Snapshot(Message(SUBJECT, "x"))
    topic.snapshot.fields = {"a": "1" * 3000, "b": "2" * 400}
    assert stage.publish(SUBJECT, "y", {"b": "3" * 400}) == 1
    assert stage.publish(SUBJECT, "y", {"b": "3" * 401}) == TOO_LARGE
    assert stage.publish(SUBJECT, "y", {"c": ""}) == TOO_LARGE
    assert stage.publish(SUBJECT, "y", {"a": "1"}) == 2
    assert size(stage) == 404


class Elsewhere(Following):
    """An engine that numbers elsewhere: what is submitted comes back when the test says so."""

    shared = True

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[list[Message], Done]] = []

    def submit(self, messages: Any, now: int, done: Done | None) -> None:
        assert done is not None
        self.asked.append((list(messages), done))

    def waiting(self) -> list[str]:
        """The fields of what was submitted and is not stored; what was submitted empty is settled."""
        for messages, done in self.asked:
            if not messages:
                done([])
        self.asked = [one for one in self.asked if one[0]]
        return [name for messages, _ in self.asked for message in messages for name in message.fields or {}]

    def refuse(self) -> None:
        """What was submitted first cannot be stored."""
        messages, done = self.asked.pop(0)
        done([("failed", "why")] * len(messages))

    def store(self, stage: Stage, *, deliver: bool = True) -> None:
        """What was submitted first is numbered, and its outcomes told; it may be delivered later."""
        messages, done = self.asked.pop(0)
        outcomes = MemoryEngine.append(self, messages, stage.now)
        if deliver:
            stage.broker.deliver(messages)
        done([one.seq for one in messages] if outcomes is None else outcomes)


def test_what_is_on_its_way_to_who_numbers_counts() -> None:
    """Until it has come here, or was refused there."""
    engine = Elsewhere()
    stage = Stage(limits=LIMITS, engine=engine)
    told: list[Outcome] = []

    def publish(name: str, length: int) -> None:
        stage.broker.publish(None, [Message(SUBJECT, "x", {name: "1" * length})], stage.now, told.extend)

    publish("a", 499)
    publish("b", 399)
    publish("c", 399)
    assert engine.waiting() == ["a", "b"]
    engine.store(stage)
    engine.store(stage, deliver=False)
    publish("c", 399)
    assert engine.waiting() == [], "the second is stored, and has not come yet"
    stage.now += 60_000  # it never comes under that number
    publish("d", 10)
    assert engine.waiting() == ["d"]
    engine.refuse()
    bound = stage.broker.admission.snapshot_bound
    assert bound is not None and not bound.coming, "nothing is left of what is settled"
    publish("c", 399)
    assert engine.waiting() == ["c"]


NAMES = st.sampled_from("abcd")
VALUES = st.one_of(
    st.sampled_from([0, 1, 90, 200, 333, 500]).map("v".__mul__), st.just("é" * 60), st.just(b"\xff" * 70)
)
MESSAGES = st.builds(
    lambda subject, content, fields, how: Message(
        subject,
        "" if how == "removed" else content,
        fields,
        replace=how in ("replace", "removed"),
        removed=how == "removed",
        retained=how != "not retained",
    ),
    st.sampled_from(["/s/1", "/s/1", "/s/2"]),
    VALUES,
    st.dictionaries(NAMES, VALUES, max_size=2),
    st.sampled_from(["", "", "", "", "replace", "removed", "not retained"]),
)


@pytest.mark.parametrize("exact_from", [100, 400, 1 << 20])
@settings(max_examples=120, deadline=None)
@given(st.lists(st.lists(MESSAGES, min_size=1, max_size=5), max_size=8))
def test_a_batch_is_judged_as_if_its_messages_came_one_by_one(exact_from: int, batches: list[list[Message]]) -> None:
    """No snapshot ever passes the bound, what would not pass it is taken, and no sum falls below what it stands for."""
    before, snapshot_module.EXACT_FROM_BYTES = snapshot_module.EXACT_FROM_BYTES, exact_from
    try:
        stage = Stage(limits=LIMITS)
        held: dict[str, tuple[Any, dict[str, Any]]] = {}
        for rows in batches:
            told: list[Outcome] = []
            stage.broker.publish(None, rows, stage.now, told.extend)
            for message, outcome in zip(rows, told, strict=True):
                content, fields = held.get(message.subject, ("", {}))
                after = {} if message.replace else fields
                after = after | ({} if message.removed else message.fields or {})
                allowed = weight(message.content, after) <= BOUND
                if message.weigh() > LIMITS.message_bytes_max:
                    allowed = False
                elif not message.retained:
                    allowed = True
                assert isinstance(outcome, int) == allowed
                if allowed and message.retained:
                    held[message.subject] = message.content, after
        for subject, (content, fields) in held.items():
            snapshot = stage.broker.interest.topics[subject].snapshot
            assert (snapshot.newest.content, snapshot.fields or {}) == (content, fields)
            assert snapshot.bytes_most >= weight(content, fields) == snapshot.weigh()
    finally:
        snapshot_module.EXACT_FROM_BYTES = before


def test_a_subject_that_is_published_to_for_ever_is_not_weighed_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much was merged in all: while it is small it costs a sum, and when it is large what is merged."""
    weighed: list[int] = []
    monkeypatch.setattr(snapshot_module, "weight", lambda content, fields: weighed.append(1) or weight(content, fields))
    for large in ("", "y" * (3 << 20)):
        snapshot = Snapshot(Message("/s", "x", {"a": "1", "z": large}))
        for number in range(20_000):
            message = Message("/s", "x", {"a": str(number)})
            message.weigh()
            snapshot.merge(message)
        assert snapshot.bytes_most >= weight("x", snapshot.fields)
    assert len(weighed) < 20
