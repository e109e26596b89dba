"""What comes in between while a batch is begun, and what a store lets go of when it is much."""

from __future__ import annotations

import asyncio
import errno

import pytest

from fastpath.core.transactions.records import DONE, Attempt, StagingFailed
from fastpath.engine.journal.staging import transaction_log
from fastpath.engine.staging import memory
from fastpath.engine.staging.memory import MemoryStaging
from tests.support.engine.stores import A_CHUNK, KEY, ONE, OTHER, Stores, record, staged
from tests.support.waiting import run


def test_what_is_dropped_meanwhile_cannot_be_begun(stores: Stores) -> None:
    async def story() -> None:
        store = stores.open()
        await store.put(ONE, 0, A_CHUNK)
        await store.drop(KEY, 3, 0, 77)
        with pytest.raises(StagingFailed, match="missing"):
            await store.begin(KEY, record(3, [(0, 77, 2)]))
        assert await store.record(KEY) is None
        assert await store.unfinished() == []
        await store.close()

    run(story())


def test_what_is_being_begun_stays_as_it_is(stores: Stores) -> None:
    """Neither an abort nor a chunk that comes late changes it, while it is written down and after that."""

    async def story() -> None:
        store = stores.open()
        await store.put(ONE, 0, A_CHUNK)
        await store.put(OTHER, 0, A_CHUNK)
        begins = asyncio.ensure_future(store.begin(KEY, record(3, [(0, 77, 2)])))
        for _ in range(2):
            await asyncio.sleep(0)
            await store.drop(KEY, 3, None, None)
            with pytest.raises(StagingFailed, match="gap"):
                await store.put(ONE, 1, A_CHUNK)
            await begins
        assert await staged(store, ONE) == [A_CHUNK]
        assert await store.put(OTHER, 1, A_CHUNK) is None  # of another attempt, which may be staged still
        await store.close()

    run(story())


def test_a_record_that_did_not_come_to_the_disk_is_not_written_anew(
    files: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        store = files.open()
        await store.finish(KEY, record(2, [], DONE))
        await store.put(ONE, 0, A_CHUNK)
        with monkeypatch.context() as broken:

            def fail(descriptor: int) -> None:
                raise OSError(errno.EIO, "broken")

            broken.setattr(transaction_log, "sync_data", fail)
            with pytest.raises(StagingFailed, match="unavailable"):
                await store.begin(KEY, record(3, [(0, 77, 2)]))
        await store.begin("5:spark:other", record(0, []))
        await store.close()
        again = files.open()
        assert await again.record(KEY) == record(2, [], DONE)
        assert await again.record("5:spark:other") is not None
        await again.close()

    run(story())


def test_many_attempts_are_let_go_by_and_by(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LET_GO_AT_ONCE", 10)

    async def story() -> None:
        store = stores.open()
        for attempt in range(35):
            await store.put(Attempt(KEY, 3, attempt % 2, attempt), 0, A_CHUNK)
        await store.drop(KEY, 3, 0, None)
        assert store.staged_rows > 17 * 2  # a part is left for later
        await store.sweep(stores.clock.now)
        assert store.staged_rows == 17 * 2
        assert await store.rows(Attempt(KEY, 3, 1, 1)) == 2
        await store.finish(KEY, record(3, [], DONE))
        assert (store.bytes, store.staged_rows) == (0, 0)
        await store.close()

    run(story())


def test_the_attempts_of_old_batches_are_bounded(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "WINNERS_MAX", 5)

    async def winners(store: MemoryStaging) -> list[int]:
        return [len(one.winners) for _, one in await store.records(10)]

    async def story() -> None:
        store = stores.open()
        for number in range(4):
            await store.finish(f"5:spark:{number}", record(0, [(0, 1, 1), (1, 1, 1)], DONE))
        assert await winners(store) == [2, 2, 0, 0]
        await store.finish("5:spark:0", record(1, [(0, 1, 1)], DONE))
        assert await winners(store) == [1, 2, 2, 0]
        await store.close()
        if stores.folder is not None:
            again = stores.open()
            assert await winners(again) == [1, 2, 2, 0]
            await again.close()

    run(story())


def test_a_full_disk_is_no_reason_not_to_start(files: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was staged and done is known, nothing new is taken, and it goes on when there is room."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def story() -> None:
        store = files.open()
        await store.put(ONE, 0, A_CHUNK)
        await store.begin(KEY, record(3, [(0, 77, 2)]))
        await store.close()
        with monkeypatch.context() as patch:
            patch.setattr("os.write", full)
            store = files.open()
            assert [key for key, _ in await store.unfinished()] == [KEY]
            assert await store.rows(ONE) == 2
            with pytest.raises(StagingFailed, match="staging_full"):
                await store.put(Attempt(KEY, 4, 0, 1), 0, A_CHUNK)
            with pytest.raises(StagingFailed, match="unavailable"):
                await store.finish(KEY, record(3, [(0, 77, 2)], DONE))
        await store.finish(KEY, record(3, [(0, 77, 2)], DONE))
        await store.close()
        store = files.open()
        found = await store.record(KEY)
        assert found is not None
        assert found.state == DONE
        await store.close()

    run(story())
