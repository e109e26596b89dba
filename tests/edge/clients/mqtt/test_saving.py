"""What is written of sessions: all of it in the end, as much at a time as is good for the others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fastpath.core.mqtt.packets import Filter
from fastpath.core.mqtt.session import MqttSession, Place, Subscription
from fastpath.edge.clients.mqtt.connections import Key
from fastpath.edge.clients.mqtt.saving import BATCH_BYTES, SavedSession, Saving
from fastpath.engine.journal import session_files
from fastpath.engine.journal.files import RecordFile
from fastpath.engine.journal.session_files import SessionFiles
from tests.support.waiting import auntil, run


class Counted(SessionFiles):
    """The files, and how much each write has brought."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, asyncio.get_running_loop(), lambda: 1)
        self.sizes: list[int] = []
        self.bases: list[int] = []

    def write(self, rows: Any, base: Any, **more: Any) -> None:
        self.sizes.append(sum(len(row[2]) for row in rows))
        self.bases.append(sum(len(row[2]) for row in base))
        super().write(rows, base, **more)


class Table:
    """Sessions that are kept in a folder."""

    def __init__(self, folder: Path) -> None:
        self.sessions: dict[Key, MqttSession] = {}
        self.written: set[Key] = set()
        self.saving = Saving(self.find)
        self.store = Counted(folder)
        for key, saved in self.saving.begin(self.store).items():
            self.sessions[key] = session = MqttSession("", 0, 0)
            session.adopt(saved.state)
            session.change()
            self.written.add(key)

    def find(self, key: Key, *, whole: bool, copies: bool) -> SavedSession | None:
        session = self.sessions.get(key)
        if session is None:
            return None
        whole = whole or key not in self.written
        if copies:
            return SavedSession(session.whole(), whole=True)
        self.written.add(key)
        change = session.change()
        return SavedSession(session.whole() if whole else change, whole=whole)

    def add(self, name: str, positions: int = 1) -> MqttSession:
        key = "ann", name
        session = self.sessions[key] = MqttSession(name, 5, 60)
        session.subscribe(Subscription(Filter(text=name, qos=1), [f"/{name}"], 0, True))
        for number in range(positions):
            session.reached(f"/{name}/{number}", 1, 1)
        self.saving.changed(key)
        return session

    async def tick(self) -> None:
        await auntil(lambda: not self.store.busy)
        self.saving.on_grid(0)
        await auntil(lambda: not self.store.busy)

    async def settle(self) -> None:
        """Until all is written, and no base is wanted."""
        while self.saving.figures()["mqtt_sessions_unsaved"] or self.store.wants_base:
            await self.tick()
        for _ in range(3):
            await self.tick()

    def states(self) -> dict[Key, Any]:
        return {key: session.whole() for key, session in self.sessions.items()}


def test_all_that_changes_is_written_in_pieces(tmp_path: Path) -> None:
    async def story() -> None:
        table = Table(tmp_path)
        for number in range(3000):
            table.add(f"client{number}", 10)
        await table.settle()
        assert max(table.store.sizes) <= BATCH_BYTES + 1000
        assert len([size for size in table.store.sizes if size]) > 3
        for number in range(0, 3000, 3):
            del table.sessions["ann", f"client{number}"]
            table.saving.ended(("ann", f"client{number}"))
            table.sessions["ann", f"client{number + 1}"].reached("/later", 1, 1)
            table.saving.changed(("ann", f"client{number + 1}"))
        await table.settle()
        assert table.saving.figures()["mqtt_sessions_kept"] == 2000
        again = Table(tmp_path)
        assert again.states() == table.states()
        await again.settle()
        assert max(again.store.bases) <= BATCH_BYTES + 1000
        assert Table(tmp_path).states() == table.states()

    run(story())


