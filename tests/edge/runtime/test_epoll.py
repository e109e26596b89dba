"""Sockets that become ready together, and what one of them does to another in the same turn."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator

import pytest

from fastpath.edge.runtime.epoll import EpollPoller, LoopWatch


class Connection:
    """Notes what it is told; closes ``victim`` when it has something to read."""

    def __init__(self, watch: EpollPoller, sock: socket.socket) -> None:
        self.watch = watch
        self.sock = sock
        self.ended = False
        self.told: list[str] = []
        self.victim: Connection | None = None
        watch.add(sock.fileno(), self)

    def readable(self) -> None:
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
