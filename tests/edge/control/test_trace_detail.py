"""What a trace tells of many clients, and of a worker that is gone; without sockets."""

from __future__ import annotations

import asyncio
from typing import Any

from fastpath.core.protocol.messages import Message
from fastpath.core.wires.registry import PLAIN
from fastpath.edge.control.trace_detail import LOOKED_MAX
from fastpath.edge.runtime.runtime import Runtime, now
from fastpath.server.components import make_runtime
from fastpath.settings import Settings
from tests.support.edge.operators import Nowhere, Peer, linked, told
from tests.support.waiting import auntil


def enter(runtime: Runtime, number: int) -> None:
    """A client with a subject of its own, so that no two share a group."""
    client = runtime.sessions.open(Nowhere(), number, False, PLAIN["json"], "", "10.0.0.1", now())
    say = f'{{"op":"subscribe","id":1,"subjects":["/a/b","/own/c{number}"]}}'
    runtime.sessions.receive(client, say.encode(), now())


async def test_a_number_of_clients_that_is_not_all_says_so() -> None:
    runtime, peer = make_runtime(Settings(mode="none"), asyncio.get_running_loop()), Peer()
    trace = (await peer.ask(runtime, "trace", subject="/a/b"))["trace"]

    for number in range(LOOKED_MAX):
        enter(runtime, number)
    runtime.broker.publish(None, [Message("/a/b", "x")], now())
    runtime.end()

    def events() -> list[dict[str, Any]]:
        answer = runtime.verbs["traced"](peer, {"trace": trace, "after": after}) or {}
        return [one for one in answer["events"] if one["event"] == "delivered"]

    after = LOOKED_MAX
    [whole] = await auntil(events)
    assert whole["clients"] == LOOKED_MAX
    assert "more" not in whole
    enter(runtime, LOOKED_MAX)
    runtime.broker.publish(None, [Message("/a/b", "x")], now())
    runtime.end()
    after = whole["n"]
    [part] = await auntil(events)
    assert told(part, "clients", "more") == [LOOKED_MAX, True]
    runtime.stop()


async def test_a_trace_of_a_connection_ends_with_its_worker() -> None:
    """One of a user does not: the user may come back elsewhere."""
    (first, other), peer = linked(), Peer()
    enter(first, 1)
    enter(other, 1)
    names = [row["connection"] for row in (await peer.ask(first, "clients"))["clients"]]
    traces = [(await peer.ask(first, "trace", connection=name))["trace"] for name in names]
    traces.append((await peer.ask(first, "trace", user="ann"))["trace"])
    first.workers.parted(1)

    def ends() -> list[str]:
        answers = [first.verbs["traced"](peer, {"trace": trace}) or {} for trace in traces]
        return [answer["ended"] for answer in answers]

    await auntil(lambda: any(ends()))
    assert ends() == ["", "the connection has ended", ""]
    for runtime in (first, other):
        runtime.stop()
