"""Releasing runs is publishing their rows one by one: nobody can tell which of the two was done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.core.auth.grants import Grants
from fastpath.core.broker import column_batches
from fastpath.core.broker.admission import Outcome
from fastpath.core.broker.column_batches import RunOutcome, deliver_runs, release_runs
from fastpath.core.broker.observers import PublicationListener
from fastpath.core.protocol.columns import ColumnBatch, expand
from fastpath.core.protocol.limits import SNAPSHOT_FIELDS_MAX, Limits
from fastpath.core.protocol.messages import STANDARD, Data, Message, Subscribe, Unsubscribe
from fastpath.core.protocol.options import OptionRow
from fastpath.engine.memory import MemoryEngine
from tests.support.core.stage import START, Following, Stage

KEY = "3:bob:tx"
TIGHT = Limits(outbox_bytes_max=4000, cache_messages=5, snapshot_ms=250, cache_ms=400)
"""A client lags from 1000 queued bytes on; a run is longer than the cache; snapshots and cached messages expire."""

NAMES = st.sampled_from(["ann", "bob"])
SUBJECTS = st.sampled_from(["/s/1", "/s/2", "/s/3"])
VALUE = st.sampled_from(["", "1", "€", b"\x00\xff", "x" * 400])
META = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "retained": st.booleans(),
        "qos": st.sampled_from(["guaranteed", "guaranteed", "standard"]),
        "closure": st.just("c"),
        "as_of": st.sampled_from(["now", {"version": 1}, {"version": 2}, {"version": 3, "job": "j"}]),
    },
)


@st.composite
def a_run(draw: st.DrawFn) -> ColumnBatch:
    """A run as it is staged."""
    rows = draw(st.sampled_from([1, 1, 2, 3, 8]))
    column = st.lists(st.none() | VALUE, min_size=rows, max_size=rows) | st.just(["7"] * rows)
    fields = draw(st.none() | st.dictionaries(st.sampled_from("abc"), column, max_size=2))
    contents = draw(st.lists(VALUE, min_size=rows, max_size=rows))
    return ColumnBatch(draw(SUBJECTS), contents, fields, draw(META))


STEP = st.one_of(
    st.tuples(st.just("release"), st.lists(a_run(), min_size=1, max_size=4), st.sampled_from([0, 0, 1, 2, 9])),
    st.tuples(st.just("publish"), SUBJECTS, st.sampled_from([None, {"version": 2}])),
    st.tuples(st.just("subscribe"), NAMES, st.tuples(SUBJECTS, st.sampled_from([0, 0, 200]), st.booleans())),
    st.tuples(st.just("history"), NAMES, SUBJECTS),
    st.tuples(st.just("unsubscribe"), NAMES, SUBJECTS),
    st.tuples(st.just("stall"), NAMES, st.none()),
    st.tuples(st.just("read"), NAMES, st.none()),
    st.tuples(st.just("options"), st.none() | st.booleans(), st.sampled_from([None, "guaranteed", "standard"])),
    st.tuples(st.just("epoch"), st.none(), st.none()),
    st.tuples(st.just("wait"), st.none(), st.sampled_from([100, 300, 61_000])),
)


class Side:
    """One of two stages with the same history: rows of runs are released, or published one by one."""

    def __init__(self, *, whole: bool, told: bool) -> None:
        self.stage = Stage(limits=TIGHT)
        self.whole = whole
        self.left: list[Any] = []
        if told:
            self.stage.broker.history.told = lambda message, why: self.left.append((seen(message), why))
        for name in ("ann", "bob"):
            self.stage.enter(name)

    def release(self, runs: list[ColumnBatch], first: int, stored: int) -> list[RunOutcome]:
        """The outcomes of the runs; what has a number up to ``stored`` is known already."""
        broker, now = self.stage.broker, self.stage.now
        if self.whole:
            told: list[RunOutcome] = []
            release_runs(broker, runs, KEY, first, now, told.extend)
            return told
        messages: list[Message] = []
        known: list[int] = []
        for run in runs:
            rows = expand(run, publisher=KEY, first=first)
            known.append(sum(message.publication <= stored for message in rows))
            messages += [message for message in rows if message.publication > stored]
            first += len(run)
        answers: list[Outcome] = []
        broker.publish(None, messages, now, answers.extend)
        outcomes: list[RunOutcome] = []
        for run, before in zip(runs, known, strict=True):
            own = answers[: len(run) - before]
            del answers[: len(run) - before]
            refusals = {one for one in own if isinstance(one, tuple)}
            assert len(refusals) <= 1 and (not refusals or len(own) == sum(isinstance(one, tuple) for one in own))
            outcomes.append(refusals.pop() if refusals else len(run))  # type: ignore[arg-type]
        return outcomes

    def do(self, what: str, who: Any, more: Any) -> None:
        """A step that is the same for both; who was closed for its queue comes back first."""
        stage = self.stage
        for name in [name for name, actor in stage.actors.items() if actor.closed is not None]:
            stage.enter(name)
        match what:
            case "publish":
                stage.broker.publish(None, [Message(who, "one", {"a": "own"}, as_of=more)], stage.now)
            case "subscribe":
                subject, interval, able = more
                slow = "conflate" if able else "close"
                command = Subscribe(id=1, subjects=[subject], conflation=interval, slow=slow)
                stage.sessions._do(stage.actors[who].client, command, stage.now)
            case "history":
                command = Subscribe(id=1, subjects=[more], history=4)
                stage.sessions._do(stage.actors[who].client, command, stage.now)
            case "unsubscribe":
                stage.sessions._do(stage.actors[who].client, Unsubscribe(id=1, subjects=[more]), stage.now)
            case "stall":
                stage.actors[who].blocked = True
            case "read":
                stage.actors[who].unblock()
            case "options":
                row = OptionRow(1, "/s/*", retained=who, delivery=more)
                stage.sessions.rights.options.replace([row, OptionRow(2, "/s/3", retained=True)])
            case "epoch":
                stage.broker.engine.epoch += 1
            case "wait":
                stage.advance(more)
        stage.end()

    def state(self) -> Any:
        """What can be seen of it."""
        broker = self.stage.broker
        topics = {
            topic.subject: (
                (topic.sid, topic.epoch, topic.seq, topic.floor, topic.version, topic.known),
                [seen(message) for message in topic.ring or ()],
                topic.snapshot and (seen(topic.snapshot.newest), topic.snapshot.fields),
            )
            for topic in broker.interest.topics.values()
        }
        history, counters = broker.history, broker.counters
        counted = {name: getattr(counters, name) for name in counters.__slots__ if name != "bytes_out"}
        kept = (history.bytes, history.messages, history.evicted_by_count, history.evicted_by_age)
        return topics, kept, counted, self.left, broker.base


def seen(message: Message) -> tuple[Any, ...]:
    """All that matters of a message once it is stored."""
    left_out = ("meta", "publisher", "publication", "fields")
    return message.fields or None, *(getattr(message, n) for n in Message.__struct_fields__ if n not in left_out)


WAYS = {"as runs": (0, False), "told what leaves the cache": (0, True), "short ones as rows": (3, False)}


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=100, deadline=None)
@given(steps=st.lists(STEP, min_size=1, max_size=25))
def test_nobody_can_tell_runs_from_their_rows(way: str, steps: list) -> None:
    """What subscribers, conflating and lagging clients get, what is cached, the snapshots, positions and outcomes."""
    short, told = WAYS[way]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_batches, "SHORT_ROWS", short)
        compare(steps, told=told)


def compare(steps: list, *, told: bool) -> None:
    """Both sides do the steps."""
    sides = [Side(whole=True, told=told), Side(whole=False, told=told)]
    following = 1  # the next number of the publisher
    stored = 0  # its last one that is stored
    for what, who, more in steps:
        if what == "release":
            first = max(1, following - more)
            outcomes = [side.release(who, first, stored) for side in sides]
            assert outcomes[0] == outcomes[1]
            for run, outcome in zip(who, outcomes[0], strict=True):
                first += len(run)
                if isinstance(outcome, int):
                    stored = max(stored, first - 1)
            following = max(following, first)
            for side in sides:
                side.stage.end()
        else:
            for side in sides:
                side.do(what, who, more)
        for name in ("ann", "bob"):
            assert sides[0].stage.actors[name].taken() == sides[1].stage.actors[name].taken()
        assert sides[0].state() == sides[1].state()
    assert sides[0].stage.broker.engine.stored(KEY) == stored


class Listening(PublicationListener):
    """Keeps what is delivered."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def delivering(self, messages: Any) -> None:
        self.rows += [(message.subject, message.seq, message.content) for message in messages]

    def sampled(self, messages: Any, number: int) -> int:
        self.delivering(messages)
        return number + 1


