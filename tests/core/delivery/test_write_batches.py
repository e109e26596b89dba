"""What a listener collects (features.md A8): when it leaves, in how many writes, and that a frame is deflated once."""

from __future__ import annotations

import random

import pytest

from fastpath.core.delivery.wire import RECENT_BYTES_MAX, Terms, terms_of
from fastpath.core.protocol.messages import Message, Subscribe, Unsubscribe
from fastpath.core.websocket.permessage_deflate import inflate
from fastpath.core.wires.registry import wire_of
from fastpath.core.wires.websocket import TextFrames
from tests.support.core.crowds import SLOWLY, crowd
from tests.support.core.stage import Actor, Stage


def contents(actor: Actor) -> list[object]:
    return [content for _, _, content in actor.messages()]


def test_a_batch_is_joined_once_and_written_once_a_group() -> None:
    stage = Stage()
    actors = crowd(stage, ["ann", "bob", "carl"], "/s/1", SLOWLY)
    for number in range(5):
        stage.publish("/s/1", str(number))
        stage.advance(2)
    assert stage.broker.writer.writes == []
    stage.advance(10)
    assert [members for members, _ in stage.broker.writer.writes] == [3]
    assert [contents(actor) for actor in actors] == [["0", "1", "2", "3", "4"]] * 3


def test_its_time_counts_from_its_first_message() -> None:
    stage = Stage()
    ann, *_ = crowd(stage, ["ann"], "/s/1", SLOWLY)
    for wait, got in ((0, []), (19, []), (1, ["x"]), (500, [])):
        if wait == 0:
            stage.publish("/s/1", "x")
        stage.advance(wait)
        assert contents(ann) == got


def test_one_that_left_early_does_not_hold_up_the_others() -> None:
    """A group whose batch was large enough begins its next one behind those that began before."""
    stage = Stage()
    ann, *_ = crowd(stage, ["ann"], "/s/1", SLOWLY)
    bob, *_ = crowd(stage, ["bob"], "/s/2", SLOWLY)
    stage.publish("/s/1", "a")
    stage.advance(1)
    stage.publish("/s/2", "b")
    stage.advance(1)
    stage.publish("/s/1", "x" * 400)
    assert contents(ann) == ["a", "x" * 400]
    stage.publish("/s/1", "later")
    stage.advance(18)
    assert contents(bob) == []
    stage.advance(1)
    assert (contents(ann), contents(bob)) == ([], ["b"])
    stage.advance(1)
    assert contents(ann) == ["later"]


def test_the_shorter_of_two_times_is_waited_for() -> None:
    stage = Stage()
    ann, *_ = crowd(stage, ["ann"], "/s/1", terms_of(wire_of("json"), 1000, 4000))
    bob, *_ = crowd(stage, ["bob"], "/s/1", SLOWLY)
    stage.publish("/s/1", "x")
    assert stage.broker.batches.wait_ms(stage.now) == 20
    stage.advance(20)
    assert (contents(ann), contents(bob)) == ([], ["x"])
    assert stage.broker.batches.wait_ms(stage.now) == 980
    stage.advance(980)
    assert contents(ann) == ["x"]
    assert stage.broker.batches.wait_ms(stage.now) is None


@pytest.mark.parametrize("back", [5, 60_000])
def test_a_clock_that_is_set_back_holds_nothing_up(back: int) -> None:
    stage = Stage()
    ann, *_ = crowd(stage, ["ann"], "/s/1", SLOWLY)
    stage.publish("/s/1", "x")
    stage.now -= back
    assert stage.broker.batches.wait_ms(stage.now) <= 20
    stage.advance(20)
    stage.end()
    assert contents(ann) == ["x"] or back < 20
    stage.advance(5)
    assert back >= 20 or contents(ann) == ["x"]


def test_a_flush_without_a_time_writes_everything_in_order() -> None:
    """As before the server stops: what is collected goes before what is pending."""
    stage = Stage()
    ann, *_ = crowd(stage, ["ann"], "/s/1", SLOWLY)
    stage.publish("/s/1", "1")
    stage.broker.publish(None, [Message("/s/1", "2")], stage.now)
    stage.broker.flush()
    assert contents(ann) == ["1", "2"]
    assert stage.broker.batches.wait_ms(stage.now) is None
    assert len(stage.broker.writer.writes) == 1


