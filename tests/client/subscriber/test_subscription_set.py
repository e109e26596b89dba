"""What a client wants, when that is much: the patterns over a subject, a reconnection, and interest."""

from __future__ import annotations

import itertools
import json

from fastpath.client.message import Position
from fastpath.client.subscriber.state import ClientState
from fastpath.client.subscriber.subscription_set import Pattern, SubscriptionSet
from fastpath.client.subscriber.subscriptions import ClientSubscriptions
from fastpath.core.matching.subscribed_patterns import covers
from tests.support.client.amounts import PATTERNS, SUBJECTS


def test_the_patterns_over_a_subject_are_those_that_cover_it() -> None:
    """In the order in which they came, also when some have gone."""
    wanted = SubscriptionSet()
    for name in PATTERNS:
        wanted.put_pattern(Pattern(name, "owner", 0, 0, "close", resumes=False), {})
    for name in PATTERNS[::3]:
        wanted.forget(wanted.patterns[name])
    for name in PATTERNS[::6]:
        wanted.put_pattern(Pattern(name, "owner", 0, 0, "close", resumes=False), {})
    for subject in SUBJECTS:
        assert [one.subject for one in wanted.over(subject)] == [
            name for name in wanted.patterns if covers(name, subject)
        ]


def test_a_reconnection_with_many_patterns() -> None:
    """Each pattern with its subjects: 200 of them with 2000 in all."""
    commands: list[object] = []
    following = ClientSubscriptions(lambda make: commands.append(make(len(commands))) or len(commands))  # type: ignore[func-returns-value]
    following.subscribe("owner", [f"/stocks/g{number}/*" for number in range(200)])
    for number, one in itertools.product(range(200), range(10)):
        found = following.wanted.find(f"/stocks/g{number}/{one}")
        assert found is not None
        found.position = Position(1, 1)
    following.open()
    assert [len(command.since) for command in commands] == [10] * 200  # type: ignore[attr-defined]


def test_interest_in_many_subjects_is_not_walked_for_each_that_comes() -> None:
    state = ClientState("json")
    state.offer(["/prices/**"])
    subjects = [f"/prices/{number}" for number in range(5000)]
    for wanted in (True, False):
        for subject in subjects:
            state.receive(json.dumps({"op": "interest", "subjects": [subject], "wanted": wanted}).encode())
    state.receive(json.dumps({"op": "interest", "subjects": subjects, "wanted": True}).encode())
    [event] = state.receive(json.dumps({"op": "interest", "subjects": subjects, "wanted": False}).encode())
    assert event.subjects == subjects  # type: ignore[union-attr]
