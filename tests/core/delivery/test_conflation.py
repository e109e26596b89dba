"""Conflation against a plain model, on the pure core; the examples are in stories/."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.core.delivery.conflation import ConflationState, floor_interval
from fastpath.core.delivery.conflation_clock import Grid
from fastpath.core.protocol.columns import ColumnBatch, expand
from fastpath.core.protocol.messages import STANDARD, Data, Message, Subscribe
from tests.support.core.stage import Stage


def test_intervals_are_floored() -> None:
    """The table of features.md A7, and the bound of an hour."""
    asked = (0, 78, 100, 547, 887, 3_600_000, 10**12)
    assert [floor_interval(interval) for interval in asked] == [0, 0, 100, 500, 800, 3_600_000, 3_600_000]


def test_there_are_as_many_phases_as_grid_slots() -> None:
    """At most interval/100 groups exist per subject and interval."""
    broker = Stage().broker
    assert {Grid(broker, started).phase(500) for started in range(0, 10_000, 7)} == set(range(5))


def test_the_first_interval_of_who_comes_just_before_a_tick_does_not_end_with_it() -> None:
    """The tick of the slot that has begun is due, and has not come."""
    stage = Stage()
    stage.advance(99)
    stage.now += 1
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=["/s/1"], conflation=500))
    ann.taken()
    stage.publish("/s/1", "1")
    stage.broker.grid.tick(stage.now)
    stage.end()
    assert not ann.taken()
    stage.advance(400)
    assert len(ann.taken()) == 1


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 350), st.sampled_from(["a", "b", "c", None]), st.integers(0, 9)), max_size=30),
    st.integers(0, 900),
    st.sampled_from([100, 200, 500, 700]),
)
def test_each_interval_brings_its_newest_content_and_fields(publications: list, joined: int, interval: int) -> None:
    """Two clients at different phases of one interval: each gets exactly the groups of its own grid.

    A publication without a field is a removal: it is told before what came behind it in its group, of which no field is
    older.
    """
    stage = Stage()
    clients = {"ann": stage.now}
    stage.enter("ann").say(Subscribe(id=1, subjects=["/s/1"], conflation=interval))
    stage.advance(joined)
    clients["bob"] = stage.now
    stage.enter("bob").say(Subscribe(id=1, subjects=["/s/1"], conflation=interval))
    for actor in stage.actors.values():
        actor.taken()
    events = []
    for pause, field, value in publications:
        stage.advance(pause)
        if field is None:
            stage.remove("/s/1")
            events.append((stage.now, None, {}))
            continue
        stage.publish("/s/1", str(len(events)), {field: str(value)})
        events.append((stage.now, str(len(events)), {field: str(value)}))
    stage.advance(interval)
    for name, since in clients.items():
        wanted, end = [], since // 100 * 100 + interval
        while end <= stage.now:
            group = [event for event in events if end - interval <= event[0] < end]
            told: list = []
            for _, content, more in group:
                if content is None:
                    told = [("", {}, True)]
                elif told and not told[-1][2]:
                    told[-1] = (content, told[-1][1] | more, False)
                else:
                    told.append((content, more, False))
            wanted += told
            end += interval
        frames = [one for one in stage.actors[name].taken() if isinstance(one, Data)]
        assert [(one.content, one.fields, one.meta.removed) for one in frames] == wanted
        numbers = [one.seq for one in frames]
        assert numbers == sorted(set(numbers))


def test_what_replaces_is_not_merged_with_fields_of_before() -> None:
    """Nor for who comes to the interval later; what comes after it is merged with it."""
    stage = Stage()
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=["/s/1"], conflation=500))
    ann.taken()
    stage.publish("/s/1", "1", {"a": "1", "b": "1"})
    stage.publish("/s/1", "2", {"b": "2"}, replace=True)
    stage.publish("/s/1", "3", {"c": "3"})
    stage.advance(500)
    assert [(one.content, one.fields) for one in ann.taken() if isinstance(one, Data)] == [("3", {"b": "2", "c": "3"})]
    stage.publish("/s/1", "4", {"d": "4"})
    stage.publish("/s/1", "5", replace=True)
    stage.advance(500)
    assert [(one.content, one.fields) for one in ann.taken() if isinstance(one, Data)] == [("5", {})]
    late = stage.enter("late")
    late.say(Subscribe(id=1, subjects=["/s/1"]))
    assert [(one.content, one.fields) for one in late.taken() if isinstance(one, Data)] == [("5", {})]


def test_a_removal_has_the_place_of_the_newest_number_that_it_stands_for() -> None:
    """Also where it has none itself; what came behind it without a number has none."""
    state: ConflationState[int] = ConflationState()
    state.note(Message("/s/1", "1", {"a": "1"}, epoch=7, seq=1))
    state.note(Message("/s/1", "2", {"b": "2"}, epoch=7, seq=2))
    state.note(Message("/s/1", "", {"why": "sold"}, qos=STANDARD, replace=True, removed=True))
    assert [(one.seq, one.epoch, one.fields, one.removed) for one in state.since(0)] == [(2, 7, {"why": "sold"}, True)]
    assert [(one.seq, one.removed) for one in state.since(2)] == [(0, True)]
    state.note(Message("/s/1", "3", {"c": "3"}, qos=STANDARD))
    state.note(Message("/s/1", "4", {"d": "4"}, qos=STANDARD))
    found = [(one.seq, one.content, one.fields, one.removed) for one in state.since(1)]
    assert found == [(2, "", {"why": "sold"}, True), (0, "4", {"c": "3", "d": "4"}, False)]
    assert [(one.content, one.fields) for one in state.since(3)] == [("4", {"c": "3", "d": "4"})]
    assert [(one.content, one.fields) for one in state.since(4)] == [("4", {"d": "4"})]
    assert state.since(5) == []


def test_a_run_that_replaces_is_not_merged_with_fields_of_before() -> None:
    state: ConflationState[int] = ConflationState()
    state.note(Message("/s/1", "1", {"a": "1"}))
    run = ColumnBatch("/s/1", ["2", "3"], {"b": ["2", None], "c": [None, "3"]}, {"replace": True})
    state.note_run(run, expand(run)[-1])
    (found,) = state.since(0)
    assert (found.content, found.fields) == ("3", {"c": "3"})
