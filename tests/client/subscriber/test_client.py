"""The asynchronous client against a real sidecar."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastpath.client import (
    ClientError,
    CommandRefused,
    ConnectionRejected,
    Denied,
    Disconnected,
    Invalid,
    Message,
    NotReady,
    QueueFull,
    Status,
    TooLarge,
    Unavailable,
    connect,
)
from fastpath.client.control.client import Control
from fastpath.client.publisher.publisher import Publisher
from fastpath.client.subscriber.streams import Feed
from fastpath.core.protocol.codec import Form
from fastpath.core.protocol.errors import Close, InvalidSubject
from tests.support.certificates import Certificate
from tests.support.proxy import Proxy
from tests.support.reconnecting import SOON
from tests.support.rights import load_rights, rule
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint, mint_jwt
from tests.support.waiting import PATIENCE_SECONDS, auntil

A, B, C = "/a/a", "/a/b", "/a/c"


@pytest.fixture(scope="module")
def shared() -> Iterator[Sidecar]:
    """One sidecar for the tests that neither stop it nor share a subject."""
    with Sidecar(mode="none") as running:
        yield running


async def read(stream: Feed[Any], count: int) -> list[Any]:
    """The next items of a stream, within 10 s."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        return [await anext(stream) for _ in range(count)]


