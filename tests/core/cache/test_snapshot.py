"""The snapshot of a subject: content and fields merged, and replaced where a message says so."""

from __future__ import annotations

import pytest

from fastpath.core.cache.snapshot import Snapshot
from fastpath.core.protocol.columns import ColumnBatch, expand
from fastpath.core.protocol.messages import Fields, Message


@pytest.mark.parametrize("fields", [{"b": "2"}, None, {}])
def test_what_replaces_leaves_no_field_of_before(fields: Fields | None) -> None:
    snapshot = Snapshot(Message("/a/b", "1", {"a": "1", "b": "1"}))
    snapshot.merge(Message("/a/b", "2", fields, replace=True))
    assert (snapshot.newest.content, snapshot.fields) == ("2", fields or None)
    snapshot.merge(Message("/a/b", "3", {"c": "3"}))
    assert snapshot.fields == (fields or {}) | {"c": "3"}


def test_the_rows_of_a_run_replace_one_after_the_other() -> None:
    """Nobody stands between them: what is left is the last one's."""
    snapshot = Snapshot(Message("/a/b", "1", {"a": "1"}))
    run = ColumnBatch("/a/b", ["2", "3"], {"b": ["2", None], "c": [None, "3"]}, {"replace": True})
    rows = expand(run)
    assert [row.replace for row in rows] == [True, True]
    assert [row.replace for row in expand(run, 1)] == [True]
    snapshot.merge_run(run, rows[-1])
    assert (snapshot.newest.content, snapshot.fields) == ("3", {"c": "3"})


@pytest.mark.parametrize("fields", [{"why": "sold"}, None])
def test_a_removal_leaves_nothing(fields: Fields | None) -> None:
    """Neither what was there before nor fields of its own; what follows begins with nothing."""
    removal = Message("/a/b", "", fields, time=7, replace=True, removed=True)
    merged = Snapshot(Message("/a/b", "1", {"a": "1"}))
    merged.merge(removal)
    for snapshot in (merged, Snapshot(removal)):
        assert (snapshot.removed, snapshot.fields) == (True, None)
        told = snapshot.as_message("/a/b", 5, 9)
        assert (told.content, told.fields, told.removed, told.epoch, told.seq, told.time) == ("", None, True, 5, 9, 7)
        snapshot.merge(Message("/a/b", "2", {"b": "2"}))
        assert (snapshot.removed, snapshot.newest.content, snapshot.fields) == (False, "2", {"b": "2"})
        assert not snapshot.as_message("/a/b", 5, 10).removed
