"""Where rows are staged until their batch is committed, and what is remembered of each transaction (protocol.md 6.5).

Three stores keep this contract: in memory (memory.py), in files beside the journal (files.py) and in
Redis (redis.py). Which one there is follows the engine: what is staged lives as long as what is stored.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterable
from typing import Any, NamedTuple, Protocol

import msgspec

from ...core.transactions.records import Attempt, Chunk, StagingRecord

TRANSACTIONS_MAX = 100_000
"""Transactions whose last batch is remembered; beyond it those go whose last commit is longest ago and done."""

ATTEMPTS_MAX = 100_000
"""Attempts that are staged at one time; beyond it nothing new is staged."""

WINNERS_MAX = 300_000
"""Attempts that are remembered of batches that are done, over all; beyond it the oldest answers do not name theirs."""

OVERHEAD_BYTES = 512
"""Bytes that a staged chunk counts besides its data: a bound for who stages many empty ones."""

REFUSED_BYTES = 256
"""Bytes that each of its refused rows counts: which one it is, and why."""

SUMMED_AT_ONCE = 100
"""Attempts that are summed between two interruptions."""

GAP = "gap"
MISSING = "missing"
FULL = "staging_full"


class Uncommitted(NamedTuple):
    """The staged, uncommitted rows of one transaction, of all its attempts: also of those that will not count."""

    rows: int
    bytes: int
    """Bytes of the rows as they count against FASTPATH_STAGED_BYTES."""
    since: int
    """Time when the oldest of these attempts was begun (ms since 1970)."""


class HeldRows(Protocol):
    """The rows that a store has of an attempt."""

    @property
    def rows(self) -> int:
        """The number of staged rows."""

    @property
    def bytes(self) -> int:
        """Bytes of the rows as they count against the bound."""

    @property
    def since(self) -> int:
        """The time when the attempt was begun (ms)."""


class StagingStore(Protocol):
    """Everything but ``put`` may wait; times are ms since 1970. Raises StagingFailed and nothing else."""

    waits: bool
    """True if ``put`` may wait. An embedded store's does not: it is called on the data path."""
    bytes: int
    """Bytes of what is staged, as they count against FASTPATH_STAGED_BYTES."""
    staged_rows: int

    async def put(self, attempt: Attempt, chunk: int, content: Chunk) -> Chunk | None:
        """Stage a chunk; returns None when it is staged now.

        A chunk that was there already is left as it is, and returned (``data`` may be empty). Chunks of an attempt come
        without a gap: else ``gap``, as for what is added to an attempt that a batch was begun with. Over the bound:
        ``staging_full``.
        """

    async def rows(self, attempt: Attempt) -> int | None:
        """Return how many rows of the attempt are staged; None: nothing is known of it."""

    def chunks(self, attempt: Attempt) -> AsyncIterator[Chunk]:
        """Return the chunks of the attempt, in order."""

    async def record(self, key: str) -> StagingRecord | None:
        """Return the transaction's last batch."""

    async def begin(self, key: str, record: StagingRecord) -> StagingRecord:
        """Remember that a batch is begun, so that it survives as much as the engine's messages do; the record that
        counts: another node may have been first. The attempts in it are kept until ``finish``, whatever their age;
        ``missing`` when they are not staged as the record names them."""

    async def finish(self, key: str, record: StagingRecord) -> None:
        """Finish the batch (``record`` says so): its staged rows go, and those of older batches."""

    async def drop(self, key: str, batch: int, partition: int | None, attempt: int | None) -> None:
        """Let go of staged rows: of the batch, of its partition, of the attempt. Those of a begun batch stay."""

    async def records(self, limit: int) -> list[tuple[str, StagingRecord]]:
        """Return transactions and their last batches, the newest first."""

    async def unfinished(self) -> list[tuple[str, StagingRecord]]:
        """Return the records whose batch was begun and is not done."""

    async def forget(self, key: str) -> bool:
        """Forget a transaction and all that is staged of it; False: it is not known."""

    async def sweep(self, now_ms: int) -> None:
        """Let go of attempts to which nothing was added for FASTPATH_STAGED_SECONDS, but of none of a begun batch."""

    def uncommitted(self) -> Generator[None, None, dict[str, Uncommitted]]:
        """Return what is staged and not committed, by transaction (its key); yields as often as it may be interrupted.

        A store that nodes share tells of what was staged through this one: over all nodes nothing counts twice. It asks
        nobody: what another node has committed is counted until the next ``sweep``.
        """

    async def close(self) -> None:
        """Let go of files and connections; what is to survive has been kept."""


def summed(attempts: Iterable[tuple[Attempt, HeldRows]]) -> Generator[None, None, dict[str, Uncommitted]]:
    """StagingStore.uncommitted, of what is held of each attempt."""
    found: dict[str, Uncommitted] = {}
    for index, ((key, *_), held) in enumerate(list(attempts)):
        rows, size, since = found.get(key) or (0, 0, held.since)
        found[key] = Uncommitted(rows + held.rows, size + held.bytes, min(since, held.since))
        if index % SUMMED_AT_ONCE == SUMMED_AT_ONCE - 1:
            yield
    return found


def record_bytes(record: StagingRecord) -> bytes:
    """Return a record as it is kept (MessagePack)."""
    return _encode(record)


def read_record(data: Any) -> StagingRecord:
    """Return the record of such bytes; raise msgspec.DecodeError."""
    return _decode(data)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StagingRecord).decode
