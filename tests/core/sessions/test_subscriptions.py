"""A process that reads a log may be a moment behind what its clients have read elsewhere (protocol.md 4.2)."""

from __future__ import annotations

import pytest

from fastpath.core.protocol.messages import Data, Message, Subscribe, Subscribed
from fastpath.core.sessions.subscriptions import BEHIND_MS, BEHIND_MS_MAX, UNHEARD_MS
from tests.support.core.stage import START, Actor, Following, Stage

SUBJECT = "/follow/one"


def comes(stage: Stage, *seqs: int, epoch: int = START) -> None:
    """The log brings these numbers."""
    stage.broker.deliver([Message(SUBJECT, str(seq), epoch=epoch, seq=seq, time=stage.now) for seq in seqs])
    stage.end()


@pytest.fixture
def engine() -> Following:
    return Following()


@pytest.fixture
def stage(engine: Following) -> Stage:
    stage = Stage(engine=engine)
    comes(stage, 1, 2, 3)
    return stage


def back(stage: Stage, epoch: int, seq: int) -> Actor:
    """A client comes with a position of another process."""
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=[SUBJECT], since={SUBJECT: (epoch, seq)}))
    return ann


def told(ann: Actor) -> list[tuple[str, str]]:
    """The errors and recoveries that it was answered."""
    return [(r.error, r.recovery) for one in ann.got if isinstance(one, Subscribed) for r in one.results]


def test_it_waits_for_what_it_has_read_and_starts_by_itself(stage: Stage) -> None:
    ann = back(stage, START, 5)
    assert told(ann) == [("not_ready", "")]
    comes(stage, 4, 5)
    stage.advance(100)
    comes(stage, 6)
    assert told(ann) == [("not_ready", ""), ("", "recovered")]
    assert [one.seq for one in ann.got if isinstance(one, Data)] == [6]


def test_what_does_not_come_within_a_second_is_a_gap(stage: Stage) -> None:
    ann = back(stage, START, 5)
    stage.advance(BEHIND_MS - 100)
    assert told(ann) == [("not_ready", "")]
    stage.advance(200)
    assert told(ann) == [("not_ready", ""), ("", "resynchronised")]
    assert [(one.seq, one.meta.kind) for one in ann.got if isinstance(one, Data)] == [(3, "snapshot")]


def test_a_newer_epoch_is_waited_for_too(stage: Stage) -> None:
    ann = back(stage, START + 1, 3)
    comes(stage, 3, epoch=START + 1)
    stage.advance(100)
    assert told(ann) == [("not_ready", ""), ("", "recovered")]


def test_who_numbers_knows_at_once() -> None:
    stage = Stage()
    for number in range(3):
        stage.publish(SUBJECT, str(number))
    assert told(back(stage, START, 5)) == [("", "resynchronised")]


def test_a_subject_nobody_has_heard_of_is_waited_for(stage: Stage) -> None:
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=["/follow/two"], since={"/follow/two": (START, 1)}))
    assert told(ann) == [("not_ready", "")]
    ann.say(Subscribe(id=2, subjects=["/follow/three"], since={"/follow/three": (START, 0)}))
    assert told(ann)[-1] == ("", "recovered")


def test_what_waits_unread_is_no_gap(engine: Following, stage: Stage) -> None:
    """A process that had no CPU has not read what was sent to it: no time of that is a client's."""
    engine.waits = True
    ann = back(stage, START, 5)
    for _ in range(50):
        stage.advance(100)
    assert told(ann) == [("not_ready", "")]
    comes(stage, 4, 5)
    stage.advance(100)
    assert told(ann) == [("not_ready", ""), ("", "recovered")]


def test_what_is_not_in_the_log_is_a_gap_once_that_is_read(engine: Following, stage: Stage) -> None:
    engine.waits = True
    ann = back(stage, START, 5)
    for _ in range(30):
        stage.advance(100)
    engine.waits = False
    stage.advance(UNHEARD_MS)
    assert told(ann) == [("not_ready", ""), ("", "resynchronised")]


def test_a_log_that_is_never_read_to_its_end_keeps_nobody_for_ever(engine: Following, stage: Stage) -> None:
    engine.waits = True
    ann = back(stage, START, 5)
    for _ in range(BEHIND_MS_MAX // 100 - 1):
        stage.advance(100)
    assert told(ann) == [("not_ready", "")]
    stage.advance(200)
    assert told(ann) == [("not_ready", ""), ("", "resynchronised")]
