"""Which publications have been stored: a retry gets its first position, and what cannot be told is said to be so."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.cache import deduplication as ledger_module
from fastpath.core.cache.deduplication import REMEMBERED_MS, RUN_COST, RUN_MS, Deduplicator
from fastpath.core.protocol.messages import STANDARD, Message
from fastpath.engine.memory import MemoryEngine
from tests.support.core.stage import START, Stage


def code(found: Any) -> Any:
    """The code of a refusal, else what was found."""
    return found[0] if found and isinstance(found[0], str) else found


STEP = st.tuples(st.sampled_from("ab"), st.integers(1, 40), st.integers(0, 60_000), st.booleans())


@given(st.lists(STEP, max_size=60))
def test_against_a_plain_model(steps: list[tuple[str, int, int, bool]]) -> None:
    """Whatever comes in whatever order: new above the last, the first position while it is remembered, else why not."""
    deduplicator, now = Deduplicator(), START
    stored: dict[str, dict[int, tuple[int, int]]] = {"a": {}, "b": {}}
    passed = {"a": 0, "b": 0}  # up to here stored at once: where is not known of what has no position
    for at, (publisher, number, pause, at_once) in enumerate(steps, 1):
        now += pause
        known = stored[publisher]
        found = deduplicator.find(publisher, number)
        if number > max(*known, passed[publisher], 0):
            assert found is None
            if at_once:
                deduplicator.advance(publisher, number, now)
                passed[publisher] = number
            else:
                deduplicator.note(publisher, number, 1, at, now)
                known[number] = (at, now)
        elif number not in known and number <= passed[publisher]:
            assert code(found) == "stale"
        elif number in known and known[number][1] > now - REMEMBERED_MS:
            assert found == (1, known[number][0])
        elif number in known:
            assert found == (1, known[number][0]) or code(found) == "stale"
        else:
            assert code(found) in ("out_of_order", "stale")
        deduplicator.expire(now)
    for publisher, last, _ in deduplicator.publishers():
        assert last == deduplicator.last(publisher) == max(*stored[publisher], passed[publisher], 0)


def test_what_is_forgotten_is_stale_and_what_was_left_out_is_out_of_order() -> None:
    deduplicator = Deduplicator()
    for number in (1, 2, 4):
        deduplicator.note("a", number, 7, number, START)
    assert code(deduplicator.find("a", 3)) == "out_of_order"
    deduplicator.note("a", 5, 7, 5, START + REMEMBERED_MS)
    deduplicator.expire(START + REMEMBERED_MS)
    assert [code(deduplicator.find("a", number)) for number in (1, 3, 4, 5, 6)] == [
        "stale",
        "stale",
        "stale",
        (7, 5),
        None,
    ]
    deduplicator.expire(START + 2 * REMEMBERED_MS)
    assert code(deduplicator.find("a", 5)) == "stale"


def test_what_is_undone_after_what_was_stored_at_once_leaves_that() -> None:
    """The number before it is the one that was reached at once."""
    deduplicator = Deduplicator()
    deduplicator.note("a", 1, 7, 1, START)
    deduplicator.advance("a", 5, START)
    deduplicator.note("a", 6, 7, 6, START)
    deduplicator.undo("a", 6)
    assert (deduplicator.last("a"), code(deduplicator.find("a", 5)), deduplicator.find("a", 6)) == (5, "stale", None)
    deduplicator.advance("a", 3, START)
    assert deduplicator.last("a") == 5


def test_who_is_known_by_the_last_number_alone_counts_among_the_publishers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound those are forgotten who were quiet longest."""
    monkeypatch.setattr(ledger_module, "PUBLISHERS_MAX", 2)
    deduplicator = Deduplicator()
    for at, publisher in enumerate("abac"):
        deduplicator.advance(publisher, 7 + at, START + at)
    assert [(key, last) for key, last, _ in deduplicator.publishers()] == [("a", 9), ("c", 10)]
    deduplicator.expire(START + REMEMBERED_MS * 2)
    assert deduplicator.last("a") == 9


