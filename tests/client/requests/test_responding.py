"""Requests and responders of the Python clients against a real sidecar."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fastpath.client import (
    Disconnected,
    Invalid,
    NoResponders,
    Reply,
    Request,
    RequestTimeout,
    ResponderError,
    ResponderGone,
    TooLarge,
    blocking,
    connect,
)
from fastpath.core.protocol.errors import InvalidSubject
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, auntil


@pytest.fixture(scope="module")
def shared() -> Iterator[Sidecar]:
    """One sidecar for all tests here, in which everybody may do everything."""
    with Sidecar(mode="none") as running:
        yield running
        assert "Traceback" not in running.log, running.log


async def test_a_request_gets_its_reply(shared: Sidecar) -> None:
    async with connect(shared.client_url) as asking, connect(shared.client_url, form="json") as answering:
        with pytest.raises(NoResponders):
            await asking.request("/one/a", "x")
        seen: list[Request] = []

        def plain(request: Request) -> str:
            seen.append(request)
            return f"plain {request.content!r}"

        async def with_fields(request: Request) -> Reply:
            return Reply(b"\x00\xff", {"of": request.subject, "b": b"\x01"})

        async with await answering.respond("/one/*", plain):
            await answering.respond("/two/**", with_fields)
            assert await asking.request("/one/a", b"\x80", fields={"f": b"\x81"}) == Reply("plain b'\\x80'", {})
            assert await asking.request("/two/a/b", "") == Reply(b"\x00\xff", {"of": "/two/a/b", "b": b"\x01"})
        assert (seen[0].fields, seen[0].user, seen[0].replies) == ({"f": b"\x81"}, "", 1)
        assert 0 < seen[0].timeout_seconds <= 5
        with pytest.raises(NoResponders):
            await asking.request("/one/a", "x")
        assert (await asking.request("/two/a", "")).fields["of"] == "/two/a"


async def test_several_replies_come_in_order_and_the_last_ends_them(shared: Sidecar) -> None:
    async with connect(shared.client_url) as client:

        async def three(request: Request) -> str:
            request.reply("a")
            request.reply("b", {"n": "2"})
            return "c"

        async with await client.respond("/several/x", three):
            replies = await client.request("/several/x", "", replies=10)
            assert replies == [Reply("a"), Reply("b", {"n": "2"}), Reply("c")]
            assert await client.request("/several/x", "", replies=2) == replies[:2]
            assert await client.request("/several/x", "") == Reply("a")


async def test_errors_of_handlers(shared: Sidecar, caplog: pytest.LogCaptureFixture) -> None:
    async with connect(shared.client_url) as client:

        async def failing(request: Request) -> str:
            if request.content == "own":
                request.reply("before")
                raise ResponderError("denied", "not yours")
            raise ValueError("a secret")

        await client.respond("/failing/x", failing)
        with pytest.raises(ResponderError) as own:
            await client.request("/failing/x", "own", replies=2)
        assert (own.value.code, own.value.reason, own.value.replies) == ("denied", "not yours", [Reply("before")])
        with pytest.raises(ResponderError, match="error: the responder failed"):
            await client.request("/failing/x", "other")
        assert "a secret" in caplog.text


async def test_time_is_over_on_both_sides(shared: Sidecar) -> None:
    async with connect(shared.client_url) as client:
        begun, ended = asyncio.Event(), asyncio.Event()

        async def slow(request: Request) -> str:
            begun.set()
            try:
                await asyncio.sleep(60)
            finally:
                ended.set()
            return request.subject

        await client.respond("/slow/x", slow)
        while not begun.is_set():  # where its time was over before it was read nothing has begun
            with pytest.raises(RequestTimeout):
                await client.request("/slow/x", "", timeout=0.2)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await ended.wait()


async def test_who_asks_is_told_when_the_responder_ends_and_the_responder_when_who_asks_does(shared: Sidecar) -> None:
    async with connect(shared.client_url) as client:
        begun, ended = asyncio.Event(), asyncio.Event()

        async def endless(request: Request) -> str:
            begun.set()
            try:
                await asyncio.sleep(60)
            finally:
                ended.set()
            return request.subject

        async with connect(shared.client_url) as other:
            await other.respond("/ends/x", endless)
            asked = asyncio.create_task(client.request("/ends/x", "", timeout=30))
            await begun.wait()
        with pytest.raises(ResponderGone):
            await asked
        begun.clear()
        ended.clear()
        await client.respond("/ends/x", endless)
        async with connect(shared.client_url) as other:
            asked = asyncio.create_task(other.request("/ends/x", "", timeout=30))
            await begun.wait()
        with pytest.raises(Disconnected):
            await asked
        async with asyncio.timeout(PATIENCE_SECONDS):
            await ended.wait()


async def test_bad_requests_are_refused_and_the_next_is_answered(shared: Sidecar) -> None:
    async with connect(shared.client_url) as client:
        await client.respond("/bad/*", lambda request: "fine")
        with pytest.raises(InvalidSubject):
            await client.request("bad", "")
        with pytest.raises(InvalidSubject):
            await client.respond("/bad/**/x", lambda request: "")
        with pytest.raises(ValueError, match="replies"):
            await client.request("/bad/x", "", replies=0)
        with pytest.raises(Invalid, match="timeout"):
            await client.request("/bad/x", "", timeout=301)
        with pytest.raises(TooLarge):
            await client.request("/bad/x", "x" * (1 << 20) + "x")
        assert (await client.request("/bad/x", "")).content == "fine"


async def test_a_responder_answers_again_after_a_reconnection() -> None:
    with Sidecar(mode="none") as sidecar:
        async with connect(sidecar.client_url, quick_seconds=0.1) as client:
            await client.respond("/again/x", lambda request: "here")
            sidecar.kill()
            sidecar.start()

            async def answers() -> bool:
                try:
                    return (await client.request("/again/x", "")).content == "here"
                except (NoResponders, Disconnected):
                    return False

            await auntil(answers)


def test_blocking(shared: Sidecar) -> None:
    with blocking.connect(shared.client_url) as client, blocking.connect(shared.client_url) as other:
        threads = set()

        def nested(request: Request) -> str:
            threads.add(threading.current_thread().name)
            request.reply("first")
            return client.request("/block/inner", request.content).content + "!"

        with other.respond("/block/outer", nested), client.respond("/block/inner", lambda request: "in"):
            assert client.request("/block/outer", "x", replies=5) == [Reply("first"), Reply("in!")]
        assert all(name.startswith("fastpath-respond") for name in threads)
        with pytest.raises(NoResponders):
            client.request("/block/outer", "x")


@pytest.mark.parametrize("form", ["msgpack", "json"])
async def test_what_is_no_reply_is_a_failure_of_the_responder(shared: Sidecar, form: Any) -> None:
    """Who asks hears of it at once, whatever came instead of text or bytes; and nothing else can be asked."""
    results = {"number": 42, "map": {"a": 1}, "array": bytearray(b"x"), "field": Reply("", {"a": 1.5})}  # type: ignore[dict-item]
    async with connect(shared.client_url, form=form) as client:
        async with await client.respond("/odd/*", lambda request: results[request.subject[5:]]):  # type: ignore[arg-type, return-value]
            for name in results:
                with pytest.raises(ResponderError, match="the responder failed"):
                    await client.request(f"/odd/{name}", "")
        for content, fields in [(5, {}), (bytearray(b"x"), {}), ("", {"a": 1})]:
            with pytest.raises(TypeError, match="are str or bytes, not"):
                await client.request("/odd/a", content, fields=fields)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="are str or bytes, not"):
                await client.publish("/odd/a", content, fields)  # type: ignore[arg-type]
        assert (await client.publish(f"/odd/{form}", "well")).seq == 1


async def test_a_handler_whose_responder_nobody_got_answers_nothing(shared: Sidecar) -> None:
    """A wait that was cancelled leaves no handler behind, and the others stay."""
    async with connect(shared.client_url) as client, await client.respond("/left/other", lambda request: "other"):
        waiting = asyncio.create_task(client.respond("/left/alone", lambda request: "alone"))
        await asyncio.sleep(0)  # it waits for the server now
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(NoResponders):
            await client.request("/left/alone", "")
        assert (await client.request("/left/other", "")).content == "other"
