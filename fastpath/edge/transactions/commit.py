"""The frame ``commit``: a staged batch is begun once, released in slices, and answered when it is stored
(protocol.md 6.7).

Each transaction has one commit at a time. A connection that ends does not end it: whoever asks again joins it, or is
answered from the record that is kept of it.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from itertools import pairwise
from time import perf_counter
from typing import Annotated, Any

import msgspec

from ...core.auth.grants import Principal
from ...core.auth.reasons import ASKED, PENDING
from ...core.auth.rules import PUBLISH
from ...core.broker.staged_rows import subjects_of
from ...core.protocol.errors import InvalidMessage, Refused
from ...core.protocol.packets import PUBLICATION_MAX
from ...core.transactions.course import CommitCourse, Step, first_record
from ...core.transactions.records import UNAVAILABLE, Attempt, StagingFailed, StagingRecord
from ...core.transactions.release import ReleaseCursor, publisher_of
from ..publishers.connection import PublisherConnection
from ..runtime.component import Offers
from ..runtime.runtime import now
from ..runtime.scheduler import TURN_SECONDS
from .release import BROKEN, CommitRelease, turn
from .staging import Staging, check_transaction, key_of

ATTEMPTS_MAX = 10_000
"""Attempts that one commit names: partitions of a batch."""

LOOKED_AT = 200
"""Attempts that are looked at between two turns of the loop."""

COMMITS_MAX = 16
"""Commits that are released at a time, a slice of each in turn; others wait."""

WAITING_MAX = 1000
"""Commits that may be begun or wait: beyond it the answer is ``busy``."""

WAITING_ATTEMPTS_MAX = 200_000
"""Attempts that all of them name together; beyond it the answer is ``busy``, too."""

ASKERS_MAX = 64
"""Number of publishers that may wait for the same commit."""

STRANGE_MS = 60_000
"""Milliseconds after which what another node has begun and not done is gone on with here."""

PROGRESS_SECONDS = 1.0
"""Seconds between two words to who waits about how far the commit is."""

Winners = list[tuple[int, int, int]]

_Number = Annotated[int, msgspec.Meta(ge=0, le=PUBLICATION_MAX)]
_Winners = list[tuple[_Number, _Number, _Number]]

log = logging.getLogger("fastpath.staging")


class Commit:
    """A commit that was asked for and is not answered."""

    def __init__(self, key: str, batch: int, winners: Winners, principal: Principal | None, *, once: bool) -> None:
        self.key = key
        self.batch = batch
        self.winners = winners
        self.principal = principal
        """Holder of the rights that are asked; None: the commit was begun before this process, and they were."""
        self.once = once
        self.cursor: ReleaseCursor | None = None
        self.askers: list[tuple[PublisherConnection, int]] = []

    def reply(self, kind: str, *rest: Any) -> None:
        """Tell all who wait."""
        for publisher, number in self.askers:
            publisher.reply([kind, number, *rest])


class Commits:
    """The commits of this process."""

    def __init__(self, staging: Staging) -> None:
        self.runtime = staging.runtime
        self._staging = staging
        self._store = staging.store
        self._commits: dict[str, Commit] = {}
        self._halted: dict[str, ReleaseCursor] = {}  # how far those came that will go on
        self._broken: set[str] = set()  # what goes on only when somebody asks
        self._tasks: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(COMMITS_MAX)
        self._timer: asyncio.TimerHandle | None = None
        self.committed = self.rows = self.repeated = self.failed = 0
        self.offers = Offers(frames={"commit": self._commit}, figures=self._figures)

    async def go_on(self) -> None:
        """Go on with what was begun and is nobody's now: by a process that is no more, or without an end for want of
        room. May raise StagingFailed."""
        before = now() - (STRANGE_MS if self._store.waits else 0)
        for key, record in await self._store.unfinished():
            if len(self._commits) >= WAITING_MAX:
                break
            if record.time <= before and key not in self._commits and key not in self._broken:
                self._start(Commit(key, record.batch, record.winners, None, once=record.once))

    async def close(self) -> None:
        """Stop; what was begun goes on at the next start."""
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def running(self, key: str) -> bool:
        """Return whether a commit of the transaction is under way."""
        return key in self._commits

    def _figures(self) -> dict[str, float]:
        return {
            "commits_running": len(self._commits),
            "transactions_committed": self.committed,
            "transaction_rows": self.rows,
            "transactions_repeated": self.repeated,
            "transactions_failed": self.failed,
        }

    # The frame

    def _commit(self, publisher: PublisherConnection, number: int, rest: list[Any]) -> None:
        moment = self._staging.check(publisher)
        principal = publisher.current(moment)
        try:
            match rest:
                case [str(transaction), int(batch), list(attempts), *options]:
                    check_transaction(transaction)
                    winners = _winners(attempts)
                    once = bool(options) and isinstance(options[0], dict) and options[0].get("once") is True
                case _:
                    raise InvalidMessage("invalid", "a frame is [commit, n, transaction, batch, attempts, options]")
            if not 0 <= batch <= PUBLICATION_MAX:
                raise InvalidMessage("invalid", f"a batch is a number from 0 to {PUBLICATION_MAX}")
            commit = self._joined(key_of(publisher, transaction), batch, winners, principal, once=once)
        except InvalidMessage as error:
            publisher.reply(["failed", number, error.code, error.reason])
            return
        commit.askers.append((publisher, number))

    def _joined(self, key: str, batch: int, winners: Winners, principal: Principal, *, once: bool) -> Commit:
        """Return the commit that runs already, or one that begins now."""
        if self.runtime.stale:
            raise InvalidMessage(UNAVAILABLE, "nothing can be published at this moment; retry")
        commit = self._commits.get(key)
        if commit is None:
            if len(self._commits) >= WAITING_MAX:
                raise InvalidMessage("busy", f"{WAITING_MAX} commits are under way; retry")
            named = sum(len(one.winners) for one in self._commits.values())
            if named and named + len(winners) > WAITING_ATTEMPTS_MAX:
                raise InvalidMessage("busy", "the commits that are under way name too many attempts; retry")
            commit = Commit(key, batch, winners, principal, once=once)
            self._start(commit)
        elif commit.batch != batch:
            raise InvalidMessage("busy", f"batch {commit.batch} of this transaction is being committed; retry")
        commit.askers = [asker for asker in commit.askers if not asker[0].over]
        if len(commit.askers) >= ASKERS_MAX:
            raise InvalidMessage("busy", f"{ASKERS_MAX} wait for this commit already")
        return commit

    # Its course

    def _start(self, commit: Commit) -> None:
        self._commits[commit.key] = commit
        task = self.runtime.loop.create_task(self._run(commit))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._timer is None:
            self._timer = self.runtime.loop.call_later(PROGRESS_SECONDS, self._tell_progress)

    def _tell_progress(self) -> None:
        self._timer = None
        if self._commits:
            self._timer = self.runtime.loop.call_later(PROGRESS_SECONDS, self._tell_progress)
        for commit in self._commits.values():
            commit.reply("progress", commit.cursor.rows if commit.cursor is not None else 0)

    async def _run(self, commit: Commit) -> None:
        try:
            async with self._places:
                record, repeated = await self._settle(commit)
            self.committed += not repeated
            self.repeated += repeated
            self._commits.pop(commit.key, None)
            commit.reply("committed", _summary(record, repeated=repeated))
        except StagingFailed as error:
            self.failed += 1
            self._commits.pop(commit.key, None)
            if error.code == BROKEN:
                self._broken.add(commit.key)
            if not commit.askers:
                log.warning("batch %d of %s is not released: %s", commit.batch, commit.key, error)
            commit.reply("failed", error.code, error.reason)
        except Exception:
            self.failed += 1
            self._commits.pop(commit.key, None)
            self._broken.add(commit.key)
            log.exception("fault while committing batch %d of %s", commit.batch, commit.key)
            commit.reply("failed", BROKEN, "a fault of the server")

    async def _settle(self, commit: Commit) -> tuple[StagingRecord, bool]:
        """Return the record of the batch when all of it is stored, and True if it was before."""
        self._broken.discard(commit.key)
        course = CommitCourse(commit.batch)
        step, record = course.read(await self._store.record(commit.key))
        while True:
            if step is Step.BEGIN:
                step, record = course.begun(await self._begin(commit, record))
                continue
            assert record is not None
            if step is Step.RELEASE:
                step, record = course.released(await self._release(commit, record))
            elif step is Step.PROBE:
                step, record = course.probed(nothing=await self._came_to_nothing(commit, record))
            elif step is Step.STALE:
                reason = f"batch {record.batch} of this transaction was begun after batch {commit.batch}"
                raise StagingFailed("stale", reason)
            else:
                return record, step is Step.REPEATED

    async def _came_to_nothing(self, commit: Commit, record: StagingRecord) -> bool:
        """Return whether the commit was begun, none of it is stored, and its rows are not staged any more.

        Then whoever commits was told that it could not be begun, and dropped the rows, and yet its record has come to
        the disk.
        """
        numbering = self.runtime.broker.engine.numbering
        if commit.principal is None or numbering is None:
            return False
        if numbering.stored(publisher_of(commit.key, record)) > record.base:
            return False
        for index, (partition, attempt, count) in enumerate(record.winners):
            if await self._store.rows(Attempt(commit.key, record.batch, partition, attempt)) != count:
                return True
            if index % LOOKED_AT == LOOKED_AT - 1:
                await asyncio.sleep(0)
        return False

    async def _begin(self, commit: Commit, before: StagingRecord | None) -> StagingRecord:
        """Begin the batch with the attempts that the commit names."""
        for index, (partition, attempt, count) in enumerate(commit.winners):
            if index % LOOKED_AT == LOOKED_AT - 1:
                await asyncio.sleep(0)
            staged = await self._store.rows(Attempt(commit.key, commit.batch, partition, attempt))
            if staged != count:
                there = "is not staged here" if staged is None else f"has {staged} rows staged and not {count}"
                raise StagingFailed("missing", f"attempt {attempt} of partition {partition} {there}")
        await self._check_rights(commit)
        record = first_record(commit.batch, commit.winners, before, now(), once=commit.once)
        return await self._store.begin(commit.key, record)

    async def _check_rights(self, commit: Commit) -> None:
        """Check that all of it may still be published; after this nobody is asked any more."""
        principal = commit.principal
        if principal is None:
            return
        known: set[str] = set()
        for partition, attempt, _ in commit.winners:
            async for chunk in self._store.chunks(Attempt(commit.key, commit.batch, partition, attempt)):
                found = await turn(self.runtime, partial(subjects_of, chunk.data))
                fresh = list(found - known)
                known |= found
                while fresh:
                    await turn(self.runtime, partial(self._check_some, principal, fresh))

    def _check_some(self, principal: Principal, subjects: list[str]) -> None:
        """Take subjects from the end of the list, for as long as a turn is; raises StagingFailed for a refused one."""
        check = self.runtime.broker.grants.check
        try:
            principal = self.runtime.broker.grants.current(principal)
        except Refused as error:  # its token was revoked while the commit waited
            raise StagingFailed("denied", error.reason) from None
        moment, until = now(), perf_counter() + TURN_SECONDS
        while subjects and perf_counter() < until:
            subject = subjects.pop()
            reason = check(principal, PUBLISH, subject, moment)
            if reason and reason is not ASKED:  # a hook's answer for once was for the staging
                raise StagingFailed("not_ready" if reason in PENDING else "denied", f"{subject}: {reason}")

    async def _release(self, commit: Commit, record: StagingRecord) -> StagingRecord:
        """Publish all rows of a batch that was begun, and remember that it is done."""
        commit.cursor = cursor = ReleaseCursor(record, self._halted.pop(commit.key, None))
        try:
            await self._release_rows(commit, CommitRelease(self.runtime, commit.key, cursor))
            done = cursor.done(now())
            await self._store.finish(commit.key, done)
        except StagingFailed:
            self._halted[commit.key] = cursor
            raise
        self.rows += record.rows
        return done

    async def _release_rows(self, commit: Commit, release: CommitRelease) -> None:
        record = release.cursor.record
        for partition, attempt, count in record.winners:
            at = Attempt(commit.key, record.batch, partition, attempt)
            if await self._store.rows(at) != count:
                raise StagingFailed(BROKEN, f"rows of attempt {attempt} of partition {partition} have been lost")
            release.cursor.next_partition(partition)
            async for chunk in self._store.chunks(at):
                await release.chunk(chunk)
        await release.settled()


def _winners(attempts: list[Any]) -> Winners:
    """Return the attempts that a commit names, partitions rising; raise InvalidMessage."""
    if len(attempts) > ATTEMPTS_MAX:
        raise InvalidMessage("invalid", f"a commit names at most {ATTEMPTS_MAX} attempts")
    try:
        winners = sorted(msgspec.convert(attempts, _Winners))
    except msgspec.ValidationError as error:
        raise InvalidMessage("invalid", f"an attempt is [partition, attempt, rows]: {error}") from None
    if any(one[0] == other[0] for one, other in pairwise(winners)):
        raise InvalidMessage("invalid", "a commit names one attempt of each partition")
    return winners


def _summary(record: StagingRecord, *, repeated: bool) -> dict[str, Any]:
    return {
        "rows": record.rows,
        "repeated": repeated,
        "refused": record.refused,
        "refused_rows": record.refused_rows,
        "outdated": record.outdated,
        "winners": record.winners,
    }
