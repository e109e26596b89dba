"""Epochs: what a subscriber is told when a subject goes on in another one, and what counts as recovered afterwards."""

from __future__ import annotations

import pytest

from fastpath.core.cache.snapshot import Snapshot
from fastpath.core.delivery.wire import terms_of
from fastpath.core.mqtt.records import (
    ANSWER,
    GAP,
    LIVE,
    MESSAGE,
    SNAPSHOT,
    STANDS,
    kind_of,
    read_message,
    split_records,
)
from fastpath.core.protocol.codec import MQTT5
from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import Data, Epoch, Message, Subscribe, Subscribed
from fastpath.core.wires.registry import wire_of
from tests.support.core.stage import START, Actor, Stage

SUBJECT = "/epoch/one"


def comes(stage: Stage, epoch: int, *seqs: int) -> None:
    """Messages of an epoch are delivered."""
    messages = [Message(SUBJECT, f"{epoch - START}/{seq}", epoch=epoch, seq=seq, time=stage.now) for seq in seqs]
    stage.broker.deliver(messages)
    stage.end()


def recovery(stage: Stage, epoch: int, seq: int) -> tuple[str, list[str]]:
    """How a client that comes back with this position is answered, and with what."""
    ann = stage.enter("back")
    ann.say(Subscribe(id=1, subjects=[SUBJECT], since={SUBJECT: (epoch, seq)}))
    [result] = [r for one in ann.got if isinstance(one, Subscribed) for r in one.results]
    return result.recovery, [one.content for one in ann.got if isinstance(one, Data)]


def test_the_epoch_is_told_before_its_first_message_and_numbers_go_on() -> None:
    stage = Stage()
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=[SUBJECT]))
    comes(stage, START, 1, 2)
    ann.taken()
    comes(stage, START + 1, 3)
    epoch, message = ann.taken()
    assert isinstance(epoch, Epoch)
    assert isinstance(message, Data)
    assert (epoch.epoch, epoch.seq, message.seq) == (START + 1, 2, 3)
    assert recovery(stage, START, 1) == ("recovered", ["0/2", "1/3"])
    assert recovery(stage, START, 2) == ("recovered", ["1/3"])
    assert recovery(stage, START + 1, 2) == ("recovered", ["1/3"])


def test_who_has_read_what_is_numbered_again_is_resynchronised() -> None:
    stage = Stage()
    comes(stage, START, 1, 2, 3)
    comes(stage, START + 1, 3, 4)
    assert recovery(stage, START, 2) == ("recovered", ["1/3", "1/4"])
    for seq in (3, 4, 5):
        assert recovery(stage, START, seq) == ("resynchronised", ["1/4"])
    assert recovery(stage, START + 1, 3) == ("recovered", ["1/4"])


def test_what_was_gathered_for_an_interval_counts_in_the_epoch_it_came_in() -> None:
    stage = Stage()
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=[SUBJECT], conflation=500))
    comes(stage, START, 1, 2)
    comes(stage, START + 1, 2)
    stage.advance(500)
    kinds = [(type(one), one.seq) for one in ann.got if isinstance(one, Epoch | Data)]
    assert kinds == [(Data, 2), (Epoch, 1), (Data, 2)]


def test_a_restart_keeps_what_leads_there_and_tells_everybody() -> None:
    stage = Stage()
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=[SUBJECT]))
    comes(stage, START, 1, 2, 3)
    ann.taken()
    topic = stage.broker.interest.topics[SUBJECT]
    stage.broker.reset_topic(topic, START, 2, topic.snapshot)
    stage.end()
    assert [(one.epoch, one.seq) for one in ann.taken()] == [(START, 2)]
    assert [one.seq for one in topic.ring] == [1, 2]
    assert recovery(stage, START, 1)[1] == ["0/2"]
    stage.broker.reset_topic(topic, START, 9)
    stage.end()
    assert (topic.seq, topic.ring, topic.snapshot) == (9, [], None)
    assert recovery(stage, START, 2) == ("resynchronised", [])
    assert recovery(stage, START, 9) == ("recovered", [])


def test_a_snapshot_expires_and_its_fields_with_it() -> None:
    stage = Stage(limits=Limits(snapshot_ms=1000))
    stage.publish(SUBJECT, "1", {"a": "1"})
    stage.advance(900)
    stage.publish(SUBJECT, "2", {"b": "2"})
    stage.advance(900)
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=[SUBJECT]))
    assert [one.fields for one in ann.taken() if isinstance(one, Data)] == [{"a": "1", "b": "2"}]
    stage.advance(1200)
    ann.say(Subscribe(id=2, subjects=[SUBJECT]))
    assert not [one for one in ann.taken() if isinstance(one, Data)]
    stage.publish(SUBJECT, "3", {"c": "3"})
    ann.taken()
    ann.say(Subscribe(id=3, subjects=[SUBJECT]))
    assert [one.fields for one in ann.taken() if isinstance(one, Data)] == [{"c": "3"}]
    stage.advance(2000)
    stage.publish(SUBJECT, "4", {"d": "4"})
    ann.taken()
    ann.say(Subscribe(id=4, subjects=[SUBJECT]))
    assert [one.fields for one in ann.taken() if isinstance(one, Data)] == [{"d": "4"}]