def test_what_changes_while_a_base_is_written_is_in_it_or_behind_it(tmp_path: Path) -> None:
    async def story() -> None:
        table = Table(tmp_path)
        for number in range(2000):
            table.add(f"client{number}", 20)
        await table.settle()
        table = Table(tmp_path)
        assert table.store.wants_base
        turn = 0
        while table.store.wants_base or turn < 50:
            turn += 1
            for number in (turn, 2000 - turn):
                session = table.sessions["ann", f"client{number}"]
                session.reached("/turn", 1, turn)
                session.subscribe(Subscription(Filter(text="t", qos=turn % 2), ["/t"], turn, True))
                table.saving.changed(("ann", f"client{number}"))
            table.add(f"new{turn}")
            await table.tick()
        await table.settle()
        assert Table(tmp_path).states() == table.states()

    run(story())


def test_a_crash_while_a_base_is_written_takes_no_session_apart(tmp_path: Path) -> None:
    """What the log has of a session from before it was copied into the base is not put upon the copy."""

    async def story() -> None:
        table = Table(tmp_path)
        session = table.add("torn")
        table.add("ended")
        table.add("renewed")
        await table.settle()
        table = Table(tmp_path)
        session = table.sessions["ann", "torn"]
        table.store.begin_base()
        for key in table.sessions:
            table.sessions[key].sent(1, b"x", Place("/a", 1, 1))
            table.sessions[key].reached("/a", 1, 1)
            table.saving.changed(key)
        rows = [(*key, table.saving.row(key)) for key in table.sessions]
        session.sent(2, b"x", Place("/b", 1, 7))  # these changes are in the copy, and not in the log
        session.reached("/b", 1, 7)
        del table.sessions["ann", "ended"]
        renewed = table.sessions["ann", "renewed"] = MqttSession("other", 5, 60)
        renewed.reached("/c", 1, 1)
        copies = [(*key, table.saving.copy(key)) for key in table.sessions]
        table.store.write(rows, copies, ends_base=True, done=lambda error: None)
        await auntil(lambda: not table.store.busy)
        assert Table(tmp_path).states() == table.states()

    run(story())


def test_after_very_much_there_is_a_pause(tmp_path: Path) -> None:
    async def story() -> None:
        table = Table(tmp_path)
        table.add("large" * 20, 10_000)
        table.add("small")
        await table.tick()
        assert len(table.store.sizes) == 1
        size = table.store.sizes[0]
        assert size > 2 * BATCH_BYTES
        for _ in range(size // BATCH_BYTES):
            await table.tick()
        assert len(table.store.sizes) == 1
        await table.tick()
        assert len(table.store.sizes) == 2

    run(story())


def test_who_begins_sessions_on_and_on_makes_nothing_wait(tmp_path: Path) -> None:
    """What has ended before it was written is never written, and what changes often is written once."""

    async def story() -> None:
        table = Table(tmp_path)
        for number in range(1000):
            table.add(f"client{number}")
            del table.sessions["ann", f"client{number}"]
            table.saving.ended(("ann", f"client{number}"))
        session = table.add("busy")
        for number in range(1000):
            session.reached("/busy", 1, number)
            table.saving.changed(("ann", "busy"))
        await table.settle()
        assert sum(table.store.sizes) < 1000
        assert table.saving.figures()["mqtt_sessions_kept"] == 1

    run(story())


def test_what_could_not_be_written_is_written_as_soon_as_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        table = Table(tmp_path)
        first = table.add("first")
        table.add("second")
        await table.settle()
        with monkeypatch.context() as patch:
            patch.setattr(RecordFile, "write", full)
            first.reached("/lost", 1, 1)
            first.subscribe(Subscription(Filter(text="lost"), ["/lost"], 0, True))
            table.saving.changed(("ann", "first"))
            del table.sessions["ann", "second"]
            table.saving.ended(("ann", "second"))
            await table.tick()
        first.reached("/later", 1, 1)
        table.saving.changed(("ann", "first"))
        await table.settle()
        assert Table(tmp_path).states() == table.states()

    def full(file: RecordFile, kind: int, body: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(session_files, "RETRY_SECONDS", 0.05)
    run(story())
    assert "cannot be written" in caplog.text
    assert "can be written again" in caplog.text


def test_the_last_changes_are_written_at_the_end(tmp_path: Path) -> None:
    async def story() -> None:
        table = Table(tmp_path)
        for number in range(100):
            table.add(f"client{number}")
        table.saving.close()
        again = Table(tmp_path)
        assert again.store.in_order
        assert again.states() == table.states()

    run(story())
