"""A copy that is made beside the live log ends in the same state, whatever comes between its slices."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from fastpath.core.broker.broker import Broker
from fastpath.core.broker.state_transfer import Copy, StateReceiver, read_entry, whole_part
from fastpath.core.cache.snapshot import Snapshot
from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import STANDARD, Data, Epoch, Message, Subscribe
from fastpath.core.protocol.options import OptionRow
from tests.support.core.stage import START, Actor, Stage

SUBJECTS = [f"/copies/{number}" for number in range(12)]


def carried(value: Any) -> Any:
    """What arrives of a packet at the other end of a link."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value))


def state(broker: Broker) -> dict[str, Any]:
    """All that a broker holds, as plain values; the epoch is each one's own."""
    found = {}
    for subject, topic in broker.interest.topics.items():
        if topic.seq or topic.snapshot is not None:
            shot = topic.snapshot
            found[subject] = (
                (topic.epoch, topic.seq, topic.floor if topic.ring else 0),
                shot and (shot.newest.content, shot.newest.time, dict(shot.fields or {}), shot.removed),
                [(one.epoch, one.seq, one.content, one.fields, one.size, one.removed) for one in topic.ring or ()],
            )
            assert not topic.ring or topic.ring[-1].epoch == topic.epoch
    return found


class Pair:
    """Two brokers and the link between them, without a socket."""

    def __init__(self, limits: Limits, seed: int, epoch: int) -> None:
        self.random = random.Random(seed)
        self.first, self.other = Stage(limits=limits), Stage(limits=limits)
        self.first.broker.engine.epoch = epoch
        self.number = 0
        self.copy: Copy | None = None

    def publish(self) -> None:
        """Some messages on the first; the other gets those whose copy is not still to come."""
        messages = []
        for _ in range(self.random.randrange(1, 6)):
            self.number += 1
            fields = {self.random.choice("abc"): str(self.number)} if self.random.random() < 0.5 else None
            message = Message(self.random.choice(SUBJECTS), "x" * self.random.randrange(200), fields)
            if self.random.random() < 0.15:
                message = Message(message.subject, "", message.fields, replace=True, removed=True)
            else:
                message.retained = self.random.random() < 0.8
            if self.random.random() < 0.2:
                message.qos = STANDARD
            messages.append(message)
        self.first.broker.publish(None, messages, START + self.number)
        if self.copy is None:
            return
        entries = [read_entry(row) for row in carried([m for m in messages if m.subject not in self.copy.pending])]
        self.takeover.before(entries)
        self.other.broker.deliver(entries)

    def take_over(self, slice_bytes: int) -> None:
        """Copy everything while messages come."""
        self.copy = Copy(self.first.broker)
        self.other.broker.engine.epoch = self.first.broker.engine.epoch
        self.takeover = StateReceiver(self.other.broker)
        while self.copy.pending:
            for part in carried(self.copy.slice(slice_bytes)):
                self.takeover.add(part)
            for _ in range(self.random.randrange(3)):
                self.publish()
        self.takeover.finish()


@pytest.mark.parametrize("slice_bytes", [1, 1000, 1 << 20])
@pytest.mark.parametrize("limits", [Limits(), Limits(cache_messages=5), Limits(cache_messages=0)], ids=["", "5", "0"])
@pytest.mark.parametrize("seed", range(5))
def test_the_other_ends_where_the_first_is(slice_bytes: int, limits: Limits, seed: int) -> None:
    pair = Pair(limits, seed, START)
    for _ in range(60):
        pair.publish()
    pair.take_over(slice_bytes)
    assert state(pair.other.broker) == state(pair.first.broker)
    for _ in range(20):
        pair.publish()
    assert state(pair.other.broker) == state(pair.first.broker)