async def told(feed: Feed[Status], *names: str) -> Status:
    """The next status with one of these names."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for status in feed:
            if status.name in names:
                return status
    raise AssertionError(f"the feed ended before {names}")


def publish(sidecar: Sidecar, subject: str, *contents: str) -> None:
    """Publish from elsewhere and wait for the acknowledgement."""
    with Publisher(sidecar.publisher_url) as publisher:
        publisher.send_batch([[subject, content] for content in contents])


def contents(messages: list[Message]) -> list[tuple[str, Any]]:
    """Kind and content of each message."""
    return [(message.kind, message.content) for message in messages]


@pytest.mark.parametrize("form", ["json", "msgpack"])
async def test_a_subscriber_gets_the_snapshot_then_live_messages_of_its_subjects_alone(
    shared: Sidecar, form: Form
) -> None:
    first, second, third = (f"/{form}{subject}" for subject in (A, B, C))
    publish(shared, first, "old", "new")
    async with connect(shared.client_url, form=form) as client:
        one, two = client.subscribe([first, third]), client.subscribe(second)
        assert contents(await read(one, 1)) == [("snapshot", "new")]
        for subject in (first, second, third):
            await client.publish(subject, f"{subject} live", {"text": "ü", "raw": b"\x00\xff"})
        messages = await read(one, 2)
        assert contents(messages) == [("update", f"{first} live"), ("update", f"{third} live")]
        assert messages[0].fields == {"text": "ü", "raw": b"\x00\xff"}
        assert (messages[0].subject, messages[0].seq, messages[0].qos) == (first, 3, "guaranteed")
        assert abs(messages[0].time - time.time() * 1000) < 60_000
        assert contents(await read(two, 1)) == [("update", f"{second} live")]


@pytest.mark.parametrize("name", ["/streams/a", "/streams/of/*"])
async def test_each_stream_of_the_same_subject_has_its_own_beginning_and_end(shared: Sidecar, name: str) -> None:
    """Over one subscription on the wire: the first is neither silenced by the second nor ended with it."""
    subject = name.replace("*", "a")
    async with connect(shared.client_url) as client:
        one = client.subscribe(name)
        await client.publish(subject, "1")
        assert contents(await read(one, 1)) == [("update", "1")]
        two, three = client.subscribe(name), client.subscribe(name, history=5)
        assert contents(await read(two, 1)) == [("snapshot", "1")]
        assert contents(await read(three, 1)) == [("historical", "1")]
        await client.publish(subject, "2")
        for stream in (one, two, three):
            assert contents(await read(stream, 1)) == [("update", "2")]
        await two.aclose()
        await client.publish(subject, "3")
        await one.aclose()
        await client.publish(subject, "4")
        assert contents(await read(three, 2)) == [("update", "3"), ("update", "4")]
        assert len(two) == 0
        await client.unsubscribe(name)
        with pytest.raises(StopAsyncIteration):
            await anext(three)


async def test_after_unsubscribe_nothing_more_of_it_comes_and_others_are_untouched(shared: Sidecar) -> None:
    first, second = "/unsubscribe/a", "/unsubscribe/b"
    async with connect(shared.client_url) as client:
        both = client.subscribe([first, second])
        for number in range(20):
            await client.publish(first, f"{number}")
        await client.unsubscribe(first)
        for subject in (first, second):
            await client.publish(subject, "after")
        assert [message.subject for message in await read(both, 1)] == [second]
        assert len(both) == 0
        await both.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(both)


async def test_leaving_the_stream_unsubscribes(shared: Sidecar) -> None:
    async with connect(shared.client_url) as client:
        async with client.subscribe("/leave/a"):
            await client.publish("/leave/a", "x")
        with Control(shared.control) as control:
            await auntil(lambda: control.stats()["subscriptions"] == 0)


async def test_history_then_live(shared: Sidecar) -> None:
    publish(shared, "/history/a", *"abcde")
    async with connect(shared.client_url) as client:
        stream = client.subscribe("/history/a", history=3)
        assert contents(await read(stream, 3)) == [("historical", text) for text in "cde"]
        await client.publish("/history/a", "f")
        assert contents(await read(stream, 1)) == [("update", "f")]


async def test_since_a_position_exactly_the_rest_comes(shared: Sidecar) -> None:
    publish(shared, "/since/a", *"abc")
    async with connect(shared.client_url) as client:
        [_, second, _] = await read(client.subscribe("/since/a", history=9), 3)
    async with connect(shared.client_url) as client:
        stream = client.subscribe("/since/a", since=(second.epoch, second.seq))
        assert contents(await read(stream, 1)) == [("recovered", "c")]


async def test_publishing_tells_the_position_or_why_not() -> None:
    with Sidecar(mode="jwt", token_secret=SECRET, message_bytes_max=1000) as sidecar:
        async with connect(sidecar.client_url, mint_jwt("ann", ["/a/**"], ["/a/a"])) as client:
            assert client.user == "ann"
            one, two = await client.publish(A, "x"), await client.publish(A, "y")
            assert (one.seq, two.seq, one.epoch) == (1, 2, two.epoch)
            assert await client.publish(A, "z", qos="standard") == (0, 0)
            with pytest.raises(Denied):
                await client.publish(B, "x")
            with pytest.raises(TooLarge):
                await client.publish(A, "x" * 2000)
            with pytest.raises(InvalidSubject, match="only one segment"):
                await client.publish("/a", "x")
            with pytest.raises(InvalidSubject, match="no leading slash"):
                client.subscribe("a/b")
            with pytest.raises(Invalid):
                await client.publish(A, "x", qos="other")


async def test_a_frame_that_is_too_big_fails_alone() -> None:
    with Sidecar(mode="none", message_bytes_max=1000) as sidecar:
        async with connect(sidecar.client_url, publish_seconds=10, **SOON) as client:
            with pytest.raises(QueueFull):
                await client.publish(A, "x" * 4_000_000)
            with pytest.raises(TooLarge):
                await client.publish(A, "x" * 1_000_000)
            assert (await client.publish(A, "y")).seq == 1


async def test_without_the_right_a_subscription_waits_and_comes_when_it_does(rules_sidecar: Sidecar) -> None:
    sidecar = rules_sidecar
    async with connect(sidecar.client_url, mint("ann", uid="5"), publish_seconds=1) as client:
        status = client.status
        stream = client.subscribe([A, B])
        assert [(await told(status, "not_ready")).subject for _ in range(2)] == [A, B]
        with pytest.raises(NotReady):
            await client.publish(A, "x")
        load_rights(sidecar.control, rule(1, "user:5", A))
        assert (await told(status, "subscribed")).subject == A
        await client.publish(A, "x")
        assert contents(await read(stream, 1)) == [("update", "x")]
        with Control(sidecar.control) as control:
            control.rules_diff(1, 2, [rule(2, "user:5", A, allow=False), rule(3, "user:5", B)], removed=[1])
            assert {(await told(status, "revoked", "subscribed")).subject for _ in range(2)} == {A, B}
            control.publish([[A, "secret"], [B, "open"]])
        assert contents(await read(stream, 1)) == [("update", "open")]


async def test_a_cut_connection_is_replaced_and_exactly_what_was_missed_comes(sidecar: Sidecar) -> None:
    with Proxy(sidecar.client_url) as proxy:
        async with connect(f"ws://{proxy.address}/ws", **SOON) as client:
            status = client.status
            stream = client.subscribe([A, B])
            assert {(await told(status, "subscribed")).subject for _ in range(2)} == {A, B}
            publish(sidecar, A, "1", "2")
            assert contents(await read(stream, 2)) == [("update", "1"), ("update", "2")]
            await asyncio.to_thread(proxy.shut)
            await told(status, "disconnected")
            publish(sidecar, A, "3", "4")
            publish(sidecar, B, "b")
            await asyncio.to_thread(proxy.open)
            assert {(await told(status, "recovered")).subject for _ in range(2)} == {A, B}
            assert sorted(contents(await read(stream, 3))) == [
                ("recovered", "3"),
                ("recovered", "4"),
                ("recovered", "b"),
            ]
            publish(sidecar, A, "5")
            assert contents(await read(stream, 1)) == [("update", "5")]
            assert len(stream) == 0


async def test_cuts_amid_the_stream_lose_double_and_reorder_nothing() -> None:
    count = 3000
    with Sidecar(mode="none", cache_messages=count) as sidecar, Proxy(sidecar.client_url) as proxy:
        async with connect(f"ws://{proxy.address}/ws", **SOON) as client:
            status = client.status
            stream = client.subscribe(A)
            await told(status, "subscribed")

            def feed() -> None:
                with Publisher(sidecar.publisher_url) as publisher:
                    for start in range(0, count, 100):
                        publisher.send_batch([[A, f"{number}"] for number in range(start, start + 100)])
                        publisher.flush()
                        if start % 500 == 0:
                            proxy.cut()

            feeding = asyncio.create_task(asyncio.to_thread(feed))
            messages = await read(stream, count)
            await feeding
            assert (await told(status, "recovered", "resynchronised")).name == "recovered"
            assert [message.content for message in messages] == [f"{number}" for number in range(count)]


async def test_after_a_restart_of_the_sidecar_the_client_is_resynchronised(sidecar: Sidecar) -> None:
    async with connect(sidecar.client_url, **SOON) as client:
        status = client.status
        stream = client.subscribe(A)
        await client.publish(A, "before")
        [before] = await read(stream, 1)
        sidecar.kill()
        await told(status, "disconnected")
        sidecar.start()
        assert (await told(status, "resynchronised")).subject == A
        await client.publish(A, "after")
        [after] = await read(stream, 1)
        assert (after.content, after.seq) == ("after", 1)
        assert after.epoch > before.epoch


async def test_a_server_that_stops_says_so_and_pending_publications_fail(sidecar: Sidecar) -> None:
    async with connect(sidecar.client_url, publish_seconds=0.5) as client:
        status = client.status
        await asyncio.to_thread(sidecar.stop)
        lost = await told(status, "disconnected")
        assert lost.code == Close.DRAIN
        with pytest.raises((Unavailable, Disconnected)):
            await client.publish(A, "x")


async def test_a_server_that_does_not_answer_is_passed_over(sidecar: Sidecar) -> None:
    for _ in range(4):  # it is picked first now and then
        async with connect(["ws://127.0.0.1:1/ws", (sidecar.client_url, 1)], timeout_seconds=10) as client:
            assert client.url == sidecar.client_url


async def test_nobody_there() -> None:
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1"):
        async with connect("ws://127.0.0.1:1/ws", timeout_seconds=0.5):
            pass
    for urls in ("http://127.0.0.1:1", [], [("ws://127.0.0.1:1/ws", 101)]):
        with pytest.raises(ValueError, match="ws://"):
            connect(urls)
    with pytest.raises(ValueError, match="quick_seconds"):
        connect("ws://127.0.0.1:1/ws", quick_seconds=-1)
    with pytest.raises(ClientError, match="async with"):
        await connect("ws://127.0.0.1:1/ws").publish(A, "x")


async def test_a_bad_token_is_no_reason_to_go_on(rules_sidecar: Sidecar) -> None:
    load_rights(rules_sidecar.control)
    with pytest.raises(ConnectionRejected) as caught:
        async with connect(rules_sidecar.client_url, mint("ann", secret="another secret of thirty-two bytes")):
            pass
    assert caught.value.code == Close.BAD_TOKEN


async def test_an_expired_token_is_asked_for_again(rules_sidecar: Sidecar) -> None:
    load_rights(rules_sidecar.control)
    tokens = [mint("ann", hours=-1), mint("ann")]
    asked: list[str] = []

    async def next_token() -> str:
        asked.append(tokens[min(len(asked), len(tokens) - 1)])
        return asked[-1]

    async with connect(rules_sidecar.client_url, next_token) as client:
        assert (client.user, len(asked)) == ("ann", 2)
    tokens[:] = [mint("ann", hours=-1)] * 3 + [mint("ann")]
    asked.clear()
    async with connect(rules_sidecar.client_url, next_token, **SOON) as client:
        assert (client.user, len(asked)) == ("ann", 4)


async def test_a_token_is_renewed_on_the_live_connection(rules_sidecar: Sidecar) -> None:
    load_rights(rules_sidecar.control)
    async with connect(rules_sidecar.client_url, mint("ann", uid="5")) as client:
        status = client.status
        await client.renew(mint("ann", uid="5", hours=24))
        assert (await told(status, "renewed")).name == "renewed"
        with pytest.raises(CommandRefused):
            await client.renew(mint("bob", uid="6"))


async def test_closing_ends_streams_and_status(shared: Sidecar) -> None:
    seen: list[str] = []
    async with connect(shared.client_url, on_status=lambda status: seen.append(status.name)) as client:
        stream, status = client.subscribe("/closing/a"), client.status
        await auntil(lambda: client.latency_ms is not None)
    assert [message async for message in stream] == []
    assert [item.name async for item in status][-1] == "closed"
    assert seen[0] == "connected"
    with pytest.raises(ClientError, match="closed"):
        await client.publish("/closing/a", "x")


async def test_over_tls(tmp_path: Path) -> None:
    certificate = Certificate(tmp_path)
    with Sidecar(mode="none", listen=f"clients+tls://127.0.0.1:0?{certificate.options}") as sidecar:
        url = sidecar.client_url.replace("ws://", "wss://")
        async with connect(url, tls=certificate.trusting()) as client:
            assert (await client.publish(A, "x")).seq == 1
        with pytest.raises(Unavailable, match="certificate"):
            async with connect(url, timeout_seconds=1):
                pass


async def test_a_client_that_does_not_keep_up_is_conflated_and_told() -> None:
    """With ``slow="conflate"``: it skips what it could not take, says so, and is live again."""
    with Sidecar(outbox_bytes_max=400_000) as sidecar, Proxy(sidecar.client_url) as proxy:
        async with connect(f"ws://{proxy.address}/ws") as client:
            status = client.status
            stream = client.subscribe([A, B], slow="conflate")
            for _ in (A, B):
                await told(status, "subscribed")
            proxy.stall()
            count = 0
            with Control(sidecar.control) as control, Publisher(sidecar.publisher_url) as publisher:
                while not control.stats()["slow_conflated"]:
                    publisher.send_batch([[A, "x" * 4000]] * 10)
                    count += 10
                publisher.send_batch([[A, "x", {f"f{number}": "1"}] for number in range(50)])
            publish(sidecar, B, "quiet", "quieter")
            proxy.flow()
            seen = [(message := (await read(stream, 1))[0])]
            while message.subject == A:
                message = (await read(stream, 1))[0]
                seen.append(message)
            assert (seen[-1].content, seen[-1].seq) == ("quieter", 2)
            assert [message.seq for message in seen[:-2]] == list(range(1, len(seen) - 1))
            assert (seen[-2].seq, len(seen[-2].fields)) == (count + 50, 50)
            names = [(await anext(status)).name for _ in range(4)]
            assert names == ["lagging", "lagging", "caught_up", "caught_up"]
            publish(sidecar, A, "live")
            assert [message.seq for message in await read(stream, 1)] == [count + 51]


async def test_a_publication_has_the_fields_that_it_was_published_with(shared: Sidecar) -> None:
    """A dictionary that the program uses again, while its publications wait, changes none of these."""
    async with connect(shared.client_url) as client:
        client.pause()
        fields: dict[str, str | bytes] = {}
        waiting = []
        for number in range(3):
            fields["number"] = str(number)
            waiting.append(client.enqueue("/fields/again", "x", fields))
        client.resume()
        await asyncio.gather(*waiting)
        messages = await read(client.subscribe("/fields/again", history=3), 3)
    assert [message.fields["number"] for message in messages] == ["0", "1", "2"]


@pytest.mark.parametrize("transport", ["websocket", "stream", "poll"])
async def test_what_has_arrived_when_the_client_is_paused_is_not_taken_in(shared: Sidecar, transport: str) -> None:
    """A pause from a callback, amid frames that came together: the rest of them comes after it, and none is missed."""
    first, second = f"/pausing/{transport}/a", f"/pausing/{transport}/b"
    statuses: list[str] = []

    def pause_once(status: Status) -> None:
        statuses.append(f"{status.name} {status.subject}")
        if status.subject == first and "paused " not in statuses:
            client.pause()

    async with (
        connect(shared.client_url) as other,
        connect(shared.client_url, on_status=pause_once, transports=[transport]) as client,
    ):
        await other.publish(second, "1")
        client.subscribe(first, history=1)  # a command of its own
        stream = client.subscribe(second)
        await auntil(lambda: "paused " in statuses)
        for content in "23":
            await other.publish(second, content)
        client.resume()
        assert [message.content for message in await read(stream, 1)] == ["3"]
        assert statuses[-1] == f"subscribed {second}"
        assert statuses.count(f"subscribed {second}") == 1
