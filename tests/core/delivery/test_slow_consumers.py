"""Clients that lag and agreed to conflation: told at every gap, never backwards, level in the end, cheap meanwhile."""

from __future__ import annotations

import pytest

from fastpath.core.auth.rule_grants import RuleGrants
from fastpath.core.delivery import slow_consumers
from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import CaughtUp, Data, Epoch, Lagging, Revoked, Subscribe, Unsubscribe
from tests.support.core.lag_reader import nothing_is_left
from tests.support.core.lagging import LONG, SMALL, read, stalled
from tests.support.core.rights import SECRET, change, fill, mint, rule
from tests.support.core.stage import Stage


def test_a_client_that_had_just_joined_an_interval() -> None:
    """It gets no older change than those after its snapshot, and the feed goes with its last member."""
    stage = Stage(limits=SMALL)
    bob = stage.enter("bob")
    bob.say(Subscribe(id=1, subjects=["/s/1"], conflation=1000))
    stage.publish("/s/1", "1", {"old": "1"})
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=["/s/1"], conflation=1000, slow="conflate"))
    ann.say(Subscribe(id=1, subjects=["/s/2"], slow="conflate"))
    bob.say(Unsubscribe(id=2, subjects=["/s/1"]))
    stage.publish("/s/1", "2", {"new": "2"})
    ann.taken()
    ann.blocked = True
    stage.publish("/s/2", LONG * 4)
    assert not len(stage.broker.grid)
    stage.advance(3000)
    ann.unblock()
    stage.advance(1000)
    *_, message, level = ann.taken()
    assert (message.content, message.fields) == ("2", {"new": "2"})
    assert isinstance(level, CaughtUp)


def test_many_subjects_are_pulled_level_as_the_client_takes_them() -> None:
    """What is sent at once stays within the threshold; each slice is announced, and none is sent twice."""
    limits = Limits(outbox_bytes_max=64_000)
    stage = Stage(limits=limits)
    subjects = [f"/many/{number}" for number in range(700)]
    ann = stalled(stage, *subjects)
    for subject in subjects:
        stage.publish(subject, subject * 5)
    got: list[object] = []
    while ann.client.lag.behind:
        ann.unblock()
        ann.blocked = True
        stage.end()
        assert ann.client.queue.size < limits.lag_bytes
        got += ann.taken()
    got += read(stage, ann)
    messages = [ann.subjects[one.sid] for one in got if isinstance(one, Data)]
    assert messages[1:] == subjects
    assert len([one for one in got if isinstance(one, CaughtUp)]) >= 5
    level = [ann.subjects[sid] for one in got if isinstance(one, CaughtUp) for sid in one.sids]
    assert level == subjects


def test_a_client_that_lags_again_at_once_is_told_again() -> None:
    stage = Stage(limits=SMALL)
    ann = stalled(stage, "/s/1")
    stage.publish("/s/1", "2")
    ann.unblock()
    ann.blocked = True
    slow_consumers.catch_up(stage.broker, ann.client)
    stage.publish("/s/1", LONG * 4)
    stage.publish("/s/1", "4")
    kinds = [type(one).__name__ if not isinstance(one, Data) else one.seq for one in read(stage, ann)]
    assert kinds == [1, "Lagging", 2, "CaughtUp", 3, "Lagging", 4, "CaughtUp"]


def test_a_right_taken_while_lagging() -> None:
    """Nothing of the subject follows; when the right comes back it starts anew, with the same policy."""
    stage = Stage(RuleGrants(SECRET), limits=SMALL)
    fill(stage, rule(1), rule(2, pattern="/t/*"))
    ann = stage.enter("ann", mint())
    ann.say(Subscribe(id=1, subjects=["/s/1", "/t/1"], slow="conflate", conflation=0))
    ann.taken()
    ann.blocked = True
    stage.publish("/t/1", LONG * 4)
    stage.publish("/s/1", "1")
    change(stage, 1, removed=[1])
    stage.publish("/s/1", "2")
    stage.publish("/t/1", "2")
    got = read(stage, ann)
    assert [type(one) for one in got] == [Data, Lagging, Revoked, Data, CaughtUp]
    assert [one.content for one in got if isinstance(one, Data)] == [LONG * 4, "2"]
    change(stage, 2, rules=[rule(3)])
    assert [one.content for one in ann.taken() if isinstance(one, Data)] == ["2"], "the snapshot"
    ann.blocked = True
    stage.publish("/t/1", LONG * 4)
    assert {topic.subject for topic in ann.client.lag.behind} == {"/s/1", "/t/1"}