def test_what_was_held_before_is_replaced_and_told() -> None:
    """Another first worker, in a new epoch: with some subjects as they were, some behind, and one that is unknown."""
    pair = Pair(Limits(), 1, START + 9)
    ann = pair.other.enter("ann")
    ann.say(Subscribe(id=1, subjects=[*SUBJECTS, "/copies/lost", "/copies/quiet"]))
    pair.other.broker.publish(None, [Message("/copies/lost", "x"), Message(SUBJECTS[0], "y")], START)
    pair.other.broker.flush()
    ann.got.clear()
    for _ in range(60):
        pair.publish()
    pair.take_over(1000)
    pair.other.broker.flush()
    assert state(pair.other.broker) == state(pair.first.broker)
    told = {ann.subjects[one.sid]: one.seq for one in ann.got if isinstance(one, Epoch)}
    assert told.keys() == {*SUBJECTS, "/copies/lost"}
    assert told["/copies/lost"] == 0
    # After its epoch a subject's numbers go on by one: whoever follows sees no gap.
    at: dict[str, int] = {}
    for one in ann.got:
        if isinstance(one, Epoch):
            at[ann.subjects[one.sid]] = one.seq
        elif isinstance(one, Data) and one.seq:
            subject = ann.subjects[one.sid]
            assert one.seq == at[subject] + 1
            at[subject] = one.seq
    assert all(at[subject] == pair.first.broker.interest.topics[subject].seq for subject in SUBJECTS)


def lagging_pair() -> tuple[Stage, Stage, Actor]:
    """A broker, and a follower with a client that stopped following it after ten messages of two subjects."""
    first, other = Stage(), Stage()
    ann = other.enter("ann")
    ann.say(Subscribe(id=1, subjects=SUBJECTS[:2]))
    for number in range(20):
        for subject in SUBJECTS[:2]:
            message = Message(subject, str(number), {"n": str(number)})
            first.broker.publish(None, [message], START)
            if number < 10:
                other.broker.deliver([read_entry(carried(message))])
    other.end()
    ann.taken()
    return first, other, ann


def copy_all(first: Stage, other: Stage) -> None:
    """One after the other, nothing comes in between."""
    copy, takeover = Copy(first.broker), StateReceiver(other.broker)
    while copy.pending:
        for part in carried(copy.slice(2000)):
            takeover.add(part)
    takeover.finish()
    other.end()


def test_what_was_missed_is_delivered_where_the_copy_goes_on_from_there() -> None:
    """The first worker came back with all that it had acknowledged: nobody is told of anything but the messages."""
    first, other, ann = lagging_pair()
    copy_all(first, other)
    got = ann.taken()
    assert all(isinstance(one, Data) for one in got)
    assert [(ann.subjects[one.sid], one.seq) for one in got] == [
        *((SUBJECTS[1], seq) for seq in range(11, 21)),
        *((SUBJECTS[0], seq) for seq in range(11, 21)),
    ]
    assert state(other.broker) == state(first.broker)
    copy_all(first, other)
    assert ann.taken() == []


def test_who_has_read_what_the_copy_does_not_have_is_told() -> None:
    """It was delivered, and then lost with the one that numbered it: those numbers will be given again."""
    first, other, ann = lagging_pair()
    lost = first.broker.interest.topics[SUBJECTS[0]]
    other.broker.deliver([Message(SUBJECTS[0], "lost", epoch=START, seq=seq, time=START) for seq in range(11, 25)])
    other.end()
    ann.taken()
    copy_all(first, other)
    told = [(ann.subjects[one.sid], one.epoch, one.seq) for one in ann.taken() if isinstance(one, Epoch)]
    assert told == [(SUBJECTS[0], START, lost.seq)]
    assert state(other.broker) == state(first.broker)


def test_what_is_numbered_again_between_two_slices_is_copied_as_it_stands() -> None:
    """A fail-over voids the end of what has been given of a subject: none of that stays with who takes it over."""
    first, other = Stage(), Stage()

    def comes(epoch: int, *seqs: int) -> None:
        messages = [Message(SUBJECTS[0], f"{epoch}-{seq} {'x' * 1000}", epoch=START + epoch, seq=seq) for seq in seqs]
        for message in messages:
            message.weigh()
        first.broker.deliver(messages)

    for kept in (10, 30, 40):  # all of a slice stands, a part of it, none
        first, other = Stage(), Stage()
        comes(0, *range(1, 51))
        copy, takeover = Copy(first.broker), StateReceiver(other.broker)
        takeover.add(carried(copy.slice(30_000))[0])
        comes(1, *range(kept, kept + 4))
        while copy.pending:
            for part in carried(copy.slice(30_000)):
                takeover.add(part)
        takeover.finish()
        assert state(other.broker) == state(first.broker)


