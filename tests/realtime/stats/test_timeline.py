"""Samples of several nodes, put side by side by the collector's clock."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.core.telemetry.samples import NAMES, RING_SECONDS
from realtime.stats.timeline import WAIT_SECONDS, Sample, SampledNode, Timeline, together
from tests.support.realtime.told import Told

START = 1_800_000_000.0
"""The clock on the wall when a story begins; the one that never jumps is at 0 then."""


class Story:
    """Nodes that are asked at moments of a story; ``closed`` is what came out."""

    def __init__(self, **nodes: Told) -> None:
        self.nodes = nodes
        self.timeline = Timeline()
        self.timeline.expect(nodes, 0.0)
        self.closed: dict[int, Sample] = {}

    def ask(self, moment: float, *names: str, delay: float = 0.0) -> None:
        """Ask these, and close what can be closed; the answers took so long."""
        for name in names:
            answer = self.nodes[name].answer(moment, self.timeline.wanted(name))
            self.timeline.take(name, answer, START + moment + delay, moment + delay)
        for second, sample in self.timeline.close(START + moment + delay, moment + delay):
            assert second not in self.closed
            self.closed[second] = sample

    def values(self, name: str = "connections") -> list[float]:
        return [sample[name] for _, sample in sorted(self.closed.items())]


def test_a_second_is_the_sum_of_all_nodes() -> None:
    """Of lateness the largest; of nodes on one engine the messages are the same."""
    plain, shared = {"connections": 2.0, "loop_lag_ms": 9.0, "subjects": 4.0}, {"connections": 1.0, "subjects": 7.0}
    assert together([(plain, False), (shared, False)]) == {"connections": 3, "loop_lag_ms": 9, "subjects": 11}
    assert together([(plain, True), (shared, True)])["subjects"] == 7


def test_seconds_wait_for_all_nodes_and_are_closed_once() -> None:
    story = Story(a=Told(), b=Told(clock=77.0, server="b"))
    for moment in range(1, 6):
        story.nodes["a"].sample(moment, connections=1)
        story.nodes["b"].sample(moment, connections=10)
    story.ask(5.3, "a")
    assert story.closed == {}, "b may still tell"
    story.ask(5.4, "b")
    assert story.values() == [11] * 5
    story.ask(5.5, "a", "b")
    assert len(story.closed) == 5


def test_a_node_that_tells_nothing_is_waited_for_no_longer_than_so() -> None:
    """Then the others go on, and what it tells late of seconds that are closed is not added."""
    story = Story(a=Told(), b=Told(server="b"))
    for moment in range(1, 30):
        story.nodes["a"].sample(moment, connections=1)
        story.nodes["b"].sample(moment, connections=10)
    story.ask(WAIT_SECONDS - 0.1, "a")
    assert story.closed == {}
    story.ask(WAIT_SECONDS + 1, "a")
    assert story.values() == [1] * 29
    story.nodes["a"].sample(30, connections=1)
    story.nodes["b"].sample(30, connections=10)
    story.ask(30.2, "a", "b")
    assert story.values() == [1] * 29 + [11]


def test_a_node_that_is_gone_holds_up_nobody() -> None:
    """And comes back as another process, whose numbers mean other seconds."""
    story = Story(a=Told(), b=Told(server="b"))
    for moment in range(1, 4):
        story.nodes["a"].sample(moment, connections=1)
    story.timeline.gone("b")
    story.ask(3.2, "a")
    assert story.values() == [1, 1, 1]
    story.nodes["b"] = Told(clock=1.0, server="c")
    for moment in (4, 5):
        story.nodes["a"].sample(moment, connections=1)
        story.nodes["b"].sample(moment, connections=10)
    story.ask(5.2, "b", "a")
    assert story.values() == [1, 1, 1, 11, 11]


def test_without_any_node_time_goes_on() -> None:
    story = Story(a=Told())
    story.timeline.gone("a")
    story.ask(100.0)
    assert story.timeline.through == int(START) + 98
    assert story.closed == {}


def test_a_hole_is_filled_with_the_average_of_all_that_time() -> None:
    """So that the sum of a rate over the seconds is what was counted."""
    story = Story(a=Told())
    story.nodes["a"].sample(1, connections_per_s=0)
    story.nodes["a"].sample(4, seconds=3, connections_per_s=10)
    story.ask(4.3, "a")
    assert story.values("connections_per_s") == [0, 10, 10, 10]


def test_a_process_that_was_stopped_for_long_is_no_flood_of_seconds() -> None:
    """No more than a node keeps samples of."""
    story = Story(a=Told())
    story.nodes["a"].sample(100_000, seconds=99_999, connections=1)
    story.ask(100_000.3, "a")
    assert len(story.closed) == RING_SECONDS


@settings(max_examples=30)
@given(st.lists(st.floats(-0.45, 0.45), min_size=2, max_size=20), st.floats(0, 1))
def test_jitter_moves_no_sample(delays: list[float], phase: float) -> None:
    """Each second has one sample, in their order, however long the answers take and whatever part of a second it is."""
    node = Told(clock=5000 + phase)
    story = Story(a=node)
    for moment, delay in enumerate(delays, 1):
        node.rows.append([round(node.clock + moment - 0.25), 1, *([float(moment)] * len(NAMES[1:]))])
        story.ask(moment, "a", delay=delay)
    assert story.values() == list(range(1, len(delays) + 1))
    seconds = sorted(story.closed)
    assert seconds == list(range(seconds[0], seconds[0] + len(delays)))


@settings(max_examples=40)
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.floats(-0.3, 0.3)), min_size=1, max_size=30))
def test_whenever_it_is_restarted_each_sample_is_told_once(steps: list[tuple[bool, bool, float]]) -> None:
    """Of two nodes, of which now one is asked, now both, from where it was saved last or from where it is."""
    story = Story(a=Told(clock=5000.4), b=Told(clock=12.9, server="b"))
    for moment, (both, restart, delay) in enumerate([*steps, (True, False, 0.0)], 1):
        for name, node in story.nodes.items():
            node.sample(moment, connections=moment * (1 if name == "a" else 1000))
        story.ask(moment + 0.5, *("ab" if both else "a"), delay=delay)
        if restart:
            saved = {
                name: SampledNode(node.server, node.base) for name, node in story.timeline.nodes.items() if node.server
            }
            story.timeline = Timeline(story.timeline.through, saved)
            story.timeline.expect(story.nodes, moment + 0.6)
    story.ask(len(steps) + 1.7, "a", "b")
    story.ask(1000.0)  # of two nodes one may be a second ahead: close that, too
    assert sum(story.values()) == 1001 * sum(range(1, len(steps) + 2))


def test_a_clock_that_drifts_is_followed() -> None:
    """A node whose clock is slower than the collector's ends up in the right second, at the cost of a hole."""
    node, story = Told(), Story()
    story.nodes = {"a": node}
    story.timeline.expect(["a"], 0.0)
    for number in range(1, 400):
        moment = number * 1.01  # its seconds are too long
        node.rows.append([round(node.clock) + number, 1, *([float(number)] * len(NAMES[1:]))])
        answer = node.answer(0, story.timeline.wanted("a")) | {"now": node.clock + number}
        story.timeline.take("a", answer, START + moment, moment)
        for second, sample in story.timeline.close(START + moment, moment):
            assert abs(second + 1 - (START + sample["connections"] * 1.01)) <= 2.1
            assert second not in story.closed
            story.closed[second] = sample
    assert story.values() == list(range(1, 400))


