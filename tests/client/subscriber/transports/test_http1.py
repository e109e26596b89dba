"""Requests on one kept connection, against a server that does what servers and proxies do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from fastpath.client.subscriber.transports.http1 import HttpConnection, Origin


@contextlib.asynccontextmanager
async def server(*answers: bytes | None) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Answers requests with these, over all connections; None closes the connection before the request."""
    left = list(answers)
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while left and left[0] is not None:
                asked.append(await reader.readuntil(b"\r\n\r\n"))
                answer = left.pop(0)
                assert answer is not None
                writer.write(answer)
                await writer.drain()
                if b"close" in answer:
                    break
            if left and left[0] is None:
                left.pop(0)
        writer.close()

    running = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with running:
        yield f"ws://127.0.0.1:{running.sockets[0].getsockname()[1]}/app/ws?token=t", asked


OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"


def test_sessions_are_beside_the_websocket() -> None:
    origin = Origin.of("wss://example.org/app/ws?token=t")
    assert (origin.base, origin.query, origin.authority, origin.port) == ("/app/session", "token=t", "example.org", 443)
    assert Origin.of("ws://[::1]:8800/ws").authority == "[::1]:8800"


async def test_a_connection_is_kept() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n"
    async with server(OK, chunked, OK) as (url, asked):
        requests = HttpConnection(Origin.of(url), None)
        assert [(await requests.ask("GET", "/x"))[1] for _ in range(3)] == [b"ok", b"ab", b"ok"]
        assert asked[0].startswith(b"GET /x HTTP/1.1\r\nHost: 127.0.0.1:")
        requests.close()


async def test_one_that_was_closed_meanwhile_is_opened_again() -> None:
    async with server(OK, None, OK) as (url, asked):
        requests = HttpConnection(Origin.of(url), None)
        await requests.ask("GET", "/x")
        assert (await requests.ask("GET", "/y"))[0].status == 200
        assert len(asked) == 2
        requests.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"nonsense\r\n\r\nclose",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000,
    ],
    ids=["no HTTP", "cut off", "too long"],
)
async def test_what_is_no_whole_answer_is_an_error_of_the_connection(answer: bytes) -> None:
    async with server(answer) as (url, _):
        requests = HttpConnection(Origin.of(url), None)
        with pytest.raises(OSError):
            await requests.ask("GET", "/x")
        requests.close()