def test_who_follows_gets_every_row_as_a_message() -> None:
    """The log between workers, a trail, and samples; the cache and the snapshot are the same."""
    for kind in ("log", "trail", "sample"):
        stage, trail = Stage(), Listening()
        if kind == "log":
            stage.broker.log = trail.delivering
        elif kind == "trail":
            stage.broker.follow(trail, True)
        else:
            stage.broker.sample_from(3, trail.sampled)
        runs = [ColumnBatch("/a/b", ["1", "2"]), ColumnBatch("/a/c", ["3"], {"f": ["x"]})]
        release_runs(stage.broker, runs, KEY, 1, stage.now)
        assert trail.rows == [("/a/b", 1, "1"), ("/a/b", 2, "2"), ("/a/c", 1, "3")]
        assert stage.broker.counters.messages_in == 3
        assert [message.content for message in stage.broker.interest.topics["/a/b"].ring or ()] == ["1", "2"]


def test_only_the_rows_that_are_needed_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without who is subscribed: those that the cache keeps; without a cache the last; where nothing is kept none."""
    made: list[int] = []
    monkeypatch.setattr(
        column_batches,
        "expand",
        lambda run, start=0, **more: made.append(len(run) - start) or expand(run, start, **more),
    )
    many = [str(number) for number in range(50)]
    for limits, meta, rows in (
        (TIGHT, None, [5]),
        (replace(TIGHT, cache_messages=0), None, [1]),
        (TIGHT, {"qos": STANDARD}, [1]),
        (TIGHT, {"qos": STANDARD, "retained": False}, []),
    ):
        made.clear()
        stage = Stage(limits=limits)
        release_runs(stage.broker, [ColumnBatch("/a/b", many, None, meta)], KEY, 1, stage.now)
        assert made == rows
        assert stage.broker.counters.messages_in == 50


def test_a_server_without_guarantee_or_without_snapshots_keeps_none() -> None:
    """As for publications; and all that is kept of a subject names it by one text."""
    many = [str(number) for number in range(5)]
    for option, cached, newest in (("guaranteed", 0, "4"), ("snapshots", 5, None)):
        stage = Stage(**{option: False})
        release_runs(stage.broker, [ColumnBatch("/a/" + option, many)], KEY, 1, stage.now)
        release_runs(stage.broker, [ColumnBatch("/a/" + option[:], many)], KEY, 6, stage.now)
        topic = stage.broker.interest.topics["/a/" + option]
        assert len(topic.ring or ()) == 2 * cached
        assert all(message.subject is topic.subject for message in topic.ring or ())
        assert (topic.snapshot and topic.snapshot.newest.content) == newest


def test_what_is_refused_when_it_is_released() -> None:
    """A subject that cannot be, one that belongs to the server, too many of them, too many fields; others go on."""
    stage = Stage(Grants(), Limits(subjects_max=2))
    told: list[RunOutcome] = []
    wide = {f"f{number}": ["x"] for number in range(SNAPSHOT_FIELDS_MAX)}
    runs = [
        ColumnBatch("/a/b", ["1"], wide),
        ColumnBatch("a", ["1"]),
        ColumnBatch("/__sys__/cluster", ["1"]),
        ColumnBatch("/a/c", ["1", "2"]),
    ]
    release_runs(stage.broker, runs, KEY, 1, stage.now, told.extend)
    codes = [one if isinstance(one, int) else one[0] for one in told]
    assert codes == [1, "invalid", "denied", 2]
    told.clear()
    release_runs(
        stage.broker,
        [ColumnBatch("/a/d", ["1"]), ColumnBatch("/a/b", ["1", "2"], {"g": ["x", None]})],
        KEY,
        6,
        stage.now,
        told.extend,
    )
    assert [(one[0], one[1]) for one in told if isinstance(one, tuple)] == [
        ("failed", "the server already holds 2 subjects"),
        ("too_large", f"the subject's snapshot would hold over {SNAPSHOT_FIELDS_MAX} fields"),
    ]
    assert stage.broker.counters.refusals == {"invalid": 1, "denied": 1, "failed": 1, "too_large": 2}
    assert stage.broker.engine.stored(KEY) == 5


def test_more_fields_than_an_interval_may_gather_end_it_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conflating client gets every field of runs that were released together."""
    monkeypatch.setattr(column_batches, "SHORT_ROWS", 0)
    stage = Stage()
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=["/a/b"], conflation=1000))
    runs = [
        ColumnBatch("/a/b", ["x"], {f"f{number}": ["1"] for number in range(start, start + 200)}, {"retained": False})
        for start in range(0, SNAPSHOT_FIELDS_MAX + 200, 200)
    ]
    release_runs(stage.broker, runs, KEY, 1, stage.now)
    live = stage.broker.interest.topics["/a/b"].live
    assert live is not None
    assert not live.full
    stage.advance(1000)
    got = [one for one in ann.taken() if isinstance(one, Data)]
    assert len(got) == 2
    assert len({name for one in got for name in one.fields}) == 200 * len(runs)


