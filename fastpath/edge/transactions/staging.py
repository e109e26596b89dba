"""The frames ``stage`` and ``abort``: rows are checked, and wait for the commit of their batch (protocol.md 6.5)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from ...core.broker.staged_rows import RightsUnknown, read_runs, take
from ...core.delivery.link import PauseReason
from ...core.protocol.errors import Close, InvalidMessage, Refused
from ...core.protocol.packets import PUBLICATION_MAX, PUBLISHER_CHARS_MAX, publisher_key
from ...core.transactions.records import UNAVAILABLE, Attempt, Chunk, StagingFailed
from ...engine.staging.store import StagingStore
from ..publishers.connection import WINDOW, PublisherConnection
from ..runtime.component import Offers
from ..runtime.publisher_accounts import TRANSACTION
from ..runtime.runtime import Runtime, now

WAITING_FRAMES_MAX = 2 * WINDOW
"""Frames of one connection that may wait for a store that waits itself; who sends more does not keep its window."""

FIRST_SECONDS, SWEEP_SECONDS = 0.5, 1.0
"""Seconds until, and then between, looks for what is too old, and for what was begun."""

log = logging.getLogger("fastpath.staging")

Answer = Callable[[Chunk | None], list[Any]]


class Staging:
    """Stages for the publishers of this process, which is the one that numbers."""

    def __init__(self, runtime: Runtime, store: StagingStore) -> None:
        self.runtime = runtime
        self.store = store
        self._waiting: dict[PublisherConnection, deque[tuple[int, Coroutine[Any, Any, None]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweeping: asyncio.Task[None] | None = None
        self.offers = Offers(frames={"stage": self._stage, "abort": self._abort}, figures=self._figures)
        runtime.accounts.add_staged(store.uncommitted)

    def start(self, each: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Let go of what is too old from now on; ``each`` is called every time as well."""
        self._sweeping = self.runtime.loop.create_task(self._sweep(each))

    async def close(self) -> None:
        """Close: nothing waits any more, and the store is closed."""
        tasks = [*self._tasks, *([self._sweeping] if self._sweeping is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for waiting in self._waiting.values():
            for _, work in waiting:
                work.close()
        await self.store.close()

    async def _sweep(self, each: Callable[[], Coroutine[Any, Any, None]]) -> None:
        pause = FIRST_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause = SWEEP_SECONDS
            try:
                await self.store.sweep(now())
                await each()
            except StagingFailed as error:
                log.warning("what is staged cannot be looked through: %s", error.reason)
            except Exception:
                log.exception("fault while looking through what is staged")

    def _figures(self) -> dict[str, float]:
        return {"staged_bytes": self.store.bytes, "staged_rows": self.store.staged_rows}

    # Frames

    def _stage(self, publisher: PublisherConnection, number: int, rest: list[Any]) -> None:
        moment = self.check(publisher)
        try:
            match rest:
                case [tuple(place), int(rows), bytes(raw), *_]:
                    attempt, chunk = _attempt(publisher, place)
                case _:
                    raise InvalidMessage("invalid", "a frame is [stage, n, place, rows, runs] (protocol.md 6.5)")
            admission = self.runtime.broker.admission
            data, runs = read_runs(rows, raw, admission.limits.message_bytes_max * 2)
            guard = self.runtime.sessions.guard
            if guard is not None and guard.spend(publisher, 0, rows, moment):
                publisher.hold(True, PauseReason.RATE)
            has_rates, rates = self.runtime.broker.interest.options.rates, self.runtime.sessions.publish_rates
            if has_rates and rates.spend(publisher, [(run.subject, len(run)) for run in runs], moment):
                publisher.hold(True, PauseReason.RATE)
            principal = publisher.current(moment)
            taken = Chunk(*take(runs, data, admission, principal, moment))
        except InvalidMessage as error:
            publisher.reply(["failed", number, error.code, error.reason])
            return
        except RightsUnknown as error:
            publisher.reply(["failed", number, "not_ready", str(error)])
            return
        self.runtime.accounts.took(principal.user, TRANSACTION, place[0], rows, moment)
        frame = publisher.progress.stages(place[0], rows, moment)
        self.runtime.broker.counters.refused([(code, reason) for _, code, reason in taken.refused])

        async def put() -> None:
            try:
                staged = await self.store.put(attempt, chunk, taken) or taken
            finally:
                publisher.progress.staged(frame)
            publisher.reply(["staged", number, staged.rows, staged.refused])

        self._run(publisher, number, put())

    def _abort(self, publisher: PublisherConnection, number: int, rest: list[Any]) -> None:
        self.check(publisher)
        match rest:
            case [str(transaction), int(batch), int() as partition, int() | None as attempt, *_]:
                pass
            case [str(transaction), int(batch), None as partition, None as attempt, *_]:
                pass
            case _:
                publisher.reply(["failed", number, "invalid", "abort names transaction, batch, partition, attempt"])
                return

        async def drop() -> None:
            await self.store.drop(key_of(publisher, transaction), batch, partition, attempt)
            publisher.reply(["aborted", number])

        self._run(publisher, number, drop())

    def check(self, publisher: PublisherConnection) -> int:
        """Return the time, if the publisher may publish now; raise Refused to end its connection."""
        if not self.runtime.access.may_publish(publisher.address):
            raise Refused(Close.DENIED, f"publishing is not allowed from {publisher.address}")
        return now()

    # In order, at once or when the store has answered

    def _run(self, publisher: PublisherConnection, number: int, work: Coroutine[Any, Any, None]) -> None:
        """Do it behind what the connection has asked for before, and answer what fails."""
        if not self.store.waits:
            at_once(self._guarded(publisher, number, work))
            return
        waiting = self._waiting.get(publisher)
        if waiting is None:
            self._waiting[publisher] = deque(((number, work),))
            task = self.runtime.loop.create_task(self._work_off(publisher))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif len(waiting) < WAITING_FRAMES_MAX:
            waiting.append((number, work))
        else:
            work.close()
            raise Refused(Close.BAD_MESSAGE, f"over {WINDOW} frames without an answer")

    async def _work_off(self, publisher: PublisherConnection) -> None:
        waiting = self._waiting[publisher]
        while waiting:
            await self._guarded(publisher, *waiting[0])
            waiting.popleft()
        del self._waiting[publisher]

    async def _guarded(self, publisher: PublisherConnection, number: int, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except StagingFailed as error:
            publisher.reply(["failed", number, error.code, error.reason])
        except Exception:
            log.exception("fault while staging for publisher %s", publisher.address)
            publisher.reply(["failed", number, UNAVAILABLE, "a fault of the server"])


def key_of(publisher: PublisherConnection, transaction: str) -> str:
    """Return whose transaction it is: no user meets another one's."""
    principal = publisher.principal
    assert principal is not None
    return publisher_key(principal.user, transaction)


def _attempt(publisher: PublisherConnection, place: tuple[str, int, int, int, int]) -> tuple[Attempt, int]:
    transaction, *numbers = place
    check_transaction(transaction)
    if not all(0 <= number <= PUBLICATION_MAX for number in numbers):
        raise InvalidMessage("invalid", f"batch, partition, attempt and chunk are numbers from 0 to {PUBLICATION_MAX}")
    batch, partition, attempt, chunk = numbers
    return Attempt(key_of(publisher, transaction), batch, partition, attempt), chunk


def check_transaction(transaction: str) -> None:
    """Raise InvalidMessage if the name of the transaction is not a valid one."""
    if not 0 < len(transaction) <= PUBLISHER_CHARS_MAX:
        raise InvalidMessage("invalid", f"a transaction is a text of 1 to {PUBLISHER_CHARS_MAX} characters")


def at_once(work: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine that does not wait for anything."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    work.close()
    raise RuntimeError("a store that waits says so")
