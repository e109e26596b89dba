"""The faults of Redis, its Sentinels, and of those who must live through them."""

from __future__ import annotations

import asyncio
from typing import Any

from .faults_network import elsewhere, kill_publisher
from .faults_node import kill_worker
from .model import MAYBE, Answered, Moved, Told, Verdict
from .stage import SUBJECTS, Stage
from .stage_redis import DOWN_AFTER_MS, RedisStage
from .table import Fault
from .watcher import now_ms

PAUSE_MS = 8000
REPLICA_PAUSE_MS = DOWN_AFTER_MS + 2500
NEW_PRIMARY_SECONDS = 30


def _on(stage: Stage) -> RedisStage:
    assert isinstance(stage, RedisStage)
    return stage


async def kill_primary(stage: Stage) -> None:
    """kill -9 of the primary; it comes back when another has taken its place."""
    on = _on(stage)
    old = await on.primary()
    on.note_injection()
    await on.in_thread(old.kill)
    await on.in_thread(on.topology.wait_new_primary, old)
    await on.acknowledged(NEW_PRIMARY_SECONDS)
    await on.in_thread(old.start)
    await on.settled()


async def freeze_primary(stage: Stage) -> None:
    """SIGSTOP, and SIGCONT when another has taken its place."""
    on = _on(stage)
    old = await on.primary()
    on.note_injection()
    old.freeze()
    try:
        await on.in_thread(on.topology.wait_new_primary, old)
        await on.acknowledged(NEW_PRIMARY_SECONDS)
    finally:
        old.thaw()
    await on.settled()


async def fail_over(stage: Stage) -> None:
    """SENTINEL FAILOVER."""
    on = _on(stage)
    old = await on.primary()
    on.note_injection()
    await on.in_thread(on.topology.failover)
    await on.in_thread(on.topology.wait_new_primary, old)
    await on.acknowledged(NEW_PRIMARY_SECONDS)
    await on.settled()


async def kill_two_in_a_row(stage: Stage) -> None:
    """The primary, and its successor once the first is back as a replica."""
    for _ in range(2):
        await kill_primary(stage)


async def restart_primary(stage: Stage) -> None:
    """kill -9, and at once the same server with its append-only file."""
    on = _on(stage)
    old = await on.primary()
    on.note_injection()
    await on.in_thread(old.restart)
    await on.acknowledged(NEW_PRIMARY_SECONDS)
    await on.settled()


async def kill_two_boxes(stage: Stage) -> None:
    """Two of five boxes, each a Redis and a Sentinel; half of the times the primary's is one of them."""
    on = _on(stage)
    primary = await on.primary()
    boxes = list(zip(on.topology.servers, on.topology.sentinels, strict=True))
    dead = on.random.sample(boxes, 2)
    if on.random.random() < 0.5:
        own = next(box for box in boxes if box[0] is primary)
        dead = [own, on.random.choice([box for box in boxes if box is not own])]
    on.note_injection()
    for server, sentinel in dead:
        await on.in_thread(server.kill)
        await on.in_thread(sentinel.kill)
    await on.acknowledged(NEW_PRIMARY_SECONDS)
    for server, sentinel in dead:
        await on.in_thread(server.start)
        await on.in_thread(sentinel.start)
    await on.settled()


async def kill_replica(stage: Stage) -> None:
    """kill -9 of one of two replicas, and a while later it is back."""
    on = _on(stage)
    (replica, *_) = on.random.sample(await on.in_thread(lambda: on.topology.replicas), 1)
    on.note_injection()
    await on.in_thread(replica.kill)
    await on.acknowledged(NEW_PRIMARY_SECONDS)
    await asyncio.sleep(on.random.uniform(0, 2))
    await on.in_thread(replica.start)
    await on.settled()


