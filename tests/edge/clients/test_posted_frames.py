"""Frames that are posted: each once, in the order of their numbers, and an answer when they are handled."""

from __future__ import annotations

from fastpath.edge.clients.posted_frames import BUSY, ENDED, GAP, HANDLED, REPEATED_MAX, PostedFrames


def test_what_had_been_taken_is_left_out() -> None:
    posted, told = PostedFrames("0-a"), list[int]()
    assert posted.accept(1, [b"1", b"2"], False, told.append) == [b"1", b"2"]
    posted.handled(0)
    assert posted.accept(2, [b"2", b"3"], False, told.append) == [b"3"]
    assert posted.accept(1, [b"1"], False, told.append) == []
    posted.handled(0)
    assert told == [HANDLED] * 3
    assert posted.taken == 3
    assert posted.accept(5, [b"5"], False, told.append) == []
    assert told[-1] == GAP


def test_an_answer_comes_when_its_own_frames_are_handled() -> None:
    posted, first, again, other = PostedFrames("0-a"), list[int](), list[int](), list[int]()
    posted.accept(1, [b"1", b"2", b"3"], False, first.append)
    assert posted.accept(1, [b"1", b"2"], True, again.append) == []
    assert posted.accept(4, [b"4"], True, other.append) == []
    assert other == [BUSY]
    posted.handled(2)
    assert (first, again) == ([], [])
    posted.handled(1)
    assert (first, again) == ([], [HANDLED])
    posted.handled(0)
    assert first == [HANDLED]


def test_repetitions_are_bounded_and_end_with_the_session() -> None:
    posted, told = PostedFrames("0-a"), list[int]()
    for _ in range(REPEATED_MAX + 1):
        posted.accept(1, [b"1"], posted.taken > 0, told.append)
    assert told == [BUSY]
    posted.end()
    assert told == [BUSY] + [ENDED] * REPEATED_MAX
