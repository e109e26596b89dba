"""How a copy of the state goes on in a worker that has other work, with a clock that the test sets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from fastpath.core.protocol.messages import Message
from fastpath.core.protocol.packets import Log
from fastpath.edge.node.messages import Packet
from fastpath.edge.workers.link import LinkSocket, StateSender
from fastpath.server.components import make_runtime
from fastpath.settings import Settings
from tests.support.waiting import auntil

SUBJECTS = 20_000
SLICE_SECONDS = 0.001
"""The clock goes on by so much whenever it is read: so a slice takes no time of its own besides."""


class Clock:
    """What ``time`` is for the copy."""

    def __init__(self) -> None:
        self.moment = 0.0

    def monotonic(self) -> float:
        self.moment += SLICE_SECONDS
        return self.moment


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("fastpath.edge.workers.link.time", clock)
    return clock


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


async def turns(clock: Clock, ends: tuple[socket.socket, socket.socket], seconds: float) -> tuple[int, float]:
    """How many turns of the loop the copy of many subjects takes, and which part of the time is its own.

    Whatever else the worker does takes so many ``seconds`` in each turn.
    """
    loop = asyncio.get_running_loop()
    runtime = make_runtime(Settings(mode="none"), loop)
    runtime.broker.publish(None, [Message(f"/many/{number}", "x" * 100) for number in range(SUBJECTS)], 0)
    runtime.broker.flush()
    heard: list[Packet | Log] = []
    lost: list[str] = []
    link = LinkSocket(loop, ends[0], heard.append, lost.append, lambda: sender.wake())
    other = LinkSocket(loop, ends[1], heard.append, lost.append)
    count, over = 0, False
    began = clock.moment

    def complete() -> None:
        nonlocal over
        over = True

    def work() -> None:
        nonlocal count
        if not over:
            count += 1
            clock.moment += seconds
            loop.call_soon(work)

    sender = StateSender(runtime, link, lambda: None, complete)
    work()
    await auntil(lambda: over)
    took = clock.moment - began
    got = lambda: {part[0] for packet in heard for part in packet.parts}  # type: ignore[union-attr]
    await auntil(lambda: len(got()) == SUBJECTS)
    link.close("over")
    other.close("over")
    runtime.stop()
    return count, 1 - count * seconds / took


async def test_in_short_turns_it_is_a_slice_each(clock: Clock, ends: tuple[socket.socket, socket.socket]) -> None:
    """Others have their turns between them."""
    count, _ = await turns(clock, ends, 0)
    assert count > 50


@pytest.mark.parametrize("seconds", [0.05, 0.5])
async def test_in_long_turns_it_has_a_third_of_the_time(
    seconds: float, clock: Clock, ends: tuple[socket.socket, socket.socket]
) -> None:
    """Somebody publishes at full speed, on a machine that is short of CPU: the copy does not wait for that to end."""
    count, share = await turns(clock, ends, seconds)
    assert count < 20
    assert share < 0.4, "and the others have the rest"
