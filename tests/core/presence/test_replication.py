"""Members that tell each other what they have, over a way that loses packets, agree in the end."""

from __future__ import annotations

import random
from typing import Any

import pytest

from fastpath.core.presence.replication import ASK_MS, KEYS_PER_PACKET, PresenceReceiver, PresenceSender
from fastpath.core.presence.roster import Roster, present_key


class Pair:
    """A speaker and a hearer; ``lost`` decides of each packet."""

    def __init__(self, life: str = "first") -> None:
        self.roster = Roster()
        self.asked: list[str] = []
        self.hearer = PresenceReceiver(self.roster, 5000, self.asked.append)
        self.speaker = PresenceSender("one", life)
        self.now = 0

    def said(self) -> list[list[Any]]:
        """All that the speaker has to say now."""
        packets = []
        while self.speaker.busy:
            packet = self.speaker.next()
            if packet is not None:
                packets.append(packet)
        return packets

    def hear(self, *packets: list[Any]) -> None:
        """The hearer gets these."""
        for packet in packets:
            self.hearer.hear(packet, self.now)

    def answer(self) -> None:
        """What is asked for is said."""
        for _ in self.asked:
            self.speaker.ask()
        self.asked.clear()
        self.hear(*self.said())

    def users(self) -> dict[str, int]:
        """What is known of the subject."""
        self.roster.step(self.now, 1 << 20)
        return {user: count for user, count in self.roster.present.get("/a/b", {}).items() if count}


def users(count: int) -> list[str]:
    """Keys of so many users."""
    return [present_key("/a/b", f"u{number}") for number in range(count)]


def test_what_is_said_is_known() -> None:
    pair = Pair()
    pair.hear(pair.speaker.beat())
    pair.speaker.set(users(1)[0], 2)
    pair.hear(*pair.said())
    assert pair.users() == {"u0": 2}
    pair.speaker.add(users(1)[0], -2)
    pair.hear(*pair.said(), pair.speaker.beat())
    assert pair.users() == {}
    assert not pair.asked


def test_who_comes_later_asks_for_all_in_pieces_that_changes_do_not_disturb() -> None:
    pair = Pair()
    for key in users(3 * KEYS_PER_PACKET + 1):
        pair.speaker.set(key, 1)
    pair.said()
    pair.hear(pair.speaker.beat())
    assert pair.asked == ["one"]
    pair.asked.clear()
    pair.speaker.ask()
    kinds = ""
    for number in range(20):
        pair.speaker.set(present_key("/a/b", f"new{number % 3}"), number)
        pair.speaker.set(users(9)[number % 9], 0 if number < 9 else 5)
        packet = pair.speaker.next()
        assert packet is not None
        assert len(packet[-1]) <= 2 * KEYS_PER_PACKET
        pair.hear(packet)
        kinds += packet[3]
    assert "www" in kinds.replace("d", ""), "changes do not put it off"
    pair.hear(*pair.said(), pair.speaker.beat())
    assert not pair.asked
    there = {key.partition("\0")[2]: count for key, count in pair.speaker.counts.items()}
    assert pair.users() == there
    assert pair.roster.keys == len(there)


def test_a_gap_is_seen_and_asked_for_once_a_second() -> None:
    pair = Pair()
    first, second, third = users(3)
    pair.speaker.set(first, 1)
    pair.hear(*pair.said())
    pair.speaker.set(second, 1)
    pair.said()
    pair.speaker.set(third, 1)
    pair.hear(*pair.said())
    assert pair.users() == {"u0": 1}, "what has a gap before it is not taken"
    assert pair.asked == ["one"]
    pair.hear(pair.speaker.beat())
    pair.now += ASK_MS - 1
    pair.hear(pair.speaker.beat())
    assert pair.asked == ["one"]
    pair.answer()
    assert pair.users() == {"u0": 1, "u1": 1, "u2": 1}


def test_a_change_that_is_lost_is_noticed_by_whatever_comes_next() -> None:
    for way in ("beat", "piece"):
        pair = Pair()
        pair.speaker.set(users(1)[0], 1)
        pair.hear(*pair.said())
        pair.speaker.set(users(1)[0], 0)
        pair.said()
        if way == "beat":
            pair.hear(pair.speaker.beat())
        else:
            pair.speaker.ask()
            pair.hear(*pair.said())
        assert pair.asked == ["one"], way
        pair.answer()
        assert pair.users() == {}, way


