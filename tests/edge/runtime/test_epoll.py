"""Sockets that become ready together, what one of them does to another in the same turn, and how many have one."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable

import pytest
import uvloop

from fastpath.edge.runtime.epoll import EVENTS_MAX, READY_SECONDS, EpollPoller, LoopWatch


class Connection:
    """Notes what it is told; closes ``victim`` when it has something to read."""

    def __init__(self, watch: EpollPoller, sock: socket.socket) -> None:
        self.watch = watch
        self.sock = sock
        self.ended = False
        self.told: list[str] = []
        self.victim: Connection | None = None
        self.socket = self
        watch.add(sock.fileno(), self)

    def receive(self, _: Connection) -> None:
        self.told.append(self.sock.recv(100).decode())
        if self.victim is not None:
            self.victim.close()

    def writable(self) -> None:
        self.told.append("writable")
        self.watch.change(self.sock.fileno(), False, False)

    def close(self) -> None:
        if not self.ended:
            self.ended = True
            self.watch.forget(self.sock.fileno())
            self.sock.close()


class Pairs:
    """Connections, the other ends of their sockets, and how often a turn has ended."""

    def __init__(self, count: int, kind: type[EpollPoller] = EpollPoller) -> None:
        self.turns = 0
        self.ended = asyncio.Event()
        self.watch = kind(asyncio.get_running_loop(), self.end)
        pairs = [socket.socketpair() for _ in range(count)]
        self.ours = [Connection(self.watch, ours) for ours, _ in pairs]
        self.peers = [peer for _, peer in pairs]

    def end(self) -> None:
        self.turns += 1
        self.ended.set()

    async def turn(self) -> None:
        """Until what is ready has been served."""
        self.ended.clear()
        await asyncio.wait_for(self.ended.wait(), 5)

    def close(self) -> None:
        for one in self.ours:
            one.close()
        for peer in self.peers:
            peer.close()
        self.watch.stop()


@pytest.fixture
async def three() -> AsyncIterator[Pairs]:
    pairs = Pairs(3)
    yield pairs
    pairs.close()


async def test_what_is_ready_together_is_served_in_one_turn(three: Pairs) -> None:
    for number, peer in enumerate(three.peers):
        peer.send(b"%d" % number)
    await three.turn()
    assert [one.told for one in three.ours] == [["0"], ["1"], ["2"]]
    assert three.turns == 1


async def test_who_is_closed_by_another_hears_nothing_more(three: Pairs) -> None:
    first, second, _ = three.ours
    first.victim, second.victim = second, first
    for peer in three.peers:
        peer.send(b"x")
    await three.turn()
    assert sorted(len(one.told) for one in three.ours) == [0, 1, 1]
    assert first.ended != second.ended


async def test_room_to_write_is_told_only_when_it_is_wanted(three: Pairs) -> None:
    one = three.ours[0]
    three.watch.change(one.sock.fileno(), False, True)
    three.peers[0].send(b"later")
    await three.turn()
    assert one.told == ["writable"]
    three.watch.change(one.sock.fileno(), True, False)
    await three.turn()
    assert one.told == ["writable", "later"]


async def test_a_descriptor_that_is_used_again(three: Pairs) -> None:
    gone = three.ours[0]
    ours, peer = socket.socketpair()
    three.peers.append(peer)
    number = gone.sock.fileno()
    gone.close()
    os.dup2(ours.fileno(), number)
    ours.close()
    again = Connection(three.watch, socket.socket(fileno=number))
    three.ours.append(again)
    peer.send(b"new")
    await three.turn()
    assert (again.told, gone.told) == (["new"], [])


async def test_where_there_is_no_epoll() -> None:
    """The loop watches each socket by itself."""
    pairs = Pairs(2, LoopWatch)
    one, other = pairs.ours
    pairs.peers[0].send(b"now")
    await pairs.turn()
    pairs.watch.change(one.sock.fileno(), False, True)
    pairs.peers[0].send(b"later")
    await pairs.turn()
    assert one.told == ["now", "writable"]
    pairs.watch.change(one.sock.fileno(), True, False)
    await pairs.turn()
    assert one.told == ["now", "writable", "later"]
    one.close()
    pairs.peers[1].send(b"x")
    await pairs.turn()
    assert (one.told[-1], other.told) == ("later", ["x"])
    pairs.close()


class Slow:
    """Has always something to read, and takes ``seconds`` to read it by the clock that it moves on."""

    ended = False

    def __init__(self, number: int, rounds: Rounds, seconds: float) -> None:
        self.number = number
        self.rounds = rounds
        self.seconds = seconds
        self.socket = self

    def receive(self, _: Slow) -> None:
        self.rounds.served[-1].append(self.number)
        self.rounds.moment += self.seconds

    def writable(self) -> None:
        raise AssertionError("nobody wanted to know")


class Rounds:
    """What was served in each round of a loop whose sockets all have something to read."""

    def __init__(self, kind: type[EpollPoller], loop: asyncio.AbstractEventLoop, count: int, seconds: float) -> None:
        self.served: list[list[int]] = [[]]
        self.moment = 0.0
        self.ends = 0
        self._loop = loop
        self._left = 0
        self._pairs = [socket.socketpair() for _ in range(count)]
        self.watch = kind(loop, self._ended, lambda: self.moment)
        for number, (ours, peer) in enumerate(self._pairs):
            peer.send(b"x")
            self.watch.add(ours.fileno(), Slow(number, self, seconds))

    def run(self, rounds: int) -> list[list[int]]:
        """So many rounds; who was served in each of those in which anybody was."""
        self._left = rounds
        self._loop.call_soon(self._round)
        self._loop.run_forever()
        self.watch.stop()
        for ours, peer in self._pairs:
            ours.close()
            peer.close()
        return [served for served in self.served[:-1] if served]  # a loop that is stopped may go round once more

    def _round(self) -> None:
        self.served.append([])
        self._left -= 1
        if self._left:
            self._loop.call_soon(self._round)
        else:
            self._loop.stop()

    def _ended(self) -> None:
        self.ends += 1


@pytest.mark.parametrize("loops", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("kind", [EpollPoller, LoopWatch])
def test_a_round_serves_only_so_long_and_then_those_who_are_left(
    kind: type[EpollPoller], loops: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """However many have more to say than a round has time for, and for however many rounds: everybody else waits for
    one of them beyond that time, and each has its turn before any has another."""
    loop = loops()
    rounds = Rounds(kind, loop, 7, READY_SECONDS * 0.6)
    served = rounds.run(40)
    loop.close()
    assert {len(one) for one in served} <= {1, 2}
    assert len(served) >= 30, "and nobody waits for an idle round"
    order = [number for one in served for number in one]
    turns = [sorted(order[at : at + 7]) for at in range(0, len(order) - 6, 7)]
    assert turns == [list(range(7))] * len(turns)


@pytest.mark.parametrize("loops", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("kind", [EpollPoller, LoopWatch])
def test_a_round_serves_only_so_many(kind: type[EpollPoller], loops: Callable[[], asyncio.AbstractEventLoop]) -> None:
    loop = loops()
    count = EVENTS_MAX + 40
    served = Rounds(kind, loop, count, 0.0).run(6)
    loop.close()
    assert max(map(len, served)) <= EVENTS_MAX
    assert {number for one in served[:3] for number in one} == set(range(count))
    assert all(len(set(one)) == len(one) for one in served), "each once a round"


@pytest.mark.parametrize("loops", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("kind", [EpollPoller, LoopWatch])
def test_one_that_takes_longer_than_a_round_is_alone_in_it(
    kind: type[EpollPoller], loops: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    loop = loops()
    served = Rounds(kind, loop, 3, READY_SECONDS * 2).run(12)
    loop.close()
    assert {len(one) for one in served} == {1}
    assert {number for one in served for number in one} == {0, 1, 2}


@pytest.mark.parametrize("loops", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_who_was_left_for_the_next_round_and_is_held_or_gone_is_not_served(
    loops: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """By the watch of the loop itself, which knows who is wanted."""
    loop = loops()
    rounds = Rounds(LoopWatch, loop, 4, READY_SECONDS * 2)
    watch, (held, gone) = rounds.watch, [ours.fileno() for ours, _ in rounds._pairs[2:]]
    loop.call_later(0, watch.change, held, False, False)
    loop.call_later(0, watch.forget, gone)
    before = len(rounds.served)
    rounds.run(12)
    loop.close()
    late = [number for one in rounds.served[before + 3 :] for number in one]
    assert set(late) == {0, 1}
