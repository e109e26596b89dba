"""How questions are handed to those who run the hook: windows, turns, and what becomes of a runner's questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastpath.core.auth.hook_questions import LATE, HookReply
from fastpath.core.auth.reasons import AWAY
from fastpath.edge.hooks.workers import PASSED_SECONDS, TOLD_BYTES_MAX, TURN_MAX, WINDOW, Runners

SECONDS = 5


class Peer:
    """A connection of the control socket that notes what it is pushed."""

    request = 0

    def __init__(self) -> None:
        self.ended: list[Callable[[], None]] = []
        self.got: list[dict[str, Any]] = []
        self.unsent = 0

    def push(self, name: str, content: dict[str, Any]) -> int:
        """Noted."""
        assert name == "ask"
        self.got.append(content)
        return self.unsent

    def reply(self, number: int, answer: dict[str, Any]) -> None:
        """Not used."""

    def waiting(self) -> int:
        """As the test says."""
        return self.unsent

    def numbers(self) -> list[int]:
        """Of the questions that it got since the last call."""
        numbers = [one["ask"] for one in self.got]
        self.got.clear()
        return numbers


class Stage:
    """Runners whose answers are noted."""

    def __init__(self) -> None:
        self.answered: list[tuple[int, int, str]] = []
        self.runners = Runners(
            SECONDS, lambda worker, number, reply: self.answered.append((worker, number, reply.failed))
        )
        self.count = 0

    def ask(self, turn: str, times: int = 1, moment: float = 0, worker: int = 0) -> None:
        """Questions of one turn."""
        for _ in range(times):
            self.count += 1
            self.runners.ask(worker, self.count, turn, {"turn": turn}, moment)


def test_nobody_has_more_than_his_share() -> None:
    """And who comes later is not behind all of it."""
    stage, peer = Stage(), Peer()
    stage.runners.add(peer)
    stage.ask("greedy", 100)
    assert len(peer.got) == TURN_MAX
    stage.ask("modest")
    assert peer.got[-1]["turn"] == "modest"
    first = peer.numbers()[0]
    stage.runners.answer(first, HookReply())
    assert len(peer.got) == 1
    assert stage.runners.open == 100


def test_a_runner_gets_so_many_ahead_and_all_have_their_turns() -> None:
    stage, peer = Stage(), Peer()
    stage.runners.add(peer)
    stage.runners.add(peer)  # again is no other one
    assert len(stage.runners) == 1
    for user in range(WINDOW):
        stage.ask(f"user {user}", 2)
    assert len(peer.got) == WINDOW
    for number in peer.numbers():
        stage.runners.answer(number, HookReply())
    assert len(peer.got) == WINDOW
    assert [number for _, number, _ in stage.answered[:3]] == [1, 2, 3]


def test_several_runners_share_and_inherit() -> None:
    """What one that goes was asked is asked again, before all else of that turn; it keeps its time."""
    stage, one, other = Stage(), Peer(), Peer()
    stage.ask("ann", 4, moment=1)
    stage.runners.add(one)
    assert len(one.got) == 4, "they waited for a runner"
    stage.runners.add(other)
    stage.ask("bob", 4, moment=2)
    assert (len(one.got), len(other.got)) == (6, 2)
    for ended in one.ended:
        ended()
    got = other.numbers()
    assert sorted(got) == list(range(1, 9))
    assert [number for number in got if number <= 4] == [1, 2, 3, 4]
    assert stage.runners.open == 8
    stage.runners.tick(6)
    assert [(number, failed) for _, number, failed in stage.answered] == [(1, LATE), (2, LATE), (3, LATE), (4, LATE)]
    assert stage.runners.late == 4
    for ended in other.ended:
        ended()
    stage.runners.tick(7)
    assert {failed for _, _, failed in stage.answered[4:]} == {AWAY}, "nobody is left who was asked"


def test_what_nobody_answers_is_given_up() -> None:
    """Whether there was somebody to ask, or not; a late answer is of no use, and the place is free again."""
    stage, peer = Stage(), Peer()
    stage.ask("ann", worker=3)
    stage.runners.tick(SECONDS - 0.1)
    assert not stage.answered
    stage.runners.tick(SECONDS)
    assert stage.answered == [(3, 1, AWAY)]
    stage.runners.add(peer)
    stage.ask("ann", TURN_MAX + 1, moment=10)
    late = peer.numbers()
    stage.runners.tick(10 + SECONDS)
    assert {failed for _, _, failed in stage.answered[1:-1]} == {LATE}
    assert stage.answered[-1][2] == AWAY, "it did not come to that one"
    for number in late:
        stage.runners.answer(number, HookReply())
    assert len(stage.answered) == 2 + TURN_MAX
    stage.ask("ann", TURN_MAX, moment=20)
    assert len(peer.got) == TURN_MAX


def test_what_is_only_told_is_dropped_for_who_does_not_read() -> None:
    stage, peer = Stage(), Peer()
    stage.runners.tell({"event": "disconnect"})
    stage.runners.add(peer)
    stage.runners.tell({"event": "disconnect"})
    peer.unsent = TOLD_BYTES_MAX
    stage.runners.tell({"event": "disconnect"})
    assert (peer.numbers(), stage.runners.untold) == ([0], 2)


def test_a_runner_that_is_late_is_passed_over() -> None:
    """Until it answers, or with one question after a while; where all are late they are asked all the same."""
    stage, good, hung = Stage(), Peer(), Peer()
    stage.runners.add(good)
    stage.runners.add(hung)
    stage.ask("ann", 2)
    for number in good.numbers():
        stage.runners.answer(number, HookReply())
    assert len(hung.numbers()) == 1
    stage.runners.tick(SECONDS)
    stage.ask("ann", 4, moment=SECONDS)
    stage.runners.tell({"event": "disconnect"})
    assert (len(good.numbers()), len(hung.numbers())) == (5, 0)
    stage.runners.heard(hung)
    stage.ask("bob", 4, moment=SECONDS)
    assert (len(good.numbers()), len(hung.numbers())) == (2, 2)
    stage.runners.tick(2 * SECONDS)
    stage.ask("all late", 4, moment=2 * SECONDS)
    assert (len(good.numbers()), len(hung.numbers())) == (2, 2)
    stage.runners.heard(good)
    stage.runners.tick(2 * SECONDS + PASSED_SECONDS)
    stage.runners.heard(good)
    stage.runners.tick(3 * SECONDS + 2 * PASSED_SECONDS)
    stage.ask("much later", 6, moment=200)
    assert (len(good.numbers()), len(hung.numbers())) == (5, 1)
    for ended in good.ended:
        ended()
    assert len(hung.numbers()) == 5, "it is the only one"
