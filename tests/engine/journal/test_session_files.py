"""The files of MQTT clients' sessions: what was written is read, whenever the process has ended."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from fastpath.engine.base import SessionRow
from fastpath.engine.journal import session_files
from fastpath.engine.journal.files import RecordFile
from fastpath.engine.journal.session_files import SESSIONS, WRITTEN, SessionFiles
from tests.support.waiting import auntil, run

ROWS: list[SessionRow] = [("ann", "a", b"1"), ("ann", "b", b"2")]
MORE: list[SessionRow] = [("ann", "a", b""), ("", "c", b"3")]


class Store:
    """The files as one process has them."""

    def __init__(self, folder: Path) -> None:
        self.files = SessionFiles(folder, asyncio.get_running_loop(), lambda: 1)
        self.rows: list[SessionRow] = []
        self.errors: list[str] = []
        self.good = self.files.read(lambda *row: self.rows.append(row))

    async def write(self, rows: list[SessionRow], base: list[SessionRow] | None = None, *, ends: bool = False) -> None:
        self.files.write(rows, base or [], ends_base=ends, done=self.errors.append)
        count = len(self.errors)
        await auntil(lambda: len(self.errors) > count or self.errors)
        await auntil(lambda: not self.files.busy)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_written_is_read_after_a_crash_and_after_an_end_in_order(tmp_path: Path) -> None:
    async def story() -> None:
        folder = tmp_path / "sessions"
        store = Store(folder)
        assert (store.good, store.rows, store.files.in_order) == (True, [], False)
        await store.write(ROWS)
        again = Store(folder)
        assert (again.rows, again.files.in_order) == (ROWS, False)
        assert again.files.wants_base
        again.files.close(MORE)
        last = Store(folder)
        assert (last.rows, last.files.in_order) == (ROWS + MORE, True)
        assert Store(folder).files.in_order is False  # the one before has said nothing of what it did
        assert os.stat(folder).st_mode & 0o077 == 0
        assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())

    run(story())


def test_a_base_takes_the_place_of_the_logs_before_it(tmp_path: Path) -> None:
    async def story() -> None:
        store = Store(tmp_path)
        await store.write(ROWS)
        assert store.files.begin_base()
        await store.write([("ann", "b", b"4")], ROWS[:1])
        assert Store(tmp_path).rows == [*ROWS, ("ann", "b", b"4")]  # as long as it is not whole it is none
        store = Store(tmp_path)
        assert store.files.begin_base()
        await store.write([("", "d", b"5")], ROWS)
        await store.write([], [], ends=True)
        assert [path.suffix for path in sorted(tmp_path.iterdir())] == [".base", ".log"]
        assert Store(tmp_path).rows == [*ROWS, ("", "d", b"5")]

    run(story())


def test_logs_are_shortened_when_they_have_grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        store = Store(tmp_path)
        assert not store.files.wants_base
        while not store.files.wants_base:
            await store.write([("ann", "a", b"x" * 100_000)])
        assert 1 << 20 <= store.files.size_bytes <= 2 << 20
        assert store.files.begin_base()
        await store.write([], ROWS, ends=True)
        assert not store.files.wants_base
        assert store.files.size_bytes < 1000
        assert Store(tmp_path).rows == ROWS

    monkeypatch.setattr(session_files, "LOG_BYTES_MIN", 1 << 20)
    run(story())


def damaged(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-3] ^= 0xFF
    path.write_bytes(data + b"more that a later write has left")


def newer(path: Path) -> None:
    path.unlink()
    file = RecordFile(path, 1, 0, "", 1)
    file.write(WRITTEN, session_files.VERSION + 1)
    file.write(SESSIONS, ROWS)
    file.close()


def strange(path: Path) -> None:
    path.unlink()
    file = RecordFile(path, 1, 0, "", 1)
    file.write(WRITTEN, session_files.VERSION)
    file.write(SESSIONS, [("ann", 7, "x")])
    file.close()


@pytest.mark.parametrize("spoil", [damaged, newer, strange])
def test_what_cannot_be_read_is_set_aside_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoil: Callable[[Path], None]
) -> None:
    async def story() -> None:
        folder = tmp_path / "sessions"
        store = Store(folder)
        await store.write(ROWS)
        spoil(next(folder.iterdir()))
        spoiled = next(folder.iterdir()).read_bytes()
        again = Store(folder)
        assert not again.good
        assert next((tmp_path / "sessions.aside").iterdir()).read_bytes() == spoiled
        await again.write(MORE)
        assert Store(folder).rows == MORE

    with caplog.at_level(logging.ERROR, "fastpath.journal"):
        run(story())
    assert "are lost" in caplog.text
    assert ("newer version" in caplog.text) == (spoil is newer)


def test_rows_that_say_nothing_sensible_are_set_aside_too(tmp_path: Path) -> None:
    async def story() -> None:
        folder = tmp_path / "sessions"
        await Store(folder).write(ROWS)

        def strange_row(owner: str, client_id: str, data: bytes) -> None:
            raise msgspec.DecodeError("no session")

        assert not SessionFiles(folder, asyncio.get_running_loop(), lambda: 1).read(strange_row)
        assert Store(folder).rows == []

    run(story())


@pytest.mark.parametrize("rest", ["half", "zeros"])
def test_what_a_crash_has_left_undone_is_no_damage(tmp_path: Path, rest: str) -> None:
    async def story() -> None:
        store = Store(tmp_path)
        await store.write(ROWS)
        path = next(tmp_path.iterdir())
        size = path.stat().st_size
        await store.write(MORE)
        data = path.read_bytes()
        path.write_bytes(data[: size + 12] if rest == "half" else data[:size] + b"\0" * 5000)
        again = Store(tmp_path)
        assert (again.good, again.rows, again.files.in_order) == (True, ROWS, False)

    run(story())


def test_a_write_that_fails_is_told_and_the_next_one_goes_into_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        store = Store(tmp_path)
        await store.write(ROWS)
        with monkeypatch.context() as patch:
            patch.setattr(RecordFile, "write", full)
            await store.write(MORE)
        assert store.errors == ["", "No space left on device"]
        await store.write(MORE)
        assert len(files(tmp_path)) == 2
        assert Store(tmp_path).rows == ROWS + MORE

    def full(file: RecordFile, kind: int, body: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(session_files, "RETRY_SECONDS", 0.05)
    run(story())


def test_a_base_that_cannot_be_begun_is_tried_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        await Store(tmp_path).write(ROWS)
        store = Store(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(RecordFile, "write", full)
            assert store.files.wants_base
            assert not store.files.begin_base()
            assert not store.files.wants_base
        await store.write(MORE)
        assert Store(tmp_path).rows == ROWS + MORE
        await auntil(lambda: store.files.wants_base)

    def full(file: RecordFile, kind: int, body: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(session_files, "RETRY_SECONDS", 0.3)
    run(story())
    assert caplog.text.count("cannot be shortened") == 1