def test_what_is_learnt_has_no_gaps() -> None:
    pair = Pair()
    for key in users(2 * KEYS_PER_PACKET):
        pair.speaker.set(key, 1)
    pair.said()

    def pieces() -> list[list[Any]]:
        """All of it, in two pieces."""
        pair.speaker.ask()
        said = pair.said()
        assert len(said) == 2
        return said

    first, others = pieces(), pieces()
    pair.hear(first[0])
    pair.asked.clear()
    pair.now += ASK_MS
    pair.hear(others[1])
    assert pair.asked == ["one"], "a piece of another answer"
    pair.asked.clear()
    pair.now += ASK_MS
    pair.hear(pieces()[0])
    pair.speaker.set(users(1)[0], 5)
    pair.said()
    pair.speaker.ask()
    late = pair.said()[-1]
    late[4] -= 1  # of the answer that was being learnt
    pair.hear(late)
    assert pair.asked == ["one"], "a change between was lost"
    pair.hear(pieces()[0])
    pair.hearer.leave("one")
    assert pair.users() == {}
    assert pair.roster.keys == 0


def test_a_piece_of_all_that_is_lost_is_noticed() -> None:
    pair = Pair()
    for key in users(3 * KEYS_PER_PACKET):
        pair.speaker.set(key, 1)
    pair.said()
    for lost in (0, 1, 2):
        pair.now += ASK_MS
        pair.speaker.ask()
        packets = pair.said()
        assert len(packets) == 3
        pair.hear(*(packet for number, packet in enumerate(packets) if number != lost))
        pair.hear(pair.speaker.beat(), pair.speaker.beat())
        assert pair.asked == ["one"], lost
        pair.asked.clear()
    pair.now += ASK_MS
    pair.asked.append("one")
    pair.answer()
    assert len(pair.users()) == pair.roster.keys == 3 * KEYS_PER_PACKET


def test_another_process_in_the_same_place_begins_anew() -> None:
    pair = Pair()
    old, new = users(2)
    pair.speaker.set(old, 1)
    pair.hear(*pair.said())
    before, pair.speaker = pair.speaker, PresenceSender("one", "second")
    pair.speaker.set(new, 1)
    assert pair.hearer.hear(pair.said()[0], 0), "it is new"
    assert pair.users() == {"u1": 1}
    pair.hear(before.bye())
    assert pair.users() == {"u1": 1}, "the one before has nothing to say any more"
    pair.hear(pair.speaker.bye())
    assert pair.users() == {}
    assert pair.hearer.members == 0


def test_who_is_silent_is_let_go_unless_nobody_could_be_heard() -> None:
    pair = Pair()
    pair.speaker.set(users(1)[0], 1)
    pair.hear(*pair.said())
    pair.hearer.expire(5000)
    assert pair.hearer.members == 1
    pair.hearer.rest(60_000)
    pair.hearer.expire(65_000)
    assert pair.users() == {"u0": 1}
    pair.hearer.expire(65_001)
    assert pair.users() == {}
    pair.now = 66_000
    pair.hear(pair.speaker.beat())
    pair.answer()
    assert pair.users() == {"u0": 1}, "it was only slow"


@pytest.mark.parametrize(
    "packet",
    [[], ["one"], ["one", "life", 1, "?"], ["one", "life", 1, "d", [1, 2]], ["one", "life", 1, "d", ["k"]],
     ["one", "life", 1, "d", ["k", -1]], ["one", "life", 0, "w", 1, 0, True], ["one", "life", "1", "b"]],
)  # fmt: skip
def test_what_is_no_packet_is_refused(packet: list[Any]) -> None:
    pair = Pair()
    with pytest.raises(ValueError):
        pair.hear(packet)
    assert pair.users() == {}


def test_whatever_is_lost_they_agree_in_the_end() -> None:
    for seed in range(8):
        chance = random.Random(seed)
        pair = Pair()
        keys = users(KEYS_PER_PACKET * 2)
        for step in range(400):
            pair.now += chance.choice((0, 100, 900))
            for _ in range(chance.randrange(20)):
                pair.speaker.set(chance.choice(keys), chance.randrange(3))
            if step % 9 == 0:
                packet: list[Any] | None = pair.speaker.beat()
            else:
                packet = pair.speaker.next()
            if packet is not None and chance.random() > 0.2:
                pair.hear(packet)
            if pair.asked and chance.random() < 0.5:
                pair.asked.clear()
                pair.speaker.ask()
        for _ in range(4):
            pair.now += ASK_MS
            pair.hear(*pair.said(), pair.speaker.beat(), pair.speaker.beat())
            pair.answer()
        there = {key.partition("\0")[2]: count for key, count in pair.speaker.counts.items()}
        assert pair.users() == there, seed
        assert pair.roster.keys == len(there)
