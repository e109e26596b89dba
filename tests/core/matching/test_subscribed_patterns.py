"""The tree of patterns: the tree, the match, and random subscriptions and rights against a model (protocol.md 3.8)."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.core.auth.rule_grants import RuleGrants
from fastpath.core.auth.rules import SUBSCRIBE
from fastpath.core.delivery.audience import PatternSubscription
from fastpath.core.matching.subject_tree import Tree
from fastpath.core.matching.subscribed_patterns import PatternTree, covers
from fastpath.core.protocol.messages import Data, Subscribe, Unsubscribe
from tests.support.core.rights import SECRET, change, fill, mint, rule
from tests.support.core.stage import Stage

SEGMENTS = st.sampled_from(["a", "b", "c", "__sys__", "user"])
SUBJECTS = st.lists(SEGMENTS, min_size=2, max_size=4).map(lambda parts: "/" + "/".join(parts))
WILDCARDS = st.tuples(
    st.lists(st.sampled_from(["a", "b", "*", "__sys__", "user"]), min_size=1, max_size=3),
    st.sampled_from(["", "/*", "/**"]),
).map(lambda parts: "/" + "/".join(parts[0]) + parts[1])
PATTERNS = WILDCARDS.filter(lambda text: "*" in text and text.count("/") > 1) | st.just("/**")


@pytest.mark.parametrize(
    ("pattern", "subject", "wanted"),
    [
        ("/s/us/*", "/s/us/IBM", True),
        ("/s/us/*", "/s/us/tech/IBM", False),
        ("/s/us/*", "/s/us", False),
        ("/s/**", "/s/us", True),
        ("/s/**", "/s/us/tech/IBM", True),
        ("/s/**", "/t/us", False),
        ("/*/us/**", "/s/us/IBM", True),
        ("/*/us/**", "/s/us", False),
        ("/*/*", "/s/us", True),
        ("/**", "/s/us", True),
        ("/**", "/__sys__/stats", False),
        ("/*/stats", "/__sys__/stats", False),
        ("/__sys__/**", "/__sys__/stats", True),
        ("/**", "/user/ann/x", False),
        ("/*/ann/x", "/user/ann/x", False),
        ("/user/**", "/user/ann/x", True),
        ("/s/US/*", "/s/us/IBM", False),
    ],
)
def test_covers(pattern: str, subject: str, wanted: bool) -> None:
    """The table of docs/develop/entitlement.md's patterns, without names."""
    assert covers(pattern, subject) is wanted


@given(st.lists(SUBJECTS), st.lists(SUBJECTS), PATTERNS)
def test_the_tree_finds_what_the_pattern_covers(added: list[str], taken: list[str], pattern: str) -> None:
    """Also where a subject stands above others, and after some have gone."""
    tree = Tree()
    for subject in added:
        tree.add(subject, subject)
    for subject in taken:
        tree.discard(subject)
    there = set(added) - set(taken)
    assert Counter(filter(None, tree.find(pattern))) == Counter(
        subject for subject in there if covers(pattern, subject)
    )
    for subject in there:
        tree.discard(subject)
    assert tree._root == {}


@given(st.sets(PATTERNS), st.sets(PATTERNS), SUBJECTS)
def test_the_match_finds_the_patterns_that_cover(added: set[str], taken: set[str], subject: str) -> None:
    """Each once."""
    patterns = PatternTree()
    client = object()
    for text in added:
        patterns.add(client, PatternSubscription(text, Subscribe(id=1, subjects=[]), False))  # type: ignore[arg-type]
    for text in taken:
        patterns.discard(client, text)  # type: ignore[arg-type]
    there = added - taken
    found = [wild.text for place in patterns.match(subject) for wild in (place.members or {}).values()]
    assert Counter(found) == Counter(text for text in there if covers(text, subject))


class Model:
    """What one client must get: everything of each subject from the moment on at which a subscription covers it."""

    def __init__(self, stage: Stage, name: str, token: str = "") -> None:
        self.stage = stage
        self.actor = stage.enter(name, token)
        self.plain: set[str] = set()
        self.wild: set[str] = set()
        self.expected: list[tuple[str, int]] = []

    def wants(self, subject: str) -> bool:
        return subject in self.plain or any(covers(pattern, subject) for pattern in self.wild)

    def may(self, subject: str) -> bool:
        return not self.stage.broker.grants.check(self.actor.client.principal, SUBSCRIBE, subject, self.stage.now)

    def read(self) -> list[tuple[str, int]]:
        """The live messages that came."""
        got = [one for one in self.actor.taken() if isinstance(one, Data) and not one.meta.kind]
        return [(self.actor.subjects[one.sid], one.seq) for one in got]