def test_where_rows_are_numbered_elsewhere_they_go_there_and_its_answers_are_those_of_runs() -> None:
    """Each row with its number; what was stored before counts as stored, what was not is refused with the run."""
    sent: list[Any] = []

    class Elsewhere(Following):
        def submit(self, messages: Any, now: int, done: Any) -> None:
            sent.extend((one.subject, one.content, one.publisher, one.publication) for one in messages)
            done([7, (5, 8), ("stale", "long ago"), 9, ("unavailable", "no primary"), 3])

    stage = Stage(engine=Elsewhere())
    told: list[RunOutcome] = []
    runs = [
        ColumnBatch("/a/b", ["1", "2", "3"]),
        ColumnBatch("a", ["x"]),
        ColumnBatch("/a/c", ["4", "5"]),
        ColumnBatch("/a/d", ["6"]),
    ]
    release_runs(stage.broker, runs, KEY, 41, stage.now, told.extend)
    assert sent == [
        ("/a/b", "1", KEY, 41),
        ("/a/b", "2", KEY, 42),
        ("/a/b", "3", KEY, 43),
        ("/a/c", "4", KEY, 45),
        ("/a/c", "5", KEY, 46),
        ("/a/d", "6", KEY, 47),
    ]
    assert told == [3, told[1], ("unavailable", "no primary"), 1]
    assert isinstance(told[1], tuple) and told[1][0] == "invalid"


