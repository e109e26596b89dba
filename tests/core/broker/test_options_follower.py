"""Options change while messages flow: nothing is missed, no bound is passed, and who is conflated is told."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.core.broker import options_follower
from fastpath.core.broker.column_batches import deliver_runs
from fastpath.core.protocol.columns import ColumnBatch
from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import CaughtUp, Data, Lagging, Message, Subscribe, Subscribed
from fastpath.core.protocol.options import OptionRow
from tests.support.core.stage import START, Actor, Stage

SUBJECTS = ("/a/x", "/a/y", "/b/x")
"""Few, so that each gets many messages."""

ROWS = st.lists(
    st.builds(
        OptionRow,
        st.just(1),
        st.sampled_from(["/a/*", "/a/x", "/**", "/b/x"]),
        st.none() | st.integers(0, 5),
        st.none() | st.sampled_from([0, 500, 5000]),
        st.none() | st.sampled_from([0, 200, 1000]),
    ),
    max_size=3,
    unique_by=lambda row: row.pattern,
)

PUBLISH = st.tuples(st.just("publish"), st.sampled_from(SUBJECTS), st.sampled_from("fgh"))
WANTED = st.sampled_from([(("/a/x", "/b/x"), 0), (("/a/*",), 0), (("/**",), 0), (SUBJECTS, 300)])
CHANGES = st.one_of(
    st.tuples(st.just("advance"), st.sampled_from([50, 300, 1100])),
    st.tuples(st.just("options"), ROWS),
    st.tuples(st.just("enter"), WANTED),
    st.tuples(st.just("stall"), st.sampled_from([True, True, False])),
)
STEPS = st.lists(st.tuples(CHANGES, st.lists(PUBLISH, max_size=4)), min_size=4, max_size=12)


class Follower:
    """A client that checks what it gets: each message where it was told so, and else numbers that rise.

    Where it lags numbers may be left out, also of what it was sent last: it asks for these as a client library does.
    """

    def __init__(self, stage: Stage, name: str, subjects: tuple[str, ...], conflation: int) -> None:
        self.actor: Actor = stage.enter(name)
        self.interval: dict[str, int] = {}
        self.seq: dict[str, int] = {}
        self.values: dict[str, dict[str, Any]] = {}
        self.lags: set[str] = set()
        self.stalled = self.has_lagged = False
        self.conflation = conflation
        self.actor.say(Subscribe(id=1, subjects=list(subjects), conflation=conflation, slow="conflate"))

    def stall(self, stage: Stage, wanted: bool) -> None:
        """Its socket takes nothing any more, or again."""
        if self.stalled and not wanted:
            self.actor.unblock()
            stage.end()
        self.stalled = self.actor.blocked = wanted

    def read(self) -> None:
        """What came."""
        missed: dict[str, tuple[int, int]] = {}
        for event in self.actor.taken():
            if isinstance(event, Subscribed):
                for result in event.results:
                    if isinstance(result.sid, int):
                        self.interval[result.subject] = result.conflation
                        self.seq.setdefault(result.subject, result.seq - result.messages)
                        self.lags.discard(result.subject)
            elif isinstance(event, Lagging | CaughtUp):
                subjects = {self.actor.subjects[sid] for sid in event.sids}
                self.lags = self.lags | subjects if isinstance(event, Lagging) else self.lags - subjects
                self.has_lagged = True
            elif isinstance(event, Data):
                self._take(event, missed)
        for subject, since in missed.items():
            ask = Subscribe(
                id=2, subjects=[subject], conflation=self.conflation, slow="conflate", since={subject: since}
            )
            self.actor.say(ask)
        if missed:
            self.read()

    def _take(self, event: Data, missed: dict[str, tuple[int, int]]) -> None:
        subject = self.actor.subjects[event.sid]
        if event.meta.kind == "snapshot":
            self.values[subject] = {}
        elif subject in missed:
            return
        elif not self.interval[subject] and subject not in self.lags and event.seq != self.seq[subject] + 1:
            assert self.has_lagged
            missed[subject] = (START, self.seq[subject])
            return
        else:
            assert event.seq > self.seq[subject]
        self.seq[subject] = event.seq
        self.values.setdefault(subject, {}).update({"": event.content, **(event.fields or {})})


@given(STEPS)
@settings(max_examples=100, deadline=None)
def test_nothing_is_missed_whatever_changes(steps: list[Any]) -> None:
    """In the end everybody has the newest content and value of each field, and every cache is within its bounds."""
    stage = Stage(limits=Limits(cache_messages=4, cache_ms=60_000, outbox_bytes_max=8000))
    followers: list[Follower] = []
    newest: dict[str, dict[str, Any]] = {}
    count = 0
    for step in (step for change, published in steps for step in (change, *published)):
        match step:
            case "publish", subject, field:
                count += 1
                stage.publish(subject, str(count), {field: str(count), "pad": "x" * 300})
                newest.setdefault(subject, {}).update({"": str(count), field: str(count), "pad": "x" * 300})
            case "advance", milliseconds:
                stage.advance(milliseconds)
            case "options", rows:
                stage.sessions.rights.options.replace(rows)
                stage.end()
            case "enter", (subjects, conflation):
                followers.append(Follower(stage, f"f{len(followers)}", subjects, conflation))
            case "stall", wanted:
                for follower in followers[::2]:
                    follower.stall(stage, wanted)
        for follower in followers:
            follower.read()
        _within_bounds(stage)
    for follower in followers:
        follower.stall(stage, False)
    stage.advance(5000)
    for follower in followers:
        follower.read()
        stage.advance(5000)
        follower.read()
        if follower.actor.closed is not None:
            continue
        for subject in follower.interval:
            assert follower.values.get(subject, {}) == newest.get(subject, {})
        for topic in stage.broker.interest.topics.values():
            # Who lags is told when it has asked for what was left out, if anything was.
            if topic in follower.actor.client.subscriptions and not follower.has_lagged:
                least = topic.options.conflation_ms if topic.options else 0
                assert follower.interval[topic.subject] == max(least, follower.actor.client.subscriptions[topic].asked)


def _within_bounds(stage: Stage) -> None:
    history, options = stage.broker.history, stage.broker.interest.options
    stage.broker.history.expire(stage.now)
    cached = 0
    for topic in stage.broker.interest.topics.values():
        bound = options.find(topic.subject) or options.defaults
        assert topic.options == options.find(topic.subject)
        ring = list(topic.ring or ())
        cached += len(ring)
        assert len(ring) <= bound.cache_messages
        assert all(message.time > stage.now - bound.cache_ms for message in ring)
        assert [message.seq for message in ring] == list(range(topic.seq - len(ring) + 1, topic.seq + 1))
    assert history.messages == cached


def test_subjects_are_looked_at_in_slices() -> None:
    """However many there are; those that come meanwhile have the options at once, and the same rows are no change."""
    stage = Stage()
    many = 2 * options_follower.SLICE_TOPICS + 1
    for number in range(many):
        stage.publish(f"/a/{number}", "x")
    rows, options = [OptionRow(1, "/a/**", cache_messages=0)], stage.sessions.rights.options
    options.replace(rows)
    stage.publish("/a/new", "x")
    assert stage.broker.history.messages == 0
    options.replace([OptionRow(1, "/a/**", cache_messages=7)])
    steps = 0
    while options.busy:
        options.step()
        steps += 1
    assert steps == 3
    options.replace([OptionRow(1, "/a/**", cache_messages=7)])
    assert not options.busy
    assert {topic.options.cache_messages for topic in stage.broker.interest.topics.values() if topic.options} == {7}


def test_of_a_subject_with_very_many_messages_a_slice_takes_some() -> None:
    """Until all that is too many is gone the subject goes on, and who comes back to what is gone is told."""
    most = options_follower.EVICTED_MAX
    stage = Stage(limits=Limits(cache_messages=2 * most + 10))
    stage.publish("/a/b", "x")
    topic, history = stage.broker.interest.topics["/a/b"], stage.broker.history
    for topic.seq in range(2, 2 * most + 11):
        history.append(topic, Message("/a/b", "x", epoch=START, seq=topic.seq, time=START, size=1))
    options = stage.sessions.rights.options
    options.replace([OptionRow(1, "/a/b", cache_messages=5)])
    left = []
    while options.busy:
        options.step()
        left.append(history.messages)
    assert left == [most + 10, 10, 5]
    assert len(history.since(topic, START, topic.seq - 5) or ()) == 5
    assert history.since(topic, START, topic.seq - 6) is None


def test_clients_that_are_told_each_for_itself_count_in_a_slice() -> None:
    """They follow the same subjects by different patterns, and each is told once of each subject, by its own."""
    stage = Stage()
    for number in range(8):
        stage.publish(f"/a/{number}", "x")
    actors = [stage.enter(f"c{number}") for number in range(300)]
    for number, actor in enumerate(actors):
        actor.say(Subscribe(id=1, subjects=[("/a/*", "/a/**")[number % 2]], conflation=500))
        actor.taken()
    options = stage.sessions.rights.options
    options.replace([OptionRow(1, "/a/*", conflation_ms=1000)])
    options.step()
    assert options.busy
    stage.end()
    for number, actor in enumerate(actors):
        results = [result for event in actor.taken() if isinstance(event, Subscribed) for result in event.results]
        told = sorted((result.subject, result.pattern, result.conflation) for result in results)
        assert told == [(f"/a/{one}", ("/a/*", "/a/**")[number % 2], 1000) for one in range(8)]


def test_clients_that_follow_in_one_way_are_told_together() -> None:
    """Also by a pattern, whatever they have asked for: one frame is for all of them."""
    stage = Stage()
    stage.publish("/a/b", "x")
    actors = [stage.enter(f"c{number}") for number in range(3)]
    for actor in actors:
        actor.say(Subscribe(id=1, subjects=["/a/*"], conflation=500))
        actor.taken()
    [group] = stage.broker.interest.groups.values()
    stage.sessions.rights.options.replace([OptionRow(1, "/a/*", conflation_ms=1000)])
    stage.sessions.rights.options.step()
    assert len(group.pending) == 1
    stage.end()
    for actor in actors:
        [event] = actor.taken()
        assert isinstance(event, Subscribed)
        assert [(one.subject, one.pattern, one.conflation) for one in event.results] == [("/a/b", "/a/*", 1000)]


@pytest.mark.parametrize("rows", [1, 100])
def test_a_cache_that_begins_again_knows_what_was_numbered_anew_before_it(rows: int) -> None:
    """An epoch began while nothing was cached: who has read what is void since is told, be it of messages one by one or
    of a run."""
    stage = Stage(limits=Limits(cache_ms=1000))
    broker, options = stage.broker, stage.sessions.rights.options

    def deliver(epoch: int, seq: int) -> None:
        if rows == 1:
            broker.deliver([Message("/a/b", "x", epoch=epoch, seq=seq, time=stage.now)])
        else:
            broker.engine.epoch = epoch
            deliver_runs(broker, [ColumnBatch("/a/b", ["x"] * rows, None, None)], [seq], stage.now)

    deliver(START, 1)
    options.replace([OptionRow(1, "/a/b", cache_messages=0)])
    stage.end()
    stage.advance(5000)
    topic = broker.interest.topics["/a/b"]
    assert topic.ring is None
    read = topic.seq
    deliver(START + 1, 1)
    options.replace([])
    stage.end()
    deliver(START + 1, read + 1)
    assert broker.history.since(topic, START, read) is None
    assert len(broker.history.since(topic, START + 1, read) or ()) == rows


def test_a_time_that_gets_longer_and_shorter_again_costs_no_memory() -> None:
    """However often it does, messages leave the cache in time."""
    stage = Stage()
    stage.publish("/a/b", "x")
    topic, options = stage.broker.interest.topics["/a/b"], stage.sessions.rights.options

    def change(*ages: int) -> int:
        for age in ages:
            options.replace([OptionRow(1, "/a/*", cache_ms=age)])
            stage.end()
        return sys.getrefcount(topic)

    held = change(600_000, 5000)
    assert change(*[600_000, 5000] * 20) == held
    stage.advance(4900)
    assert topic.ring
    stage.advance(200)
    assert not topic.ring
    stage.advance(600_000)
    stage.publish("/a/b", "y")
    change(100)
    stage.advance(200)
    assert not topic.ring