STEPS = st.one_of(
    st.tuples(st.just("publish"), st.just(0), SUBJECTS.filter(lambda text: "__sys__" not in text[:8])),
    st.tuples(st.just("subscribe"), st.integers(0, 2), SUBJECTS.filter(lambda text: "__sys__" not in text[:8])),
    st.tuples(st.just("unsubscribe"), st.integers(0, 2), SUBJECTS),
    st.tuples(st.just("wild"), st.integers(0, 2), PATTERNS),
    st.tuples(st.just("unwild"), st.integers(0, 2), PATTERNS),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_random_subscriptions_against_a_model(steps: list[tuple[str, int, str]]) -> None:
    """Every message of what is covered, live, once, in order; nothing else; nothing left behind at the end."""
    stage = Stage()
    models = [Model(stage, f"client {number}") for number in range(3)]
    sequences: Counter[str] = Counter()
    for number, (what, who, text) in enumerate(steps):
        model = models[who]
        if what == "publish":
            sequences[text] += 1
            stage.publish(text, str(number))
            for each in models:
                if each.wants(text):
                    each.expected.append((text, sequences[text]))
        elif what in ("subscribe", "wild"):
            (model.plain if what == "subscribe" else model.wild).add(text)
            model.actor.say(Subscribe(id=number, subjects=[text]))
        else:
            (model.plain if what == "unsubscribe" else model.wild).discard(text)
            model.actor.say(Unsubscribe(id=number, subjects=[text]))
    for model in models:
        assert model.read() == model.expected
        client = model.actor.client
        running = {topic.subject for topic in client.subscriptions}
        assert running == model.plain | {subject for subject in sequences if model.wants(subject)}
        stage.sessions.close(client)
    interest = stage.broker.interest
    assert stage.broker.counters.subscriptions == 0
    assert not interest.groups
    assert not interest.cohorts
    assert interest.patterns.match("/a/b") == []


RULED = st.one_of(
    STEPS,
    st.tuples(st.just("deny"), st.integers(0, 3), st.one_of(PATTERNS, SUBJECTS)),
    st.tuples(st.just("allow"), st.integers(0, 3), st.one_of(PATTERNS, SUBJECTS)),
    st.tuples(st.just("lift"), st.just(0), SUBJECTS),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(RULED, max_size=40))
def test_random_rights_against_a_model(steps: list[tuple[str, int, str]]) -> None:
    """What is covered and may be read at the time is delivered, and nothing else; what runs in the end is just that.

    Rules are about one of three users, or about everyone; the three follow patterns together where they may.
    """
    grants = RuleGrants(SECRET)
    stage = Stage(grants)
    fill(stage, rule(0, who="everyone", pattern="/**"))
    models = [Model(stage, f"client {number}", mint(uid=str(number), user=f"u{number}")) for number in range(3)]
    sequences: Counter[str] = Counter()
    generation = 1
    for number, (what, who, text) in enumerate(steps, 1):
        model = models[who % 3]
        if what == "publish":
            sequences[text] += 1
            stage.publish(text, str(number))
            for each in models:
                if each.wants(text) and each.may(text):
                    each.expected.append((text, sequences[text]))
        elif what in ("subscribe", "wild"):
            (model.plain if what == "subscribe" else model.wild).add(text)
            model.actor.say(Subscribe(id=number, subjects=[text]))
        elif what in ("unsubscribe", "unwild"):
            (model.plain if what == "unsubscribe" else model.wild).discard(text)
            model.actor.say(Unsubscribe(id=number, subjects=[text]))
        else:
            holder = f"user:{who}" if who < 3 else "everyone"
            rules = [] if what == "lift" else [rule(number, who=holder, pattern=text, allow=what == "allow")]
            change(stage, generation, rules=rules, removed=[number // 2] if what == "lift" else [])
            generation += 1
    stage.advance(200)
    for model in models:
        assert model.read() == model.expected
        running = {topic.subject for topic in model.actor.client.subscriptions}
        wanted = model.plain | {subject for subject in sequences if model.wants(subject)}
        assert running == {subject for subject in wanted if model.may(subject)}
        stage.sessions.close(model.actor.client)
    assert (stage.broker.counters.subscriptions, stage.broker.counters.waiting) == (0, 0)
    assert not stage.broker.interest.groups
    assert not stage.broker.interest.cohorts
