"""Payloads and how they are counted: the marker split at every byte, by every pair of cuts."""

from __future__ import annotations

import pytest

from fastpath.bench.load import payload
from fastpath.bench.load.payload import MARKER, PayloadError, Payloads


def _frames(count: int) -> bytes:
    payloads = Payloads(120, 2)
    return b"".join(b"\x81\x7b[1,2,3,%s]" % payloads.make(n % 2, 10**18 + n) for n in range(count))


def test_a_payload_has_its_size_and_says_when_what_and_which() -> None:
    """The sent time in ns, the subject and its number, counted by subject."""
    payloads = Payloads(140, 3)

    first, second, other = payloads.make(2, 17), payloads.make(2, 18), payloads.make(0, 19)

    assert [len(one) for one in (first, second, other)] == [140] * 3
    assert payload.read(first) == (17, b"2", 1)
    assert payload.read(b"\x81\x7e[4," + second) == (18, b"2", 2)
    assert payload.read(other) == (19, b"0", 1)
    assert first.count(MARKER) == 1


def test_another_run_has_other_subjects_so_that_its_numbers_may_begin_again() -> None:
    """Two publishers after each other must not look like messages that came twice."""
    assert payload.read(Payloads(140, 1, "ab").make(0, 1)) == (1, b"0.ab", 1)


def test_a_size_without_room_for_the_numbers_is_refused() -> None:
    """With the least that goes."""
    with pytest.raises(PayloadError, match="99 bytes: the send time and the marker take 100"):
        Payloads(99, 1)


def test_what_is_no_payload_is_refused() -> None:
    """Such as the server's own figures."""
    with pytest.raises(ValueError, match="no payload"):
        payload.read(b'{"connections":3}')


def test_every_payload_is_counted_once_wherever_reads_cut_them() -> None:
    """Every pair of cuts through three frames: three reads, some of them a few bytes of a marker."""
    data = _frames(3)
    for first in range(len(data) + 1):
        for second in (first, first + 1, first + 2, first + 23, first + 24, first + 25, len(data)):
            parts = [data[:first], data[first:second], data[second:]]
            total = carried = 0
            for part in filter(None, parts):
                count, carried = payload.count_after(carried, part)
                total += count
            assert (total, carried) == (3, 0), (first, second)


def test_reads_of_single_bytes_are_counted_as_well() -> None:
    """The slowest network."""
    total = carried = 0
    for byte in _frames(2):
        count, carried = payload.count_after(carried, bytes([byte]))
        total += count
    assert (total, carried) == (2, 0)
