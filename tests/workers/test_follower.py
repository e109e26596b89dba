"""A worker that follows, with a first worker that the test plays: what it was refused holds up what comes after it."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

from fastpath.core.admission import Outcome
from fastpath.core.messages import Message
from fastpath.edge.link import LinkSocket
from fastpath.edge.link_follower import Follower
from fastpath.engine.follower import FollowerEngine
from fastpath.server import make_hub
from fastpath.settings import Settings
from tests.support.waiting import auntil


class First:
    """Takes one link and answers what it is told to."""

    def __init__(self, listening: socket.socket, name: str) -> None:
        self.heard: list[list[Any]] = []
        self.link = LinkSocket(asyncio.get_running_loop(), listening.accept()[0], self.heard.append, lambda why: None)
        self.say(["welcome", name, 1], ["copied", 0])

    def say(self, *packets: list[Any]) -> None:
        for packet in packets:
            self.link.send(packet)
        self.link.flush()


async def test_what_the_first_worker_could_not_store_holds_up_what_follows_at_the_next_one(tmp_path: Path) -> None:
    path = str(tmp_path / "link")
    told: list[Outcome] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(path)
        listening.listen()
        hub = make_hub(Settings(mode="none"), asyncio.get_running_loop(), FollowerEngine())
        follower = Follower(hub, FollowerEngine(), 1, path, lambda: None)

        def publish(*numbers: int) -> None:
            told.clear()
            hub.broker.publish(
                None, [Message("/a/b", str(n), publisher="p", publication=n) for n in numbers], 0, told.extend
            )

        follower.start()
        first = First(listening, "one")
        await auntil(follower.copied.is_set)
        publish(1, 2)
        await auntil(lambda: first.heard[-1][0] == "publish")
        first.say(["published", 1, [["unavailable", "the disk"]] * 2])
        await auntil(lambda: told)
        assert told == [("unavailable", "the disk")] * 2

        first.link.close("dies")
        await auntil(lambda: hub.stale)
        first = First(listening, "two")
        await auntil(lambda: not hub.stale)
        publish(3)
        assert [one[0] for one in told if not isinstance(one, int)] == ["unavailable"]
        publish(1, 2, 3)
        await auntil(lambda: first.heard[-1][0] == "publish")
        first.say(["published", 1, [1, 2, 3]])
        await auntil(lambda: told)
        assert told == [1, 2, 3]
        follower.stop()
        first.link.close("over")
