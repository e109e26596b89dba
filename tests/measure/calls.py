"""How long who asks waits at most: at a node that hangs, at one that is away, and for what nobody answers."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

from fastpath.client.control.client import Control
from fastpath.client.control.nodes import Nodes
from fastpath.client.errors import SidecarUnavailable
from spark.progress import Reports
from tests.engine.redis.test_tail import A, Log, reading
from tests.support.edge.wire import WireClient
from tests.support.engine.redis_load import Load
from tests.support.engine.redis_load import node as writer
from tests.support.redis import RedisServer, Topology
from tests.support.sidecar import Sidecar
from tests.support.waiting import auntil, run, until

from .rows import row

ROW = ["/a/b", "x"]
CALLERS = 6
SECONDS = 1.0
"""What the callers give each call."""
MORE = 0.7
"""What a thread, a processor and a new connection may add."""


@contextmanager
def hung(*sidecars: Sidecar) -> Iterator[None]:
    """They run no further."""
    for one in sidecars:
        os.kill(one.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for one in sidecars:
            os.kill(one.pid, signal.SIGCONT)


def together(call: Callable[[], Any]) -> float:
    """What the slowest of several threads that begin at once waits until it has an answer or none."""
    gate = threading.Barrier(CALLERS)

    def one(_: int) -> float:
        gate.wait()
        began = time.monotonic()
        with suppress(SidecarUnavailable):
            call()
        return time.monotonic() - began

    with ThreadPoolExecutor(CALLERS) as pool:
        return max(pool.map(one, range(CALLERS)))


@row("call-deadline", at_most=SECONDS + MORE)
def call_deadline() -> Iterator[float]:
    """A call of several threads to a node that hangs ends after the second that it was given, whoever else waits."""
    while True:
        with Sidecar() as sidecar, Nodes([sidecar.control], SECONDS) as nodes:
            nodes.hello()
            with hung(sidecar):
                yield together(lambda nodes=nodes: nodes.publish([ROW]))  # type: ignore[misc]


@row("call-deadline-one-connection", at_most=SECONDS + MORE)
def call_deadline_of_a_connection() -> Iterator[float]:
    """So does one of several threads on a single connection."""
    while True:
        with Sidecar() as sidecar, Control(sidecar.control, SECONDS) as control:
            control.hello()
            with hung(sidecar):
                yield together(control.hello)


@row("call-deadline-two-nodes", at_most=2 * SECONDS + MORE)
def call_deadline_of_two_nodes() -> Iterator[float]:
    """Two nodes that hang cost twice the time."""
    while True:
        with (
            Sidecar() as one,
            Sidecar() as other,
            Nodes([one.control, other.control], SECONDS) as nodes,
            hung(one, other),
        ):
            yield together(lambda nodes=nodes: nodes.publish([ROW]))  # type: ignore[misc]


@row("call-next-node", at_most=2 * SECONDS)
def call_next_node() -> Iterator[float]:
    """Where the first of two nodes hangs, the next one answers all before the time is over twice."""
    while True:
        with Sidecar() as one, Sidecar() as other, Nodes([one.control, other.control], SECONDS) as nodes:
            nodes.publish([ROW])
            with hung(one):
                yield together(lambda nodes=nodes: nodes.publish([ROW]))  # type: ignore[misc]


@row("call-refused-at-once", at_most=0.2)
def call_refused() -> Iterator[float]:
    """A node that has not answered just now is not waited for again: the slowest of twenty calls."""
    while True:
        with Sidecar() as sidecar, Nodes([sidecar.control], SECONDS) as nodes, hung(sidecar):
            with suppress(SidecarUnavailable):
                nodes.hello()
            slowest = 0.0
            for _ in range(20):
                began = time.monotonic()
                with suppress(SidecarUnavailable):
                    nodes.publish([ROW])
                slowest = max(slowest, time.monotonic() - began)
            yield slowest


@row("call-after-redis", at_most=1.0)
def call_after_redis() -> Iterator[float]:
    """When Redis is back, nobody waits for what was given up meanwhile."""
    while True:
        with (
            RedisServer() as redis,
            Sidecar(engine=redis.url) as node,
            Nodes([node.control], 0.5) as brief,
            Nodes([node.control]) as other,
        ):
            brief.publish([ROW])
            redis.freeze()
            with suppress(SidecarUnavailable):
                brief.publish([ROW])
            redis.thaw()
            until(lambda nodes=other: isinstance(nodes.publish([ROW])["results"][0], int))  # type: ignore[misc]
            began = time.monotonic()
            brief.publish([ROW])
            yield time.monotonic() - began


@row("request-no-responders", at_most=1.0)
def no_responders() -> Iterator[float]:
    """That nobody answers a request is said at once, though it may wait for a minute: with two nodes of one Redis."""
    with RedisServer() as redis, Sidecar(engine=redis.url) as one, Sidecar(engine=redis.url), WireClient(one) as client:
        while True:
            began = time.monotonic()
            client.ask("request", "response", subject="/nobody/x", content="", timeout=60_000)
            yield time.monotonic() - began


@row("worker-away-answer", at_most=1.8)
def worker_away() -> Iterator[float]:
    """Where one worker of a node hangs, the others' answer comes before Django gives up, which is after two seconds."""
    with Sidecar(workers=2, hang_seconds=60) as sidecar, Control(sidecar.control) as control:
        pid = sidecar.ready["workers"][1]
        os.kill(pid, signal.SIGSTOP)
        try:
            while True:
                began = time.monotonic()
                control.top("subscribers")
                yield time.monotonic() - began
        finally:
            os.kill(pid, signal.SIGCONT)


