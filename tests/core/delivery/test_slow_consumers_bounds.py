"""What waits for clients that lag is bounded: fields gathered, whoever accepted them, and a tick beyond the queue."""

from __future__ import annotations

import pytest

from fastpath.core.delivery.wire import terms_of
from fastpath.core.protocol.limits import FIELDS_MAX, SNAPSHOT_FIELDS_MAX
from fastpath.core.protocol.messages import (
    CaughtUp,
    Data,
    Lagging,
    Message,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
)
from fastpath.core.wires.registry import wire_of
from tests.support.core.lag_reader import SUBJECTS, Reader, nothing_is_left
from tests.support.core.lagging import LONG, SMALL, read, stalled
from tests.support.core.stage import Stage


def test_what_waits_does_not_grow() -> None:
    """Neither bytes nor numbers, however much is published; the others' group is not touched."""
    stage = Stage(limits=SMALL)
    bob = stage.enter("bob")
    bob.say(Subscribe(id=1, subjects=["/s/1", "/s/2"]))
    group = bob.client.group
    ann = stalled(stage, "/s/1", "/s/2")
    size = ann.client.queue.size
    for number in range(1000):
        stage.publish("/s/1", f"{number} {LONG}", {f"f{number % 3}": str(number)})
    assert ann.client.queue.size == size
    assert ann.client.group is None
    assert bob.client.group is group
    assert len(bob.messages()) == 1001
    *_, message, _ = read(stage, ann)
    assert (message.seq, message.fields) == (1001, {"f0": "999", "f1": "997", "f2": "998"})
    assert stage.broker.counters.conflated_away == 999
    assert ann.client.group is group, "they share bytes again"
    assert stage.broker.interest.topics["/s/1"].live is None, "nothing is noted for nobody"


def test_who_lags_does_not_get_publications_refused() -> None:
    """Where the fields gathered for it reach their bound it is closed, and the publication is accepted."""
    stage = Stage(limits=SMALL)
    ann = stalled(stage, "/s/1")
    batches = SNAPSHOT_FIELDS_MAX // FIELDS_MAX + 1
    for batch in range(batches):
        fields = {f"b{batch}-{number}": "" for number in range(FIELDS_MAX)}
        assert stage.publish("/s/1", "x", fields, retained=False) == batch + 2
    assert ann.closed is not None
    assert ann.closed[0] == 4001
    assert nothing_is_left(stage.broker)


def delivered(stage: Stage, subject: str, batch: int, count: int = FIELDS_MAX) -> None:
    """A publication with new fields that another worker accepted: this one was not asked."""
    message = Message(subject, str(batch), {f"b{batch}-{number}": "" for number in range(count)}, retained=False)
    message.weigh()
    stage.broker.engine.append([message], stage.now)
    stage.broker.deliver([message])
    stage.end()


