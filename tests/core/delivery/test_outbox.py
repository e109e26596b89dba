"""The outbox of a client, alone: what it answers in each state, and what a socket gets that takes what it likes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.core.delivery.outbox import Effect, Outboxes
from fastpath.core.delivery.outgoing_queue import Queue
from fastpath.core.protocol.codec import JSON
from fastpath.core.protocol.errors import Close
from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import Subscribe
from fastpath.core.websocket.close_frames import parse_close
from fastpath.core.websocket.frames import CLOSE, TEXT, encode_frame, split_frames
from fastpath.core.wires.registry import PLAIN
from tests.support.core.stage import Actor, Stage

BOUND = 1000
BEHIND = Limits(outbox_bytes_max=BOUND).lag_bytes


def frame(size: int, text: str = "x") -> bytes:
    """A frame of so many bytes."""
    data = encode_frame(TEXT, text.encode() * (size - 2 if size < 128 else size - 4))
    assert len(data) == size
    return data


def opened(slow: str = "close") -> tuple[Outboxes, Actor]:
    """A client that follows a subject."""
    stage = Stage(limits=Limits(outbox_bytes_max=BOUND))
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=["/a/b"], slow=slow))
    return stage.outboxes, ann


@pytest.mark.parametrize(
    ("slow", "size", "bounded", "effects"),
    [
        ("close", 1, True, 0),
        ("close", BOUND, True, 0),
        ("close", BOUND + 1, True, Effect.OVERFLOW),
        ("close", BOUND + 1, False, 0),
        ("conflate", BEHIND, True, 0),
        ("conflate", BEHIND + 1, True, Effect.TURN),
        ("conflate", BEHIND + 1, False, 0),
        ("conflate", BOUND + 1, True, Effect.OVERFLOW),
    ],
)
def test_what_a_bound_says_of_so_many_waiting_bytes(slow: str, size: int, bounded: bool, effects: int) -> None:
    """The same for what begins a queue, and for what goes behind it. Nothing in these bytes may be conflated."""
    outboxes, ann = opened(slow)
    data = frame(600)
    whole = data + frame(600)
    assert outboxes.refused(ann.client, whole, len(whole) - size, bounded=bounded) == effects | Effect.BLOCKED
    if effects & Effect.OVERFLOW:
        assert ann.client.queue is not None and ann.client.queue.size < 600, "but for the frame begun"
        return
    assert ann.client.queue is not None and ann.client.queue.size == size
    ann.client.queue = Queue(b"", 0)
    assert outboxes.offered(ann.client, ann.client.queue, bytes(size), bounded=bounded) == effects


def test_a_broken_socket_begins_no_queue() -> None:
    outboxes, ann = opened()
    assert outboxes.refused(ann.client, frame(10), -1, bounded=True) == Effect.LOST
    assert ann.client.queue is None


def test_a_client_with_a_queue_is_out_of_the_fast_lane_until_all_is_taken() -> None:
    outboxes, ann = opened()
    group = ann.client.group
    assert group is not None and group.ready == [ann.client]
    outboxes.refused(ann.client, frame(10), 3, bounded=True)
    assert (group.ready, group.singles) == ([], [ann.client])
    assert outboxes.drained(ann.client, ending=False) == Effect.UNBLOCKED
    assert (group.ready, group.singles) == ([ann.client], [])
    outboxes.refused(ann.client, frame(10), 3, bounded=True)
    outboxes.end(ann.client, Close.GOING_AWAY, "going_away: x")
    assert outboxes.drained(ann.client, ending=True) == Effect.UNBLOCKED | Effect.ENDED
    assert (group.ready, group.singles) == ([], [ann.client]), "it is written to alone, which its link ignores"


def test_a_client_that_fell_behind_is_pulled_level_when_all_is_taken() -> None:
    outboxes, ann = opened("conflate")
    client = ann.client
    assert outboxes.refused(client, frame(BEHIND + 1), 0, bounded=True) == Effect.BLOCKED | Effect.TURN
    assert not outboxes.turn(client), "it lags as long as it has a queue"
    assert client.lag is not None and client.lag.behind
    assert outboxes.drained(client, ending=False) == Effect.UNBLOCKED | Effect.TURN
    assert not outboxes.turn(client)
    assert client.lag.able and not client.lag.behind


@pytest.mark.parametrize(("code", "answered"), [(Close.GOING_AWAY, True), (Close.SLOW_CONSUMER, False)])
def test_the_last_bytes(code: Close, answered: bool) -> None:
    """Answers that wait, unless the client is too slow for them, and the close frame; nothing is left."""
    outboxes, ann = opened()
    ann.client.out = [frame(20)]
    last = list(split_frames(outboxes.end(ann.client, code, "why")))
    assert last[:-1] == [frame(20)] * answered
    assert last[-1][0] & 0x0F == CLOSE and parse_close(last[-1][2:]) == (code, "why")
    assert (ann.client.out, ann.client.end, ann.client.direct) == (None, (code, "why"), False)


class Narrow(Actor):
    """A client whose socket takes so many bytes and no more; it keeps what it took."""

    def __init__(self, stage: Stage) -> None:
        self.room = 0
        self.bytes = b""
        super().__init__(stage, "ann", "", PLAIN[JSON])

    def send(self, data: bytes | memoryview) -> int:
        """As much as there is room."""
        count = min(self.room, len(data))
        self.room -= count
        self.bytes += data[:count]
        return count


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.one_of(st.tuples(st.just("write"), st.integers(2, 125)), st.tuples(st.just("take"), st.integers(1, 300)))
    )
)
def test_a_socket_gets_whole_frames_in_order_or_is_told_why_not(steps: list[tuple[str, int]]) -> None:
    """All that was written, or the first of it up to the frame begun and a close frame; never more waits than may."""
    stage = Stage(limits=Limits(outbox_bytes_max=300))
    ann = Narrow(stage)
    written: list[bytes] = []
    for number, (what, size) in enumerate(steps):
        if what == "write":
            data = frame(size, chr(97 + number % 26))
            if ann.closed is None:
                written.append(data)
            ann.write(data)
        else:
            ann.room = size
            ann.writable()
        queue = ann.client.queue
        waits = queue.size if queue is not None else 0
        assert ann.closed is not None or waits <= 300
        assert ann.closed is not None or len(ann.bytes) + waits == sum(map(len, written))
    ann.room = 1 << 20
    ann.writable()
    assert ann.client.queue is None
    if ann.closed is None:
        assert ann.bytes == b"".join(written)
        return
    *got, last = split_frames(ann.bytes)
    assert got == written[: len(got)]
    assert sum(map(len, written)) - sum(map(len, got)) > 300 - 125
    assert parse_close(last[2:]) == stage.outboxes.overflow == ann.closed
