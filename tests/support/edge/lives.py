"""A node with a journal in this process that crashes where a test wants, and a publisher that goes on nevertheless."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from fastpath.core.protocol.packets import Unpacker
from fastpath.edge.publishers.connection import PublisherConnection
from fastpath.edge.transactions.commit import Commits
from fastpath.edge.transactions.staging import Staging
from fastpath.engine.journal.engine import JournalEngine
from fastpath.server.components import make_runtime
from fastpath.server.engines import make_engine
from fastpath.server.publisher_services import make_staging
from fastpath.settings import Settings
from tests.support.edge.transacting import run
from tests.support.edge.wire import packed

SUBJECTS = [f"/model/{name}" for name in "abc"]
STEPS = ("put", "begin", "append", "finish")
TRANSACTION = "query"


class Crash(BaseException):
    """The process is no more."""


class Wire(asyncio.Transport):
    """What a publisher's connection writes."""

    def __init__(self) -> None:
        super().__init__()
        self.packets: list[list[Any]] = []
        self._unpacker = Unpacker(1 << 24)

    def write(self, data: Any) -> None:
        self.packets += self._unpacker.feed(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def is_closing(self) -> bool:
        return False


class Life:
    """One process: a broker with its journal and what is staged, until it crashes at the ``number``-th ``step``."""

    def __init__(self, folder: Path, step: str = "", *, before: bool = False, number: int = 0) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(lambda loop, context: None)  # nobody asks a task that crashed
        given = Settings(mode="none", journal="interval", data=str(folder), cache_messages=100_000)
        engine = make_engine(given)
        assert isinstance(engine, JournalEngine)
        self.engine = engine
        self.runtime = make_runtime(given, self.loop, engine)
        engine.restore()
        engine.run(self.loop, self.runtime.end)
        self.crashed = False
        self._left = number
        self.store = store = cast(Any, make_staging(self.runtime, engine))
        for name in ("put", "begin", "finish"):
            if name == step:
                setattr(store, name, self._dying_later(getattr(store, name), before))
        if step == "append":
            engine.append_runs = self._dying(engine.append_runs, before)  # type: ignore[method-assign]
        staging = Staging(self.runtime, store)
        self.commits = Commits(staging)
        self.runtime.serve(staging, self.commits)
        self.publisher = PublisherConnection(self.runtime)
        self.wire = Wire()
        self.publisher.connection_made(self.wire)
        self.number = 0
        self.say("hello", {"version": 1})

    def ask(self, kind: str, *parts: Any) -> list[Any]:
        """The answer, without the number; raises Crash."""
        self.number += 1
        self.say(kind, self.number, *parts)

        def answers() -> list[list[Any]]:
            return [one for one in self.wire.packets if one[1] == self.number and one[0] != "progress"]

        async def answered() -> None:
            while not self.crashed and not answers():  # noqa: ASYNC110 - each turn of the loop counts
                await asyncio.sleep(0)

        self.loop.run_until_complete(asyncio.wait_for(answered(), 30))
        if self.crashed:
            raise Crash
        [[name, _, *rest]] = answers()
        return [name, *rest]

    def go_on(self) -> None:
        """What the start does with a batch that was begun; raises Crash."""

        async def done() -> None:
            await self.commits.go_on()
            while not self.crashed and self.commits.running("0::" + TRANSACTION):  # noqa: ASYNC110 - the same
                await asyncio.sleep(0)

        self.loop.run_until_complete(asyncio.wait_for(done(), 30))
        if self.crashed:
            raise Crash

    def contents(self, subject: str) -> list[str]:
        topic = self.runtime.broker.interest.topics.get(subject)
        return [message.content for message in (topic.ring or ())] if topic is not None else []

    def end(self) -> None:
        """Nothing is closed in order: only what the next life needs is let go."""
        self.engine._folder.close()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    def say(self, *packet: Any) -> None:
        self.publisher.data_received(packed(*packet))

    def _count(self) -> None:
        self._left -= 1
        if not self._left:
            self.crashed = True
            raise Crash

    def _dying(self, work: Callable[..., Any], before: bool) -> Callable[..., Any]:
        def wrapped(*arguments: Any) -> Any:
            if before:
                self._count()
            done = work(*arguments)
            if not before:
                self._count()
            return done

        return wrapped

    def _dying_later(self, work: Callable[..., Any], before: bool) -> Callable[..., Any]:
        async def wrapped(*arguments: Any) -> Any:
            if before:
                self._count()
            done = await work(*arguments)
            if not before:
                self._count()
            return done

        return wrapped


class Driver:
    """Writes batches as Spark does: tries again after every crash, with other attempts, in another order."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder = folder
        self.chance = chance
        self.attempt = 0
        self.crashes = 0
        self.staged: dict[tuple[int, int, int], list[tuple[str, str]]] = {}
        self.life = self._live()

    def _live(self) -> Life:
        chance = self.chance
        if self.crashes < 6 and chance.random() < 0.8:
            return Life(self.folder, chance.choice(STEPS), before=chance.random() < 0.5, number=chance.randint(1, 4))
        return Life(self.folder)

    def restart(self) -> None:
        """The process died; another one goes on, and perhaps dies of that."""
        while True:
            self.crashes += 1
            self.life.end()
            self.life = self._live()
            try:
                if self.chance.random() < 0.5:
                    self.life.go_on()
                return
            except Crash:
                pass

    def stage(self, batch: int, rows: list[tuple[str, str]]) -> list[tuple[int, int, int]]:
        """Split the rows over partitions, anew each time; the attempts that succeeded."""
        chance = self.chance
        chance.shuffle(rows)
        partitions = chance.randint(1, 3)
        winners = []
        for partition in range(partitions):
            mine = rows[partition::partitions]
            if chance.random() < 0.3:
                self._write(batch, partition, mine[: len(mine) // 2])  # a task that failed
            winners.append((partition, self._write(batch, partition, mine), len(mine)))
        chance.shuffle(winners)
        return winners

    def _write(self, batch: int, partition: int, rows: list[tuple[str, str]]) -> int:
        self.attempt += 1
        self.staged[batch, partition, self.attempt] = rows
        rest, chunk = rows, 0
        while rest:
            size = self.chance.randint(1, 5)
            runs = [run(subject, content, f=["v"]) for subject, content in rest[:size]]
            answer = self.life.ask("stage", [TRANSACTION, batch, partition, self.attempt, chunk], len(runs), runs)
            assert answer == ["staged", len(runs), []]
            rest, chunk = rest[size:], chunk + 1
        return self.attempt

    def write(self, batch: int, rows: list[tuple[str, str]]) -> list[str]:
        """Write a batch, however often it takes; the rows in the order of the attempts that count."""
        winners: list[tuple[int, int, int]] | None = None
        while True:
            try:
                if winners is None:
                    winners = self.stage(batch, list(rows))
                winners = [one for one in winners if one[2]]
                name, *rest = self.life.ask("commit", TRANSACTION, batch, winners, {})
            except Crash:
                self.restart()
                if self.chance.random() < 0.5:
                    winners = None  # the driver died as well
                continue
            if name == "committed":
                return [one for part, attempt, _ in rest[0]["winners"] for one in self.staged[batch, part, attempt]]
            assert rest[0] == "missing", rest
            winners = None