def test_it_is_told_when_the_outcomes_are_safe() -> None:
    """As of ``Broker.publish``; and whoever numbers is told before."""
    waiting: list[Any] = []
    order: list[str] = []

    class Syncing(MemoryEngine):
        def acknowledging(self, done: Any) -> Any:
            return lambda outcomes: waiting.append((done, outcomes))

    class Noting:
        since = 0

        def accept(self) -> None:
            order.append("accepting")

        def begin(self) -> int:
            raise AssertionError("nobody collects")

        def release(self, began: int, deliveries: int) -> None:
            raise AssertionError("nobody collects")

    stage = Stage(engine=Syncing(START))
    stage.broker.time_deliveries(Noting())
    told: list[RunOutcome] = []
    release_runs(stage.broker, [ColumnBatch("/a/b", ["1", "2"])], KEY, 1, stage.now, told.extend)
    assert order == ["accepting"]
    assert not told
    ((done, outcomes),) = waiting
    done(outcomes)
    assert told == [2]


def test_a_memory_budget_holds_for_runs_too() -> None:
    """Runs push out what is oldest over all subjects."""
    stage = Stage(limits=Limits(cache_bytes=20_000))
    for number in range(40):
        release_runs(stage.broker, [ColumnBatch(f"/a/{number % 7}", ["x" * 100] * 9)], KEY, 1 + 9 * number, stage.now)
        assert stage.broker.history.bytes <= 20_000
    assert stage.broker.history.evicted_by_memory > 200


def test_rows_that_do_not_follow_what_is_cached_empty_the_ring() -> None:
    """What lies between is not here: nobody recovers across it."""
    stage = Stage()
    broker = stage.broker
    release_runs(broker, [ColumnBatch("/a/b", ["1", "2"])], KEY, 1, stage.now)
    deliver_runs(broker, [ColumnBatch("/a/b", ["7", "8", "9"])], [7], stage.now)
    topic = broker.interest.topics["/a/b"]
    assert [message.seq for message in topic.ring or ()] == [7, 8, 9]
    assert broker.history.since(topic, topic.epoch, 2) is None
