"""Clients that lag, against a model of all that they do: told at every gap, never backwards, level in the end."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.core.protocol.errors import Close
from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import (
    GUARANTEED,
    STANDARD,
    Message,
    Subscribe,
    Unsubscribe,
)
from tests.support.core.lag_reader import SUBJECTS, Reader, nothing_is_left
from tests.support.core.stage import Stage

LONG = "x" * 300
NAMES = st.sampled_from(["ann", "bob", "carl"])
SOME = st.sets(st.sampled_from(SUBJECTS), min_size=1)
STEP = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from(SUBJECTS), st.integers(1, 6)),
    st.tuples(st.just("publish"), st.sampled_from(SUBJECTS), st.integers(1, 20)),
    st.tuples(st.just("standard"), st.sampled_from(SUBJECTS), st.just(1)),
    st.tuples(st.just("remove"), st.sampled_from(SUBJECTS), st.sampled_from([GUARANTEED, STANDARD])),
    st.tuples(st.just("subscribe"), NAMES, st.tuples(SOME, st.sampled_from([0, 0, 200]), st.booleans())),
    st.tuples(st.just("unsubscribe"), NAMES, SOME),
    st.tuples(st.just("stall"), NAMES, st.none()),
    st.tuples(st.just("read"), NAMES, st.none()),
    st.tuples(st.just("leave"), NAMES, st.none()),
    st.tuples(st.just("turn"), st.none(), st.none()),
    st.tuples(st.just("end"), st.none(), st.none()),
    st.tuples(st.just("wait"), st.none(), st.sampled_from([100, 300])),
)


class Model:
    """The stage, its readers, and what was published."""

    def __init__(self, outbox_bytes_max: int) -> None:
        self.stage = Stage(limits=Limits(outbox_bytes_max=outbox_bytes_max))
        self.readers: dict[str, Reader] = {}
        self.wanted: dict[str, set[str]] = {}
        self.number = 0
        self.seq: dict[str, int] = {}
        self.content: dict[str, str] = {}
        self.fields: dict[str, dict[str, str]] = {}

    def publish(self, subject: str, count: int, **options: str) -> None:
        for _ in range(count):
            self.number += 1
            fields = {f"f{self.number % 5}": str(self.number)}
            self.content[subject] = f"{self.number} {LONG}"
            self.fields.setdefault(subject, {}).update(fields)
            self.seq[subject] = self.seq.get(subject, 0) + (not options)
            self.stage.broker.publish(
                None, [Message(subject, self.content[subject], fields, **options)], self.stage.now
            )

    def remove(self, subject: str, qos: str) -> None:
        self.content[subject], self.fields[subject] = "", {}
        self.seq[subject] = self.seq.get(subject, 0) + (qos == GUARANTEED)
        removal = Message(subject, "", qos=qos, replace=True, removed=True)
        self.stage.broker.publish(None, [removal], self.stage.now)

    def do(self, what: str, who: str, more: object) -> None:
        stage = self.stage
        if what == "publish":
            self.publish(who, more)
        elif what == "standard":
            self.publish(who, more, qos=STANDARD)
        elif what == "remove":
            self.remove(who, more)
        elif what in ("end", "turn"):
            getattr(stage, what)()
        elif what == "wait":
            stage.advance(more)
        else:
            self.act(what, who, more)
        self.part()

    def part(self) -> None:
        """Who was closed for its queue is gone."""
        for who, actor in list(self.stage.actors.items()):
            if actor.closed is not None:
                assert actor.closed[0] == Close.SLOW_CONSUMER
                self.leave(who)

    def leave(self, who: str) -> None:
        """The client's connection is over."""
        self.stage.sessions.close(self.stage.actors.pop(who).client)
        del self.readers[who], self.wanted[who]

    def act(self, what: str, who: str, more: object) -> None:
        stage = self.stage
        if who not in stage.actors:
            self.readers[who] = Reader(stage.enter(who))
            self.wanted[who] = set()
        actor = stage.actors[who]
        if what == "subscribe":
            subjects, conflation, conflate = more
            slow = "conflate" if conflate else "close"
            command = Subscribe(id=1, subjects=sorted(subjects), conflation=conflation, slow=slow)
            stage.sessions._do(actor.client, command, stage.now)
            self.wanted[who] |= subjects
        elif what == "unsubscribe":
            stage.sessions._do(actor.client, Unsubscribe(id=1, subjects=sorted(more)), stage.now)
            self.wanted[who] -= more
        elif what == "leave":
            self.leave(who)
        elif what == "stall":
            actor.blocked = True
        else:
            actor.unblock()

    def finish(self) -> None:
        """Everybody reads again, and nothing more is published."""
        self.stage.end()
        for _ in range(4):
            for actor in self.stage.actors.values():
                actor.unblock()
            self.stage.advance(500)
        self.part()