def test_a_subject_that_is_restarted_during_a_copy_stays_known() -> None:
    first, other = Stage(), Stage()
    first.publish(SUBJECTS[0], "x")
    copy, takeover = Copy(first.broker), StateReceiver(other.broker)
    topic = first.broker.interest.topic("/copies/later", START)
    first.broker.reset_topic(topic, START, 7, Snapshot(Message("/copies/later", "y", epoch=START, seq=7)))
    takeover.restarted(carried(whole_part(first.broker, topic)))
    for part in carried(copy.slice(1 << 20)):
        takeover.add(part)
    takeover.finish()
    assert state(other.broker) == state(first.broker)
    assert other.broker.interest.topics["/copies/later"].seq == 7


def filled(limits: Limits, count: int) -> Stage:
    """A broker that holds messages of 1000 bytes of two subjects."""
    stage = Stage(limits=limits)
    for number in range(count):
        for subject in SUBJECTS[:2]:
            stage.broker.publish(None, [Message(subject, f"{number:1000}")], START + number)
    return stage


def test_a_slice_is_bounded_also_within_a_subject() -> None:
    copy = Copy(filled(Limits(), 50).broker)
    assert sum(len(part[1]) for part in copy.slice(4000)) <= 4
    assert sum(len(part[1]) for part in copy.slice(4000)) <= 8


def test_what_the_cache_lets_go_of_during_a_copy_leaves_no_hole() -> None:
    """The numbers in a cache rise by one: recovery counts on it."""
    first, other = filled(Limits(cache_messages=10), 10), Stage(limits=Limits(cache_messages=10))
    copy, takeover = Copy(first.broker), StateReceiver(other.broker)
    while copy.pending:
        for part in carried(copy.slice(3000)):
            takeover.add(part)
        for number in range(5):
            for subject in copy.pending:
                first.broker.publish(None, [Message(subject, f"{number:1000}")], START)
    for subject in SUBJECTS[:2]:
        topic = other.broker.interest.topics[subject]
        numbers = [one.seq for one in topic.ring or ()]
        assert numbers == list(range(numbers[0], topic.seq + 1))


def test_a_copy_that_ends_in_the_middle_leaves_what_was_held() -> None:
    first, other = filled(Limits(), 20), filled(Limits(), 20)
    before = state(other.broker)
    other.broker.engine.epoch = START + 1
    copy, takeover = Copy(first.broker), StateReceiver(other.broker)
    for _ in range(3):
        for part in carried(copy.slice(5000)):
            takeover.add(part)
    for subject in SUBJECTS[:2]:
        topic = other.broker.interest.topics[subject]
        assert topic.snapshot is not None
        assert (topic.seq, len(topic.ring or ())) == (20, 20)
    assert before.keys() == other.broker.interest.topics.keys()


def test_a_snapshot_that_is_not_kept_here_is_not_taken_over() -> None:
    """The other side may not have come to it yet when it was copied: nobody would ever take it out again."""
    first, other = filled(Limits(), 3), Stage()
    other.sessions.rights.options.replace([OptionRow(1, SUBJECTS[0], retained=False)])
    copy, takeover = Copy(first.broker), StateReceiver(other.broker)
    while copy.pending:
        for part in carried(copy.slice(3000)):
            takeover.add(part)
    takeover.finish()
    without, whole = (other.broker.interest.topics[subject] for subject in SUBJECTS[:2])
    assert (without.snapshot, without.seq, len(without.ring or ())) == (None, 3, 3)
    assert whole.snapshot is not None
