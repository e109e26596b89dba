"""What waits for Redis, without Redis: who handed it in is told once it was read."""

from __future__ import annotations

import asyncio

from fastpath.core.protocol.messages import Message
from fastpath.engine.redis.writing.publication_queue import Batch, Handed, Unread


def messages(*numbers: int) -> list[Message]:
    return [Message("/w/a", "x", publisher="p", publication=number) for number in numbers]


async def test_outcomes_end_a_tick_once_unless_the_reader_does() -> None:
    events: list[object] = []
    unread = Unread(asyncio.get_running_loop(), lambda: 1, lambda: events.append("end"))

    def batch(end: int) -> Batch:
        parts = [(Handed(messages(n), events.append, 0), 0, 1) for n in range(2)]
        return Batch(parts, messages(1, 2), 0, epoch=1, ends={3: end})

    unread.seen(3, 1, 1)
    unread.add(batch(1), [1, 2])  # read before
    assert events == [[1], [2], "end"]
    unread.add(batch(2), [3, 4])
    assert len(events) == 3
    unread.seen(3, 1, 2)
    assert events[3:] == [[3], [4]]
    unread.add(batch(3), [5, 6])
    unread.close()
    assert events[5:] == [[5], [6], "end"]
