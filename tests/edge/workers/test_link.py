"""What may wait in a link for a worker that does not read, and what becomes of a link that is cut."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from fastpath.edge.workers import link as links
from fastpath.edge.workers.link import LinkSocket
from tests.support.waiting import auntil

BOUND = 4 << 20
PACKET = b"." * (100 << 10)


class Ours:
    """Our end of a link of which nobody reads the other one."""

    def __init__(self, sock: socket.socket) -> None:
        self.lost: list[str] = []
        self.link = LinkSocket(asyncio.get_running_loop(), sock, lambda packet: None, self.lost.append)

    def send(self, data: bytes) -> None:
        self.link.push(data)
        self.link.flush()

    def fill(self, size: int) -> None:
        """Until so much waits."""
        while self.link.waiting < size and not self.link.closed:
            self.send(PACKET)


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[socket.socket, socket.socket]]:
    monkeypatch.setattr(links, "LINK_BYTES_MAX", BOUND)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


async def test_what_is_sent_in_the_turn_in_which_it_was_cut_goes_nowhere(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    """Its owner hears of the end in a later turn, and goes on with the log until then, and tells others then."""
    ours = Ours(ends[0])
    ours.fill(BOUND + 2 * len(PACKET))
    assert ours.link.closed
    for _ in range(2):
        ours.send(PACKET)
    assert (ours.link.waiting, ours.lost) == (0, [])
    await auntil(lambda: ours.lost)
    ours.send(PACKET)
    assert ours.lost == [f"over {BOUND} bytes wait for it"]


async def test_one_packet_may_be_as_large_as_it_is(ends: tuple[socket.socket, socket.socket]) -> None:
    """Such as the whole state of a subject; beside it waits no more than else."""
    ours = Ours(ends[0])
    ours.send(b"." * (2 * BOUND))
    assert not ours.link.closed
    ours.fill(3 * BOUND + len(PACKET))
    assert ours.link.closed


async def test_many_packets_are_not_taken_for_a_large_one(ends: tuple[socket.socket, socket.socket]) -> None:
    """They are written as one, once the socket takes something."""
    ours = Ours(ends[0])
    ours.fill(BOUND - len(PACKET))
    before = ours.link.waiting
    ends[1].setblocking(False)
    while ours.link.waiting > before - 2 * len(PACKET):
        await asyncio.get_running_loop().sock_recv(ends[1], len(PACKET))
    ours.fill(BOUND + 2 * len(PACKET))
    assert ours.link.closed