def test_what_is_undone_has_never_been() -> None:
    """A batch that could not be written may come again."""
    deduplicator = Deduplicator()
    deduplicator.note("a", 1, 7, 1, START)
    for number in (2, 3):
        deduplicator.note("a", number, 7, number, START + 1)
    for number in (3, 2):
        deduplicator.undo("a", number)
    assert (deduplicator.find("a", 1), deduplicator.find("a", 2)) == ((7, 1), None)
    deduplicator.undo("a", 1)
    assert deduplicator.find("a", 1) is None


def test_what_is_kept_is_bounded_for_each_and_over_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one that publishes much the newest are kept; over the bound of all those go first who were quiet longest."""
    monkeypatch.setattr(ledger_module, "PUBLISHED_MAX", 1000)
    monkeypatch.setattr(ledger_module, "KEPT_MAX", 2000)
    deduplicator = Deduplicator()
    for publisher in "abc":
        for number in range(1, 200_001 if publisher == "a" else 5001):
            deduplicator.note(publisher, number, 7, number, START + number * 2)
        assert deduplicator.find(publisher, number) == (7, number)
        assert code(deduplicator.find(publisher, number - 2000)) == "stale"
    assert code(deduplicator.find("a", 200_000)) == "stale"
    assert deduplicator.cost <= 2000 + RUN_COST + RUN_MS // 2, "and what came to the newest run"
    deduplicator.expire(START + 10**9)
    assert deduplicator.cost == 0


def test_what_is_restored_knows_the_last_number_alone() -> None:
    deduplicator = Deduplicator()
    deduplicator.restore("a", 9, START)
    assert (code(deduplicator.find("a", 9)), deduplicator.find("a", 10)) == ("stale", None)
    assert list(deduplicator.publishers()) == [("a", 9, START)]


def test_those_who_are_quiet_are_forgotten_however_many_they_are() -> None:
    """A name for each page that was ever opened: what they published goes in time."""
    deduplicator = Deduplicator()
    for number in range(5000):
        for publication in (1, 3, 5):
            deduplicator.note(str(number), publication, 7, number, START + number)
    for second in range(10):
        deduplicator.expire(START + REMEMBERED_MS + 10_000 + second * 1000)
    assert deduplicator.cost == 0


def test_what_lies_between_kept_messages_may_have_been_stored() -> None:
    """The cache that they were learnt from has let go of it: nobody can say that it was not."""
    deduplicator = Deduplicator()
    deduplicator.learn(Message("/a/b", "", publisher="a", publication=n, epoch=7, seq=n, time=START) for n in (9, 4, 5))
    assert [code(deduplicator.find("a", n)) for n in (3, 4, 5, 7, 9, 10)] == [
        "stale",
        (7, 4),
        (7, 5),
        "stale",
        (7, 9),
        None,
    ]
    deduplicator.expire(START + REMEMBERED_MS)
    assert code(deduplicator.find("a", 9)) == "stale"


@pytest.mark.parametrize("again", [[1, 2, 3], [2, 3, 4], [3]])
def test_a_retry_is_stored_once_and_answered_with_its_first_position(again: list[int]) -> None:
    stage = Stage()
    ann = stage.enter("ann")

    def publish(numbers: list[int]) -> list[Any]:
        outcomes: list[Any] = []
        messages = [Message("/a/b", str(number), publisher="1:ap", publication=number) for number in numbers]
        stage.broker.publish(None, messages, stage.now, outcomes.extend)
        stage.end()
        return outcomes

    assert publish([1, 2, 3]) == [1, 2, 3]
    assert publish(again) == [number if number > 3 else (START, number) for number in again]
    topic = stage.broker.interest.topics["/a/b"]
    assert [one.content for one in topic.ring] == [str(number) for number in range(1, max(3, *again) + 1)]
    assert ann.taken() == []


def test_a_number_twice_in_a_batch_is_stored_once_and_standard_quality_has_none() -> None:
    engine = MemoryEngine(START)
    twice = [Message("/a/b", "x", publisher="p", publication=1) for _ in range(2)]
    assert engine.append(twice, START) == [1, (START, 1)]
    standard = [Message("/a/b", "x", qos=STANDARD, publisher="p", publication=1) for _ in range(2)]
    assert engine.append(standard, START) is None
