"""What operators are shown of messages: how much of each, and of an answer altogether, in bytes of UTF-8."""

from __future__ import annotations

import asyncio

import pytest

from fastpath.core.protocol.messages import Fields, Message
from fastpath.core.protocol.packets import pack
from fastpath.core.wires.registry import PLAIN
from fastpath.edge.control.contents import SHOWN_BYTES_MAX, shown, shown_within
from fastpath.edge.runtime.runtime import now
from fastpath.server.components import make_runtime
from fastpath.settings import Settings
from tests.support.edge.operators import Nowhere, Peer
from tests.support.waiting import auntil, run

WIDE = "\U0001f600" * SHOWN_BYTES_MAX
"""Characters of four bytes."""


def message(content: str | bytes, fields: Fields | None = None, subject: str = "/a/b") -> Message:
    """One that has been weighed."""
    one = Message(subject, content, fields)
    one.weigh()
    return one


def test_bytes_are_counted_and_no_character_is_torn() -> None:
    found = shown(message("a" + WIDE, {"ü": "x" * 16_000, "b": WIDE}))
    assert found["content"] == "a" + WIDE[: (SHOWN_BYTES_MAX - 1) // 4]
    assert {name: len(value.encode()) for name, value in found["fields"].items()} == {"ü": 16_000, "b": 380}
    assert found["cut"] == 1 + 4 * SHOWN_BYTES_MAX + 2 + 16_000 + 1 + 4 * SHOWN_BYTES_MAX
    whole = shown(message("ü" * 8192, {"b": b"\xff"}))
    assert (whole["content"], whole["fields"], "cut" in whole) == ("ü" * 8192, {"b": {"b": "/w=="}}, False)


def test_a_removal_says_so() -> None:
    assert shown(Message("/a/b", "", replace=True, removed=True))["removed"] is True
    assert "removed" not in shown(message(""))


@pytest.mark.parametrize("long", [WIDE, b"\xff" * 100_000, "x" * 100_000])
def test_many_share_the_room_of_an_answer(long: str | bytes) -> None:
    """Who needs little leaves it to those behind."""
    large = [message(long, {"f": long}) for _ in range(20)]
    assert 50_000 < len(pack(list(shown_within(large, 100_000)))) <= 100_000
    small = [message("x")] * 19
    assert list(shown_within([*small, large[0]], 100_000))[-1] == shown(large[0])


def test_all_that_is_told_of_a_client_is_bounded() -> None:
    """Long subjects come with the next page, and all of them do."""
    end = "x" * 480
    subjects = [f"/{number:03}/{end}" for number in range(300)]

    async def story() -> None:
        runtime, peer = make_runtime(Settings(mode="none"), asyncio.get_running_loop()), Peer()
        client = runtime.sessions.open(Nowhere(), 1, False, PLAIN["json"], "", "10.0.0.1", now())
        for kind, names in (("/a", subjects), ("/b", [f"{name}/*" for name in subjects[:100]])):
            listed = ",".join(f'"{kind}{name}"' for name in names)
            runtime.sessions.receive(client, f'{{"op":"subscribe","id":1,"subjects":[{listed}]}}'.encode(), now())
            await auntil(lambda: not runtime.sessions.long_commands.busy)
        runtime.broker.publish(None, [message(WIDE, {"f": WIDE}, f"/a{subject}") for subject in subjects[:20]], now())
        runtime.end()
        name = (await peer.ask(runtime, "clients"))["clients"][0]["connection"]
        pages = [await peer.ask(runtime, "client", connection=name)]
        while pages[-1]["more"]:
            after = pages[-1]["subscriptions"][-1]["subject"]
            pages.append(await peer.ask(runtime, "client", connection=name, after=after))
        assert max(len(pack([page])) for page in pages) <= 264 << 10
        assert [one["subject"] for page in pages for one in page["subscriptions"]] == [f"/a{one}" for one in subjects]
        assert (len(pages[0]["messages"]), pages[0]["patterns"]) == (20, 100)
        history = await peer.ask(runtime, "history", subject=f"/a{subjects[0]}")
        assert len(history["messages"]) == 1
        runtime.watch.stop()

    run(story())


def test_lists_of_clients_with_long_names_come_in_pages() -> None:
    end = "x" * 490

    async def story() -> None:
        runtime, peer = make_runtime(Settings(mode="none"), asyncio.get_running_loop()), Peer()
        for number in range(200):
            client = runtime.sessions.open(Nowhere(), number, False, PLAIN["json"], "", "10.0.0.1", now())
            listed = ",".join(f'"/{number}/{own}/{end}"' for own in range(3))
            runtime.sessions.receive(client, f'{{"op":"subscribe","id":1,"subjects":[{listed}]}}'.encode(), now())
        pages = [await peer.ask(runtime, "clients", limit=200)]
        while pages[-1]["more"]:
            pages.append(await peer.ask(runtime, "clients", limit=200, after=pages[-1]["after"]))
        assert max(len(pack([page])) for page in pages) <= 257 << 10
        found = [row["connection"] for page in pages for row in page["clients"]]
        assert len(found) == len(set(found)) == 200
        runtime.watch.stop()

    run(story())


def test_a_page_of_history_is_bounded() -> None:
    async def story() -> None:
        runtime, peer = make_runtime(Settings(mode="none"), asyncio.get_running_loop()), Peer()
        runtime.broker.publish(None, [message("x" * 20_000, {"f": b"\xff" * 20_000}) for _ in range(50)], now())
        runtime.end()
        pages = [await peer.ask(runtime, "history", subject="/a/b", limit=100)]
        while pages[-1]["more"]:
            last = pages[-1]["messages"][-1]["seq"]
            pages.append(await peer.ask(runtime, "history", subject="/a/b", limit=100, before=last))
        assert max(len(pack([page])) for page in pages) <= 257 << 10
        assert [one["seq"] for page in pages for one in page["messages"]] == list(range(50, 0, -1))
        runtime.watch.stop()

    run(story())