@row("job-reports", at_most=0.2)
def job_reports() -> Iterator[float]:
    """A job that reports how far it is waits for no node, also for none that is away."""
    with Sidecar() as sidecar:
        while True:
            reports = Reports(f"127.0.0.1:1, {sidecar.publisher_url}")
            began = time.monotonic()
            reports.state("rollup", "running", {"rows": "5"})
            yield time.monotonic() - began
            reports.close()


@row("hung-redis-left", at_most=2.5)
def hung_redis() -> Iterator[float]:
    """A Redis that hangs is no longer read from after two seconds."""

    async def story(server: RedisServer) -> float:
        async with reading(server) as node:
            server.freeze()
            began = time.monotonic()
            try:
                await auntil(lambda: not node.tail.current)
                return time.monotonic() - began
            finally:
                server.thaw()

    while True:
        with RedisServer() as server:
            log = Log(server)
            log.epoch(7)
            log.add(A, "a1")
            yield run(story(server))


@row("hang-told", at_least=2.0, at_most=5.0)
def hang_told() -> Iterator[float]:
    """A worker that hangs for the two seconds that were set is told, and replaced, soon after."""
    while True:
        with Sidecar(workers=2, hang_seconds=2) as sidecar:
            began = time.monotonic()
            os.kill(sidecar.ready["workers"][1], signal.SIGSTOP)
            until(lambda sidecar=sidecar: "worker killed" in sidecar.log)  # type: ignore[misc]
            yield time.monotonic() - began


@row("failover-pause", at_most=20.0)
def failover_pause() -> Iterator[float]:
    """Publications are acknowledged again 20 seconds after the primary was killed, with Sentinels as in operation."""

    async def story(topology: Topology) -> float:
        async with writer(topology.url) as one, writer(topology.url) as other:
            load = Load([one, other])
            await auntil(lambda: len(load.acknowledged) > 1000)
            old = topology.primary
            old.kill()
            await asyncio.to_thread(topology.wait_new_primary, old)
            before = len(load.acknowledged)
            await auntil(lambda: len(load.acknowledged) > before + 2000, 30)
            await load.stop()
            return load.longest_pause()

    while True:
        with Topology() as topology:
            yield run(story(topology), 120)
