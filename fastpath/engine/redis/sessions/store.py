"""Asks Redis for sessions and writes them there, some at a time, over one connection."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from redis.exceptions import NoScriptError, ResponseError

from ...base import Claimed, SessionChange
from ..connection import AWAY, PrimaryAccess, RedisLink

SCRIPT = (Path(__file__).parent / "script.lua").read_bytes()

BATCH = 100
BATCH_BYTES = 256 << 10
"""The number of questions that are asked at once, and about their size in bytes."""

ANSWER_SECONDS = 2.0
RETRY_SECONDS = 0.25

CLOSE_SECONDS = 5.0
"""Seconds within which what waits is written when the process ends."""

_FAULTS = (*AWAY, ValueError, TypeError, IndexError)

log = logging.getLogger("fastpath.redis")


class _SessionCall(NamedTuple):
    """A call of the script; ``told`` gets its answer, None where there is none."""

    arguments: Sequence[Any]
    told: Callable[[Any], None]
    size: int = 0


class RedisSessions:
    """A SharedSessions; ``alone`` says whether this node goes on without Redis, ``end`` ends a handler."""

    def __init__(self, servers: PrimaryAccess, alone: Callable[[], bool], end: Callable[[], None]) -> None:
        self._servers = servers
        self._alone = alone
        self._end = end
        self._queue: deque[_SessionCall] = deque()
        self._wanted = asyncio.Event()
        self._closing = False
        self._sha: bytes = b""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, and never give up."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def claim(
        self,
        owner: str,
        client_id: str,
        claim: str,
        *,
        fresh: bool,
        seconds: int,
        done: Callable[[Claimed | None], None],
    ) -> None:
        """Have the session from now on; at once, with nothing, if this node goes on alone."""
        if self._alone():
            done(Claimed("", False, []))
            return

        def told(answer: Any) -> None:
            done(_claimed(answer))

        arguments = (self._key(owner, client_id), "claim", claim, seconds, int(fresh), 0)
        self._queue.appendleft(_SessionCall(arguments, told))  # a client waits for it
        self._wanted.set()

    def write(self, changes: list[SessionChange], done: Callable[[list[int | None]], None]) -> None:
        """Write the changes in their order."""
        answers: list[int | None] = []

        def told(answer: Any) -> None:
            answers.append(answer if isinstance(answer, int) else None)
            if len(answers) == len(changes):
                done(answers)

        for one in changes:
            key = self._key(one.owner, one.client_id)
            arguments = (key, one.action, one.claim, one.seconds, one.data, int(one.at_rest))
            self._queue.append(_SessionCall(arguments, told, len(one.data)))
        self._wanted.set()

    async def close(self) -> None:
        """Write what waits, as far as Redis is there."""
        self._closing = True
        self._wanted.set()
        task = self._task
        if task is None:
            return
        await asyncio.wait((task,), timeout=CLOSE_SECONDS)
        while not task.done():  # a cancellation can get lost in the library
            task.cancel()
            await asyncio.wait((task,), timeout=0.2)

    def _key(self, owner: str, client_id: str) -> str:
        return self._servers.key(f"mqtt:{len(owner)}:{owner}:{client_id}")

    async def _run(self) -> None:
        link: RedisLink | None = None
        while not (self._closing and not self._queue):
            await self._wanted.wait()
            self._wanted.clear()
            while self._queue:
                batch = self._next()
                try:
                    link = await self._link(link)
                    answers = await self._ask(link, batch)
                except _FAULTS as error:
                    log.debug("sessions of MQTT cannot be asked for: %s", error)
                    self._answer(batch, [None] * len(batch))
                    if self._closing:
                        self._answer(list(self._queue), [None] * len(self._queue))
                        break
                    await asyncio.sleep(RETRY_SECONDS)
                else:
                    self._answer(batch, answers)
            if self._closing:
                break
        if link is not None:
            await link.close()

    def _next(self) -> list[_SessionCall]:
        batch: list[_SessionCall] = []
        size = 0
        while self._queue and len(batch) < BATCH and (not batch or size + self._queue[0].size <= BATCH_BYTES):
            batch.append(self._queue.popleft())
            size += batch[-1].size
        return batch

    async def _ask(self, link: RedisLink, batch: list[_SessionCall]) -> list[Any]:
        """Return the answers; raise one of ``_FAULTS``."""
        commands = [("EVALSHA", self._sha, 1, *one.arguments) for one in batch]
        answers = await link.ask(*commands, seconds=ANSWER_SECONDS) if self._sha else [NoScriptError()]
        if any(isinstance(answer, NoScriptError) for answer in answers):  # then of all of them
            self._sha = await link.call("SCRIPT", "LOAD", SCRIPT, seconds=ANSWER_SECONDS)
            commands = [("EVALSHA", self._sha, 1, *one.arguments) for one in batch]
            answers = await link.ask(*commands, seconds=ANSWER_SECONDS)
        for answer in answers:
            if isinstance(answer, ResponseError):
                log.debug("Redis refuses a session of MQTT: %s", answer)
        return answers

    def _answer(self, batch: list[_SessionCall], answers: list[Any]) -> None:
        for one, answer in zip(batch, answers, strict=True):
            try:
                one.told(None if isinstance(answer, ResponseError) else answer)
            except Exception:
                log.exception("fault while handling what Redis has of a session of MQTT")
        self._end()

    async def _link(self, link: RedisLink | None) -> RedisLink:
        """Return a connection to the primary of now; raise one of ``AWAY``."""
        address = await self._servers.primary()
        if link is not None and link.address == address:
            return link
        if link is not None:
            await link.close()
        return self._servers.link(address)


def _claimed(answer: Any) -> Claimed | None:
    """Read what a session was before it was claimed."""
    if not isinstance(answer, list):
        return None
    if not answer:
        return Claimed("", False, [])
    head = answer[0].decode(errors="replace")
    return Claimed(head.removeprefix("!"), head.startswith("!"), answer[1:])
