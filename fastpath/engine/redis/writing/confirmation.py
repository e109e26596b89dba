"""Finds out what the rule of replica_acks.py asks: who has acknowledged, what replicas and Sentinels say now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from ..address import Address, Names
from ..connection import AWAY, RedisLink, sections
from ..primary import Primary
from .replica_acks import RedisReplica, ReplicaAnswer, objection

PROBE_SECONDS = 0.2
"""Seconds within which a replica that is there says what it is."""

PROBE_SECONDS_MAX = 2.0
"""Seconds until a question without an answer is asked again, over a new connection."""


class Confirmation:
    """Keeps book on the replicas that miss, and asks them and the Sentinels."""

    def __init__(self, primary: Primary, prefix: str) -> None:
        self._primary = primary
        self._meta = f"{prefix}:meta"
        self._loop = asyncio.get_running_loop()
        self._missing: dict[Address, float] = {}
        self._probes: dict[Address, _Probe] = {}
        self._target = 0  # the offset behind the write before the last one

    @property
    def degraded(self) -> bool:
        """True while some replica is missing."""
        return bool(self._missing)

    def short(self, replicas: Iterable[Address]) -> None:
        """Note that replicas are missing, or may be."""
        for address in replicas:
            self._missing.setdefault(address, self._loop.time())

    def complete(self) -> None:
        """Note that all have acknowledged."""
        self._missing.clear()

    def noted(self, replicas: set[Address], written: bytes, offsets: Mapping[Address, int]) -> tuple[set[Address], int]:
        """Keep book after a write, from the server's INFO right behind it and the replicas' offsets after the WAIT: who
        has acknowledged it, and how many may be expected to acknowledge the next one."""
        target = int(sections(written)["master_repl_offset"])
        acknowledged = {address for address in replicas if offsets.get(address, -1) >= target}
        soon = sum(offsets.get(address, -1) >= self._target for address in replicas)
        self._target = target
        for address in replicas:
            if address in acknowledged:
                self._missing.pop(address, None)
            else:
                self._missing.setdefault(address, self._loop.time())
        for address in self._missing.keys() - replicas:
            del self._missing[address]
        return acknowledged, max(1, soon)

    async def objection(self, primary: Address, epoch: int, replicas: set[Address], acknowledged: set[Address]) -> str:
        """Return why the write must not be acknowledged yet; empty when it may."""
        now = self._loop.time()
        probes = [self._probe(address).ask(primary, epoch) for address in replicas]
        found, views = await asyncio.gather(asyncio.gather(*probes), self._primary.ask())
        seen = {
            address: RedisReplica(
                address in acknowledged, one, now - self._missing.get(address, now), self._primary.left(address)
            )
            for address, one in zip(replicas, found, strict=True)
        }
        return objection(primary, seen, views, self._primary.sentinels)

    async def close(self) -> None:
        """End all connections."""
        for probe in self._probes.values():
            await probe.close()

    def _probe(self, address: Address) -> _Probe:
        probe = self._probes.get(address)
        if probe is None:
            link = self._primary.link(address)
            probe = self._probes[address] = _Probe(link, self._primary.names, self._meta)
        return probe


class _Probe:
    """Asks one replica what it is. A question that has not been answered for long enough is an answer at once, so that
    a replica that hangs does not hold up each write."""

    def __init__(self, link: RedisLink, names: Names, meta: str) -> None:
        self._link = link
        self._names = names
        self._meta = meta
        self._task: asyncio.Task[list[object] | None] | None = None
        self._asked = 0.0

    async def ask(self, primary: Address, epoch: int) -> ReplicaAnswer:
        loop = asyncio.get_running_loop()
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._question())
            self._asked = loop.time()
        await asyncio.wait([self._task], timeout=max(0.0, self._asked + PROBE_SECONDS - loop.time()))
        if not self._task.done():
            return ReplicaAnswer.NOTHING
        answer = self._task.result()
        return ReplicaAnswer.NOTHING if answer is None else found(answer, primary, epoch, self._names.one)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=PROBE_SECONDS)
        await self._link.end()

    async def _question(self) -> list[object] | None:
        for _ in range(2):
            fresh = not self._link.connected
            try:
                answer = await self._link.ask(("ROLE",), ("HGET", self._meta, "epoch"), seconds=PROBE_SECONDS_MAX)
                await self._names.learn(follows(answer[0]))
                return answer
            except AWAY:
                if fresh:
                    break
                # Who is promoted closes all connections: only a new one can tell that nobody is there.
        return None


def follows(role: object) -> list[Address]:
    """Return whom a server follows by its answer to ROLE; nobody, if it is a primary or is not ready."""
    return [(role[1].decode(), int(role[2]))] if isinstance(role, list) and role[0] == b"slave" else []


def found(
    answer: list[object], primary: Address, epoch: int, one_of: Callable[[Address], Address] = lambda address: address
) -> ReplicaAnswer:
    """Return what a server is by its answers to ROLE and to the epoch of its data; ``one_of`` gives the primary that it
    names in the one spelling of all."""
    role, stored = answer
    if not isinstance(role, list):
        return ReplicaAnswer.NOTHING  # it is loading its data, or refuses the login
    if role[0] == b"master":
        return ReplicaAnswer.FORMER if isinstance(stored, bytes) and int(stored) < epoch else ReplicaAnswer.RIVAL
    return ReplicaAnswer.OURS if [one_of(address) for address in follows(role)] == [primary] else ReplicaAnswer.OTHER