def test_fields_that_other_workers_accepted_are_bounded_where_a_client_lags() -> None:
    stage = Stage(limits=SMALL)
    ann = stalled(stage, "/s/1")
    for batch in range(SNAPSHOT_FIELDS_MAX // FIELDS_MAX):
        delivered(stage, "/s/1", batch)
    assert ann.closed is None
    delivered(stage, "/s/1", 99, 1)
    assert ann.closed is not None
    assert ann.closed[0] == 4001
    assert nothing_is_left(stage.broker)


def test_fields_that_other_workers_accepted_end_an_interval_early() -> None:
    """Nothing is lost: who was in the interval and who joined within it get every field, each once and in order."""
    stage = Stage()
    bob, carl = stage.enter("bob"), stage.enter("carl")
    bob.say(Subscribe(id=1, subjects=["/s/1"], conflation=1000))
    delivered(stage, "/s/1", 0)
    carl.say(Subscribe(id=1, subjects=["/s/1"], conflation=1000))
    for actor in (bob, carl):
        actor.taken()
    live = stage.broker.interest.topics["/s/1"].live
    for batch in range(1, 41):
        delivered(stage, "/s/1", batch)
        assert len(live._fields) <= SNAPSHOT_FIELDS_MAX
    stage.advance(1000)
    for actor, first in ((bob, 0), (carl, 1)):
        got = [one for one in actor.taken() if isinstance(one, Data)]
        names = [name for one in got for name in one.fields]
        assert names == [f"b{batch}-{number}" for batch in range(first, 41) for number in range(FIELDS_MAX)]
        assert [one.seq for one in got] == sorted({one.seq for one in got})
        assert len(got) < 41 / 3
    delivered(stage, "/s/1", 41)
    assert bob.messages() == [], "intervals as before"


def test_a_batch_is_bounded_as_well() -> None:
    """Each of its messages is admitted before the first is delivered."""
    stage = Stage()
    bob = stage.enter("bob")
    bob.say(Subscribe(id=1, subjects=["/s/1"], conflation=1000))
    bob.taken()
    batch = [
        Message("/s/1", "x", {f"{row}-{number}": "" for number in range(FIELDS_MAX)}, retained=False)
        for row in range(100)
    ]
    stage.broker.publish(None, batch, stage.now)
    assert len(stage.broker.interest.topics["/s/1"].live._fields) <= SNAPSHOT_FIELDS_MAX
    stage.end()
    stage.advance(1000)
    got = [one for one in bob.taken() if isinstance(one, Data)]
    assert sum(len(one.fields) for one in got) == 100 * FIELDS_MAX


def burst(stage: Stage, subject: str, count: int, **options: object) -> None:
    """So many long messages in one tick, with a field in each."""
    rows = [Message(subject, f"{number} {LONG}", {f"f{number % 5}": str(number)}, **options) for number in range(count)]
    stage.broker.publish(None, rows, stage.now)
    stage.end()


@pytest.mark.parametrize("deflate", [0, 100])
@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_one_tick_beyond_the_bound_is_conflated_too(form: str, deflate: int) -> None:
    """It is told of the gap in its place, keeps what may not be conflated, and starts anew from the snapshot."""
    stage = Stage(limits=SMALL)
    ann = stage.enter("ann", terms=terms_of(wire_of(form, 15 if deflate else 0, deflate)))
    ann.say(Subscribe(id=1, subjects=["/s/1", "/s/3"], slow="conflate"))
    ann.say(Subscribe(id=2, subjects=["/s/2"]))
    ann.taken()
    ann.blocked = True
    stage.broker.publish(None, [Message("/s/2", "kept")], stage.now)
    burst(stage, "/s/1", 1000)
    assert ann.client.queue.size < SMALL.outbox_bytes_max
    burst(stage, "/s/1", 1000)
    stage.publish("/s/3", "3")
    got = read(stage, ann)
    assert [getattr(one, "content", type(one)) for one in got] == [
        "kept",
        Lagging,
        Lagging,
        Subscribed,
        f"999 {LONG}",
        "3",
        CaughtUp,
    ]
    [result] = got[3].results
    assert (result.subject, result.seq, result.recovery, result.messages) == ("/s/1", 2000, "resynchronised", 1)
    assert got[4].fields == {f"f{number % 5}": str(number) for number in range(995, 1000)}
    assert [ann.subjects[sid] for one in got if isinstance(one, Lagging) for sid in one.sids] == ["/s/1", "/s/3"]
    assert [ann.subjects[sid] for sid in got[6].sids] == ["/s/3"]
    stage.publish("/s/1", "after")
    assert ann.messages() == [("/s/1", 2001, "after")]
    assert stage.broker.counters.resynchronisations == 1
    stage.sessions.close(ann.client)
    assert nothing_is_left(stage.broker)


def test_the_frame_begun_is_finished() -> None:
    """Also where the queue is cut twice, and what had been queued of those that are behind goes as well."""
    stage = Stage(limits=SMALL)
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=["/s/1"], slow="conflate"))
    ann.say(Subscribe(id=2, subjects=["/s/2"]))
    ann.taken()
    ann.blocked = True
    stage.publish("/s/1", "1 " + LONG * 2)
    ann.take(bytes(ann.client.queue.chunks[0]))
    assert [one.content for one in ann.taken()] == ["1 " + LONG * 2]
    ann.client.queue.advance(len(ann.client.queue.chunks[0]) - 10)
    for number in range(2, 6):
        stage.publish("/s/1", f"{number} {LONG}")
    assert ann.client.lag.behind
    stage.publish("/s/2", LONG * 8)
    assert not ann.client.lag.lost
    stage.publish("/s/2", LONG * 4)
    assert ann.client.lag.lost
    ann.say(Unsubscribe(id=3, subjects=["/s/1"]))
    queue = ann.client.queue
    assert queue.size == sum(map(len, queue.chunks)) - queue.sent
    assert len(queue.chunks[0]) - queue.sent == 10
    queue.sent = 0  # so that the whole frame can be read here
    got = read(stage, ann)
    assert [getattr(one, "seq", type(one)) for one in got] == [1, Lagging, 1, 2, Unsubscribed]
    assert [len(one.content) for one in got if isinstance(one, Data)] == [
        2 + len(LONG) * 2,
        len(LONG) * 8,
        len(LONG) * 4,
    ]


