"""What waits for Redis, without Redis: who handed it in is told once it was read."""

from __future__ import annotations

import asyncio

from fastpath.core.protocol.messages import Message
from fastpath.engine.redis.writing.publication_queue import (
    BATCH_BYTES_MAX,
    NAME_BYTES,
    HandedPublications,
    PublicationQueue,
    StoreBatch,
    Unread,
)


def messages(*numbers: int) -> list[Message]:
    return [Message("/w/a", "x", publisher="p", publication=number) for number in numbers]


async def test_outcomes_end_a_tick_once_unless_the_reader_does() -> None:
    events: list[object] = []
    unread = Unread(asyncio.get_running_loop(), lambda: 1, lambda: events.append("end"))

    def batch(end: int) -> StoreBatch:
        parts = [(HandedPublications(messages(n), events.append, 0), 0, 1) for n in range(2)]
        return StoreBatch(parts, messages(1, 2), 0, epoch=1, ends={3: end})

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


def test_a_batch_takes_so_many_fields_out_of_snapshots_and_no_more() -> None:
    """What is removed or replaced counts with the fields that its subject has, once; all other messages do not."""
    each = BATCH_BYTES_MAX // NAME_BYTES // 3
    queue = PublicationQueue(lambda subject: map(str, range(each)) if subject.startswith("/w/") else ())
    ends = [Message(f"/w/{n}", "", replace=True, removed=n % 2 > 0) for n in range(4) for _ in range(2)]
    rest = [Message("/w/9", "x") for _ in range(10)]
    empty = [Message("/v/9", "", replace=True, removed=True) for _ in range(10)]
    queue.add(HandedPublications([*ends, *rest], None, 0))
    queue.add(HandedPublications(empty, None, 0))
    assert [message.subject for message in queue.take().messages] == ["/w/0", "/w/0", "/w/1", "/w/1", "/w/2"]
    assert queue.take().messages == [*ends[5:], *rest, *empty]
    assert not queue
