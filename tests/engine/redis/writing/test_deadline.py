"""The deadline of a batch, on a clock of the test's."""

from __future__ import annotations

from fastpath.engine.redis.writing.deadline import BatchDeadline


class Clocks:
    """The clock of a node, and that of a Redis which is ``ahead`` of it (ms)."""

    def __init__(self) -> None:
        self.now = 100.0
        self.ahead = 1_700_000_000_000
        self.deadline = BatchDeadline(lambda: self.now)

    def exchange(self, there: float, back: float) -> None:
        """Send and have an answer; seconds that each way takes."""
        self.deadline.set(1.5)
        self.now += there
        time = int(self.now * 1000) + self.ahead
        self.now += back
        self.deadline.answered(time)


def test_no_deadline_is_named_to_a_clock_that_is_not_known() -> None:
    clocks = Clocks()
    assert clocks.deadline.set(1.5) == 0
    assert clocks.deadline.left == 1.5, "but the node waits all the same"
    clocks.deadline.answered(0)
    assert clocks.deadline.set(1.5) == 0, "an answer without a time tells none"
    clocks.exchange(0, 0)
    assert clocks.deadline.set(1.5) > 0
    clocks.deadline.forget()
    assert clocks.deadline.set(1.5) == 0


def test_redis_refuses_before_the_node_gives_up_however_long_answers_were_under_way() -> None:
    for there, back in ((0, 0), (0.4, 0), (0, 0.4), (0.25, 0.25)):
        clocks = Clocks()
        clocks.exchange(there, back)
        until = clocks.deadline.set(1.5)
        over = (clocks.now + clocks.deadline.left) * 1000 + clocks.ahead
        assert over - back * 1000 - 2 <= until <= over


def test_what_got_no_answer_counts_until_its_own_time_is_over() -> None:
    clocks = Clocks()
    clocks.deadline.set(1.5)
    clocks.now += 1
    clocks.exchange(0, 0)
    assert clocks.deadline.left == 0.5, "of the first: the second is answered"
    clocks.now += 1
    assert clocks.deadline.left == 0
