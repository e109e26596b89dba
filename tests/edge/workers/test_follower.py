"""A worker that follows, with a first worker that the test plays: what it was refused holds up what comes after it."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from fastpath.awake import AwakeClock
from fastpath.core.broker.admission import Outcome
from fastpath.core.protocol.messages import Message
from fastpath.core.protocol.packets import Log
from fastpath.edge.node.messages import Busy, Copied, Packet, Publish, Published, Stale, Welcome, encode
from fastpath.edge.workers import link as links
from fastpath.edge.workers.follower import Follower
from fastpath.edge.workers.link import HOLD_BYTES, LinkSocket
from fastpath.engine.follower import FollowerEngine
from fastpath.server.components import make_runtime
from fastpath.settings import Settings
from tests.support.waiting import auntil


class First:
    """Takes one link and answers what it is told to."""

    def __init__(self, listening: socket.socket, name: str) -> None:
        self.heard: list[Packet | Log] = []
        self.link = LinkSocket(asyncio.get_running_loop(), listening.accept()[0], self.heard.append, lambda why: None)
        self.say(Welcome(name, 1), Copied(0))

    def say(self, *packets: Packet) -> None:
        for packet in packets:
            self.link.send(packet)
        self.link.flush()


async def test_what_the_first_worker_could_not_store_holds_up_what_follows_at_the_next_one(tmp_path: Path) -> None:
    path = str(tmp_path / "link")
    told: list[Outcome] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(path)
        listening.listen()
        engine = FollowerEngine()
        runtime = make_runtime(Settings(mode="none"), asyncio.get_running_loop(), engine)
        follower = Follower(runtime, engine, 1, path, lambda: None)

        def publish(*numbers: int) -> None:
            told.clear()
            runtime.broker.publish(
                None, [Message("/a/b", str(n), publisher="p", publication=n) for n in numbers], 0, told.extend
            )

        follower.start()
        first = First(listening, "one")
        await auntil(follower.copied.is_set)
        publish(1, 2)
        await auntil(lambda: type(first.heard[-1]) is Publish)
        first.say(Published(1, [["unavailable", "the disk"]] * 2))
        await auntil(lambda: told)
        assert told == [("unavailable", "the disk")] * 2

        first.link.close("dies")
        await auntil(lambda: runtime.stale)
        first = First(listening, "two")
        await auntil(lambda: not runtime.stale)
        publish(3)
        assert [one[0] for one in told if not isinstance(one, int)] == ["unavailable"]
        publish(1, 2, 3)
        await auntil(lambda: type(first.heard[-1]) is Publish)
        first.say(Published(1, [1, 2, 3]))
        await auntil(lambda: told)
        assert told == [1, 2, 3]
        follower.stop()
        first.link.close("over")


async def test_a_worker_that_is_busy_writing_takes_no_log_and_says_that_it_is_there(tmp_path: Path) -> None:
    path = str(tmp_path / "link")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(path)
        listening.listen()
        engine = FollowerEngine()
        runtime = make_runtime(Settings(mode="none"), asyncio.get_running_loop(), engine)
        follower = Follower(runtime, engine, 1, path, lambda: None)
        runtime.serve(follower)
        follower.start()
        first = First(listening, "one")
        await auntil(follower.copied.is_set)
        assert follower.offers.crowded is not None
        follower.offers.crowded(True)
        first.say(Stale("stale", "nobody reads this yet"))
        await auntil(lambda: first.heard.count(Busy()) >= 3)
        assert not runtime.stale
        follower.offers.crowded(False)
        await auntil(lambda: runtime.stale)
        follower.stop()
        first.link.close("over")


@pytest.mark.parametrize("reading", [True, False])
async def test_who_says_something_is_waited_for_though_it_takes_nothing(
    reading: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where this side takes nothing of it for now: else the two would give each other up."""
    monkeypatch.setattr(links, "STUCK_SECONDS", 0.2)
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    clock, end = AwakeClock(1.0, loop.time()), loop.time() + 1
    link = LinkSocket(loop, ours, lambda packet: None, lambda why: None, clock=clock)
    link.push(b"." * (HOLD_BYTES + (4 << 20)))
    link.flush()
    link.read(reading)
    assert link.holds

    def talks() -> bool:
        theirs.send(encode(Busy()))
        clock.tick(loop.time())
        return loop.time() > end

    await auntil(talks)
    assert link.holds

    def silent() -> bool:
        clock.tick(loop.time())
        return not link.holds

    await auntil(silent)
    link.close("over")
    theirs.close()
