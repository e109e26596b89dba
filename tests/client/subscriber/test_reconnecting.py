"""The asynchronous client when servers come and go: its publications, other servers, the list of them, pause."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fastpath.client import (
    NoResponders,
    QueueFull,
    Status,
    Unavailable,
    connect,
)
from fastpath.client.blocking import connect as connect_blocking
from fastpath.client.subscriber.client import Client
from fastpath.client.subscriber.streams import Feed
from fastpath.core.protocol.errors import Close
from tests.support.client.shared import sidecar, subject
from tests.support.proxy import Proxy
from tests.support.reconnecting import SOON
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint_jwt
from tests.support.waiting import PATIENCE_SECONDS, auntil

__all__ = ["sidecar", "subject"]

A = "/a/a"


async def told(feed: Feed[Status], *names: str) -> Status:
    """The next status with one of these names."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for status in feed:
            if status.name in names:
                return status
    raise AssertionError(f"the feed ended before {names}")


async def cached(sidecar: Sidecar, count: int, subject: str = A) -> list[Any]:
    """The newest messages that the sidecar holds, ``count`` of them and then all that there are."""
    async with connect(sidecar.client_url) as client:
        stream = client.subscribe(subject, history=100_000)
        async with asyncio.timeout(PATIENCE_SECONDS):
            messages = [await anext(stream) for _ in range(count)]
        await client.publish(subject, "the end")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (last := await anext(stream)).content != "the end":
                messages.append(last)
        return messages


async def test_what_is_published_through_cuts_is_stored_once_and_in_order() -> None:
    count = 400
    with Sidecar(cache_messages=2 * count) as sidecar, Proxy(sidecar.client_url) as proxy:
        async with connect(f"ws://{proxy.address}/ws", **SOON) as client:
            futures = []
            for number in range(count):
                futures.append(client.enqueue(A, f"{number}"))
                if number % 40 == 20:
                    # What was sent just now is stored, but nobody has heard of it.
                    await asyncio.sleep(0)
                    await asyncio.to_thread(proxy.cut)
            positions = await asyncio.gather(*futures)
        messages = await cached(sidecar, count)
        assert [message.content for message in messages] == [f"{number}" for number in range(count)]
        assert positions == [(message.epoch, message.seq) for message in messages]


async def test_across_kills_of_a_server_with_a_journal_nothing_acknowledged_is_lost_or_doubled(tmp_path: Path) -> None:
    with Sidecar(journal="interval", data=tmp_path / "journal", cache_messages=10_000) as sidecar:
        async with connect(sidecar.client_url, publish_queue_messages=10_000, **SOON) as client:
            status, stream = client.status, client.subscribe(A)
            await told(status, "subscribed")
            futures = []
            for number in range(900):
                futures.append(client.enqueue(A, f"{number}"))
                if number % 300 == 150:
                    await auntil(lambda: futures[-100].done())  # noqa: B023
                    sidecar.kill()
                    futures += [client.enqueue(A, f"{number} away")]
                    await asyncio.to_thread(sidecar.start)
            positions = await asyncio.gather(*futures)
            async with asyncio.timeout(PATIENCE_SECONDS):
                received = [await anext(stream) for _ in positions]
            kinds = set()
            while len(kinds) < 2:
                kinds.add((await told(status, "recovered", "resynchronised", "synchronised")).name)
            assert kinds == {"recovered", "synchronised"}
        assert [message.seq for message in received] == list(range(1, len(futures) + 1))
        assert [position.seq for position in positions] == [message.seq for message in received]
        assert len({message.content for message in received}) == len(futures)


async def test_a_client_of_a_server_that_stops_is_elsewhere_at_once() -> None:
    """At once: the waits between rounds are longer than this test."""
    with Sidecar() as one, Sidecar() as other:
        by_url = {one.client_url: one, other.client_url: other}
        async with connect(list(by_url), quick_retries=0, backoff_seconds=60) as client:
            status = client.status
            first = client.url
            await asyncio.to_thread(by_url[first].stop)
            lost = await told(status, "disconnected")
            assert (lost.code, lost.retry_seconds) == (Close.DRAIN, 0)
            assert (await told(status, "connected")).url in by_url.keys() - {first}
            assert (await client.publish(A, "x")).seq == 1


async def test_pausing_again_and_again_at_any_moment(sidecar: Sidecar, subject: str) -> None:
    async with connect(sidecar.client_url) as client:
        for turn in range(50):
            client.pause()
            for _ in range(turn % 7):
                await asyncio.sleep(0)
            client.resume()
            for _ in range(turn % 11):
                await asyncio.sleep(0)
        assert (await client.publish(subject, "x")).seq == 1


@contextmanager
def listing(servers: list[Any]) -> Iterator[str]:
    """A web server that answers the list as it is at that moment."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if servers else 500)
            self.end_headers()
            self.wfile.write(json.dumps({"servers": servers}).encode())

        def log_message(self, *_: object) -> None:
            """No line for each request."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/api/servers/"
        finally:
            server.shutdown()
            thread.join()


