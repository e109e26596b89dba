"""The stores of staged rows: in memory and in files they do the same; files bring it back after a crash."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest

from fastpath.core.transactions.records import DONE, Attempt, Chunk, StagingFailed
from fastpath.engine.journal.staging import files as staging_files
from fastpath.engine.journal.staging import transaction_log
from fastpath.engine.staging import memory
from fastpath.engine.staging.store import OVERHEAD_BYTES
from tests.support.engine.stores import A_CHUNK, KEY, ONE, OTHER, Stores, record, staged
from tests.support.waiting import auntil, run


def test_chunks_come_back_in_order_and_once(stores: Stores) -> None:
    async def story() -> None:
        store = stores.open()
        assert await store.rows(ONE) is None
        assert await store.put(ONE, 0, A_CHUNK) is None
        assert await store.put(ONE, 1, Chunk(1, [], b"more")) is None
        again = await store.put(ONE, 0, Chunk(9, [], b"other"))
        assert again is not None
        assert (again.rows, again.refused) == (2, [(1, "denied", "no")])
        with pytest.raises(StagingFailed, match="gap: chunk 3 of an attempt of which 2 are staged"):
            await store.put(ONE, 3, A_CHUNK)
        with pytest.raises(StagingFailed, match="gap"):
            await store.put(OTHER, 1, A_CHUNK)
        assert await staged(store, ONE) == [A_CHUNK, Chunk(1, [], b"more")]
        assert await store.rows(ONE) == 3
        assert store.staged_rows == 3
        assert await staged(store, OTHER) == []
        await store.close()

    run(story())


def test_a_batch_that_is_done_takes_the_rows_of_all_up_to_it(stores: Stores) -> None:
    async def story() -> None:
        store = stores.open()
        older, newer, foreign = ONE._replace(batch=2), ONE._replace(batch=4), ONE._replace(key="3:bob:query")
        for attempt in (older, ONE, OTHER, newer, foreign):
            await store.put(attempt, 0, A_CHUNK)
        begun = record(3, [(0, 77, 2)])
        assert await store.record(KEY) is None
        assert await store.begin(KEY, begun) == begun
        assert await store.unfinished() == [(KEY, begun)]
        done = record(3, [(0, 77, 2)], DONE)
        await store.finish(KEY, done)
        assert await store.record(KEY) == done
        assert await store.unfinished() == []
        assert [await store.rows(one) for one in (older, ONE, OTHER, newer, foreign)] == [None, None, None, 2, 2]
        assert store.staged_rows == 4
        await store.forget(KEY)
        await store.forget("3:bob:query")
        assert (store.bytes, store.staged_rows) == (0, 0)
        assert not await store.forget(KEY)
        await store.close()

    run(story())


def test_what_is_dropped_and_what_is_begun(stores: Stores) -> None:
    async def story() -> None:
        store = stores.open()
        begun, attempts = ONE._replace(batch=2), [ONE, ONE._replace(attempt=5), OTHER]
        for attempt in (begun, *attempts):
            await store.put(attempt, 0, A_CHUNK)
        await store.begin(KEY, record(2, [(0, 77, 2)]))
        await store.drop(KEY, 3, 0, 5)
        assert [await store.rows(one) for one in attempts] == [2, None, 2]
        await store.drop(KEY, 3, 0, None)
        assert [await store.rows(one) for one in attempts] == [None, None, 2]
        await store.drop(KEY, 3, None, None)
        await store.drop(KEY, 2, None, None)
        assert [await store.rows(one) for one in (*attempts, begun)] == [None, None, None, 2]
        await store.close()

    run(story())


def test_bounds(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "ATTEMPTS_MAX", 2)

    async def story() -> None:
        size = OVERHEAD_BYTES + 100
        store = stores.open(bytes_max=3 * size)
        for chunk in range(2):
            await store.put(ONE, chunk, Chunk(1, [], bytes(100)))
        with pytest.raises(StagingFailed, match="staging_full"):
            await store.put(ONE, 2, Chunk(1, [], bytes(101)))
        with pytest.raises(StagingFailed, match="staging_full"):  # refused rows are remembered as well
            await store.put(ONE, 2, Chunk(1, [(0, "invalid", "no")], bytes(90)))
        await store.put(OTHER, 0, Chunk(1, [], b""))
        assert store.bytes == 2 * size + OVERHEAD_BYTES
        await store.drop(KEY, 3, 0, None)
        await store.put(ONE._replace(attempt=80), 0, Chunk(1, [], b""))
        with pytest.raises(StagingFailed, match="staging_full: 2 attempts are staged"):
            await store.put(ONE._replace(attempt=81), 0, Chunk(1, [], b""))
        await store.close()

    run(story())


def test_what_is_old_goes_unless_it_was_begun(stores: Stores) -> None:
    async def story() -> None:
        store = stores.open()
        begun = Attempt("3:bob:query", 1, 0, 1)
        for attempt in (begun, ONE, OTHER):
            await store.put(attempt, 0, A_CHUNK)
        await store.begin(begun.key, record(1, [(0, 1, 2)]))
        await store.finish("4:once", record(0, [], DONE, once=True))
        stores.clock.now += 59_000
        await store.put(OTHER, 1, A_CHUNK)
        await store.sweep(stores.clock.now)
        assert [await store.rows(one) for one in (begun, ONE, OTHER)] == [2, 2, 4]
        stores.clock.now += 2000
        await store.sweep(stores.clock.now)
        assert [await store.rows(one) for one in (begun, ONE, OTHER)] == [2, None, 4]
        assert await store.record("4:once") is None
        assert await store.record(begun.key) is not None
        await store.close()

    run(story())


def test_the_oldest_transactions_are_forgotten_but_none_that_is_begun(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "TRANSACTIONS_MAX", 3)

    async def story() -> None:
        store = stores.open()
        await store.begin("begun", record(0, []))
        await store.finish("a", record(0, [], DONE))
        await store.finish("once", record(0, [], DONE, once=True))
        await store.finish("b", record(0, [], DONE))
        assert [key for key, _ in await store.records(10)] == ["b", "a", "begun"]
        await store.finish("c", record(0, [], DONE))
        assert [key for key, _ in await store.records(10)] == ["c", "b", "begun"]
        assert [key for key, _ in await store.records(1)] == ["c"]
        await store.close()

    run(story())


def test_files_bring_everything_back(files: Stores) -> None:
    async def story() -> None:
        store = files.open()
        newer = ONE._replace(batch=4)
        for attempt in (ONE, OTHER, newer):
            await store.put(attempt, 0, A_CHUNK)
            await store.put(attempt, 1, Chunk(1, [], b"more"))
        await store.begin(KEY, record(3, [(0, 77, 3)]))
        sizes = store.bytes, store.staged_rows
        again = files.open()  # the process was killed
        assert (again.bytes, again.staged_rows) == sizes
        assert await again.unfinished() == [(KEY, record(3, [(0, 77, 3)]))]
        assert await staged(again, ONE) == [A_CHUNK, Chunk(1, [], b"more")]
        await again.put(newer, 2, A_CHUNK)
        await again.finish(KEY, record(3, [(0, 77, 3)], DONE))
        last = files.open()
        assert [await last.rows(one) for one in (ONE, OTHER, newer)] == [None, None, 5]
        assert await last.record(KEY) == record(3, [(0, 77, 3)], DONE)
        assert await last.unfinished() == []
        await last.forget(KEY)
        assert await files.open().record(KEY) is None

    run(story())


def test_a_file_goes_when_nothing_in_it_is_needed(files: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging_files, "FILE_BYTES", 1000)
    monkeypatch.setattr(staging_files, "SMALL_FILE_BYTES", 500)

    def there() -> list[str]:
        assert files.folder is not None
        return sorted(path.name for path in files.folder.glob("*.staged"))

    async def story() -> None:
        store = files.open()
        for chunk in range(5):
            await store.put(ONE, chunk, Chunk(1, [], bytes(700)))
        await store.put(OTHER, 0, Chunk(1, [], bytes(700)))
        assert len(there()) == 3
        await store.drop(KEY, 3, 0, None)
        await auntil(lambda: len(there()) == 1)
        assert await staged(store, OTHER) == [Chunk(1, [], bytes(700))]
        await store.drop(KEY, 3, 1, None)
        await auntil(lambda: not there())
        await store.put(OTHER, 0, A_CHUNK)
        assert await staged(store, OTHER) == [A_CHUNK]
        await store.close()

    run(story())


@pytest.mark.parametrize("cut", [1, 40, 200, 500])
def test_a_torn_end_is_no_loss_of_what_stands_before(files: Stores, cut: int) -> None:
    async def story() -> None:
        store = files.open()
        for chunk in range(3):
            await store.put(ONE, chunk, Chunk(1, [], bytes(300)))
        assert files.folder is not None
        [path] = files.folder.glob("*.staged")
        path.write_bytes(path.read_bytes()[:-cut])
        again = files.open()
        assert await again.rows(ONE) == (2 if cut < 300 else 1)
        assert await again.put(ONE, 2 if cut < 300 else 1, A_CHUNK) is None

    run(story())


def test_an_attempt_with_a_damaged_chunk_is_none(files: Stores) -> None:
    async def story() -> None:
        store = files.open()
        for attempt in (ONE, OTHER):
            for chunk in range(2):
                await store.put(attempt, chunk, Chunk(1, [], b"x" * 300))
        assert files.folder is not None
        [path] = files.folder.glob("*.staged")
        data = bytearray(path.read_bytes())
        data[data.index(b"x" * 300) + 20] ^= 1
        path.write_bytes(data)
        with pytest.raises(StagingFailed, match="broken"):
            await staged(store, ONE)
        again = files.open()
        assert [await again.rows(one) for one in (ONE, OTHER)] == [None, 2]

    run(story())


def test_a_full_disk_is_told_and_nothing_has_changed(files: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def story() -> None:
        store = files.open()
        await store.put(ONE, 0, A_CHUNK)
        before = store.bytes
        with monkeypatch.context() as patch:
            patch.setattr("os.write", full)
            with pytest.raises(StagingFailed, match=r"staging_full: .* No space left on device"):
                await store.put(ONE, 1, A_CHUNK)
            with pytest.raises(StagingFailed, match=r"unavailable: .* No space left on device"):
                await store.begin(KEY, record(3, [(0, 77, 2)]))
        assert store.bytes == before
        assert await store.record(KEY) is None
        await store.put(ONE, 1, A_CHUNK)
        await store.begin(KEY, record(3, [(0, 77, 4)]))
        assert (await files.open().record(KEY)) == record(3, [(0, 77, 4)])

    run(story())


def test_a_sync_that_fails_is_not_believed(files: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a failed sync was to cover may be lost although the next one succeeds: it is staged, or written, again."""

    def broken(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async def story() -> None:
        store = files.open()
        await store.put(ONE, 0, A_CHUNK)
        with monkeypatch.context() as patch:
            patch.setattr(staging_files, "sync_data", broken)
            patch.setattr(transaction_log, "sync_data", broken)
            with pytest.raises(StagingFailed, match="missing"):
                await store.begin(KEY, record(3, [(0, 77, 2)]))
            assert await store.rows(ONE) is None
            with pytest.raises(StagingFailed, match="unavailable"):
                await store.finish(KEY, record(3, [], DONE))
        await store.put(ONE._replace(attempt=90), 0, A_CHUNK)
        await store.begin(KEY, record(3, [(0, 90, 2)]))
        again = files.open()
        assert await again.record(KEY) == record(3, [(0, 90, 2)])
        assert await staged(again, ONE._replace(attempt=90)) == [A_CHUNK]

    run(story())


def test_many_commits_at_once_share_syncs_and_the_log_is_written_anew(
    files: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_log, "LOG_BYTES", 2000)

    async def story() -> None:
        store = files.open()
        keys = [f"key {number}" for number in range(60)]
        for batch in range(6):
            await asyncio.gather(*(store.begin(key, record(batch, [])) for key in keys))
            await asyncio.gather(*(store.finish(key, record(batch, [], DONE)) for key in keys[:-1]))
        assert files.folder is not None
        [path] = files.folder.glob("*.transactions")
        assert int(path.stem) > 1
        again = files.open()
        assert dict(await again.records(100)) == {key: record(5, [], DONE) for key in keys[:-1]} | {
            keys[-1]: record(5, [])
        }

    run(story())
