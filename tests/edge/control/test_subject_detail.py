"""Who subscribes to a subject, counted where a test with sockets would have to be quick."""

from __future__ import annotations

import asyncio

from fastpath.core.protocol.messages import Message
from fastpath.core.wires.registry import PLAIN
from fastpath.edge.runtime.runtime import now
from fastpath.server.components import make_runtime
from fastpath.settings import Settings
from tests.support.edge.operators import Nowhere, Peer
from tests.support.waiting import run


def test_who_joins_when_an_interval_ends_counts_already() -> None:
    """The clock of the grid stands still: the second client waits for the end of the interval that has begun."""

    async def story() -> None:
        runtime, peer = make_runtime(Settings(mode="none"), asyncio.get_running_loop()), Peer()
        for number in (1, 2):
            client = runtime.sessions.open(Nowhere(), number, False, PLAIN["json"], "", "10.0.0.1", now())
            command = b'{"op":"subscribe","id":1,"subjects":["/a/b"],"conflation":100}'
            runtime.sessions.receive(client, command, now())
            runtime.broker.publish(None, [Message("/a/b", "1")], now())
        found = await peer.ask(runtime, "subject", subject="/a/b")
        assert (found["subscribers"], found["conflated"], found["seq"]) == (2, 2, 2)
        name = (await peer.ask(runtime, "clients"))["clients"][1]["connection"]
        [subscription] = (await peer.ask(runtime, "client", connection=name))["subscriptions"]
        assert (subscription["state"], subscription["behind"]) == ("conflated", 1)
        runtime.watch.stop()

    run(story())
