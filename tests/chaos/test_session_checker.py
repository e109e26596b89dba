"""What the checker says of sessions of MQTT: histories as documented, and the same with one thing wrong."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.chaos.checker import check
from tests.chaos.model import (
    ACKED,
    CRASH,
    EXACT,
    MAYBE,
    SNAPSHOT,
    UPDATE,
    Answered,
    Event,
    Finding,
    Got,
    Joined,
    Lost,
    Publication,
    Run,
    Seen,
    Trace,
    Verdict,
)

A = "/w/a"
HERE = "node 0"
CACHE_MS = 5000


def run(events: Sequence[Event], *, stored: int = 5, sessions: str = EXACT, at: int = 100) -> Run:
    """``stored`` messages, which are p:1 and so on, as another subscriber saw them, sent at that time; and the events
    of one by MQTT."""
    found = Run(cache_ms=CACHE_MS, sessions=sessions)
    others: list[Event] = [Answered(1, A, 1, 0, "", 0, None)]
    for number in range(1, stored + 1):
        one = Publication(f"p:{number}", "p", number, A, ACKED, (1, number), positions=[(1, number)], sent_ms=at)
        found.publications[one.content] = one
        others.append(Seen(at, A, 1, number, UPDATE, one.content))
    found.traces = [Trace("other", others), Trace("mqtt", [Joined(1, HERE, False), *events], sessions=True)]
    return found


def got(number: int, *, retained: bool = False, dup: bool = False, packet_id: int = 0, at: int = 200) -> Got:
    return Got(at, A, f"p:{number}", retained, dup, packet_id or number)


def again(present: bool = True, place: str = HERE) -> list[Event]:
    return [Lost(200, "cut"), Joined(201, place, present)]


def found(verdict: Verdict) -> list[tuple[str, str]]:
    return [(one.kind, one.content) for one in verdict.findings]


ALL = [got(number) for number in range(1, 6)]


@pytest.mark.parametrize(
    ("events", "sessions"),
    [
        (ALL, EXACT),
        ([*ALL[:3], *again(), *ALL[3:]], EXACT),
        ([*ALL[:3], *again(), got(2, dup=True), got(3, dup=True), *ALL[3:]], EXACT),
        ([*ALL[:3], *again(), *ALL[1:]], CRASH),
        ([*ALL[:3], *again(present=False), *ALL[4:]], MAYBE),
        ([*ALL[:3], *again(present=False, place="node 1"), got(4, retained=True), got(5)], EXACT),
        ([*ALL[:3], *again(present=False, place="node 1"), got(5, retained=True), *again(), got(4), got(5)], EXACT),
    ],
)
def test_what_is_documented_is_no_finding(events: list[Event], sessions: str) -> None:
    verdict = check(run(events, sessions=sessions))
    assert found(verdict) == []
    assert verdict.resynchronised == 0


@pytest.mark.parametrize(
    ("events", "sessions", "finding"),
    [
        ([*ALL[:2], *ALL[3:]], EXACT, ("unannounced", "p:3")),
        ([*ALL[:2], *again(), *ALL[3:]], CRASH, ("unannounced", "p:3")),
        (ALL[:4], EXACT, ("lost", "p:5")),
        ([*ALL[:3], *again(), *ALL[2:]], EXACT, ("doubled", "p:3")),
        ([*ALL[:3], *again(), got(3, dup=True, packet_id=9), *ALL[3:]], EXACT, ("doubled", "p:3")),
        ([*ALL[:3], got(3, dup=True), *ALL[3:]], CRASH, ("doubled", "p:3")),
        ([*ALL[:3], *again(), got(3, dup=True), got(2, dup=True), *ALL[3:]], CRASH, ("doubled", "p:2")),
        ([*ALL[:3], *again(present=False), *ALL[3:]], CRASH, ("lost", "the session")),
        ([*ALL[:3], *again(place="node 1"), *ALL[3:]], EXACT, ("unannounced", "the session")),
    ],
)
def test_one_thing_that_is_not_documented_is_named(
    events: list[Event], sessions: str, finding: tuple[str, str]
) -> None:
    assert found(check(run(events, sessions=sessions))) == [finding]


@pytest.mark.parametrize(
    ("at", "sessions", "in_reach"), [(100, EXACT, 0), (4000, EXACT, 1), (4000, CRASH, 0), (4000, MAYBE, 0)]
)
def test_a_snapshot_tells_of_what_is_missed_and_is_one_too_many_where_the_cache_reaches(
    at: int, sessions: str, in_reach: int
) -> None:
    events = [*ALL[:2], *again(), got(5, retained=True, at=7500)]
    verdict = check(run(events, sessions=sessions, at=at))
    assert found(verdict) == []
    assert (verdict.resynchronised, verdict.resynchronised_in_reach) == (1, in_reach)


@pytest.mark.parametrize(("at", "stored", "in_reach"), [(100, 5, 0), (4000, 5, 1), (100, 2, 1)])
def test_a_session_that_is_over_because_of_a_gap_is_none_too_many_where_one_was_missed(
    at: int, stored: int, in_reach: int
) -> None:
    events = [*ALL[:2], Lost(7000, "cut"), Joined(7500, HERE, False, missed=True), *ALL[4:stored]]
    verdict = check(run(events, stored=stored, at=at))
    assert found(verdict) == []
    assert (verdict.resynchronised, verdict.resynchronised_in_reach) == (1, in_reach)


@pytest.mark.parametrize("came", [[1, 2, 3, 4, 5], [1, 2, 4, 5], [1, 2, 3, 5, 4]])
def test_what_all_others_had_to_skip_came_if_its_acknowledgement_says_where_it_is(came: list[int]) -> None:
    """They were told, by an answer, that they go on behind it: nobody but this one saw p:3 and p:4."""
    made = run([got(number) for number in came])
    made.traces[0].events[3:5] = [Answered(150, A, 1, 4, "resynchronised", 0, (1, 2))]
    wrong = {3: ("unannounced", "p:3"), 4: ("reordered", "p:4")}
    expected = [] if came == [1, 2, 3, 4, 5] else [wrong[3]] if 3 not in came else [("unannounced", "p:4"), wrong[4]]
    assert found(check(made)) == expected


def by_mqtt(numbers: dict[int, list[int]], *, sessions: str = EXACT, anew: int = 0) -> list[Finding]:
    """What is found where publications that were sent again once, and acknowledged without a number, are stored at
    these."""
    made = run([], stored=0, sessions=sessions)
    events = made.traces[0].events
    placed = {number: one for one, places in numbers.items() for number in places}
    for one in numbers:
        made.publications[f"m:{one}"] = Publication(f"m:{one}", "m", one, A, ACKED, resent=1, anew=anew)
    events += [Seen(100, A, 1, number, UPDATE, f"m:{placed[number]}") for number in sorted(placed)]
    made.traces[1].events += [Got(100, A, f"m:{placed[number]}", False, False, number) for number in sorted(placed)]
    return check(made).findings


def test_what_is_sent_again_may_be_stored_twice_where_its_session_is_not_as_it_was() -> None:
    twice = {1: [1, 3], 2: [2, 4]}
    assert by_mqtt({1: [1], 2: [2]}) == []
    assert by_mqtt(twice, sessions=CRASH) == by_mqtt(twice, anew=1) == []
    assert {one.kind for one in by_mqtt(twice)} == {"doubled"}
    assert "doubled" in {one.kind for one in by_mqtt({1: [1, 3, 4], 2: [2]}, sessions=CRASH)}


def test_the_snapshot_may_be_the_copy_that_nobody_else_saw() -> None:
    made = run([], stored=0, sessions=CRASH)
    made.publications["m:1"] = Publication("m:1", "m", 1, A, ACKED, resent=1)
    made.traces[0].events += [Seen(100, A, 1, 1, SNAPSHOT, "m:1"), Seen(100, A, 1, 2, UPDATE, "m:1")]
    made.traces.pop()
    assert {one.kind for one in check(made).findings} == {"unannounced"}  # the first number, as it was no update
    made.sessions = EXACT
    assert {one.kind for one in check(made).findings} == {"unannounced", "wrong_snapshot"}


def test_what_was_acknowledged_without_a_number_and_nobody_saw_is_lost() -> None:
    assert {(one.kind, one.content) for one in by_mqtt({1: [1], 2: [], 3: [2]})} == {("lost", "m:2")}