async def freeze_replica(stage: Stage) -> None:
    """SIGSTOP of one of two replicas, and a while later SIGCONT."""
    on = _on(stage)
    (replica, *_) = on.random.sample(await on.in_thread(lambda: on.topology.replicas), 1)
    on.note_injection()
    replica.freeze()
    try:
        await on.acknowledged(NEW_PRIMARY_SECONDS)
        await asyncio.sleep(on.random.uniform(0, 2))
    finally:
        replica.thaw()
    await on.settled()


class NoReplicas:
    """Both replicas are gone: nothing is safe, so nothing is acknowledged."""

    def __init__(self) -> None:
        self.spans: list[tuple[int, int]] = []

    async def inject(self, stage: Stage) -> None:
        """Both are killed, and come back when the publishers have been told."""
        on = _on(stage)
        replicas = await on.in_thread(lambda: on.topology.replicas)
        on.note_injection()
        for replica in replicas:
            await on.in_thread(replica.kill)
        begin = now_ms()
        held = sum(pusher.held for pusher in on.pushers)
        await on.until(lambda: sum(pusher.held for pusher in on.pushers) > held, 20)
        await on.read()
        self.spans.append((begin, now_ms()))
        for replica in replicas:
            await on.in_thread(replica.start)
        await on.acknowledged(NEW_PRIMARY_SECONDS)
        await on.settled()

    def judge(self, stage: Stage, verdict: Verdict) -> list[str]:
        """What is published between the end of the second replica and the return of the first is not acknowledged then.

        What went out before may be: it was on a replica, and its acknowledgement on the way.
        """
        del verdict
        spans, self.spans = self.spans, []
        sent = [one for pusher in stage.pushers for one in pusher.publications.values()]
        wrong = [
            one.acked_ms - begin for one in sent for begin, end in spans if begin < one.sent_ms < one.acked_ms < end
        ]
        return [f"sent and acknowledged {wrong[:5]} ms after both replicas were gone"] if wrong else []


class MemoryFull:
    """The primary's memory is at its bound."""

    async def inject(self, stage: Stage) -> None:
        """Less memory than is in use, until publications were refused for a second."""
        on = _on(stage)
        primary = await on.primary()
        before = _refused(stage)
        on.note_injection()
        for server in on.topology.servers:
            await on.in_thread(server.call, "CONFIG", "SET", "maxmemory", "1mb")
        await on.until(lambda: _refused(stage) > before, 20)
        await on.read()
        await asyncio.sleep(on.random.uniform(0, 1))
        for server in on.topology.servers:
            await on.in_thread(server.call, "CONFIG", "SET", "maxmemory", "512mb")
        del primary
        await on.acknowledged(NEW_PRIMARY_SECONDS)


def _refused(stage: Stage) -> int:
    return sum(pusher.held + pusher.refused for pusher in stage.pushers)


async def empty_all(stage: Stage) -> None:
    """Every Redis is killed, and restarted without its data."""
    on = _on(stage)
    on.note_injection()
    for server in on.topology.servers:
        await on.in_thread(server.kill)
    for server in on.topology.servers:
        await on.in_thread(lambda server=server: server.restart(empty=True))
    await on.acknowledged(60)
    await on.settled()


async def kill_any_worker(stage: Stage) -> None:
    """kill -9 of one of a node's two workers."""
    await kill_worker(stage.random.randrange(2))(stage)


async def kill_node(stage: Stage) -> None:
    """kill -9 of a node; clients and publishers go to the other one, and later the node is back."""
    node = stage.random.choice(stage.nodes)
    stage.note_injection()
    await node.kill()
    await asyncio.sleep(stage.random.uniform(0, 2))
    await node.start()


def everyone_told(stage: Stage, verdict: Verdict) -> list[str]:
    """Each client, of each subject, at least once an injection."""
    del verdict
    missing = []
    for client in stage.clients:
        if client.trace.sessions:
            continue  # MQTT has no way to say it to who stays connected
        told = dict.fromkeys(SUBJECTS, 0)
        for event in client.trace.events:
            if (
                isinstance(event, Moved)
                or (isinstance(event, Told) and event.name == "resynchronised")
                or (isinstance(event, Answered) and event.recovery == "resynchronised")
            ):
                told[event.subject] += 1
        missing += [f"{client.trace.name} was not told of {one}" for one, n in told.items() if not n]
    return missing


