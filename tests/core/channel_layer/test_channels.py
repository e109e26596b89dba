"""Channels: order, capacity, expiry, receivers that wait, and what is given back."""

from __future__ import annotations

import pytest

from fastpath.core.channel_layer.channels import SWEEP_MAX, SWEEP_MESSAGES_MAX, Channels
from fastpath.core.protocol.errors import InvalidMessage


class Receiver:
    """Notes what it is given."""

    def __init__(self) -> None:
        self.got: list[tuple[bytes, int]] = []

    def __call__(self, message: bytes, until: int) -> None:
        self.got.append((message, until))


def received(channels: Channels, channel: str, now: int = 0) -> bytes | None:
    """What a receiver gets that does not wait."""
    receiver = Receiver()
    channels.receive(channel, receiver, now)
    if not receiver.got:
        assert channels.cancel(channel, receiver)
        return None
    return receiver.got[0][0]


def sent(channels: Channels, *messages: bytes, channel: str = "a", capacity: int = 3, until: int = 60) -> list[bool]:
    return [channels.send(channel, message, capacity, until, 0) for message in messages]


def test_messages_come_in_their_order_and_nothing_is_left() -> None:
    channels = Channels()
    assert sent(channels, b"1", b"2", b"3") == [True] * 3
    assert [received(channels, "a") for _ in range(4)] == [b"1", b"2", b"3", None]
    assert (len(channels), channels.waiting, channels.waiting_bytes, channels.receiving) == (0, 0, 0, 0)


def test_a_full_channel_takes_no_more_and_is_counted() -> None:
    channels = Channels()
    assert sent(channels, b"1", b"2", b"3", b"4") == [True, True, True, False]
    assert sent(channels, b"1", channel="b") == [True]
    assert (channels.sent, channels.full) == (4, 1)


def test_all_channels_together_are_bounded_in_bytes() -> None:
    channels = Channels(waiting_bytes_max=10)
    assert sent(channels, b"12345") == [True]
    assert sent(channels, b"12345", b"6", channel="b") == [True, False]
    assert received(channels, "a") == b"12345"
    assert sent(channels, b"6", channel="b") == [True]


def test_all_channels_together_are_bounded_in_messages_and_channels_however_small() -> None:
    channels = Channels(waiting_max=3)
    assert sent(channels, b"", b"", b"", channel="a", capacity=9) == [True] * 3
    assert sent(channels, b"", channel="b") == [False]
    assert received(channels, "a") == b""
    assert sent(channels, b"", channel="b") == [True]
    channels = Channels(channels_max=1)
    assert sent(channels, b"1") == [True]
    assert sent(channels, b"1", channel="b") == [False]
    assert sent(channels, b"2") == [True]
    receiver = Receiver()
    channels.receive("b", receiver, 0)
    assert sent(channels, b"1", channel="b") == [True]
    assert receiver.got == [(b"1", 60)]


def test_receivers_that_wait_get_one_message_each_the_first_one_first() -> None:
    channels, first, second = Channels(), Receiver(), Receiver()
    channels.receive("a", first, 0)
    channels.receive("a", second, 0)
    assert sent(channels, b"1", b"2", b"3") == [True] * 3
    assert (first.got, second.got) == ([(b"1", 60)], [(b"2", 60)])
    assert received(channels, "a") == b"3"


def test_a_receiver_that_is_cancelled_takes_nothing_and_one_that_has_its_message_is_none() -> None:
    channels, gone, other = Channels(), Receiver(), Receiver()
    channels.receive("a", gone, 0)
    channels.receive("a", other, 0)
    assert channels.cancel("a", gone)
    sent(channels, b"1")
    assert (gone.got, other.got) == ([], [(b"1", 60)])
    assert not channels.cancel("a", other)


def test_receivers_are_bounded() -> None:
    channels = Channels(receivers_max=1)
    channels.receive("a", Receiver(), 0)
    with pytest.raises(InvalidMessage, match="over 1 receivers"):
        channels.receive("b", Receiver(), 0)


def test_what_is_given_back_is_the_next_one_also_in_a_full_channel_and_keeps_its_time() -> None:
    channels = Channels()
    sent(channels, b"2", b"3", b"4")
    channels.give_back("a", b"1", 50, 0)
    receiver = Receiver()
    channels.receive("a", receiver, 0)
    assert receiver.got == [(b"1", 50)]
    channels.give_back("a", b"1", 50, 50)
    assert (received(channels, "a"), channels.expired) == (b"2", 1)


