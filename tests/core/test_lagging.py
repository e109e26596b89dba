"""Clients that lag and agreed to conflation: told at every gap, never backwards, level in the end, cheap meanwhile."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.core import lagging
from fastpath.core.broker import Broker
from fastpath.core.grants import RuleGrants
from fastpath.core.limits import FIELDS_MAX, SNAPSHOT_FIELDS_MAX, Limits
from fastpath.core.messages import (
    STANDARD,
    CaughtUp,
    Data,
    Epoch,
    Lagging,
    Message,
    Revoked,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
)
from fastpath.core.wire import encoding, wire
from tests.core.stage import Actor, Stage
from tests.core.test_rights import SECRET, change, fill, mint, rule

LONG = "x" * 300
SMALL = Limits(outbox_bytes_max=4000)
"""A client lags from 1000 queued bytes on: the fourth long message."""

SUBJECTS = ("/s/1", "/s/2", "/s/3", "/s/4")
NAMES = st.sampled_from(["ann", "bob", "carl"])
SOME = st.sets(st.sampled_from(SUBJECTS), min_size=1)
STEP = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from(SUBJECTS), st.integers(1, 6)),
    st.tuples(st.just("publish"), st.sampled_from(SUBJECTS), st.integers(1, 6)),
    st.tuples(st.just("standard"), st.sampled_from(SUBJECTS), st.just(1)),
    st.tuples(st.just("subscribe"), NAMES, st.tuples(SOME, st.sampled_from([0, 0, 200]), st.booleans())),
    st.tuples(st.just("unsubscribe"), NAMES, SOME),
    st.tuples(st.just("stall"), NAMES, st.none()),
    st.tuples(st.just("read"), NAMES, st.none()),
    st.tuples(st.just("leave"), NAMES, st.none()),
    st.tuples(st.just("turn"), st.none(), st.none()),
    st.tuples(st.just("end"), st.none(), st.none()),
    st.tuples(st.just("wait"), st.none(), st.sampled_from([100, 300])),
)


class Reader:
    """What a client knows of its subjects, from the wire alone; it fails at a gap that was not announced."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.slow: dict[str, str] = {}
        self.every: dict[str, int] = {}
        self.last: dict[str, int] = {}
        self.content: dict[str, str] = {}
        self.fields: dict[str, dict[str, str]] = {}
        self.behind: set[str] = set()
        self.lagged = 0

    def read(self) -> None:
        """Take in what came."""
        for one in self.actor.taken():
            match one:
                case Subscribed():
                    for result in one.results:
                        self.behind.discard(result.subject)
                        if not result.error:
                            self.last[result.subject] = result.seq
                            self.every[result.subject] = result.conflation
                            if result.messages == 0:
                                self.content[result.subject], self.fields[result.subject] = "", {}
                case Unsubscribed():
                    self.behind.difference_update(one.subjects)
                case Lagging():
                    self.lagged += 1
                    for sid in one.sids:
                        assert self.actor.subjects[sid] not in self.behind
                        self.behind.add(self.actor.subjects[sid])
                case CaughtUp():
                    for sid in one.sids:
                        self.behind.remove(self.actor.subjects[sid])
                case Data():
                    self.message(self.actor.subjects[one.sid], one)

    def message(self, subject: str, one: Data) -> None:
        """A snapshot, or an update in its place."""
        self.content[subject] = one.content
        if one.meta.kind:
            self.fields[subject] = dict(one.fields)
            return
        self.fields[subject].update(one.fields)
        if one.seq:
            assert one.seq > self.last[subject], "never backwards, nothing twice"
            assert one.seq == self.last[subject] + 1 or subject in self.behind or self.every[subject], "told"
            self.last[subject] = one.seq


class Model:
    """The stage, its readers, and what was published."""

    def __init__(self) -> None:
        self.stage = Stage(limits=SMALL)
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

    def do(self, what: str, who: str, more: object) -> None:
        stage = self.stage
        if what == "publish":
            self.publish(who, more)
        elif what == "standard":
            self.publish(who, more, qos=STANDARD)
        elif what in ("end", "turn"):
            getattr(stage, what)()
        elif what == "wait":
            stage.advance(more)
        else:
            self.act(what, who, more)

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
            stage.sessions.close(actor.client)
            del stage.actors[who], self.readers[who], self.wanted[who]
        else:
            actor.blocked = what == "stall"
            if what == "read":
                actor.unblock()

    def finish(self) -> None:
        """Everybody reads again, and nothing more is published."""
        self.stage.end()
        for _ in range(4):
            for actor in self.stage.actors.values():
                actor.unblock()
            self.stage.advance(500)


def nothing_is_left(broker: Broker) -> bool:
    """Whether nobody's subscription has left a trace."""
    topics = broker.interest.topics.values()
    used = [topic for topic in topics if topic.live is not None or topic.feed is not None or topic.conflated]
    return not (used or broker.interest.groups or broker._slots or broker.counters.subscriptions)


@settings(max_examples=300, deadline=None)
@given(st.lists(STEP, max_size=60))
def test_whoever_lags_is_told_and_level_in_the_end(steps: list) -> None:
    """Within ticks and across them: publications, stalls, repeated subscriptions of every kind, departures."""
    model = Model()
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


def stalled(stage: Stage, *subjects: str, **options: object) -> Actor:
    """Ann has subscribed, reads nothing, and lags since a long message on the first subject."""
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=list(subjects), slow="conflate", **options))
    ann.taken()
    ann.blocked = True
    stage.publish(subjects[0], "x" * stage.broker.limits.lag_bytes)
    assert ann.client.lag is not None
    assert list(ann.client.lag.behind) == [stage.broker.interest.topics[subject] for subject in subjects]
    return ann


def read(stage: Stage, actor: Actor) -> list[object]:
    """What the client gets when it reads again."""
    actor.unblock()
    stage.end()
    return actor.taken()


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
    assert not stage.broker._slots
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
    lagging.catch_up(stage.broker, ann.client)
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
    ann = stage.enter("ann", wire=wire(encoding(form, 15 if deflate else 0, deflate)))
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
    for _ in range(2):
        stage.publish("/s/2", LONG * 4)
    assert ann.client.lag.lost
    queue = ann.client.queue
    assert queue.size == sum(map(len, queue.chunks)) - queue.sent
    assert len(queue.chunks[0]) - queue.sent == 10
    queue.sent = 0  # so that the whole frame can be read here
    got = read(stage, ann)
    assert [getattr(one, "seq", type(one)) for one in got] == [1, Lagging, 1, 2, 3, Subscribed, 5]
    assert [one.content for one in got if isinstance(one, Data)][-1] == f"5 {LONG}"


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


def test_an_unknown_policy_is_refused() -> None:
    ann = Stage().enter("ann")
    ann.say(Subscribe(id=1, subjects=["/s/1"], slow="drop"))
    assert ann.taken()[-1].reason == 'slow is "close" or "conflate"'
