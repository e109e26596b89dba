"""Records: what was written is read again, whatever else happened to the file, and never anything else."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.core.protocol.messages import Message
from fastpath.core.protocol.packets import Entry
from fastpath.engine.journal import format as journal_format
from fastpath.engine.journal.format import (
    HEAD_BYTES,
    LAYOUT,
    MAGIC,
    MESSAGES,
    START_BYTES,
    Damage,
    JournalRecord,
    Packer,
    read_messages,
    read_records,
)

MARK = b"\x01mark\xff\x00\x02"

values = st.one_of(st.text(max_size=20), st.binary(max_size=20))
messages = st.builds(
    Message,
    st.text(max_size=20),
    values,
    st.none() | st.dictionaries(st.text(min_size=1, max_size=5), values, max_size=3),
    epoch=st.integers(0, 1 << 53),
    seq=st.integers(0, 1 << 53),
    time=st.integers(0, 1 << 53),
    size=st.integers(0, 1 << 20),
    plain=st.booleans(),
    retained=st.booleans(),
    reply_to=st.none() | st.text(max_size=5),
    closure=st.none() | st.text(max_size=5),
    as_of=st.none() | st.integers(0, 1 << 53) | st.text(max_size=5),
    publisher=st.none() | st.text(max_size=5),
    publication=st.integers(0, 1 << 53),
)
batches = st.lists(st.lists(messages, min_size=1, max_size=3), min_size=1, max_size=5)


def write(bodies: list[object]) -> tuple[bytes, list[int]]:
    """A file of records, and where each begins."""
    packer, data, starts = Packer(MARK), MAGIC + MARK, []
    for body in bodies:
        starts.append(len(data))
        data += packer.pack(MESSAGES, body)
    return data, starts


def read(data: bytes) -> list[bytes | Damage]:
    """Bodies and damages; nothing but these may come."""
    found: list[bytes | Damage] = []
    for one in read_records(io.BytesIO(data)):
        if isinstance(one, JournalRecord):
            assert one.kind == MESSAGES
            found.append(bytes(one.body))
        else:
            found.append(one)
    return found


@settings(max_examples=50, deadline=None)
@given(batches)
def test_messages_are_read_as_they_were_written(batches: list[list[Message]]) -> None:
    found = [read_messages(memoryview(body), LAYOUT) for body in read(write(list(batches))[0]) if type(body) is bytes]
    assert [[tuple(getattr(m, name) for name in LAYOUT) for m in batch] for batch in found] == [
        [tuple(getattr(m, name) for name in LAYOUT) for m in batch] for batch in batches
    ]


@settings(max_examples=50, deadline=None)
@given(batches, st.data())
def test_a_file_that_ends_early_gives_what_was_written_whole_before(
    batches: list[list[Message]], data: st.DataObject
) -> None:
    whole, starts = write(list(batches))
    cut = data.draw(st.integers(0, len(whole)))
    bodies = read(whole)
    ends = [*starts[1:], len(whole)]
    good = sum(end <= cut for end in ends)
    edge = ends[good - 1] if good else START_BYTES
    expected: list[object] = list(bodies[:good])
    if cut != edge and cut:
        expected.append(Damage(edge if cut >= START_BYTES else 0, cut, True))
    assert read(whole[:cut]) == expected


@settings(max_examples=50, deadline=None)
@given(batches, st.data())
def test_a_changed_byte_costs_its_record_and_no_other(batches: list[list[Message]], data: st.DataObject) -> None:
    whole, starts = write(list(batches))
    bodies = read(whole)
    at = data.draw(st.integers(0, len(whole) - 1))
    spoilt = bytearray(whole)
    spoilt[at] ^= data.draw(st.integers(1, 255))
    hit = sum(start <= at for start in starts) - 1
    begin = starts[hit] if hit >= 0 else 0
    end = [*starts, len(whole)][hit + 1]
    found = read(bytes(spoilt))
    assert [one for one in found if type(one) is bytes] == [body for index, body in enumerate(bodies) if index != hit]
    (damage,) = [one for one in found if type(one) is not bytes]
    assert damage == Damage(begin, end, False)


@settings(max_examples=50, deadline=None)
@given(batches, st.binary(min_size=1, max_size=200), st.data())
def test_bytes_in_between_cost_nothing(batches: list[list[Message]], noise: bytes, data: st.DataObject) -> None:
    whole, starts = write(list(batches))
    at = data.draw(st.sampled_from(starts))
    found = read(whole[:at] + noise + whole[at:])
    assert [one for one in found if type(one) is bytes] == read(whole)
    assert Damage(at, at + len(noise), False) in found


def test_what_is_published_cannot_pass_for_a_record() -> None:
    forged = bytes(Packer(b"guessed!").pack(MESSAGES, ["forged"]))
    data, starts = write([["first"], [forged], ["last"]])
    spoilt = bytearray(data)
    spoilt[starts[1] + 9] ^= 1  # the length: the next record has to be searched for
    assert [one for one in read(bytes(spoilt)) if type(one) is bytes] == [read(data)[0], read(data)[2]]


def test_a_record_larger_than_what_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_format, "READ_BYTES", 64)
    data, starts = write([["small"], ["x" * 5000], ["y" * 100], ["small"]])
    bodies = read(data)
    assert [len(body) > 4000 for body in bodies if type(body) is bytes] == [False, True, False, False]
    spoilt = bytearray(data)
    spoilt[starts[1]] ^= 1
    assert read(bytes(spoilt)) == [bodies[0], Damage(starts[1], starts[2], False), *bodies[2:]]


def test_what_is_read_of_a_file_at_once_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_format, "READ_BYTES", 1000)
    asked: list[int] = []

    class Watched(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            assert size is not None
            asked.append(size)
            return super().read(size)

    data, _ = write([["x" * 50]] * 500)
    assert sum(type(one) is JournalRecord for one in read_records(Watched(data))) == 500
    assert len(asked) > 30
    assert set(asked) == {1000}


def test_a_message_of_another_version_is_read_by_the_names_of_its_parts() -> None:
    packer = Packer(MARK)
    layout = ["content", "gone", "subject", "seq", "epoch"]
    body = bytes(packer.pack(MESSAGES, [["text", 1, "/a/b", 7, 5]]))[HEAD_BYTES:]
    (message,) = read_messages(memoryview(body), layout)
    assert type(message) is Entry
    assert (message.subject, message.content, message.epoch, message.seq, message.retained) == (
        "/a/b",
        "text",
        5,
        7,
        True,
    )


def test_the_layout_of_a_message_on_disk() -> None:
    """Who changes it: journals of before are read by name (above), so a new attribute needs a default."""
    assert LAYOUT == list(Message.__struct_fields__) == list(Entry.__struct_fields__)
    assert Entry("/a/b", "text").retained
