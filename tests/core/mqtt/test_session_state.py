"""A session goes through its states without loss: all of it at once, or what has changed, one after the other."""

from __future__ import annotations

from fastpath.core.mqtt.groups.shares import Loan, Share, Shares
from fastpath.core.mqtt.packets import Filter
from fastpath.core.mqtt.session import POSITIONS_MAX, MqttSession, Place, Subscription
from fastpath.core.mqtt.session_state import SessionState, decode_state, encode_state
from fastpath.core.mqtt.topics import check_filter, patterns_of


def subscription(text: str, qos: int = 1) -> Subscription:
    return Subscription(Filter(text=text, qos=qos, as_published=True), patterns_of(check_filter(text)), 7, True)


def moved(state: SessionState) -> MqttSession:
    """The session that another process makes of the state."""
    session = MqttSession("", 0, 0)
    session.adopt(decode_state(encode_state(state)))
    assert session.revive(lambda text: None)
    return session


def used() -> MqttSession:
    session = MqttSession("name", 5, 60)
    session.subscribe(subscription("a/+"))
    session.reached("/a/b", 1, 3)
    session.sent(4, b"packet", Place("/a/b", 1, 2))
    session.sent(5, b"packet", Place("/a/b", 1, 3))
    session.receive(9, stored=True)
    assert session.number(2, 7, again=False) == 1
    return session


def test_another_process_goes_on_where_this_one_was() -> None:
    before = used()
    after = moved(before.whole())
    assert after.whole() == before.whole()
    assert after.subscriptions == before.subscriptions
    assert after.number(2, 7, again=True) == 1
    assert after.number(3, 7, again=False) == 2
    assert (after.expiry_seconds, after.level, after.received) == (60, 5, {9: True})


def test_a_publication_that_says_something_else_is_another_one_wherever_its_session_goes_on() -> None:
    assert moved(used().whole()).number(2, 8, again=True) == 2
    session, kept = used(), used().change()
    session.change()
    session.number(2, 8, again=False)
    after = moved(kept.then(decode_state(encode_state(session.change()))))
    assert (after.number(2, 8, again=True), after.number(2, 7, again=True)) == (2, 3)


def test_what_a_publication_says_is_not_asked_where_the_state_is_an_earlier_versions() -> None:
    state = used().whole()
    state.digests.clear()
    assert moved(state).number(2, 8, again=True) == 1


def test_what_was_refused_is_forgotten() -> None:
    session = used()
    session.refused(2)
    session.refused(9)
    assert (session.numbers, session.digests, session.received) == ({}, {}, {})


def test_what_was_under_way_is_read_again_and_nothing_else() -> None:
    session = moved(used().whole())
    session.acknowledged(4)  # of a packet that was never sent from here
    assert session.since() == {"/a/b": (1, 1)}
    assert session.under_way_as(Place("/a/b", 1, 1), snapshot=False) is None
    assert session.under_way_as(Place("/a/b", 1, 2), snapshot=False) == 4
    assert session.under_way_as(Place("/a/b", 1, 4), snapshot=False) == 0
    assert session.under_way_as(Place("/a/b", 2, 3), snapshot=False) == 0  # numbered again in a new epoch
    assert session.under_way_as(Place("/a/c", 1, 2), snapshot=False) == 0
    assert session.under_way_as(Place("/a/b", 1, 1), snapshot=True) == 0
    ids = {session.next_packet_id() for _ in range(6)}
    assert ids.isdisjoint({4, 5})
    session.read_again(Place("/a/b", 1, 2))
    assert session.since() == {"/a/b": (1, 2)}
    assert session.whole().under_way == [used().whole().under_way[1]]  # type: ignore[index]
    session.read_again(Place("/a/b", 1, 4))  # so the log does not have the third any more
    session.reached("/a/b", 1, 4)
    assert session.since() == {"/a/b": (1, 4)}
    assert session.whole().under_way == []


def test_the_retain_flag_of_what_was_under_way_is_kept_until_it_is_read_again() -> None:
    before = used()
    place = Place("/a/b", 1, 4)
    before.sent(6, b"\x33", place)
    after = moved(moved(before.whole()).whole())
    assert after.was_retained(place)
    assert not after.was_retained(Place("/a/b", 1, 3))
    after.read_again(place)
    assert not after.was_retained(place)