def test_a_node_that_is_placed_anew_tells_nothing_twice() -> None:
    """Also where it has nothing new to tell when it turns out that its clock has stood still."""
    story = Story(a=Told())
    story.nodes["a"].sample(1, connections=1)
    story.ask(1.2, "a")
    story.nodes["a"].clock -= 5
    story.ask(6.3, "a")
    story.nodes["a"].sample(7, connections=7)
    story.ask(7.2, "a")
    assert story.closed == {int(START): {"connections": 1}, int(START) + 6: {"connections": 7}}


@pytest.mark.parametrize("jump", [3600, -3600])
def test_the_clock_jumps_and_samples_go_on_in_the_next_second(jump: int) -> None:
    story = Story(a=Told())
    story.nodes["a"].sample(1, connections=1)
    story.ask(1.2, "a")
    story.timeline.move(jump)
    before = story.timeline.through
    story.nodes["a"].sample(2, connections=2)
    answer = story.nodes["a"].answer(2.2, story.timeline.wanted("a"))
    assert len(answer["rows"]) == 1
    story.timeline.take("a", answer, START + jump + 2.2, 2.2)
    [(second, sample)] = story.timeline.close(START + jump + 2.2, 2.2)
    assert (second, sample["connections"]) == (before + 1, 2)


def test_seconds_that_are_open_move_with_the_clock() -> None:
    """What one node has told, and another not yet, is added up all the same."""
    story = Story(a=Told(), b=Told(server="b"))
    for node, connections in (("a", 1), ("b", 10)):
        story.nodes[node].sample(1, connections=connections)
    story.ask(1.2, "a")
    story.timeline.move(7200)
    answer = story.nodes["b"].answer(1.4, {})
    story.timeline.take("b", answer, START + 7200 + 1.4, 1.4)
    assert [sample["connections"] for _, sample in story.timeline.close(START + 7200 + 1.4, 1.4)] == [11]


def test_what_is_taken_up_from_where_it_was_saved_is_counted_once() -> None:
    """A collector that ends goes on with what no second has told yet, in the same seconds."""
    story = Story(a=Told())
    for moment in range(1, 11):
        story.nodes["a"].sample(moment, connections=moment)
    story.ask(5.0, "a")
    first = dict(story.closed)
    again = Timeline(max(first) - 3, {"a": SampledNode("a", story.timeline.nodes["a"].base)})
    again.expect(["a"], 20.0)
    asked = again.wanted("a")
    assert asked["after"] == story.nodes["a"].rows[0][0] + len(first) - 4, "no more than is needed"
    again.take("a", story.nodes["a"].answer(11.4, asked), START + 11.4 + 0.8, 21.0)
    closed = dict(again.close(START + 12, 21.0))
    assert sorted(closed) == sorted(first)[-3:]
    assert all(first[second] == closed[second] for second in closed)