async def test_the_list_of_servers_is_asked_for_before_each_round(sidecar: Sidecar) -> None:
    servers = [{"url": "ws://127.0.0.1:1/ws", "weight": 100}]
    with listing(servers) as url, Proxy(sidecar.client_url) as proxy:
        seen: list[Status] = []

        def on_status(status: Status) -> None:
            seen.append(status)
            if len(seen) == 2:
                servers[:] = [{"url": f"ws://{proxy.address}/ws", "weight": 100}]

        async with connect(servers_url=url, on_status=on_status, **SOON) as client:
            assert [status.name for status in seen] == ["disconnected", "down", "connected"]
            servers.clear()  # it cannot be had, and the one at hand serves
            await asyncio.to_thread(proxy.cut)
            await auntil(lambda: [status.name for status in seen[3:]] == ["disconnected", "connected"])
            assert client.url == f"ws://{proxy.address}/ws"


async def test_while_no_new_token_can_be_had_the_last_one_serves() -> None:
    tokens = [mint_jwt("ann", both=["/a/**"])]
    with Sidecar(mode="jwt", token_secret=SECRET) as guarded, Proxy(guarded.client_url) as proxy:
        async with connect(f"ws://{proxy.address}/ws", tokens.pop, **SOON) as client:
            status = client.status
            await asyncio.to_thread(proxy.cut)
            await told(status, "connected")
            assert client.user == "ann"


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_program_may_answer_the_list_itself(sidecar: Sidecar, asynchronous: bool) -> None:
    async def later() -> list[tuple[str, int]]:
        return [(sidecar.client_url, 1)]

    async with connect(servers_url=later if asynchronous else (lambda: sidecar.client_url)) as client:
        assert client.url == sidecar.client_url
    for source in ("ftp://127.0.0.1/", "/api/servers/"):
        with pytest.raises(ValueError, match="http"):
            connect(servers_url=source)


def test_the_blocking_client_has_the_same(sidecar: Sidecar, subject: str) -> None:
    with Proxy(sidecar.client_url) as proxy:
        with connect_blocking(f"ws://{proxy.address}/ws", publish_queue_messages=3, **SOON) as client:
            stream = client.subscribe(subject)
            futures = [client.enqueue(subject, text, closure=text) for text in "abc"]
            assert [future.result(PATIENCE_SECONDS).seq for future in futures] == [1, 2, 3]
            client.pause()
            futures = [client.enqueue(subject, text) for text in "def"]
            with pytest.raises(QueueFull):
                client.enqueue(subject, "g")
            client.resume()
            assert [future.result(PATIENCE_SECONDS).seq for future in futures] == [4, 5, 6]
            assert [stream.get(PATIENCE_SECONDS).content for _ in range(6)] == list("abcdef")
            client.pause()
            left = client.enqueue(subject, "h")
        with pytest.raises(Unavailable):
            left.result(PATIENCE_SECONDS)


async def test_a_token_that_never_comes_is_as_one_that_cannot_be_had(sidecar: Sidecar) -> None:
    """Where the last one may serve the client reconnects with it."""
    asked = 0

    async def token() -> str:
        nonlocal asked
        asked += 1
        if asked > 1:
            await asyncio.Event().wait()
        return "any"

    async with connect(sidecar.client_url, token, token_seconds=0.2) as client:
        client.pause()
        client.resume()
        await auntil(lambda: client.connected)
    assert asked == 2


async def test_what_the_program_asks_for_ends_the_wait(sidecar: Sidecar, subject: str) -> None:
    """However long it was to be."""

    async def paused(client: Client) -> None:
        client.pause()
        client.reconnect()

    async def reconnect(client: Client) -> None:
        client.reconnect()

    async def subscribe(client: Client) -> None:
        client.subscribe(subject)

    async def publish(client: Client) -> None:
        await client.publish(subject, "x")

    async def request(client: Client) -> None:
        with pytest.raises(NoResponders):
            await client.request(subject, "x")

    with Proxy(sidecar.client_url) as proxy:
        for reason in (paused, reconnect, subscribe, publish, request):
            async with connect(f"ws://{proxy.address}/ws", quick_retries=0, backoff_seconds=3000) as client:
                status = client.status
                await asyncio.to_thread(proxy.shut)
                await told(status, "disconnected")
                await asyncio.to_thread(proxy.open)
                await reason(client)
                await told(status, "connected")


async def test_a_token_that_hangs_is_asked_for_anew_where_the_program_does_not_want_to_wait(sidecar: Sidecar) -> None:
    asked = 0

    async def token() -> str:
        nonlocal asked
        asked += 1
        if asked == 2:
            await asyncio.Event().wait()
        return "any"

    async with connect(sidecar.client_url, token, token_seconds=3000) as client:
        client.pause()
        client.resume()
        await auntil(lambda: asked == 2)
        client.reconnect()
        await auntil(lambda: client.connected)
    assert asked == 3
