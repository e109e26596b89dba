"""The archive's log: every entry whole or not at all, whoever writes beside, and however much is forgotten."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from spark.lake_log import STATE_ENTRIES, ArchiveState, Entry, File, Log, by_partition


def file(number: int, group: int = 0) -> File:
    return File(f"date=2026-11-22/group={group}/{number}.parquet", 1, 100, "/a/a", "/a/b")


def test_a_file_knows_where_it_lies() -> None:
    one, two, other = file(1, 3), file(2, 3), file(3, 11)
    assert (one.date, one.group, one.partition) == ("2026-11-22", 3, "date=2026-11-22/group=3")
    assert by_partition([one, other, two]) == {one.partition: [one, two], other.partition: [other]}
    assert other.group == 11


steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "again", "replace", "replace gone"]), st.integers(0, 1), st.sampled_from(["a", "b"])
    ),
    max_size=3 * STATE_ENTRIES,
)


@settings(max_examples=20, deadline=None)
@given(steps)
def test_two_writers_agree(story: list[tuple[str, int, str]]) -> None:
    """Against a dictionary; each step is done by one of two writers, who know nothing of each other."""
    with tempfile.TemporaryDirectory() as folder:
        logs = Log(Path(folder)), Log(Path(folder))
        files: dict[str, File] = {}
        batches: dict[str, int] = {}
        for number, (step, who, query) in enumerate(story):
            new = file(number)
            last = batches.get(query, -1)
            if step == "add":
                assert logs[who].commit(Entry(add=[new], query=query, batch=last + 1))
                batches[query] = last + 1
                files[new.path] = new
            elif step == "again":
                assert not logs[who].commit(Entry(add=[new], query=query, batch=last))
            elif step == "replace" and files:
                old = next(iter(files))
                assert logs[who].commit(Entry(add=[new], remove=[old]))
                del files[old]
                files[new.path] = new
            elif step == "replace gone":
                assert not logs[who].commit(Entry(add=[new], remove=["date=2026-11-22/group=0/gone.parquet"]))
        for log in (*logs, Log(Path(folder))):
            state = log.state()
            assert (state.files, state.batches) == (files, batches)
        assert len(list((Path(folder) / "_log").glob("*"))) <= 2 * STATE_ENTRIES + 2


def test_writers_at_once_lose_and_double_nothing(tmp_path: Path) -> None:
    """Four threads, each a query of its own; and each number once more, which must not be taken."""
    count = STATE_ENTRIES

    def write(query: int) -> None:
        log = Log(tmp_path)
        for batch in range(count):
            log.commit(Entry(add=[file(1000 * query + batch)], query=str(query), batch=batch))
            assert not log.commit(Entry(add=[file(9999)], query=str(query), batch=batch))

    def look(seen: list[ArchiveState], stop: threading.Event) -> None:
        log = Log(tmp_path)
        while not stop.is_set():
            seen.append(log.state())

    seen: list[ArchiveState] = []
    stop = threading.Event()
    reader = threading.Thread(target=look, args=(seen, stop))
    writers = [threading.Thread(target=write, args=(query,)) for query in range(4)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    reader.join()
    state = Log(tmp_path).state()
    assert state.version == 4 * count
    assert set(state.files) == {file(1000 * query + batch).path for query in range(4) for batch in range(count)}
    assert [one.version for one in seen] == sorted(one.version for one in seen)
    assert all(len(one.files) == one.version for one in seen)


def test_what_a_crash_leaves_is_no_entry(tmp_path: Path) -> None:
    log = Log(tmp_path)
    assert log.state() == ArchiveState()
    assert log.commit(Entry(add=[file(1)]))
    (tmp_path / "_log" / ".0123456789abcdef").write_text('{"add":[')
    assert log.commit(Entry(add=[file(2)]))
    assert set(Log(tmp_path).state().files) == {file(1).path, file(2).path}
