"""The Python client against a real sidecar: a wrong argument fails its own call, and nothing else."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from fastpath.client import connect
from fastpath.client.errors import BadToken, Invalid, Limited, ResponderError, TooLarge
from fastpath.client.message import Reply, Request, Status
from fastpath.client.options import Transport
from fastpath.client.subscriber.client import Client
from fastpath.core.protocol.codec import Form
from fastpath.core.protocol.errors import InvalidSubject
from tests.support.sidecar import Sidecar
from tests.support.waiting import auntil

FORMS: tuple[Form, ...] = ("json", "msgpack")
HALF = "party \ud83c"
VALUES: tuple[Any, ...] = (
    *(None, 0, -1, 1.5, float("nan"), float("inf"), 2**53, 2**70, True, object(), str, len),
    *("", "x", "/", "/a", "/a/b/", "a/b", "/a/\0", "/a/\ud83c", "/*/\ud83c", "/" + "é" * 300, "x" * 70_000),
    *([], [[]], [1], {}, {"a": 1}, {"/a/b": 5}, (1, 2, 3), (2**70, 1), b"x", bytearray(b"x"), {"\ud83c": (1, 1)}),
)
"""What no call, or nearly none, is to be given."""

OPTIONS = ("history", "conflation", "since", "slow", "fields", "retained", "qos", "reply_to", "closure", "replace")


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """One without rights."""
    with Sidecar(mode="none") as sidecar:
        yield sidecar


async def outcome(call: Callable[[], Any]) -> Any:
    """What a call raises; None when it is done, or waits."""
    try:
        result = call()
        if inspect.isawaitable(result):
            async with asyncio.timeout(1):
                await result
    except TimeoutError:
        return None
    except Exception as error:
        return error
    return None


async def works(client: Client, subject: str = "/wrong/heard") -> bool:
    """Publish and hear on the connection that stands."""
    stream = client.subscribe(subject)
    position = await client.publish(subject, "fine")
    async with asyncio.timeout(10):
        async for message in stream:
            if message.seq == position.seq:
                return True
    return False


@pytest.mark.parametrize("form", FORMS)
async def test_half_a_character_is_rejected(sidecar: Sidecar, form: Form) -> None:
    """In content, fields, names and subjects of whichever call, alike in both forms; the others go on."""
    told: list[str] = []
    async with connect(sidecar.client_url, form=form, on_status=lambda status: told.append(status.name)) as client:
        for call in (
            lambda: client.publish("/wrong/a", HALF),
            lambda: client.publish("/wrong/a", "x", {"v": HALF}),
            lambda: client.publish("/wrong/a", "x", {HALF: "v"}),
            lambda: client.publish("/wrong/a", "x", reply_to="/r/\ud83c"),
            lambda: client.publish("/wrong/a", "x", closure=HALF),
            lambda: client.request("/wrong/a", HALF),
            lambda: client.request("/wrong/a", "", fields={"v": HALF}),
            lambda: client.advertise("/wrong/\ud83c"),
            lambda: client.presence("/wrong/\ud83c"),
        ):
            assert isinstance(await outcome(call), Invalid), inspect.getsource(call)
        for call in (
            lambda: client.publish("/wrong/\ud83c", "x"),
            lambda: client.remove("/wrong/\ud83c"),
            lambda: client.subscribe("/wrong/\ud83c"),
            lambda: client.request("/wrong/\ud83c", ""),
            lambda: client.respond("/wrong/\ud83c", lambda _: ""),
        ):
            assert isinstance(await outcome(call), InvalidSubject), inspect.getsource(call)
        assert isinstance(await outcome(lambda: client.renew("\ud83c")), BadToken)
        assert isinstance(await outcome(lambda: client.publish("/wrong/a", "x", closure="c" * 257)), Limited)
        assert await works(client)
    assert not {"disconnected", "failed"} & set(told)


@pytest.mark.parametrize("form", FORMS)
async def test_no_wrong_argument_ends_the_connection(sidecar: Sidecar, form: Form) -> None:
    """Nor is it kept and said again on the next one: the connection stands, and the next one as well."""
    told: list[Status] = []
    async with connect(sidecar.client_url, form=form, on_status=told.append) as client:
        calls: list[Callable[[], Any]] = []
        for value in VALUES:
            calls += [
                lambda value=value: client.subscribe(value),
                lambda value=value: client.subscribe(["/wrong/b", value]),
                lambda value=value: client.unsubscribe(value),
                lambda value=value: client.publish(value, "x"),
                lambda value=value: client.publish("/wrong/a", value),
                lambda value=value: client.publish("/wrong/a", "x", value),
                lambda value=value: client.publish("/wrong/a", "x", {"v": value}),
                lambda value=value: client.publish("/wrong/a", "x", {value: "v"}),
                lambda value=value: client.remove(value),
                lambda value=value: client.presence(value),
                lambda value=value: client.advertise(value),
                lambda value=value: client.advertise([value], value),
                lambda value=value: client.request(value, "x", timeout=0.05),
                lambda value=value: client.request("/wrong/q", value, timeout=0.05),
                lambda value=value: client.request("/wrong/q", "x", timeout=value),
                lambda value=value: client.request("/wrong/q", "x", replies=value, timeout=0.05),
                lambda value=value: client.respond(value, lambda _: ""),
                lambda value=value: client.renew(value),
            ]
            for name in OPTIONS:
                calls += [
                    lambda name=name, value=value: client.subscribe("/wrong/c", **{name: value}),
                    lambda name=name, value=value: client.publish("/wrong/a", "x", **{name: value}),
                    lambda name=name, value=value: client.remove("/wrong/r", **{name: value}),
                ]
        found = await asyncio.gather(*map(outcome, calls))
        assert sum(one is not None for one in found) > len(found) // 2
        assert await works(client)
        assert not {"disconnected", "failed"} & {status.name for status in told}
        client.pause()
        client.resume()
        await auntil(lambda: client.connected)
        assert await works(client)
        assert not {"disconnected", "failed"} & {status.name for status in told}


@pytest.mark.parametrize("token", [5, "\ud83c", "x" * 70_000, b"x"], ids=["number", "half", "long", "bytes"])
async def test_a_token_that_is_none_is_as_one_that_cannot_be_had(sidecar: Sidecar, token: Any) -> None:
    """From a callable, which may give a good one the next time; else at once."""
    with pytest.raises((TypeError, BadToken)):
        connect(sidecar.client_url, token)
    tokens = iter([token, ""])
    async with connect(sidecar.client_url, lambda: next(tokens, ""), quick_seconds=0.05) as client:
        assert await works(client)


@pytest.mark.parametrize("form", FORMS)
async def test_a_handler_that_replies_with_a_half_has_failed(sidecar: Sidecar, form: Form) -> None:
    """Who asks is told so; errors are cut to whole characters."""

    def fails(_: object) -> str:
        raise ResponderError("e\ud83c", "🎉" * 2000)

    async with connect(sidecar.client_url, form=form) as client:
        await client.respond("/halves/content", lambda _: HALF)
        await client.respond("/halves/field", lambda _: Reply("", {"v": HALF}))
        await client.respond("/halves/error", fails)
        for name, error in (("content", "error"), ("field", "error"), ("error", "e?")):
            with pytest.raises(ResponderError) as raised:
                await client.request(f"/halves/{name}", "")
            assert raised.value.code == error
        assert await works(client)


async def answers_too_much(request: Request) -> str:
    """A handler."""
    return "x" * 100_000


async def replies_too_much(request: Request) -> str:
    """A handler whose first reply is that large."""
    request.reply("x" * 100_000)
    return ""


@pytest.mark.parametrize(
    ("form", "transport"), [("json", "websocket"), ("msgpack", "websocket"), ("json", "stream"), ("json", "poll")]
)
async def test_what_passes_the_servers_frame_fails_alone(form: Form, transport: Transport) -> None:
    """Each call with TooLarge, however the server is reached; what may be cut into several commands is."""
    large = "x" * 100_000
    patterns = [f"/wrong/{at}/{'y' * 480}" for at in range(200)]
    statuses: list[Status] = []
    with Sidecar(mode="none", message_bytes_max=1000) as small:
        async with connect(small.client_url, form=form, transports=(transport,), on_status=statuses.append) as client:
            calls: list[Callable[[], Any]] = [
                lambda: client.publish("/wrong/a", large),
                lambda: client.publish("/wrong/a", large.encode()),
                lambda: client.publish("/wrong/a", "\1" * 80_000),
                lambda: client.publish("/wrong/a", "x", {"v": large}),
                lambda: client.publish("/wrong/a", "x", {large: "v"}),
                lambda: client.publish("/wrong/a", "x", reply_to=large),
                lambda: client.publish("/wrong/a", large, qos="standard"),
                lambda: client.request("/wrong/a", large),
                lambda: client.presence("/wrong/" + large),
                lambda: client.advertise(patterns),
                lambda: client.advertise(large),
            ]
            assert [type(await outcome(call)) for call in calls] == [TooLarge] * len(calls)
            async with (
                await client.respond("/wrong/whole", answers_too_much),
                await client.respond("/wrong/part", replies_too_much),
            ):
                told = [await outcome(partial(client.request, name, "")) for name in ("/wrong/whole", "/wrong/part")]
            assert [getattr(error, "code", None) for error in told] == ["too_large", "too_large"]
            many, wide = client.subscribe(patterns), client.subscribe("/wrong/*/*")
            await client.publish(patterns[-1], "found")
            async with asyncio.timeout(10):
                assert (await anext(many)).content == (await anext(wide)).content == "found"
            client.pause()
            early = client.enqueue("/wrong/a", large)
            client.resume()
            assert type(await outcome(lambda: early)) is TooLarge
            await many.aclose()
            await wide.aclose()
            assert await works(client)
    assert [one.name for one in statuses if one.name in ("connected", "disconnected")] == ["connected"] * 2
