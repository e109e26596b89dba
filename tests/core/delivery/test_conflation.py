"""Conflation against a plain model, on the pure core; the examples are in stories/."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.core.delivery.conflation import floor_interval, phase_of
from fastpath.core.protocol.messages import Data, Subscribe
from tests.support.core.stage import Stage


def test_intervals_are_floored() -> None:
    """The table of features.md A7, and the bound of an hour."""
    asked = (0, 78, 100, 547, 887, 3_600_000, 10**12)
    assert [floor_interval(interval) for interval in asked] == [0, 0, 100, 500, 800, 3_600_000, 3_600_000]


def test_there_are_as_many_phases_as_grid_slots() -> None:
    """At most interval/100 groups exist per subject and interval."""
    assert {phase_of(now, 500) for now in range(0, 10_000, 7)} == set(range(5))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 350), st.sampled_from("abc"), st.integers(0, 9)), max_size=30),
    st.integers(0, 900),
    st.sampled_from([100, 200, 500, 700]),
)
def test_each_interval_brings_its_newest_content_and_fields(publications: list, joined: int, interval: int) -> None:
    """Two clients at different phases of one interval: each gets exactly the groups of its own grid."""
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
        stage.publish("/s/1", str(len(events)), {field: str(value)})
        events.append((stage.now, str(len(events)), {field: str(value)}))
    stage.advance(interval)
    for name, since in clients.items():
        wanted, end = [], since // 100 * 100 + interval
        while end <= stage.now:
            group = [event for event in events if end - interval <= event[0] < end]
            if group:
                fields: dict = {}
                for event in group:
                    fields |= event[2]
                wanted.append((group[-1][1], fields))
            end += interval
        got = [(one.content, one.fields) for one in stage.actors[name].taken() if isinstance(one, Data)]
        assert got == wanted
