"""What is posted to a session: in order, in bodies that are not too large, and again where the answer was lost."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator

import pytest

from fastpath.client.subscriber.transports.http1 import Origin
from fastpath.client.subscriber.transports.link import LinkEndedError, NotOpenedError
from fastpath.client.subscriber.transports.session import HttpSession, SessionTerms, read_terms


@contextlib.asynccontextmanager
async def posted_to(*statuses: int) -> AsyncIterator[tuple[HttpSession, list[tuple[int, list[bytes]]]]]:
    """A session whose server answers with these, 0: not at all; and what it got: number of the first, and frames."""
    left = list(statuses)
    got: list[tuple[int, list[bytes]]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length, number = (re.search(what, head) for what in (rb"Content-Length: (\d+)", rb"\?n=(\d+)"))
                if length is None or number is None:
                    break
                got.append((int(number[1]), (await reader.readexactly(int(length[1]))).split(b"\n")))
                status = left.pop(0) if left else 204
                if not status:
                    break
                writer.write(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n" % status)
        writer.close()

    running = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with running:
        origin = Origin.of(f"ws://127.0.0.1:{running.sockets[0].getsockname()[1]}/ws")
        session = HttpSession(origin, SessionTerms("s", frame_bytes=10), None)
        yield session, got
        await session.leave()


async def test_bodies_are_bounded_and_frames_numbered() -> None:
    async with posted_to() as (session, got):
        await session.post([b"aaaa", b"bbbbb", b"cccc", b"dddddddddd"])
        await session.post([b"e"])
    assert got == [(1, [b"aaaa", b"bbbbb"]), (3, [b"cccc"]), (4, [b"dddddddddd"]), (5, [b"e"])]


async def test_the_same_numbers_again() -> None:
    async with posted_to(0, 503, 204) as (session, got):
        await session.post([b"a", b"b"])
        await session.post([b"c"])
    assert [number for number, _ in got][-2:] == [1, 3]
    assert all(frames == [b"a", b"b"] for number, frames in got if number == 1)


@pytest.mark.parametrize(("status", "code"), [(404, 1006), (409, 1006), (413, 1009)])
async def test_what_ends_the_session(status: int, code: int) -> None:
    async with posted_to(status) as (session, _):
        with pytest.raises(LinkEndedError) as caught:
            await session.post([b"a"])
    assert caught.value.end.code == code


async def test_a_frame_that_is_too_large_is_not_sent() -> None:
    async with posted_to() as (session, got):
        with pytest.raises(LinkEndedError) as caught:
            await session.post([b"a", b"x" * 11])
    assert (caught.value.end.code, got) == (1009, [(1, [b"a"])])


def test_a_page_of_a_proxy_is_no_session() -> None:
    with pytest.raises(NotOpenedError) as caught:
        read_terms(b"<html>please log in</html>")
    assert caught.value.end.how == "refused"
