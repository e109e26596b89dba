"""Entries of the log as bytes: what follows on, what was missed, what is void; messages and snapshots in them."""

from __future__ import annotations

import pytest

from fastpath.core.protocol.messages import STANDARD, Message
from fastpath.engine.redis import entries
from fastpath.engine.redis.entries import MISSED, VOID, Entry, Place, Run

FOLLOWS: dict[str, tuple[Place | None, list[str], list[Run], str]] = {
    "one": ((5, 1), ["5-2"], [(5, 0, 1)], ""),
    "some": ((5, 1), ["5-2", "5-3", "5-4"], [(5, 0, 3)], ""),
    "the first ones": ((0, 0), ["5-1<0-0", "5-2"], [(5, 0, 2)], ""),
    "from anywhere": (None, ["5-7", "5-8"], [(5, 0, 2)], ""),
    "from anywhere, over an epoch": (None, ["5-7", "6-1<5-7"], [(5, 0, 1), (6, 1, 2)], ""),
    "over epochs": ((5, 1), ["5-2", "6-1<5-2", "6-2", "9-1<6-2"], [(5, 0, 1), (6, 1, 3), (9, 3, 4)], ""),
    "a new epoch at once": ((5, 1), ["6-1<5-1", "6-2"], [(6, 0, 2)], ""),
    "missed at once": ((5, 1), ["5-3", "5-4"], [], MISSED),
    "missed later": ((5, 1), ["5-2", "5-4"], [(5, 0, 1)], MISSED),
    "missed of an empty log": ((0, 0), ["5-2"], [], MISSED),
    "missed before a new epoch": ((5, 1), ["6-1<5-3"], [], MISSED),
    "missed the beginning of an epoch": ((5, 1), ["5-2", "6-2", "6-3"], [(5, 0, 1)], MISSED),
    "missed the beginning, not said": ((5, 1), ["6-1"], [], MISSED),
    "void at once": ((5, 4), ["6-1<5-2"], [], VOID),
    "void over an epoch": ((6, 1), ["7-1<5-2"], [], VOID),
    "all void": ((6, 1), ["7-1<0-0", "7-2"], [], VOID),
    "void later": (None, ["5-2", "5-3", "6-1<5-2"], [(5, 0, 2)], VOID),
}
"""Where a reader stands; ids of entries, with the last one before a new epoch; runs that follow on; the fault."""


def entry(text: str) -> Entry:
    """An entry with nothing but its id."""
    place, _, before = text.encode().partition(b"<")
    return [place, [b""] * 8 + ([b"prev", before] if before else [])]


@pytest.mark.parametrize(("place", "ids", "runs", "fault"), FOLLOWS.values(), ids=FOLLOWS)
def test_what_follows_on(place: Place | None, ids: list[str], runs: list[Run], fault: str) -> None:
    assert entries.follow(place, [entry(text) for text in ids]) == (runs, fault)


def test_all_of_a_message_is_in_its_entry() -> None:
    messages = [
        Message("/a/é", "text", {"f": "v", "b": b"\xff"}, publisher="5:alice:p", publication=7, closure="c"),
        Message("/a/c", "new", None, replace=True),
        Message("/a/d", "", {"why": "sold"}, replace=True, removed=True),
        Message("/a/b", b"\x00", None, retained=False, reply_to="/r/t", as_of=17, qos=STANDARD),
    ]
    rows: list[Entry] = [
        [b"9-1", [b"s", one.subject.encode(), b"q", seq, b"t", b"1700", b"p", entries.payload(one)]]
        for one, seq in zip(messages, (b"3", b"4", b"5", b"0"), strict=True)
    ]
    found = entries.read(rows, 9)
    assert [(one.retained, one.replace, one.removed) for one in found] == [
        (True, False, False),
        (True, True, False),
        (True, True, True),
        (False, False, False),
    ]
    first, _, removal, second = found
    assert (removal.content, removal.fields, removal.plain) == ("", {"why": "sold"}, False)
    assert (first.subject, first.content, first.fields) == ("/a/é", "text", {"f": "v", "b": b"\xff"})
    assert (first.epoch, first.seq, first.time, first.closure) == (9, 3, 1700, "c")
    assert (first.publisher, first.publication, first.size) == ("5:alice:p", 7, 8)
    assert (second.content, second.retained, second.reply_to, second.as_of) == (b"\x00", False, "/r/t", 17)
    assert (second.epoch, second.seq, second.qos) == (0, 0, STANDARD)