@pytest.mark.parametrize("outbox_bytes_max", [4000, 1500, 700])
@settings(max_examples=200, deadline=None)
@given(steps=st.lists(STEP, max_size=60))
def test_whoever_lags_is_told_and_level_in_the_end(outbox_bytes_max: int, steps: list) -> None:
    """Within ticks and across them: publications and removals, also beyond the queue's bound, stalls, repeated
    subscriptions of every kind, departures."""
    model = Model(outbox_bytes_max)
    for step in steps:
        model.do(*step)
    model.finish()
    for name, reader in model.readers.items():
        reader.read()
        assert not reader.behind
        assert {topic.subject for topic in reader.actor.client.subscriptions} == model.wanted[name]
        for subject in model.wanted[name]:
            got = (reader.last[subject], reader.content.get(subject, ""), reader.fields.get(subject, {}))
            assert got == (model.seq.get(subject, 0), model.content.get(subject, ""), model.fields.get(subject, {}))
    for actor in list(model.stage.actors.values()):
        model.stage.sessions.close(actor.client)
    assert nothing_is_left(model.stage.broker)


def bring(model: Model, *steps: tuple) -> None:
    """What a client gets by these steps, none of them across a tick, is whole."""
    for step in steps:
        model.do(*step)
    model.finish()
    for name, reader in model.readers.items():
        reader.read()
        for subject in model.wanted[name]:
            assert reader.last[subject] == model.seq.get(subject, 0)
            assert reader.content.get(subject, "") == model.content.get(subject, "")


def test_a_subject_without_a_message_that_was_behind_and_is_subscribed_again() -> None:
    """It has no use for a moment, and is not forgotten: what is published to it comes."""
    bring(
        Model(1500),
        ("subscribe", "bob", ({"/s/1", "/s/2"}, 0, True)),
        ("publish", "/s/1", 4),
        ("stall", "bob", None),
        ("end", None, None),
        ("subscribe", "bob", ({"/s/1", "/s/2"}, 0, False)),
        ("publish", "/s/2", 1),
    )


@pytest.mark.parametrize(
    "step",
    [
        ("unsubscribe", "carl", {"/s/1"}),
        ("read", "carl", None),
        ("subscribe", "carl", ({"/s/1"}, 0, True)),
        ("subscribe", "carl", ({"/s/1"}, 200, False)),
    ],
)
def test_nothing_comes_behind_what_was_taken_out_of_the_queue(step: tuple) -> None:
    """The snapshot among it: a change of fields that the client does not have would come."""
    bring(
        Model(1500),
        ("publish", "/s/1", 4),
        ("subscribe", "carl", ({"/s/1"}, 0, True)),
        ("publish", "/s/1", 2),
        ("stall", "carl", None),
        ("publish", "/s/1", 1),
        ("subscribe", "carl", ({"/s/2"}, 0, False)),
        ("publish", "/s/1", 1),
        step,
    )