def test_what_is_given_back_goes_to_who_waits() -> None:
    channels, receiver = Channels(), Receiver()
    channels.receive("a", receiver, 0)
    channels.give_back("a", b"1", 50, 0)
    assert receiver.got == [(b"1", 50)]


def test_a_message_that_nobody_takes_in_time_is_over_and_counted() -> None:
    channels = Channels()
    sent(channels, b"1", b"2")
    sent(channels, b"3", until=100)
    assert received(channels, "a", now=60) == b"3"
    assert (channels.expired, channels.waiting) == (2, 0)


def test_a_full_channel_has_room_when_its_messages_are_over_whatever_their_order() -> None:
    channels = Channels()
    sent(channels, b"1", until=100)
    sent(channels, b"2", b"3")
    assert channels.send("a", b"4", 3, 100, 60)
    assert [received(channels, "a", now=60) for _ in range(2)] == [b"1", b"4"]
    assert channels.expired == 2


class Time(int):
    """Until when a message may wait; counts how often that is looked at."""

    looks = 0

    def __gt__(self, other: int) -> bool:
        Time.looks += 1
        return int(self) > other


def test_a_full_channel_is_looked_through_only_when_a_message_may_be_over() -> None:
    """Whoever sends on and on to it costs no more where very many wait."""
    channels = Channels()
    for _ in range(100):
        channels.send("a", b"1", 101, Time(90), 0)
    channels.send("a", b"2", 101, Time(60), 0)
    assert [channels.send("a", b"3", 101, 90, now) for now in (1, 2, 3)] == [False] * 3
    assert Time.looks == 101
    assert channels.send("a", b"3", 101, 80, 60)
    assert not channels.send("a", b"4", 101, 90, 61)
    assert channels.send("a", b"4", 101, 90, 80)  # which came later, and is over sooner
    channels.sweep(90)
    assert (len(channels), channels.waiting) == (0, 0)


def test_channels_that_nobody_reads_are_swept_in_turns() -> None:
    channels = Channels()
    for number in range(SWEEP_MAX + 5):
        channels.send(f"c{number}", b"1", 1, 100 if number < SWEEP_MAX else 60, 0)
    channels.sweep(60)
    assert channels.expired == 0  # those that are over come in the next turn
    channels.sweep(60)
    assert (channels.expired, channels.waiting) == (5, SWEEP_MAX)
    channels.sweep(100)
    channels.sweep(100)
    assert (len(channels), channels.waiting_bytes) == (0, 0)


def test_no_more_messages_are_swept_in_a_turn_than_it_may_take() -> None:
    channels = Channels()
    for channel in ("a", "b"):
        sent(channels, *[b"1"] * SWEEP_MESSAGES_MAX, channel=channel, capacity=SWEEP_MESSAGES_MAX)
    channels.sweep(60)
    assert (channels.expired, channels.waiting) == (SWEEP_MESSAGES_MAX, SWEEP_MESSAGES_MAX)
    channels.sweep(60)
    assert channels.waiting == 0


def test_flush_empties_the_channels_of_one_prefix_and_leaves_receivers() -> None:
    channels, receiver = Channels(), Receiver()
    sent(channels, b"1", channel="x:a")
    sent(channels, b"1", channel="y:a")
    channels.receive("x:b", receiver, 0)
    channels.flush("x:")
    assert (received(channels, "x:a"), received(channels, "y:a")) == (None, b"1")
    sent(channels, b"2", channel="x:b")
    assert receiver.got == [(b"2", 60)]


def test_messages_are_taken_from_one_node_and_kept_at_another_in_order_whatever_the_capacity() -> None:
    here, there = Channels(), Channels(waiting_max=3)
    for number in range(4):
        here.send("a", b"%d" % number, 10, 5 if number == 1 else 100, 0)
    taken = here.take("a", 17, 10)
    assert taken == [(b"0", 100)]
    taken += here.take("a", 1000, 10)
    assert [message for message, _ in taken] == [b"0", b"2", b"3"]
    assert (here.names(), here.waiting, here.waiting_bytes, here.expired) == ([], 0, 0, 1)
    got: list[bytes] = []
    there.receive("a", lambda message, until: got.append(message), 10)
    assert [there.keep("a", message, until, 10) for message, until in taken] == [True] * 3
    assert (got, there.names(), there.waiting) == ([b"0"], ["a"], 2)
    assert there.keep("b", b"x", 5, 10), "over"
    assert there.keep("b", b"x", 100, 10)
    assert not there.keep("b", b"y", 100, 10)
    assert (there.expired, there.full) == (1, 1)
