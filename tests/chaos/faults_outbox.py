"""The faults of the outbox: whoever writes to it, sends it or stores what it sends, and their connections, end."""

from __future__ import annotations

import asyncio

from tests.support.waiting import auntil

from .model import Verdict
from .stage import Stage
from .stage_outbox import SENDERS, WRITERS, OutboxStage, all_of, no_postgres
from .table import Fault
from .transactions import STEPS

CUTS = 3
"""How often connections are cut in one injection."""

UNDER_WAY_SECONDS = 5
DEATH_SECONDS = 60
STEPS_MAX = 30
"""A writer dies when it has come to its step so often at most."""


def _on(stage: Stage) -> OutboxStage:
    assert isinstance(stage, OutboxStage)
    return stage


async def _moment(on: OutboxStage) -> None:
    """Half of the times any, else one in which a batch is under way, if one is seen."""
    if on.random.random() < 0.5:
        await asyncio.sleep(on.random.uniform(0, 0.3))
        return
    try:
        await auntil(on.under_way, UNDER_WAY_SECONDS)
    except AssertionError:
        return


async def kill_sender(stage: Stage) -> None:
    """kill -9 of the sender that sends, or of both; and later they are back."""
    on = _on(stage)
    await _moment(on)
    names = [await on.leader()] if on.random.random() < 0.7 else list(SENDERS)
    on.note_injection()
    for name in names:
        await on.kill(name)
    for name in names:
        await on.begin(name)


async def kill_sidecar(stage: Stage) -> None:
    """kill -9 of the node, and a new process, half of the times a while later."""
    on = _on(stage)
    (node,) = on.nodes
    await _moment(on)
    on.note_injection()
    await node.kill()
    if on.random.random() < 0.5:
        await asyncio.sleep(on.random.uniform(0, 2))
    await node.start()


async def kill_writer(stage: Stage) -> None:
    """A writer kills itself at one of the steps of a transaction."""
    on = _on(stage)
    name = on.random.choice(WRITERS)
    await on.kill(name)
    await on.begin(name, die=[on.random.choice(STEPS), on.random.randint(1, STEPS_MAX)])
    process = on.programs[name].process
    await auntil(lambda: process.poll() is not None, DEATH_SECONDS)
    on.note_injection()
    await on.ended(name)
    await on.begin(name)


async def cut_database(stage: Stage) -> None:
    """All connections to PostgreSQL are cut, a few times within moments."""
    on = _on(stage)
    on.note_injection()
    for _ in range(CUTS):
        await _moment(on)
        await on.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


async def all_at_once(stage: Stage) -> None:
    """The sender, the sidecar, a writer and the connections, in any order, none waiting for another."""
    faults = [kill_sender, kill_sidecar, kill_writer, cut_database]
    stage.random.shuffle(faults)
    await all_of(*(fault(stage) for fault in faults))


def everything_came_out(stage: Stage, verdict: Verdict) -> list[str]:
    """Nothing waits any more."""
    del verdict
    return [] if _on(stage).emptied else ["rows wait in the outbox at the end"]


HOLDS = "committed: stored once, in the order of the commits; rolled back: never seen"


def _fault(name: str, what: str, inject: object, *, short: bool = False) -> Fault:
    return Fault(
        name,
        what,
        HOLDS,
        inject,  # type: ignore[arg-type]
        {},
        OutboxStage,
        cap=0,
        well_seconds=60,
        judge=everything_came_out,
        obstacle=no_postgres,
        short=short,
    )


FAULTS = (
    _fault("outbox-killed", "`realtime_outbox` killed, the one that sends or both", kill_sender),
    _fault("outbox-sidecar-killed", "sidecar killed under the outbox", kill_sidecar),
    _fault("outbox-writer-killed", "a writer killed at a step of its transaction", kill_writer),
    _fault("outbox-database-cut", "all connections to the outbox' database cut", cut_database),
    _fault("outbox-all-at-once", "these four faults of the outbox at once", all_at_once, short=True),
)
