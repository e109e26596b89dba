"""What a client has asked for may be larger than its queue: it gets it, and is bounded all the same."""

from __future__ import annotations

import pytest

from fastpath.core.delivery.wire import terms_of
from fastpath.core.protocol.errors import Close
from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import Base, CaughtUp, Data, Lagging, Message, Subscribe, Subscribed, Unsubscribe
from fastpath.core.wires.registry import PLAIN, wire_of
from tests.support.core.stage import Actor, Stage

BOUND = 4000
LIMITS = Limits(outbox_bytes_max=BOUND)
LARGE = 20_000


class Narrow(Actor):
    """A client whose socket takes so many bytes at a time: it reads all, but not at once."""

    room = 500

    def send(self, data: bytes | memoryview) -> int:
        """As much as there is room."""
        self.unread += bytes(data[: self.room])
        return min(self.room, len(data))

    unread = b""

    def read(self, stage: Stage) -> list[object]:
        """What comes when it has read all that there is, and whatever follows that."""
        for _ in range(100_000):
            if self.client.queue is None and not stage.sessions.wildcards.busy and not stage.sessions.rights.busy:
                break
            self.writable()
            stage.sessions.wildcards.tick()
            stage.sessions.rights.tick(stage.now)
            stage.end()
        data, self.unread = self.unread, b""
        self.take(data)
        return self.taken()