def _fault(name: str, what: str, holds: str, inject: Any, **options: Any) -> Fault:
    options.setdefault("well_seconds", 40)
    return Fault(name, what, holds, inject, options.pop("stage", {}), RedisStage, **options)


PHANTOMS = 20
"""Subjects that one client may be told of: the end that was delivered, not acknowledged, and is gone."""

LIVES = "acknowledged: 0 lost; pause p95 ≤ 8 s; no subscriber disconnected"
_NO_REPLICAS = NoReplicas()

FAULTS = (
    _fault("redis-primary-killed", "Redis primary killed", LIVES, kill_primary, pause_ms=PAUSE_MS, cap=PHANTOMS),
    _fault(
        "redis-primary-frozen",
        "Redis primary stopped (SIGSTOP), later revived",
        LIVES,
        freeze_primary,
        pause_ms=PAUSE_MS,
        cap=PHANTOMS,
    ),
    _fault("redis-failover", "planned `SENTINEL FAILOVER`", LIVES, fail_over, pause_ms=PAUSE_MS, cap=5 * PHANTOMS),
    _fault(
        "redis-two-in-a-row",
        "two primaries killed, the second once the first is back as a replica",
        LIVES,
        kill_two_in_a_row,
        pause_ms=PAUSE_MS,
        cap=PHANTOMS,
    ),
    _fault(
        "redis-primary-restarted",
        "Redis primary killed, restarted with its append-only file",
        LIVES,
        restart_primary,
        pause_ms=PAUSE_MS,
        cap=PHANTOMS,
    ),
    _fault(
        "redis-two-of-five",
        "five Redis and five Sentinels, any two boxes killed at once",
        "acknowledged: 0 lost; acknowledgements resume",
        kill_two_boxes,
        stage={"redis": 5},
        cap=PHANTOMS,
        well_seconds=60,
    ),
    _fault(
        "redis-replica-killed",
        "one replica killed",
        f"pause ≤ {REPLICA_PAUSE_MS / 1000:g} s",
        kill_replica,
        pause_ms=REPLICA_PAUSE_MS,
    ),
    _fault(
        "redis-replica-frozen",
        "one replica hung",
        f"pause ≤ {REPLICA_PAUSE_MS / 1000:g} s",
        freeze_replica,
        pause_ms=REPLICA_PAUSE_MS,
    ),
    _fault(
        "redis-no-replicas",
        "both replicas gone",
        "no acknowledgement, publishers told; reads and recovery go on",
        _NO_REPLICAS.inject,
        judge=_NO_REPLICAS.judge,
    ),
    _fault(
        "redis-memory-full",
        "Redis memory full",
        "whole batches refused, with the reason; reads go on",
        MemoryFull().inject,
    ),
    _fault(
        "redis-node-killed",
        "one of two nodes killed",
        "acknowledged: 0 lost; clients recover exactly at the other one",
        kill_node,
        stage={"steady": ""},
        pause_ms=PAUSE_MS,
    ),
    _fault(
        "redis-worker-killed",
        "one of two workers of a node killed",
        "acknowledged: 0 lost; clients recover exactly",
        kill_any_worker,
        stage={"steady": "", "workers": 2},
        sessions=MAYBE,
        pause_ms=PAUSE_MS,
    ),
    _fault(
        "redis-client-elsewhere",
        "client cut again and again, each time with another node",
        "exactly the missed messages, in order",
        elsewhere,
        stage={"steady": "reference", "proxied": True},
    ),
    _fault(
        "redis-publisher-killed",
        "publisher killed before the acknowledgement; retries at another node",
        "stored once",
        kill_publisher,
    ),
    _fault(
        "redis-emptied",
        "all Redis restarted empty",
        "a new epoch; everyone resynchronised",
        empty_all,
        cap=None,
        forgets=True,
        judge=everyone_told,
    ),
)
