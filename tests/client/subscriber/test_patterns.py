"""The Python client's subscriptions to patterns, presence and interest, with a real sidecar (protocol.md 3.8-3.10)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from fastpath.client import Denied, Invalid, Message, connect
from fastpath.client.blocking import connect as connect_blocking
from fastpath.client.message import Status
from fastpath.client.subscriber.client import Client
from fastpath.client.subscriber.streams import Feed, MessageStream
from fastpath.core.protocol.errors import InvalidSubject
from tests.support.proxy import Proxy
from tests.support.reconnecting import SOON
from tests.support.rights import load_rights, rule
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint, mint_jwt
from tests.support.waiting import PATIENCE_SECONDS, auntil

ANN = mint_jwt("ann", both=["/**"])


@pytest.fixture(scope="module")
def shared() -> Iterator[Sidecar]:
    """One for all tests here; each has subjects of its own."""
    with Sidecar(mode="jwt", token_secret=SECRET, presence="/room/**") as running:
        yield running


@pytest.fixture
async def client(shared: Sidecar) -> AsyncIterator[Client]:
    async with connect(shared.client_url, ANN) as running:
        yield running


async def take(stream: MessageStream, count: int) -> list[Message]:
    """The next messages; TimeoutError when they do not come."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        return [await anext(stream) for _ in range(count)]