class Reader(Actor):
    """A client of MQTT; what it gets are records."""

    def take(self, data: bytes) -> None:
        """The kinds and flags of what is no answer."""
        for record in split_records(data):
            if kind_of(record) != ANSWER:
                found = read_message(record)
                self.got.append((kind_of(record), found.flags & (STANDS | LIVE | SNAPSHOT), found.epoch, found.seq))


def reader(stage: Stage, **options: object) -> Reader:
    """One that has subscribed."""
    made = Reader(stage, "reader", "", terms_of(wire_of(MQTT5)))
    made.say(Subscribe(id=1, subjects=[SUBJECT], **options))  # type: ignore[arg-type]
    return made


@pytest.mark.parametrize(
    ("epoch", "seq", "skips"),
    [(0, 2, False), (0, 3, False), (1, 0, False), (0, 5, True), (1, 2, True), (1, 5, True)],
)
@pytest.mark.parametrize("conflation", [0, 500])
def test_clients_of_mqtt_are_told_of_what_is_skipped(epoch: int, seq: int, skips: bool, conflation: int) -> None:
    """They see no numbers; what they have read and is void is no gap."""
    stage = Stage()
    one = reader(stage, conflation=conflation)
    comes(stage, START, 1, 2, 3)
    stage.advance(1000)
    one.taken()
    topic = stage.broker.interest.topics[SUBJECT]
    stage.broker.reset_topic(topic, START + epoch, seq)
    stage.advance(1000)
    told = [found for found in one.taken() if found[0] == GAP]
    assert told == ([(GAP, LIVE, START + epoch, seq)] if skips else [])
    snapshot = Snapshot(Message(SUBJECT, "newest", epoch=START + 1, seq=9))
    stage.broker.reset_topic(topic, START + 2, 9, snapshot)
    stage.advance(1000)
    assert [found for found in one.taken() if found[1]] == [(MESSAGE, STANDS | LIVE | SNAPSHOT, START + 2, 9)]


def test_a_client_of_mqtt_that_comes_back_is_told_of_what_is_missing() -> None:
    stage = Stage(limits=Limits(cache_messages=2))
    stage.publish(SUBJECT, "kept")
    for _ in range(3):
        stage.publish(SUBJECT, "x", retained=False)
    epoch = stage.broker.interest.topics[SUBJECT].epoch
    assert reader(stage, since={SUBJECT: (epoch, 2)}).taken() == [(MESSAGE, 0, epoch, 3), (MESSAGE, 0, epoch, 4)]
    assert reader(stage, since={SUBJECT: (epoch, 1)}).taken() == [(MESSAGE, STANDS | SNAPSHOT, epoch, 4)]
    stage.remove(SUBJECT)
    assert reader(stage, since={SUBJECT: (epoch, 1)}).taken() == [(MESSAGE, STANDS, epoch, 5)]
    for subject in ("/epoch/**", SUBJECT):
        other = Stage(limits=Limits(cache_messages=2))
        for _ in range(3):
            other.publish(SUBJECT, "x", retained=False)
        made = Reader(other, "reader", "", terms_of(wire_of(MQTT5)))
        made.say(Subscribe(id=1, subjects=[subject], since={subject: (0, 0)}))
        assert made.taken() == [(GAP, 0, epoch, 3)]
        other.publish(SUBJECT, "x", retained=False)
        assert made.taken() == [(MESSAGE, 0, epoch, 4)]


def test_a_client_of_mqtt_that_is_overtaken_by_the_cache_is_told() -> None:
    stage = Stage(limits=Limits(cache_messages=600))
    for _ in range(600):
        stage.publish(SUBJECT, "x", retained=False)
    one = Reader(stage, "reader", "", terms_of(wire_of(MQTT5)))
    one.blocked = True
    one.say(Subscribe(id=1, subjects=[SUBJECT], since={SUBJECT: (START, 0)}))
    for _ in range(700):
        stage.publish(SUBJECT, "x", retained=False)
    one.unblock()
    stage.end()
    kinds = [found[0] for found in one.taken()]
    assert kinds == [MESSAGE] * (len(kinds) - 1) + [GAP]
    assert len(kinds) > 1
