"""Who takes a message of a group, and what each of its tables is bounded by."""

from __future__ import annotations

import pytest

from fastpath.core.mqtt.groups.shares import (
    RETURNED_BYTES_MAX,
    RETURNED_MAX,
    SHARES_MAX,
    TAKEN_MAX,
    TURN_MAX,
    Loan,
    Member,
    Share,
    Shares,
    Turn,
)
from fastpath.core.mqtt.reasons import MqttError
from fastpath.core.mqtt.topics import check_filter, share_of

ONE, OTHER, THIRD = "one", "other", "third"
READY = Member(5, lambda: True, lambda _: True)
BUSY = Member(5, lambda: False, lambda _: True)


def share(**members: Member) -> Share:
    """A group of these."""
    found = Share("$share/crew/a")
    for name, member in members.items():
        found.join(name, member)
    return found


def ask(group: Share, who: str, number: int, now: int = 0, *, full: bool = False) -> Turn:
    """Have a member look at a message of one subject."""
    return group.ask(who, ("/a", 1, number), now, full=full)


def test_whose_turn_it_is_takes_the_message_and_the_others_skip_it() -> None:
    group = share(one=READY, other=READY)
    assert [ask(group, who, 1) for who in (ONE, OTHER, ONE)] == [Turn.TAKE, Turn.SKIP, Turn.TAKE]
    assert ask(group, ONE, 2, 1) is Turn.WAIT
    assert [ask(group, who, 2, 1) for who in (OTHER, ONE)] == [Turn.TAKE, Turn.SKIP]


def test_who_looks_again_takes_what_is_still_free() -> None:
    group = share(one=READY, other=READY)
    assert [ask(group, OTHER, 1), ask(group, OTHER, 1), ask(group, ONE, 1)] == [
        Turn.WAIT,
        Turn.TAKE,
        Turn.SKIP,
    ]


def test_many_at_once_are_taken_in_turns() -> None:
    group = share(one=READY, other=READY)
    takers = []
    for number in range(3 * TURN_MAX):
        verdicts = {who: ask(group, who, number) for who in (ONE, OTHER)}
        takers += [who for who, verdict in verdicts.items() if verdict is Turn.TAKE]
    assert [takers.count(ONE), takers.count(OTHER)] == [2 * TURN_MAX, TURN_MAX]


@pytest.mark.parametrize("gone", ["busy", "away", "left"])
def test_nobody_waits_for_who_cannot_take_anything(gone: str) -> None:
    group = share(one=BUSY if gone == "busy" else READY, other=READY)
    if gone == "away":
        group.part(ONE)
    if gone == "left":
        group.leave(ONE)
    assert ask(group, OTHER, 1) is Turn.TAKE


def test_who_is_full_waits_and_takes_nothing() -> None:
    group = share(one=READY, other=READY)
    assert [ask(group, ONE, 1, full=True) for _ in range(3)] == [Turn.WAIT] * 3
    assert [ask(group, OTHER, 1), ask(group, OTHER, 1)] == [Turn.WAIT, Turn.TAKE]
    assert ask(group, ONE, 1, full=True) is Turn.SKIP


def test_what_is_given_back_goes_to_those_who_may_have_it_or_waits_for_them() -> None:
    offered: list[bytes] = []

    def offer(loan: Loan) -> bool:
        offered.append(loan.record)
        return True

    group = share(one=Member(4, lambda: True, offer), other=Member(5, lambda: True, lambda _: False))
    loan = Loan(group, ("/a", 1, 1), 5, b"x")
    assert ask(group, OTHER, 1) is Turn.WAIT
    assert ask(group, OTHER, 1) is Turn.TAKE
    group.give_back(loan)
    assert not offered  # one is of the other version, the other may not read it
    group.join(THIRD, Member(5, lambda: True, offer))
    group.offer_returned()
    assert offered == [b"x"]
    assert not group.returned


def test_what_was_offered_to_who_goes_before_it_takes_it_is_offered_again() -> None:
    offered: list[str] = []

    def member(name: str) -> Member:
        return Member(5, lambda: True, lambda _: not offered.append(name))  # type: ignore[func-returns-value]

    group = share(one=member(ONE), other=member(OTHER))
    for number in (1, 2):
        group.give_back(Loan(group, ("/a", 1, number), 5, b"x"))
    assert offered == [ONE, OTHER] * 2
    assert ask(group, ONE, 1) is Turn.TAKE
    group.part(OTHER)
    assert not group.returned  # the first has the second one still
    group.leave(ONE)
    assert [loan.key for loan in group.returned] == [("/a", 1, 2)]
    group.join(THIRD, member(THIRD))
    group.offer_returned()
    assert offered == [ONE, OTHER, ONE, OTHER, THIRD]
    assert ask(group, THIRD, 2) is Turn.TAKE
    group.leave(THIRD)
    assert not group.returned


def test_what_waits_for_a_taker_is_bounded_in_bytes() -> None:
    group = share()
    for number in range(9):
        group.give_back(Loan(group, ("/a", 1, number), 5, bytes(RETURNED_BYTES_MAX // 4)))
    assert [loan.key[2] for loan in group.returned] == [5, 6, 7, 8]
    group.give_back(Loan(group, ("/a", 1, 9), 5, bytes(2 * RETURNED_BYTES_MAX)))
    assert [loan.key[2] for loan in group.returned] == [9]


def test_every_table_is_bounded() -> None:
    shares = Shares()
    group = shares.find("$share/0/a")
    assert group is not None
    group.join(ONE, READY)
    for number in range(TAKEN_MAX + 10):
        assert ask(group, ONE, number, number) is Turn.TAKE
    assert ask(group, OTHER, 0) is Turn.WAIT  # so far back nobody knows
    for _ in range(RETURNED_MAX + 10):
        group.part(ONE)
        group.give_back(Loan(group, ("/a", 1, 1), 5, b"x"))
    assert len(group.returned) == RETURNED_MAX
    assert all(shares.find(f"$share/{number}/a") is not None for number in range(SHARES_MAX))
    assert shares.find("$share/more/a") is None
    shares.leave(group, ONE)
    assert shares.find("$share/more/a") is not None


def test_the_filter_of_a_group() -> None:
    assert share_of(check_filter("$share/crew//jobs/#")) == ["", "jobs", "#"]
    assert share_of(check_filter("a/b")) == []
    with pytest.raises(MqttError):
        share_of(check_filter("$share/crew"))


def test_a_group_is_deserted_while_none_of_its_members_is_there() -> None:
    group = share(one=READY, other=READY)
    group.part(ONE)
    group.part(ONE)
    assert not group.was_deserted(ONE)
    group.part(OTHER)
    assert group.was_deserted(ONE)
    assert group.was_deserted(OTHER)
    group.join(THIRD, READY)
    group.join(ONE, READY)
    assert not group.was_deserted(THIRD)
    assert group.was_deserted(ONE)  # also now that it is back
    group.part(ONE)
    assert not group.was_deserted(ONE)
    group.join(ONE, READY)
    assert not group.was_deserted(ONE)
    group.leave(THIRD)
    group.leave(ONE)
    assert group.was_deserted(OTHER)
    group.leave(OTHER)
    assert group.empty
    assert not group.was_deserted(OTHER)


def test_a_group_that_comes_from_files_was_deserted() -> None:
    group = share(one=READY)
    group.keep(OTHER)
    assert group.was_deserted(OTHER)
    group.join(OTHER, READY)
    assert group.was_deserted(OTHER)