def test_an_as_of_of_before_is_read_as_its_digits() -> None:
    """A node of an earlier version has stored, or stores beside us, what not every client can read."""
    one = Message("/a/b", "x", as_of=1_795_883_791_704_842_422)
    row: Entry = [b"9-1", [b"s", b"/a/b", b"q", b"3", b"t", b"1700", b"p", entries.payload(one)]]
    [found] = entries.read([row], 9)
    assert (found.content, found.as_of) == ("x", "1795883791704842422")


def test_snapshots_are_gathered_from_fields_in_any_order_and_expire() -> None:
    parts = entries.SnapshotParts(oldest=1000)
    parts.add(b"/a/b\0bid", b"t1.5")
    parts.add(b"/a/b", b"1000 7 3 tnew est")
    parts.add(b"/a/b\0raw", b"b\xff")
    parts.add(b"/a/old", b"999 7 1 tx")
    parts.add(b"/a/bytes", b"2000 0 0 b\x00 \x01")
    found = parts.take()
    assert sorted(found) == ["/a/b", "/a/bytes"]
    newest = found["/a/b"].newest
    assert (newest.content, newest.epoch, newest.seq, newest.time) == ("new est", 7, 3, 1000)
    assert found["/a/b"].fields == {"bid": "1.5", "raw": b"\xff"}
    assert (found["/a/bytes"].newest.content, found["/a/bytes"].fields) == (b"\x00 \x01", None)


def test_fields_of_before_a_replacement_are_not_in_a_snapshot() -> None:
    """What has not been replaced, and what an earlier version has stored, has no number."""
    parts = entries.SnapshotParts(oldest=0)
    for name, value in (
        (b"/a/b\0old", b"tr1 x"),
        (b"/a/b\0before", b"r1 t1"),
        (b"/a/b\0now", b"r2 tr2 x"),
        (b"/a/b", b"1000 7 3 tx"),
        (b"/a/b\0", b"2 \x91\xa3now"),
        (b"/a/c\0old", b"tr1 x"),
        (b"/a/c", b"1000 7 3 tx"),
    ):
        parts.add(name, value)
    assert {subject: one.fields for subject, one in parts.take().items()} == {
        "/a/b": {"now": "r2 x"},
        "/a/c": {"old": "r1 x"},
    }


def test_what_is_no_field_of_the_hashes_stops_no_other() -> None:
    """Whoever wrote it: the snapshots and positions in front of it and behind it are taken."""
    parts = entries.SnapshotParts(oldest=0)
    found = [
        parts.add(name, value)
        for name, value in (
            (b"/a/b", b"1000 7 3 tx"),
            (b"/a/c", b"soon 7 3 tx"),
            (b"/a/c", b"nothing"),
            (b"/a/b\0", b"\xff"),
            (b"/a/b\0bid", b"rx t1"),
            (b"/a/d", b"1000 7 4 ty"),
        )
    ]
    assert found == [True, False, False, False, False, True]
    assert {subject: one.newest.content for subject, one in parts.take().items()} == {"/a/b": "x", "/a/d": "y"}
    assert entries.positions_of([b"/a/b", b"7-3", b"/a/\xff", b"7-1", b"/a/c", b"x", b"/a/d", b"7-4"]) == {
        "/a/b": (7, 3),
        "/a/d": (7, 4),
    }


def test_a_snapshot_says_that_the_subject_was_removed() -> None:
    """Whatever fields are left of before; an empty text is no removal."""
    parts = entries.SnapshotParts(oldest=1000)
    for name, value in (
        (b"/a/b\0old", b"t1"),
        (b"/a/b", b"1000 7 3 x"),
        (b"/a/b\0", b"1 \x90"),
        (b"/a/c", b"1000 7 3 t"),
        (b"/a/expired", b"999 7 3 x"),
    ):
        parts.add(name, value)
    found = parts.take()
    assert {subject: (one.removed, one.newest.content, one.fields) for subject, one in found.items()} == {
        "/a/b": (True, "", None),
        "/a/c": (False, "", None),
    }


def test_a_subject_is_always_in_the_same_group() -> None:
    assert [entries.group_of(name) for name in ("/Stocks/IBM", "/a/é", "/demo/ticks/1")] == [11, 2, 11]