def test_a_new_epoch_while_lagging_comes_in_its_place() -> None:
    """What came before it is sent before it, so that numbers of two epochs never mix."""
    stage = Stage(limits=SMALL)
    ann = stalled(stage, "/s/1")
    stage.publish("/s/1", "2")
    topic = stage.broker.interest.topics["/s/1"]
    topic.epoch, topic.seq = topic.epoch + 1, 0
    stage.broker.tell(topic, Epoch(sid=topic.sid, epoch=topic.epoch, seq=0))
    stage.broker.engine.epoch += 1
    got = read(stage, ann)
    assert [getattr(one, "seq", type(one)) for one in got] == [1, Lagging, 2, 0, CaughtUp]
    assert isinstance(got[3], Epoch)


def test_recovery_from_a_connection_that_broke_while_lagging() -> None:
    """The position it had read up to is enough for exactly what it missed."""
    stage = Stage(limits=Limits(outbox_bytes_max=20_000))
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=["/s/1"], slow="conflate"))
    stage.publish("/s/1", "1")
    position = (stage.broker.engine.epoch, ann.taken()[-1].seq)
    ann.blocked = True
    stage.publish("/s/1", "x" * 6000)
    stage.publish("/s/1", "3")
    assert ann.client.lag.behind
    stage.sessions.close(ann.client)
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=["/s/1"], slow="conflate", since={"/s/1": position}))
    _, answer, *missed = ann.taken()
    assert answer.results[0].recovery == "recovered"
    assert [one.seq for one in missed] == [2, 3]


@pytest.mark.parametrize("conflation", [0, 1000])
def test_numbers_of_many_who_lag_hold_back_nothing_when_they_go(conflation: int) -> None:
    """A hundred lag on one subject, in two forms; they leave in any way, and no trace stays."""
    stage = Stage(limits=SMALL)
    actors = [stage.enter(f"c{number}", form=("json", "msgpack")[number % 2]) for number in range(100)]
    for actor in actors:
        actor.say(Subscribe(id=1, subjects=["/s/1", "/s/2"], slow="conflate", conflation=conflation))
        actor.say(Subscribe(id=1, subjects=["/s/3"], slow="conflate"))
        actor.blocked = True
    stage.publish("/s/3", LONG * 4)
    live = stage.broker.interest.topics["/s/1"].live
    assert live is not None
    assert len(live.lagging) == 100
    assert not stage.broker.interest.groups
    stage.publish("/s/1", "2")
    for actor in actors[:50]:
        actor.taken()
        actor.unblock()
    stage.advance(1000)
    assert all([one.content for one in actor.taken() if isinstance(one, Data)][-1] == "2" for actor in actors[:50])
    assert len(stage.broker.interest.groups) == 2
    for actor in actors[40:]:
        stage.sessions.close(actor.client)
    for actor in actors[:40]:
        actor.say(Unsubscribe(id=2, subjects=["/s/1", "/s/2", "/s/3"]))
    assert nothing_is_left(stage.broker)


def test_level_again_before_an_interval_ends_then_subscribed_again() -> None:
    """It has had what came in the interval: the end of the interval does not bring it once more."""
    stage = Stage(limits=SMALL)
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=["/s/1"], conflation=1000, slow="conflate"))
    bob = stage.enter("bob")
    bob.say(Subscribe(id=1, subjects=["/s/1"], conflation=1000))
    ann.say(Subscribe(id=2, subjects=["/s/2"], slow="conflate"))
    ann.taken()
    ann.blocked = True
    stage.publish("/s/2", LONG * 4)
    stage.publish("/s/1", "1")
    stage.advance(1000)
    assert [one.content for one in read(stage, ann) if isinstance(one, Data)] == [LONG * 4, "1"]
    assert ann.client.group is not None, "nothing came since: it has joined"
    stage.advance(20)
    ann.say(Subscribe(id=3, subjects=["/s/1"], conflation=1000, slow="conflate"))
    assert [one.seq for one in ann.taken() if isinstance(one, Data)] == [1]
    stage.advance(2000)
    assert ann.messages() == []
    stage.publish("/s/1", "2")
    stage.advance(1000)
    assert ann.messages() == [("/s/1", 2, "2")]


def test_an_unknown_policy_is_refused() -> None:
    ann = Stage().enter("ann")
    ann.say(Subscribe(id=1, subjects=["/s/1"], slow="drop"))
    assert ann.taken()[-1].reason == 'slow is "close" or "conflate"'
