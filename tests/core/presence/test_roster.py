"""Who is where: first connections join, last ones leave after a while, over all members."""

from __future__ import annotations

import random

from fastpath.core.presence.roster import Roster, advertised_key, present_key

ANN = present_key("/chat/a", "ann")
ALL = 1000


def told(roster: Roster, now: int) -> list[tuple[str, str | None, int]]:
    """What there is to tell."""
    return [tuple(change) for change in roster.step(now, ALL)]


def test_the_first_connection_joins_and_the_last_one_leaves() -> None:
    roster = Roster()
    roster.set("one", ANN, 1, 0)
    roster.set("other", ANN, 2, 0)
    assert told(roster, 0) == [("/chat/a", "ann", 3)]
    assert roster.who("/chat/a", 10) == ([("ann", 3)], 0, 0)
    roster.set("one", ANN, 0, 10)
    roster.set("other", ANN, 1, 10)
    assert told(roster, 9999) == []
    roster.set("other", ANN, 0, 10_000)
    assert told(roster, 11_999) == []
    assert roster.who("/chat/a", 10) == ([("ann", 0)], 0, 0), "until it is told, it is there"
    assert told(roster, 12_000) == [("/chat/a", "ann", 0)]
    assert roster.who("/chat/a", 10) == ([], 0, 0)
    assert not roster.waits
    assert not roster.keys
    assert not roster.present


def test_who_is_back_in_time_has_not_left() -> None:
    roster = Roster()
    roster.set("one", ANN, 1, 0)
    told(roster, 0)
    for moment in (0, 1500, 3000):
        roster.set("one", ANN, 0, moment)
        assert told(roster, moment) == []
        roster.set("other", ANN, 1, moment + 1000)
        roster.set("one", ANN, 1, moment + 1000)
        roster.set("other", ANN, 0, moment + 1000)
        assert told(roster, moment + 1499) == []
    assert told(roster, 60_000) == []


def test_who_comes_and_goes_before_it_is_told_was_never_there() -> None:
    roster = Roster()
    roster.set("one", ANN, 1, 0)
    roster.set("one", ANN, 0, 1)
    assert told(roster, 5000) == []
    assert not roster.present


def test_nobody_in_particular_is_counted_and_not_told() -> None:
    roster = Roster()
    roster.set("one", present_key("/chat/a", ""), 3, 0)
    roster.set("other", present_key("/chat/a", ""), 1, 0)
    assert roster.who("/chat/a", 10) == ([], 4, 0)
    assert told(roster, 0) == []
    roster.drop("one")
    assert told(roster, 9000) == []
    assert roster.who("/chat/a", 10) == ([], 1, 0)


def test_subjects_are_wanted_and_patterns_known() -> None:
    roster = Roster()
    roster.set("one", "/chat/a", 1, 0)
    roster.set("other", "/chat/a", 1, 0)
    assert told(roster, 0) == [("/chat/a", None, 2)]
    roster.set("one", advertised_key("/chat/**"), 2, 0)
    assert roster.patterns == {"/chat/**": 2}
    assert roster.patterns_changed
    roster.patterns_changed = False
    roster.set("one", advertised_key("/chat/**"), 1, 0)
    assert not roster.patterns_changed
    roster.set("one", advertised_key("/chat/**"), 0, 0)
    assert roster.patterns_changed
    roster.drop("one")
    assert told(roster, 9000) == []
    roster.drop("other")
    told(roster, 10_000)
    assert told(roster, 12_000) == [("/chat/a", None, 0)]


def test_a_member_that_is_gone_is_taken_out_in_slices() -> None:
    roster = Roster()
    for number in range(100):
        roster.set("one", present_key("/chat/a", f"u{number}"), 1, 0)
    assert len(roster.step(0, ALL)) == 100
    roster.drop("one")
    steps = 0
    while roster.busy(1):
        assert roster.step(1, 30) == []
        steps += 1
    assert steps == 4
    assert roster.keys == 0
    assert len(roster.step(2001, 70)) == 70
    assert roster.busy(2001)
    assert len(roster.step(2001, 70)) == 30


def test_it_holds_no_more_than_its_bound() -> None:
    roster = Roster(keys_max=2)
    for number in range(5):
        roster.set("one", present_key("", f"u{number}"), 1, 0)
    assert (roster.keys, roster.left_out) == (2, 3)
    assert roster.who("", 1) == ([("u0", 1)], 0, 1)
    roster.set("one", present_key("", "u4"), 0, 0)
    roster.set("one", present_key("", "u0"), 0, 0)
    roster.set("one", present_key("", "u5"), 1, 0)
    assert [user for user, _ in roster.who("", 9)[0]] == ["u1", "u5"]
    assert (roster.keys, roster.left_out) == (2, 3)


def test_whatever_happens_joins_and_leaves_tell_who_is_there() -> None:
    for seed in range(20):
        chance = random.Random(seed)
        roster = Roster()
        counts: dict[tuple[str, str], int] = {}
        known: set[tuple[str, str | None]] = set()
        now = 0
        for _ in range(2000):
            now += chance.choice((0, 0, 1, 700, 2500))
            member, key = chance.choice("xyz"), present_key(chance.choice(("", "/a/b")), chance.choice("mno"))
            if chance.random() < 0.02:
                roster.drop(member)
                counts = {place: count for place, count in counts.items() if place[0] != member}
            else:
                counts[member, key] = chance.choice((0, 0, 1, 2))
                roster.set(member, key, counts[member, key], now)
            for subject, user, connections in roster.step(now, chance.randrange(4)):
                assert ((subject, user) in known) == (connections == 0), "told twice"
                known.symmetric_difference_update({(subject, user)})
        for later in range(3):
            for subject, user, _ in roster.step(now + 5000 * later, ALL):
                known.symmetric_difference_update({(subject, user)})
        there = {tuple(key.split("\0")) for (_, key), count in counts.items() if count}
        assert known == there
        assert roster.keys == sum(1 for count in counts.values() if count)
        total = sum(count for subject in ("", "/a/b") for _, count in roster.who(subject, 99)[0])
        assert total == sum(counts.values())