def filled(*subjects: str, size: int = LARGE, limits: Limits = LIMITS, **options: bool) -> Stage:
    """A stage with a snapshot of so many bytes for each subject, of fields that came one by one."""
    stage = Stage(limits=limits, **options)
    for subject in subjects:
        for name in "abcd":
            stage.publish(subject, "x", {name: name * (size // 4)})
    return stage


def contents(got: list[object], actor: Actor) -> list[tuple[str, str, int]]:
    """Subject, kind and number of bytes of each message."""
    return [
        (actor.subjects[one.sid], one.meta.kind if one.meta else "", sum(map(len, one.fields.values())))
        for one in got
        if isinstance(one, Data)
    ]


@pytest.mark.parametrize("guaranteed", [True, False])
@pytest.mark.parametrize("form", sorted(PLAIN))
def test_a_snapshot_larger_than_the_queue_comes_to_who_reads(form: str, guaranteed: bool) -> None:
    """In one piece, with what is published meanwhile behind it."""
    stage = filled("/s/1", guaranteed=guaranteed)
    ann = Narrow(stage, "ann", "", PLAIN[form])
    stage.sessions._do(ann.client, Subscribe(id=1, subjects=["/s/1"]), stage.now)
    stage.end()
    assert ann.client.queue is not None and ann.client.queue.size > BOUND
    stage.publish("/s/1", "after")
    size = ann.client.queue.size
    while ann.client.queue is not None and ann.closed is None:
        ann.writable()
    assert ann.closed is None and len(ann.unread) > size
    assert ann.client.allowed == 0, "what is allowed ends with the queue"


def test_who_takes_nothing_is_bounded_and_closed() -> None:
    """Beside what it asked for no more waits than for others; and what it takes of that it cannot ask for again."""
    stage = filled("/s/1")
    ann = Narrow(stage, "ann", "", PLAIN["json"])
    ann.say(Subscribe(id=1, subjects=["/s/1"]))
    queue = ann.client.queue
    assert queue is not None
    before = queue.size
    for number in range(100):
        stage.publish("/s/1", f"{number}" + "y" * 300)
        if ann.closed is not None:
            break
    assert ann.closed == (Close.SLOW_CONSUMER, f"slow_consumer: over {BOUND} bytes waited for this client")
    assert before < queue.size + LARGE < before + 2 * BOUND + LARGE and number < 20


def test_asking_again_and_again_makes_no_more_room() -> None:
    """While it has not taken what it asked for, what it asks for besides waits for that."""
    stage = filled("/s/1", "/s/2", "/s/3")
    ann = Narrow(stage, "ann", "", PLAIN["json"])
    ann.room = 0
    most = 0
    for number in range(50):
        ann.say(Subscribe(id=number, subjects=["/s/1", "/s/2", "/s/3"]))
        ann.say(Unsubscribe(id=number, subjects=["/s/1", "/s/2", "/s/3"]))
        if ann.closed is not None or ann.client.queue is None:
            break
        most = max(most, ann.client.queue.size, ann.client.allowed)
    assert most < LARGE + 3 * BOUND


@pytest.mark.parametrize("guaranteed", [True, False])
@pytest.mark.parametrize("wanted", [["/s/*"], [f"/s/{number}" for number in range(6)]], ids=["pattern", "names"])
def test_many_of_them_come_one_after_the_other(wanted: list[str], guaranteed: bool) -> None:
    """Each once, though each alone fills the queue five times over; live messages follow."""
    names = [f"/s/{number}" for number in range(6)]
    stage = filled(*names, guaranteed=guaranteed)
    ann = Narrow(stage, "ann", "", PLAIN["json"])
    stage.sessions.receive(
        ann.client, b'{"op":"subscribe","id":1,"subjects":%s}' % str(wanted).replace("'", '"').encode(), stage.now
    )
    stage.end()
    got = ann.read(stage)
    assert ann.closed is None
    assert sorted(contents(got, ann)) == [(name, "snapshot", LARGE) for name in names]
    for name in names:
        stage.publish(name, "after")
    assert len(contents(ann.read(stage), ann)) == 6


def test_a_client_that_may_lag_does_not_for_its_snapshot() -> None:
    stage = filled("/s/1")
    ann = Narrow(stage, "ann", "", PLAIN["json"])
    ann.say(Subscribe(id=1, subjects=["/s/1"], slow="conflate"))
    stage.publish("/s/1", "after")
    got = ann.read(stage)
    assert [type(one) for one in got] == [Base, Subscribed, Data, Data]
    assert contents(got, ann)[0] == ("/s/1", "snapshot", LARGE)


@pytest.mark.parametrize("lost", [True, False])
def test_who_lagged_is_pulled_level_by_what_is_larger_than_the_queue(lost: bool) -> None:
    """By what came meanwhile in one message, or by the snapshot where some was lost; then it is live."""
    stage = Stage(limits=LIMITS)
    ann = Narrow(stage, "ann", "", PLAIN["json"])
    ann.say(Subscribe(id=1, subjects=["/s/1"], slow="conflate"))
    ann.read(stage)
    ann.room = 0
    for name in "abcdefgh":
        stage.publish("/s/1", "x", {name: name * (LARGE // 8 if not lost else LARGE // 4)})
    assert ann.client.lag is not None and ann.client.lag.behind
    ann.room = 500
    got = ann.read(stage)
    stage.publish("/s/1", "live")
    got += ann.read(stage)
    assert ann.closed is None
    kinds = [type(one) for one in got if not isinstance(one, Data)]
    assert kinds.count(Lagging) <= 2 and (CaughtUp in kinds or Subscribed in kinds)
    fields: set[str] = set()
    for one in got:
        if isinstance(one, Data):
            fields |= one.fields.keys()
    assert fields == set("abcdefgh")
    assert got[-1].content == "live"  # type: ignore[attr-defined]
    assert ann.client.lag.able and not ann.client.lag.behind


def test_a_merged_message_larger_than_the_queue_comes_to_who_reads() -> None:
    """At the end of an interval: it is one frame, which the socket begins to take."""
    stage = Stage(limits=LIMITS)
    ann = Narrow(stage, "ann", "", PLAIN["json"])
    ann.say(Subscribe(id=1, subjects=["/s/1"], conflation=1000))
    ann.read(stage)
    for _ in range(2):
        for name in "abcd":
            stage.publish("/s/1", "x", {name: name * 3000})
        stage.advance(1000)
        assert contents(ann.read(stage), ann) == [("/s/1", "", 12_000)]
    assert ann.closed is None


def test_what_is_recovered_may_be_larger_than_the_queue() -> None:
    """A slice ends with the message that passes its size."""
    stage = filled("/s/1")
    topic = stage.broker.interest.topics["/s/1"]
    ann = Narrow(stage, "ann", "", PLAIN["json"])
    ann.say(Subscribe(id=1, subjects=["/s/1"], since={"/s/1": (topic.epoch, 0)}))
    got = ann.read(stage)
    assert ann.closed is None
    assert contents(got, ann) == [("/s/1", "recovered", LARGE // 4)] * 4


@pytest.mark.parametrize("deflate", [0, 100])
def test_all_who_ask_wait_for_the_same_bytes(deflate: int) -> None:
    """What is large is made once, and no queue has a copy, until it is another one."""
    stage = filled("/s/1", size=400_000)
    shared = terms_of(wire_of("json", 15 if deflate else 0, deflate))
    frames = []
    for name in ("ann", "bob", "carl"):
        actor = stage.enter(name, terms=PLAIN["json"] if not deflate else shared)
        actor.blocked = True
        actor.say(Subscribe(id=1, subjects=["/s/1"]))
        assert actor.client.queue is not None
        frames.append(max(actor.client.queue.chunks, key=len))
        if name == "bob":
            stage.broker.publish(None, [Message("/s/1", "changed")], stage.now)
    assert len(frames[0]) > (100_000 if not deflate else 300)
    assert (frames[0] is frames[1]) or deflate
    assert frames[2] != frames[1]


@pytest.mark.parametrize("change", ["moved base", "expired", "removed"])
def test_a_shared_frame_is_that_of_the_snapshot_as_it_stands(change: str) -> None:
    stage = filled("/s/1", size=400_000, limits=Limits(outbox_bytes_max=BOUND, snapshot_ms=100_000))
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=["/s/1"]))
    [before] = [one for one in ann.taken() if isinstance(one, Data)]
    if change == "moved base":
        stage.advance(61_000)
        stage.publish("/s/2", "x")
    elif change == "expired":
        stage.advance(101_000)
    else:
        stage.remove("/s/1")
    bob = stage.enter("bob")
    bob.say(Subscribe(id=1, subjects=["/s/1"]))
    found = [one for one in bob.taken() if isinstance(one, Data)]
    if change == "moved base":
        assert found[0].t != before.t and found[0].fields == before.fields
    else:
        assert not found