def test_changes_add_up_to_the_whole() -> None:
    session = used()
    kept = session.change()
    assert not session.changed
    for change in (
        lambda: session.subscribe(subscription("c/d", 0)),
        lambda: session.unsubscribe("a/+"),
        lambda: session.reached("/a/z", 1, 1),
        lambda: session.acknowledged(5),
        lambda: session.received.pop(9),
        lambda: session.number(2, 7, again=False),
        lambda: session.keep_for(5),
    ):
        change()
        assert session.changed
        kept = kept.then(decode_state(encode_state(session.change())))
        assert not session.changed
        whole = session.whole()
        assert kept == whole
    session.rename("other")
    assert session.changed
    session.number(3, 7, again=False)
    kept = kept.then(session.change())
    assert (kept.name, kept.published, kept.numbers) == ("other", 1, {3: 1})
    assert kept == session.whole()


def test_a_copy_hands_on_what_it_was_told() -> None:
    session = used()
    copy = moved(session.change())
    copy.change()
    session.reached("/a/b", 1, 9)
    session.number(8, 7, again=False)
    copy.adopt(session.change())
    assert copy.changed
    state = copy.change()
    assert (state.positions, state.numbers, state.filters) == ({"/a/b": (1, 9)}, {8: 2}, None)
    assert copy.whole() == session.whole()


def test_a_shared_filter_finds_its_group() -> None:
    shares = Shares()
    levels = check_filter("a/+")
    session = MqttSession("name", 5, 60)
    group = shares.find("$share/g/a/+")
    session.subscribe(Subscription(Filter(text="$share/g/a/+", qos=1), patterns_of(levels), 0, False, group))
    after = MqttSession("", 0, 0)
    after.adopt(session.whole())
    assert after.in_groups
    assert after.revive(shares.find)
    assert after.in_groups
    assert after.subscriptions == session.subscriptions
    without = moved(session.whole())
    assert not without.in_groups
    assert not without.subscriptions


def test_who_parts_with_a_session_keeps_what_is_under_way_as_others_read_it() -> None:
    session = used()
    whole = session.whole()
    session.part()
    assert not session.in_flight
    assert session.whole() == whole
    assert session.since() == {"/a/b": (1, 1)}
    copy = moved(whole)
    copy.change()
    copy.read_again(Place("/a/b", 1, 2))
    session.adopt(copy.change())
    assert session.since() == {"/a/b": (1, 2)}


def test_what_was_taken_from_a_group_is_known_as_long_as_it_is_not_read_again() -> None:
    share = Share("$share/g/a/+")
    session = MqttSession("name", 5, 60)
    session.reached("/a/b", 1, 3)
    for number in (2, 3):
        loan = Loan(share, ("/a/b", 1, number), 5, b"")
        session.sent(number, b"packet", Place("/a/b", 1, number), (loan,))
    after = moved(session.whole())
    assert after.borrowed == {Place("/a/b", 1, 2): [share.name], Place("/a/b", 1, 3): [share.name]}
    assert after.whole() == session.whole()
    after.read_again(Place("/a/b", 1, 2))
    assert list(after.borrowed) == [Place("/a/b", 1, 3)]


def test_what_was_taken_from_a_group_and_read_again_elsewhere_is_given_back_to_nobody() -> None:
    shares = Shares()
    share = shares.find("$share/g/a/+")
    assert share is not None
    share.keep("another member")
    session = MqttSession("name", 5, 60)
    place = Place("/a/b", 1, 2)
    session.sent(5, b"packet", place, (Loan(share, ("/a/b", 1, 2), 5, b""),))
    session.part()
    assert session.borrowed == {place: [share.name]}
    guest = moved(session.whole())
    guest.change()
    guest.read_again(place)
    session.adopt(guest.change())
    assert not session.borrowed
    session.end(shares)
    assert not share.returned


def test_a_filter_that_is_none_any_more_makes_no_subscription() -> None:
    state = used().whole()
    assert state.filters is not None
    state.filters[0].text = "a/#/b"
    session = MqttSession("", 0, 0)
    session.adopt(state)
    assert not session.revive(lambda text: None)


def test_only_so_many_positions_are_kept() -> None:
    session = MqttSession("name", 5, 60)
    for number in range(POSITIONS_MAX + 5):
        session.reached(f"/a/{number}", 1, 1)
    assert len(session.change().positions) == POSITIONS_MAX