def test_a_new_base_goes_between_what_counts_from_which() -> None:
    """Message times of a batch count from the base that was told before it (protocol.md 4.9)."""
    stage = Stage()
    ann, *_ = crowd(stage, ["ann"], "/s/1", terms_of(wire_of("json"), 10_000, 4000))
    stage.publish("/s/1", "old")
    stage.now += 61_000
    stage.broker.publish(None, [Message("/s/1", "new")], stage.now)
    stage.broker.flush()
    kinds = [type(one).__name__ for one in ann.taken()]
    assert kinds == ["Data", "Base", "Data"]


def test_whose_last_client_left_is_forgotten() -> None:
    stage = Stage()
    ann, *_ = crowd(stage, ["ann"], "/s/1", SLOWLY)
    stage.publish("/s/1", "x")
    stage.sessions.close(ann.client)
    del stage.actors["ann"]
    stage.advance(20)
    assert stage.broker.batches.wait_ms(stage.now) is None
    assert not stage.broker.interest.groups


class Compressor(TextFrames):
    """Counts what it frames."""

    def __init__(self) -> None:
        super().__init__("json", 15, 100)
        self.framed = 0

    def message(self, payload: bytes) -> bytes:
        """As the real one."""
        self.framed += 1
        return super().message(payload)


def test_a_message_is_compressed_once_for_all_who_take_it() -> None:
    """Three groups of two listeners and a batch: the same bytes object."""
    stage = Stage()
    compressor = Compressor()
    fast, slow = Terms(compressor, 0, 0), Terms(compressor, 20, 4000)
    crowd(stage, ["ann", "bob"], "/s/1", fast)
    crowd(stage, ["carl"], "/s/1", slow)
    dora, *_ = crowd(stage, ["dora"], "/s/1", fast)
    plain, *_ = crowd(stage, ["eve"], "/s/1")
    dora.say(Subscribe(id=2, subjects=["/s/2"]))
    stage.publish("/s/1", "x" * 500)
    stage.advance(20)
    assert compressor.framed == 1
    shared = dict(stage.broker.writer.writes)[2]
    assert shared[0] == 0xC1
    assert len(shared) < 60
    assert inflate(shared[2:], 1000).endswith(b'"' + b"x" * 500 + b'"]')
    same = [data for members, data in stage.broker.writer.writes if data == shared]
    assert len(same) == 3
    assert all(data is shared for data in same)
    assert contents(plain) == ["x" * 500]


def test_stored_messages_are_compressed_once_as_well() -> None:
    """A thousand clients that come back get the same snapshot: it is compressed for the first of them."""
    stage = Stage()
    compressor = Compressor()
    stage.publish("/s/1", "x" * 500)
    stage.publish("/s/2", "short")
    for number in range(20):
        actor = stage.enter(f"client {number}", terms=Terms(compressor, 0, 0))
        actor.say(Subscribe(id=1, subjects=["/s/1"]))
        assert contents(actor) == ["x" * 500]
    assert compressor.framed == 1


def test_what_is_remembered_of_them_is_bounded() -> None:
    compressor = Compressor()
    for number in range(100):
        payload = random.Random(number).randbytes(40_000).hex().encode()  # half of it is left
        assert inflate(compressor.message_again(payload)[4:], 1 << 20) == payload
    assert compressor._recent_bytes <= RECENT_BYTES_MAX
    assert sum(map(len, compressor._recent)) <= RECENT_BYTES_MAX
    huge = bytes(RECENT_BYTES_MAX + 1)
    assert compressor.message_again(huge) == compressor.message(huge)
    assert compressor._recent_bytes == 0


def test_an_unsubscribed_client_gets_nothing_more() -> None:
    """The answer comes after what was collected, and ends it (protocol.md 3.3)."""
    stage = Stage()
    ann, _bob = crowd(stage, ["ann", "bob"], "/s/1", SLOWLY)
    stage.publish("/s/1", "1")
    ann.say(Unsubscribe(id=2, subjects=["/s/1"]))
    stage.publish("/s/1", "2")
    stage.advance(100)
    assert [type(one).__name__ for one in ann.taken()] == ["Data", "Unsubscribed"]
