"""The asynchronous client against servers that are not ours: close codes, garbage, silence, another form."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from websockets.asyncio.server import ServerConnection, serve

from fastpath.client import ConnectionRejected, Disconnected, Status, Unknown, connect
from fastpath.client.errors import may_reconnect
from fastpath.client.subscriber.client import Client
from fastpath.core.protocol.errors import Close
from tests.support.reconnecting import SOON
from tests.support.waiting import PATIENCE_SECONDS, auntil

CONNECTED = '{"op":"connected","id":1,"server":"s","epoch":5,"user":"","time":5,"base":5,"ping_ms":25000}'

Behaviour = Callable[[ServerConnection, int], Awaitable[None]]


@contextlib.asynccontextmanager
async def server(behave: Behaviour, **options: object) -> AsyncIterator[str]:
    """A WebSocket server; the behaviour is told which connection this is, from 0."""
    count = 0

    async def handler(connection: ServerConnection) -> None:
        nonlocal count
        count += 1
        with contextlib.suppress(Exception):
            await behave(connection, count - 1)

    async with serve(handler, "127.0.0.1", 0, **options) as running:  # type: ignore[arg-type]
        yield f"ws://127.0.0.1:{next(iter(running.sockets)).getsockname()[1]}/ws"


async def polite(connection: ServerConnection) -> None:
    """A server without subprotocol that accepts all and says nothing else, but answers pings."""
    await connection.recv()
    await connection.send(CONNECTED)
    async for frame in connection:
        command = json.loads(frame)
        if command["op"] == "ping":
            await connection.send(json.dumps({"op": "pong", "id": command["id"], "time": 5}))


async def statuses(client: Client, name: str, count: int) -> list[Status]:
    """The next statuses of a name."""
    found: list[Status] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for status in client.status:
            if status.name == name:
                found.append(status)
            if len(found) == count:
                break
    return found


@pytest.mark.parametrize("code", [1001, 1011, 4000, 4001, 4004, 4005, 4006, 4499])
async def test_after_these_codes_it_reconnects(code: int) -> None:
    async def behave(connection: ServerConnection, number: int) -> None:
        if number == 0:
            await connection.close(code, "name: why")
        else:
            await polite(connection)

    seen: list[Status] = []
    async with server(behave) as url, connect(url, on_status=seen.append, **SOON):
        assert [(status.name, status.code) for status in seen] == [
            ("disconnected", code), ("down", 0), ("connected", 0)]  # fmt: skip
        assert seen[0].reason == "name: why"


@pytest.mark.parametrize("code", [1002, 1007, 1008, 4007, 4500, 4501, 4502, 4503, 4504, 4505, 4506, 4999])
async def test_after_these_codes_it_gives_up(code: int) -> None:
    attempts = 0

    async def behave(connection: ServerConnection, number: int) -> None:
        nonlocal attempts
        attempts += 1
        await connection.close(code, "name: why")

    async with server(behave) as url:
        with pytest.raises(ConnectionRejected) as caught:
            async with connect(url):
                pass
    assert (caught.value.code, caught.value.reason, attempts) == (code, "name: why", 1)


def test_every_code_of_the_protocol_says_whether_to_reconnect() -> None:
    for code in Close:
        if code >= 4000:
            assert may_reconnect(code) is (code < 4500), code


async def test_when_it_gives_up_later_streams_end_with_the_reason() -> None:
    async def behave(connection: ServerConnection, number: int) -> None:
        await connection.recv()
        await connection.send(CONNECTED)
        await connection.recv()
        await connection.close(4502, "revoked: signed out")

    async with server(behave) as url, connect(url) as client:
        stream = client.subscribe("/a/b")
        with pytest.raises(ConnectionRejected, match="signed out"):
            await anext(stream)
        with pytest.raises(ConnectionRejected):
            await client.publish("/a/b", "x")
        with pytest.raises(ConnectionRejected):
            await anext(client.subscribe("/a/c"))
        assert [status async for status in client.status] == []
        assert not client.connected


async def test_a_server_that_chooses_no_subprotocol_is_spoken_to_in_json() -> None:
    async def behave(connection: ServerConnection, number: int) -> None:
        await polite(connection)

    async with server(behave) as url, connect(url, form="msgpack") as client:
        await auntil(lambda: client.latency_ms is not None)


@pytest.mark.parametrize("garbage", ["nonsense", "[1]", '{"op":"nonsense"}', b"\xff"])
async def test_garbage_ends_the_connection_and_another_is_made(garbage: str | bytes) -> None:
    async def behave(connection: ServerConnection, number: int) -> None:
        if number == 0:
            await connection.send(garbage)
        await polite(connection)

    async with server(behave) as url, connect(url, **SOON) as client:
        assert client.connected


async def test_silence_is_the_end_of_a_connection() -> None:
    async def behave(connection: ServerConnection, number: int) -> None:
        await connection.recv()
        await connection.send(CONNECTED)
        async for _ in connection:
            pass

    async with server(behave) as url, connect(url, ping_seconds=0.1, silence_seconds=0.3) as client:
        [lost] = await statuses(client, "disconnected", 1)
        assert "no sign of life" in lost.reason


async def test_a_lost_connection_leaves_no_publication_without_an_answer() -> None:
    async def behave(connection: ServerConnection, number: int) -> None:
        await connection.recv()
        await connection.send(CONNECTED)
        async for frame in connection:
            if '"publish"' in str(frame):
                connection.transport.abort()

    async with server(behave) as url, connect(url, form="json", publish_seconds=0.5, **SOON) as client:
        with pytest.raises(Unknown):
            await client.publish("/a/b", "x")
        with pytest.raises(Disconnected):
            await client.publish("/a/b", "x", qos="standard")


async def test_a_callback_that_fails_and_a_token_that_cannot_be_had_do_no_harm() -> None:
    asked = 0

    def token() -> str:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise OSError("the token's server is away")
        return "t"

    def callback(status: Status) -> None:
        raise RuntimeError("a fault of the program")

    async def behave(connection: ServerConnection, number: int) -> None:
        await polite(connection)

    async with server(behave) as url, connect(url, token, on_status=callback, **SOON) as client:
        assert (client.connected, asked) == (True, 2)
