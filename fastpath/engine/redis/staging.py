"""Staged rows and records of transactions in Redis: every node finds what was staged through another one."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
from redis.exceptions import NoScriptError, ResponseError

from ...core.broker.admission import Done, Outcome
from ...core.protocol.messages import STANDARD, Message
from ...core.transactions.records import DONE, UNAVAILABLE, Attempt, Chunk, StagingFailed, StagingRecord
from ..staging.store import (
    ATTEMPTS_MAX,
    FULL,
    GAP,
    MISSING,
    OVERHEAD_BYTES,
    TRANSACTIONS_MAX,
    Uncommitted,
    read_record,
    record_bytes,
    summed,
)
from .connection import AWAY, PrimaryAccess, RedisLink

SCRIPT = Path(__file__).with_suffix(".lua").read_bytes()
SHA = hashlib.sha1(SCRIPT).hexdigest()  # noqa: S324  (how Redis names scripts)

ANSWER_SECONDS = 2.0
RECORD_SECONDS = 90 * 86_400
"""A transaction is remembered for so long after its last batch."""

CHUNKS_A_READ = 4
"""Chunks that are read at once."""

LOOKED_AT = 2000
"""Attempts about which Redis is asked in one sweep."""

BARRIER = "/__sys__/transactions"
"""Subject in whose log a line is written behind each record: when that is stored safely, so is the record."""

TRIES = 3
CHANGED = "another primary took over in the middle of it"

_header = msgspec.msgpack.Decoder(tuple[int, list[tuple[int, str, str]]]).decode


class _HeldChunk(NamedTuple):
    """The rows of an attempt that were staged through this node, and when the first of them was (ms)."""

    rows: int
    bytes: int
    since: int


class NumberingServers(PrimaryAccess, Protocol):
    """The servers that also number what is published."""

    def submit(self, messages: Sequence[Message], now: int, done: Done | None) -> None:
        """Have messages numbered, stored and delivered; ``done`` gets one outcome a message."""


class RedisStaging:
    """A StagingStore. ``bytes_max`` bounds what this node has staged, ``keep_seconds`` is for how long."""

    waits = True

    def __init__(
        self, servers: NumberingServers, clock: Callable[[], int], *, bytes_max: int, keep_seconds: float
    ) -> None:
        self.staged_rows = 0
        self._servers = servers
        self._clock = clock
        self._bytes_max = bytes_max
        self._seconds = max(1, int(keep_seconds))
        self._link: RedisLink | None = None
        self._turn = asyncio.Lock()  # one task at a time may ask over a connection
        self._held: dict[Attempt, _HeldChunk] = {}  # by this node
        self.bytes = 0

    async def put(self, attempt: Attempt, chunk: int, content: Chunk) -> Chunk | None:
        size = len(content.data) + OVERHEAD_BYTES
        if self.bytes + size > self._bytes_max:
            raise StagingFailed(
                FULL, f"this node has staged {self.bytes} bytes; FASTPATH_STAGED_BYTES is {self._bytes_max}"
            )
        if chunk == 0 and len(self._held) >= ATTEMPTS_MAX:
            raise StagingFailed(FULL, f"{ATTEMPTS_MAX} attempts are staged through this node")
        header = msgspec.msgpack.encode((content.rows, content.refused))
        answer = await self._script(
            attempt.key, "put", _member(attempt), chunk, content.rows, header, content.data, self._seconds
        )
        if answer == -1:
            raise StagingFailed(
                GAP, f"chunk {chunk} without the one before it, or behind its commit: stage it all as another attempt"
            )
        if answer:
            rows, refused = _header(answer)
            return Chunk(rows, refused, b"")
        rows, held, since = self._held.get(attempt) or (0, 0, self._clock())
        self._held[attempt] = _HeldChunk(rows + content.rows, held + size, since)
        self.bytes += size
        self.staged_rows += content.rows
        return None

    async def rows(self, attempt: Attempt) -> int | None:
        found, headers = await self._ask(
            ("HGET", self._key(attempt.key, "i"), _member(attempt)),
            ("EXISTS", self._key(attempt.key, f"h:{_member(attempt)}")),
        )
        return int(found) if found is not None and headers else None

    async def chunks(self, attempt: Attempt) -> AsyncIterator[Chunk]:
        headers, data = (self._key(attempt.key, f"{kind}:{_member(attempt)}") for kind in "hd")
        at = 0
        while True:
            last = at + CHUNKS_A_READ - 1
            found = await self._ask(("LRANGE", headers, at, last), ("LRANGE", data, at, last))
            for header, runs in zip(*found, strict=True):
                yield Chunk(*_header(header), runs)
            if len(found[0]) < CHUNKS_A_READ:
                return
            at += CHUNKS_A_READ

    async def record(self, key: str) -> StagingRecord | None:
        (text,) = await self._ask(("GET", self._key(key, "r")))
        return None if text is None else _read(text)

    async def begin(self, key: str, record: StagingRecord) -> StagingRecord:
        """Store the record in Redis and in all replicas that count (redis/writing/replica_acks.py)."""
        named = [
            part
            for partition, attempt, rows in record.winners
            for part in (_member(Attempt(key, record.batch, partition, attempt)), rows)
        ]
        for _ in range(TRIES):
            text = await self._script(key, "begin", record.batch, _text(record), record.time, RECORD_SECONDS, *named)
            if text == -1:
                raise StagingFailed(MISSING, "not all of these rows are staged: stage the batch again")
            await self._barrier(key, record)
            # Had another server become the primary before it had the record, it would not have it now.
            (found,) = await self._ask(("GET", self._key(key, "r")))
            if found == text:
                return _read(text)
        raise StagingFailed(UNAVAILABLE, CHANGED)

    async def finish(self, key: str, record: StagingRecord) -> None:
        # Of one batch only: it is remembered for as long as somebody may ask again.
        seconds = self._seconds if record.once else RECORD_SECONDS
        await self._script(key, "finish", record.batch, _text(record), record.time, seconds, TRANSACTIONS_MAX)
        self._let_go([one for one in self._held if one.key == key and one.batch <= record.batch])

    async def drop(self, key: str, batch: int, partition: int | None, attempt: int | None) -> None:
        wanted = [str(part) for part in (batch, partition, attempt) if part is not None]
        await self._script(key, "drop", ":".join(wanted))
        await self._look([one for one in self._held if one.key == key and one.batch == batch])

    async def records(self, limit: int) -> list[tuple[str, StagingRecord]]:
        listed = self._servers.key("tx")
        (names,) = await self._ask(("ZREVRANGE", listed, 0, limit - 1))
        found = await self._named(names)
        gone = {name.decode() for name in names} - {key for key, _ in found}
        if gone:  # Redis has forgotten them
            await self._ask(("ZREM", listed, *gone))
        return found

    async def unfinished(self) -> list[tuple[str, StagingRecord]]:
        (names,) = await self._ask(("SMEMBERS", self._servers.key("tx:begun")))
        return [(key, record) for key, record in await self._named(sorted(names)) if record.state != DONE]

    async def forget(self, key: str) -> bool:
        known = await self._script(key, "forget")
        self._let_go([one for one in self._held if one.key == key])
        return bool(known)

    def uncommitted(self) -> Generator[None, None, dict[str, Uncommitted]]:
        return summed(self._held.items())

    async def sweep(self, now_ms: int) -> None:
        """Count what Redis has let go of by itself, and what other nodes have committed."""
        del now_ms
        some = list(islice(self._held, LOOKED_AT))
        await self._look(some)
        for one in some:
            if one in self._held:
                self._held[one] = self._held.pop(one)  # others are before it next time

    async def close(self) -> None:
        """End the connection."""
        link, self._link = self._link, None
        if link is not None:
            await link.end()

    # Redis

    async def _barrier(self, key: str, record: StagingRecord) -> None:
        """Return when what was written before is stored safely: as safely as a publication that comes after it."""
        waiting: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()
        message = Message(BARRIER, f"{key} {record.batch}", retained=False, qos=STANDARD)
        message.weigh()

        def stored(outcomes: list[Outcome]) -> None:
            if not waiting.done():
                waiting.set_result(outcomes)

        self._servers.submit([message], self._clock(), stored)
        (outcome,) = await waiting
        if isinstance(outcome, tuple) and isinstance(outcome[0], str):
            raise StagingFailed(UNAVAILABLE, str(outcome[1]))

    async def _named(self, names: Sequence[bytes]) -> list[tuple[str, StagingRecord]]:
        if not names:
            return []
        keys = [name.decode() for name in names]
        (texts,) = await self._ask(("MGET", *(self._key(key, "r") for key in keys)))
        return [(key, _read(text)) for key, text in zip(keys, texts, strict=True) if text is not None]

    async def _look(self, attempts: list[Attempt]) -> None:
        """Let go of the attempts that Redis does not have any more."""
        for start in range(0, len(attempts), 1000):
            some = attempts[start : start + 1000]
            found = await self._ask(*(("EXISTS", self._key(one.key, f"h:{_member(one)}")) for one in some))
            self._let_go([one for one, there in zip(some, found, strict=True) if not there])

    def _let_go(self, attempts: list[Attempt]) -> None:
        for one in attempts:
            held = self._held.pop(one, None)
            if held is not None:
                self.bytes -= held.bytes
                self.staged_rows -= held.rows

    def _key(self, key: str, of: str) -> str:
        return f"{self._prefix(key)}:{of}"

    def _prefix(self, key: str) -> str:
        return self._servers.key(f"tx:{hashlib.sha256(key.encode()).hexdigest()[:32]}")

    async def _script(self, key: str, action: str, *arguments: Any) -> Any:
        keys = (self._prefix(key), self._servers.key("tx"), self._servers.key("tx:begun"))
        command = (3, *keys, action, key, *arguments)
        try:
            (answer,) = await self._ask(("EVALSHA", SHA, *command))
        except NoScriptError:
            (answer,) = await self._ask(("EVAL", SCRIPT, *command))
        return answer

    async def _ask(self, *commands: Sequence[Any]) -> list[Any]:
        """Return the answers of the primary of now; raise NoScriptError, and StagingFailed when there is none."""
        async with self._turn:
            try:
                address = await self._servers.primary()
                link = self._link
                if link is None or link.address != address:
                    await self.close()
                    link = self._link = self._servers.link(address)
                answers = await link.ask(*commands, seconds=ANSWER_SECONDS)
            except AWAY as error:
                raise StagingFailed(UNAVAILABLE, f"Redis is away: {error}") from None
        for answer in answers:
            if isinstance(answer, NoScriptError):
                raise answer
            if isinstance(answer, ResponseError):
                raise StagingFailed(UNAVAILABLE, f"Redis refuses: {answer}")
        return answers


def _member(attempt: Attempt) -> str:
    return f"{attempt.batch}:{attempt.partition}:{attempt.attempt}"


def _text(record: StagingRecord) -> bytes:
    return f"{record.batch} {record.state} ".encode() + record_bytes(record)


def _read(text: bytes) -> StagingRecord:
    return read_record(text.split(b" ", 2)[2])