async def told(feed: Feed[Status], name: str, subject: str) -> Status:
    """The next status of that name and subject."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for status in feed:
            if (status.name, status.subject) == (name, subject):
                return status
    raise AssertionError(f"the feed ended before {name}")


def contents(messages: list[Message]) -> list[tuple[str, Any]]:
    return [(message.subject, message.content) for message in messages]


async def test_a_pattern_is_denied_and_granted_in_part() -> None:
    """It says so, with the reason, as rights come and go, and what it covers begins with the right."""
    with Sidecar(mode="rules", token_secret=SECRET) as sidecar:
        load_rights(sidecar.control, rule(9, "user:bob", "/**"), generation=1)
        async with connect(sidecar.client_url, mint("ann")) as client:
            status, stream = client.status, client.subscribe("/q/*")
            denied = await told(status, "denied", "/q/*")
            assert (denied.pattern, denied.reason) == ("/q/*", "no rule allows it")
            load_rights(sidecar.control, rule(1, "user:ann", "/q/a"), generation=2)
            await told(status, "granted", "/q/*")
            await told(status, "subscribed", "/q/*")
            assert (await told(status, "partial", "/q/*")).reason == "no rule allows it"
            await client.publish("/q/a", "one")
            assert contents(await take(stream, 1)) == [("/q/a", "one")]
            both = rule(1, "user:ann", "/q/*"), rule(2, "user:ann", "/q/b", allow=False)
            load_rights(sidecar.control, *both, generation=3)
            assert (await told(status, "partial", "/q/*")).reason == "rule 2 denies it"
            load_rights(sidecar.control, generation=4)
            assert (await told(status, "denied", "/q/*")).reason == "no rule allows it"


async def test_what_is_there_and_what_comes_to_be(client: Client) -> None:
    await client.publish("/p1/a", "old", {"f": "1"})
    status, stream = client.status, client.subscribe("/p1/*")
    [snapshot] = await take(stream, 1)
    assert (snapshot.subject, snapshot.content, snapshot.kind) == ("/p1/a", "old", "snapshot")
    for subject in ("/p1/b", "/p1/a", "/p1/b/deeper", "/other/b", "/p1/b"):
        await client.publish(subject, "new")
    assert contents(await take(stream, 3)) == [("/p1/b", "new"), ("/p1/a", "new"), ("/p1/b", "new")]
    assert (await told(status, "subscribed", "/p1/*")).pattern == "/p1/*"
    assert (await told(status, "subscribed", "/p1/a")).pattern == "/p1/*"
    assert (await told(status, "subscribed", "/p1/b")).pattern == "/p1/*"
    await client.unsubscribe("/p1/*")
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_what_came_while_it_was_away(shared: Sidecar, client: Client) -> None:
    with Proxy(shared.client_url) as proxy:
        async with connect(f"ws://{proxy.address}/ws", ANN, **SOON) as follower:
            status, stream = follower.status, follower.subscribe("/p3/**", history=5)
            own = follower.subscribe("/p3/own")
            await told(status, "subscribed", "/p3/own")
            sent = [("/p3/a", "1"), ("/p3/b/c", "2"), ("/p3/own", "3")]
            for subject, content in sent:
                await client.publish(subject, content)
            assert contents(await take(stream, 3)) == sent
            proxy.shut()
            await told(status, "disconnected", "")
            away = [("/p3/a", "4"), ("/p3/new", "5"), ("/p3/new", "6"), ("/p3/own", "7"), ("/p3/b/c", "8")]
            for subject, content in away:
                await client.publish(subject, content)
            proxy.open()
            received = await take(stream, 5)
            assert {message.kind for message in received} == {"recovered"}
            await told(status, "synchronised", "")
            await client.publish("/p3/new", "9")
            received += await take(stream, 1)
            for name in ("/p3/a", "/p3/new", "/p3/own", "/p3/b/c"):
                wanted = [each for each in [*away, ("/p3/new", "9")] if each[0] == name]
                assert [each for each in contents(received) if each[0] == name] == wanted
            assert contents(await take(own, 2)) == [("/p3/own", "3"), ("/p3/own", "7")]


async def test_more_positions_than_one_command_takes(
    shared: Sidecar, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastpath.client.subscriber.subscription_set.POSITIONS_PER_PATTERN", 3)
    subjects = [f"/p4/{number}" for number in range(8)]
    with Proxy(shared.client_url) as proxy:
        async with connect(f"ws://{proxy.address}/ws", ANN, **SOON) as follower:
            status, stream = follower.status, follower.subscribe("/p4/*")
            for subject in subjects:
                await client.publish(subject, "1")
            await take(stream, 8)
            proxy.shut()
            await told(status, "disconnected", "")
            for subject in subjects:
                await client.publish(subject, "2")
            proxy.open()
            assert sorted(contents(await take(stream, 8))) == [(subject, "2") for subject in subjects]
            await told(status, "synchronised", "")
            await stream.aclose()
            for subject in subjects:
                await client.publish(subject, "3")
            assert follower.subscribe("/p4/0").subjects == {"/p4/0"}
            assert len(stream) == 0


async def test_a_name_with_a_user_is_no_subscription(client: Client) -> None:
    for name in ("/a/{username}/*", "/a/**/b", "/a*/*"):
        with pytest.raises(InvalidSubject):
            client.subscribe(name)


async def test_unsubscribing_forgets_what_waits_in_the_stream(client: Client) -> None:
    stream = client.subscribe(["/p5/*", "/p5/b"])
    for name in ("a", "b"):
        await client.publish(f"/p5/{name}", name)
    await auntil(lambda: len(stream) == 2)
    await client.unsubscribe("/p5/*")
    assert contents(await take(stream, 1)) == [("/p5/b", "b")]


def test_without_async(shared: Sidecar) -> None:
    with connect_blocking(shared.client_url, ANN) as client:
        stream, own = client.subscribe("/p6/*"), client.subscribe("/p6/a")
        client.publish("/p6/a", "1")
        client.publish("/p6/a", "2")
        assert (stream.get(PATIENCE_SECONDS).content, own.get(10).content) == ("1", "1")
        client.unsubscribe("/p6/a")
        assert stream.get(PATIENCE_SECONDS).content == "2"
        assert client.advertise("/p6/*") == {}


async def test_who_is_there(shared: Sidecar, client: Client) -> None:
    joins = client.subscribe("/__sys__/presence/room/1")
    async with connect(shared.client_url, mint_jwt("bob", subscribe=["/room/1"])) as bob:
        bob.subscribe("/room/*")
        await client.publish("/room/1", "hello")
        [join] = await take(joins, 1)
        assert (join.content, join.fields) == ("join", {"user": "bob", "connections": "1"})
        present = await client.presence("/room/1")
        assert (present.users, present.anonymous, present.more) == ({"bob": 1}, 0, 0)
        assert "ann" in (await client.presence()).users
        with pytest.raises(Denied):
            await bob.presence("/room/2")
        with pytest.raises(Invalid):
            await bob.presence("/")


async def test_what_is_wanted(shared: Sidecar, client: Client) -> None:
    heard: list[tuple[list[str], bool]] = []
    with Proxy(shared.client_url) as proxy:
        async with connect(f"ws://{proxy.address}/ws", mint_jwt("feed", publish=["/w/**"]), **SOON) as feed:
            refused = await feed.advertise(["/w/*", "/x"], lambda subjects, wanted: heard.append((subjects, wanted)))
            assert refused == {"/x": "only one segment"}
            client.subscribe("/w/a")
            await auntil(lambda: heard == [(["/w/a"], True)])
            proxy.cut()
            await auntil(lambda: len(heard) == 3)
            assert heard[1:] == [(["/w/a"], False), (["/w/a"], True)]
            assert await feed.advertise([]) == {}
            assert heard[3:] == [(["/w/a"], False)]
