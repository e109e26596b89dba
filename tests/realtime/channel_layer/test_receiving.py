"""Receivers that give up at every moment: what came for them is for the next one, in its order, and is never lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fastpath.client.control.asynchronous import Answered
from fastpath.client.errors import ControlRefused, SidecarUnavailable
from realtime.channel_layer.receiving import Receiving


class Peer:
    """The other side of a connection, which answers when the test says so."""

    def __init__(self) -> None:
        self.open = True
        self.asked: list[tuple[str, Any]] = []
        self._waiting: dict[int, Answered] = {}

    def ask(self, verb: str, arguments: Any, answered: Answered) -> int:
        self.asked.append((verb, arguments.get("request") or arguments.get("message")))
        self._waiting[len(self.asked)] = answered
        return len(self.asked)

    def message(self, number: int, message: bytes) -> None:
        self._waiting.pop(number)({"message": message, "until": 5}, None)

    def refuse(self, number: int, code: str) -> None:
        self._waiting.pop(number)(None, ControlRefused(code, "…"))

    def lose(self) -> None:
        self.open = False
        for answered in list(self._waiting.values()):
            answered(None, SidecarUnavailable("path", "gone"))


class Story:
    """Receivers of the channel ``a`` and their peer."""

    def __init__(self) -> None:
        self.wanted = 0
        self.receiving = Receiving(self._want)
        self.peer = self.connect()

    def _want(self) -> None:
        self.wanted += 1

    def connect(self) -> Peer:
        self.peer = Peer()
        self.receiving.connected(self.peer)  # type: ignore[arg-type]
        return self.peer

    async def receiver(self) -> asyncio.Task[bytes]:
        """One that waits by now."""
        task = asyncio.create_task(self.receiving.receive("a"))
        await asyncio.sleep(0)
        return task

    async def cancel(self, task: asyncio.Task[bytes]) -> None:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_channel_asks_for_one_message_at_a_time_for_the_receivers_in_turn() -> None:
    story = Story()
    first, second = await story.receiver(), await story.receiver()
    assert story.peer.asked == [("channel_receive", None)]
    story.peer.message(1, b"1")
    assert story.peer.asked == [("channel_receive", None)] * 2
    story.peer.message(2, b"2")
    assert [await first, await second] == [b"1", b"2"]
    assert len(story.peer.asked) == 2


async def test_who_gives_up_is_cancelled_and_the_next_one_asks_when_that_is_said() -> None:
    story = Story()
    await story.cancel(await story.receiver())
    assert story.peer.asked[1:] == [("channel_cancel", 1)]
    other = await story.receiver()
    assert len(story.peer.asked) == 2
    story.peer.refuse(1, "cancelled")
    assert story.peer.asked[2:] == [("channel_receive", None)]
    story.peer.message(3, b"1")
    assert await other == b"1"


async def test_what_came_all_the_same_goes_to_who_waits_by_then() -> None:
    story = Story()
    await story.cancel(await story.receiver())
    other = await story.receiver()
    story.peer.message(1, b"1")
    assert await other == b"1"


async def test_what_came_all_the_same_goes_back_where_nobody_waits_before_anybody_asks_again() -> None:
    story = Story()
    await story.cancel(await story.receiver())
    story.peer.message(1, b"1")
    await story.receiver()
    assert story.peer.asked[2:] == [("channel_return", b"1"), ("channel_receive", None)]


async def test_one_that_is_cancelled_with_its_message_in_hand_gives_it_to_the_next_one() -> None:
    story = Story()
    first, second = await story.receiver(), await story.receiver()
    story.peer.message(1, b"1")
    await story.cancel(first)
    assert await second == b"1"


async def test_one_that_is_cancelled_with_its_message_in_hand_gives_it_back() -> None:
    story = Story()
    first = await story.receiver()
    story.peer.message(1, b"1")
    await story.cancel(first)
    assert story.peer.asked[1:] == [("channel_return", b"1")]


async def test_a_message_that_cannot_go_back_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    story = Story()
    first = await story.receiver()
    story.peer.message(1, b"1")
    story.peer.lose()
    story.receiving.disconnected()
    await story.cancel(first)
    assert "a message of the channel a is lost" in caplog.text


async def test_a_lost_connection_is_wanted_again_by_who_waits_and_by_nobody_else() -> None:
    story = Story()
    first = await story.receiver()
    story.peer.lose()
    story.receiving.disconnected()
    assert story.wanted == 1
    assert story.connect().asked == [("channel_receive", None)]
    story.peer.message(1, b"1")
    assert await first == b"1"
    story.peer.lose()
    story.receiving.disconnected()
    assert (story.wanted, story.receiving.waits) == (1, False)
    await story.receiver()
    assert story.wanted == 2


async def test_a_receiver_for_which_there_is_no_room_is_told() -> None:
    story = Story()
    first = await story.receiver()
    story.peer.refuse(1, "limit")
    with pytest.raises(ControlRefused, match="limit"):
        await first
    assert not story.receiving.waits
