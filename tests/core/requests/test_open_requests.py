"""The two sides of requests in one process."""

from __future__ import annotations

import pytest

from fastpath.core.protocol.limits import REQUESTS_PER_CONNECTION_MAX
from fastpath.core.requests.open_requests import (
    BACKSTOP_MS,
    GivenReply,
    OpenRequests,
    TakenRequest,
    TakenRequests,
    failed,
)


class Ear:
    """A requester that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, GivenReply]] = []

    def answered(self, name: str, answer: GivenReply) -> None:
        self.told.append((name, answer))


def test_replies_until_the_last_and_none_behind_it() -> None:
    open_requests, ear = OpenRequests(), Ear()
    open_requests.begin("n", ear, 3, 1000)
    assert open_requests.answered("n", GivenReply("1", more=True))
    assert open_requests.answered("n", GivenReply("2"))
    assert not open_requests.answered("n", GivenReply("3"))
    assert ear.told == [("n", GivenReply("1", more=True)), ("n", GivenReply("2"))]
    assert len(open_requests) == 0


def test_no_more_replies_than_were_asked_for() -> None:
    open_requests, ear = OpenRequests(), Ear()
    open_requests.begin("n", ear, 2, 1000)
    assert [open_requests.answered("n", GivenReply(str(number), more=True)) for number in range(3)] == [
        True,
        True,
        False,
    ]
    assert [answer.more for _, answer in ear.told] == [True, False]


@pytest.mark.parametrize("answer", [GivenReply(error="x", more=True), failed("busy")])
def test_an_error_is_the_last(answer: GivenReply) -> None:
    open_requests, ear = OpenRequests(), Ear()
    open_requests.begin("n", ear, 5, 1000)
    assert open_requests.answered("n", answer)
    assert not open_requests.answered("n", GivenReply("late"))
    assert [(one.error, one.more) for _, one in ear.told] == [(answer.error, False)]


def test_time_ends_a_request_whose_way_was_lost_once() -> None:
    open_requests, ear = OpenRequests(), Ear()
    open_requests.begin("n", ear, 1, 1000)
    assert open_requests.expire(1000 + BACKSTOP_MS - 1) == 0
    assert open_requests.expire(1000 + BACKSTOP_MS + 200) == 1
    assert open_requests.expire(99_000) == 0
    assert ear.told == [("n", failed("timeout"))]


def test_who_leaves_is_told_nothing_more_and_others_are() -> None:
    open_requests, gone, stays = OpenRequests(), Ear(), Ear()
    for name, ear in (("a", gone), ("b", stays), ("c", gone)):
        open_requests.begin(name, ear, 1, 1000)
    assert sorted(open_requests.leave(gone)) == ["a", "c"]
    assert open_requests.leave(gone) == []
    assert [open_requests.answered(name, GivenReply()) for name in "abc"] == [False, True, False]
    assert (gone.told, [name for name, _ in stays.told]) == ([], ["b"])


def test_open_requests_of_a_connection_are_bounded() -> None:
    open_requests, ear, other = OpenRequests(), Ear(), Ear()
    for number in range(REQUESTS_PER_CONNECTION_MAX):
        assert open_requests.limit(ear) == ""
        open_requests.begin(str(number), ear, 1, 1000)
    assert str(REQUESTS_PER_CONNECTION_MAX) in open_requests.limit(ear)
    assert open_requests.limit(other) == ""
    open_requests.answered("0", GivenReply())
    assert open_requests.limit(ear) == ""


def test_only_who_was_asked_replies_and_as_often_as_was_asked_for() -> None:
    taken: TakenRequests[int, str] = TakenRequests()
    taken.take("n", TakenRequest(1, "from", "/a/b", 2), 1000)
    assert taken.reply("n", 2, more=False) is None
    assert taken.reply("m", 1, more=False) is None
    assert taken.reply("n", 1, more=True) == ("from", True)
    assert taken.reply("n", 1, more=True) == ("from", False)  # whatever the responder says: nobody waits for more
    assert taken.reply("n", 1, more=True) is None
    assert len(taken) == 0


def test_what_a_responder_owes_ends_with_it_or_with_its_time() -> None:
    taken: TakenRequests[int, str] = TakenRequests()
    for name, responder in (("a", 1), ("b", 2), ("c", 1), ("d", 2)):
        taken.take(name, TakenRequest(responder, "from", "/a/b", 1), 1000)
    assert [name for name, _ in taken.leave(1)] == ["a", "c"]
    assert taken.leave(1) == []
    ended = taken.end("b")
    assert ended is not None
    assert ended.subject == "/a/b"
    assert [name for name, _ in taken.those()] == ["d"]
    assert [name for name, _ in taken.due(1200)] == ["d"]
    assert len(taken) == 0
    assert not taken.full(2)


def test_a_responder_with_too_much_is_full() -> None:
    taken: TakenRequests[int, str] = TakenRequests()
    for number in range(REQUESTS_PER_CONNECTION_MAX):
        assert not taken.full(1)
        taken.take(str(number), TakenRequest(1, "from", "/a/b", 1), 1000)
    assert (taken.full(1), taken.full(2)) == (True, False)