@pytest.mark.parametrize("retained", [True, False])
def test_one_tick_beyond_the_bound_of_a_conflated_subscription(retained: bool) -> None:
    """Stored messages may be lost, too; without a snapshot the newest cached message comes."""
    stage = Stage(limits=SMALL)
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=["/s/1"], conflation=1000, slow="conflate"))
    bob = stage.enter("bob")
    bob.say(Subscribe(id=1, subjects=["/s/1"], conflation=1000))
    ann.taken()
    ann.blocked = True
    rows = [Message("/s/1", f"{number} {LONG * 20}", retained=retained) for number in range(3)]
    stage.broker.publish(None, rows, stage.now)
    stage.advance(1000)
    stage.publish("/s/1", "4", retained=retained)
    got = read(stage, ann)
    assert [type(one) for one in got] == [Lagging, Subscribed, Data]
    assert got[1].results[0].conflation == 1000
    assert (got[2].seq, got[2].content) == (4, "4")
    assert got[2].meta.kind == ("snapshot" if retained else "historical")
    stage.advance(1000)
    assert ann.messages() == [], "that was all of this interval"
    assert bob.messages()[-1] == ("/s/1", 4, "4")
    stage.publish("/s/1", "5")
    stage.advance(1000)
    assert ann.messages() == [("/s/1", 5, "5")]


@pytest.mark.parametrize("qos", ["guaranteed", "standard"])
@pytest.mark.parametrize("in_one_tick", [True, False])
def test_a_removal_is_told_also_where_messages_were_lost(qos: str, in_one_tick: bool) -> None:
    """Also of a subject without numbers, of which nothing is left when its last subscriber has gone."""
    stage = Stage(limits=SMALL)
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=["/s/1"], slow="conflate"))
    stage.publish("/s/1", "old", {"a": "1"}, qos=qos)
    ann.taken()
    ann.blocked = True
    rows = [Message("/s/1", f"{number} {LONG * 20}", qos=qos) for number in range(3)]
    removal = Message("/s/1", "", qos=qos, replace=True, removed=True)
    stage.broker.publish(None, [*rows, removal] if in_one_tick else rows, stage.now)
    stage.end()
    if not in_one_tick:
        stage.broker.publish(None, [removal], stage.now)
    *_, result, told = read(stage, ann)
    assert (result.results[0].recovery, result.results[0].messages) == ("resynchronised", 1)
    assert (told.content, told.fields, told.meta.kind, told.meta.removed) == ("", {}, "snapshot", True)
    bob = stage.enter("bob")
    bob.say(Subscribe(id=1, subjects=["/s/1"]))
    assert not bob.messages(), "there is nothing for who comes now"
    stage.sessions.close(ann.client)
    stage.sessions.close(bob.client)
    assert ("/s/1" in stage.broker.interest.topics) is (qos == "guaranteed")


def test_subscribing_again_and_leaving_while_something_is_lost() -> None:
    """Before it has fallen behind, and after: the answer is a new start, and nothing is told of it any more."""
    stage = Stage(limits=SMALL)
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=["/s/1", "/s/2", "/s/3"], slow="conflate"))
    ann.taken()
    ann.blocked = True
    for subject in ("/s/1", "/s/2", "/s/3"):
        stage.broker.publish(None, [Message(subject, LONG * 6)], stage.now)
    stage.broker.flush()
    lag = ann.client.lag
    assert len(lag.lost) == len(lag.able) == 3
    stage.sessions._do(ann.client, Subscribe(id=2, subjects=["/s/1"], slow="conflate"), stage.now)
    stage.broker.flush()
    stage.turn()
    assert len(lag.lost) == 2
    assert len(lag.behind) == 3
    ann.say(Unsubscribe(id=3, subjects=["/s/2"]))
    ann.say(Subscribe(id=4, subjects=["/s/3"]))
    assert not lag.lost
    reader = Reader(ann)
    reader.last, reader.every = dict.fromkeys(SUBJECTS, 0), dict.fromkeys(SUBJECTS, 0)
    reader.fields = {subject: {} for subject in SUBJECTS}
    ann.unblock()
    stage.end()
    stage.advance(200)  # a stored message had no room before
    reader.read()
    assert not reader.behind
    assert reader.content["/s/1"] == reader.content["/s/3"] == LONG * 6
    assert "/s/2" not in reader.content
