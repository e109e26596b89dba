"""Connections that are read in full: order, doubles, gaps, announced or not, however the bytes are cut."""

from __future__ import annotations

import msgspec
import pytest

from fastpath.bench.load.payload import Payloads
from fastpath.bench.load.tracks import FrameTrack, MarkerTrack, Tally
from fastpath.core.protocol.codec import JSON, MSGPACK, encode_message
from fastpath.core.protocol.messages import Message
from fastpath.core.websocket.frames import BINARY, TEXT, encode_frame

MOMENT_NS = 5_000_000


def _payloads(numbers: list[int]) -> list[bytes]:
    """Those of one subject with these numbers."""
    payloads = Payloads(140, 1)
    made = {number: payloads.make(0, 1_000_000) for number in range(1, max(numbers) + 1)}
    return [made[number] for number in numbers]


def _message(payload: bytes, seq: int, form: str = "json") -> bytes:
    message = Message("/s/s000", payload.decode(), None, seq=seq, time=3)
    opcode = TEXT if form == "json" else BINARY
    return encode_frame(opcode, encode_message(message, 7, 0, JSON if form == "json" else MSGPACK))


def _event(form: str = "json", **event: object) -> bytes:
    encode = msgspec.json.encode if form == "json" else msgspec.msgpack.encode
    return encode_frame(TEXT if form == "json" else BINARY, encode(event))


def _subscribed(seq: int, form: str = "json", **more: object) -> bytes:
    result = {"subject": "/s/s000", "sid": 7, "epoch": 1, "seq": seq} | more
    return _event(form, op="subscribed", id=2, results=[result])


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_every_frame_is_read_wherever_reads_cut_it(form: str) -> None:
    """All splits of an answer, a ping, two messages and a close."""
    first, second = _payloads([1, 2])
    data = b"".join(
        [
            _event(form, op="connected", id=1, base=0),
            _subscribed(0, form),
            _message(first, 1, form),
            b"\x89\x00",
            _message(second, 2, form),
            b"\x88\x02\x0f\xa1",
        ]
    )
    for cut in range(len(data)):
        tally = Tally()
        tally.measuring = True
        track = FrameTrack(tally, form)

        assert track.feed(data[:cut], MOMENT_NS) + track.feed(data[cut:], MOMENT_NS) == 2

        assert track.newest(0) == 2
        assert track.positions == {"/s/s000": (1, 2)}
        assert track.close_code == 4001
        assert (tally.gaps, tally.doubled, tally.reordered, tally.out_of_sequence) == (0, 0, 0, 0)
        assert list(tally.latency.items()) == [(4000, 2)]


@pytest.mark.parametrize(
    ("numbers", "gaps", "doubled", "reordered"),
    [
        ([1, 2, 3, 4], 0, 0, 0),
        ([1, 2, 4], 1, 0, 0),
        ([1, 2, 5], 2, 0, 0),
        ([1, 2, 2, 3], 0, 1, 0),
        ([1, 3, 2, 4], 0, 0, 1),
        ([1, 4, 2, 3], 0, 0, 2),
        ([3, 4, 3, 5], 0, 1, 0),
    ],
)
def test_missing_doubled_and_late_messages_are_told_apart(
    numbers: list[int], gaps: int, doubled: int, reordered: int
) -> None:
    """By the publisher's numbers alone, whatever the server."""
    tally = Tally()

    MarkerTrack(tally).feed(b"".join(b"MSG x " + one + b"\r\n" for one in _payloads(numbers)), MOMENT_NS)

    assert (tally.gaps, tally.doubled, tally.reordered) == (gaps, doubled, reordered)
    assert tally.deliveries == len(numbers)


def test_a_sequence_number_that_jumps_unannounced_is_a_fault() -> None:
    """Also where the publisher's numbers tell the same."""
    tally = Tally()
    first, third = _payloads([1, 3])

    FrameTrack(tally, "json").feed(_subscribed(0) + _message(first, 1) + _message(third, 3), MOMENT_NS)

    assert (tally.out_of_sequence, tally.gaps, tally.announced) == (1, 1, 0)


def test_what_the_server_announced_is_no_gap() -> None:
    """Between `lagging` and `caught_up`, and the one after that."""
    tally = Tally()
    first, ninth, tenth = _payloads([1, 9, 10])
    track = FrameTrack(tally, "json")

    track.feed(_subscribed(0) + _message(first, 1) + _event(op="lagging", sids=[7]), MOMENT_NS)
    track.feed(_message(ninth, 9) + _event(op="caught_up", sids=[7]) + _message(tenth, 10), MOMENT_NS)

    assert (tally.out_of_sequence, tally.gaps, tally.announced) == (0, 0, 7)
    assert tally.notices == {"lagging": 1, "caught_up": 1}


def test_a_client_that_comes_back_says_what_it_has_and_counts_on() -> None:
    """Recovered: exactly what was missed. Resynchronised: the snapshot, and what lies between was announced."""
    tally = Tally()
    first, second, ninth = _payloads([1, 2, 9])
    track = FrameTrack(tally, "json")
    track.feed(_subscribed(0) + _message(first, 1), MOMENT_NS)
    assert track.positions == {"/s/s000": (1, 1)}

    track.reopened()
    track.feed(_subscribed(2, recovery="recovered", messages=1) + _message(second, 2), MOMENT_NS)
    track.reopened()
    track.feed(_subscribed(9, recovery="resynchronised", messages=1) + _message(ninth, 9), MOMENT_NS)

    assert (tally.gaps, tally.announced, tally.doubled, tally.out_of_sequence) == (0, 6, 0, 0)
    assert tally.recoveries == {"recovered": 1, "resynchronised": 1}


def test_messages_of_others_count_with_the_servers_time() -> None:
    """A subscriber of a live system sees contents that the kit did not make."""
    tally = Tally()
    message = Message("/stocks/us/IBM", "193.20", {"bid": "193.19"}, seq=1, time=3)
    frame = encode_frame(TEXT, encode_message(message, 7, 0, JSON))

    count = FrameTrack(tally, "json").feed(_subscribed(0) + frame, MOMENT_NS)

    assert (count, tally.deliveries, tally.gaps) == (1, 1, 0)


def test_tallies_of_several_processes_are_added_up() -> None:
    """As JSON."""
    one, other = Tally(), Tally()
    other.deliveries, other.gaps, other.recoveries = 3, 1, {"recovered": 2}
    one.recoveries = {"recovered": 1}

    one.merge(other.as_json())

    assert (one.deliveries, one.gaps, one.recoveries) == (3, 1, {"recovered": 3})
