"""What Redis has of subjects takes the place of what a broker holds, but for snapshots that are not kept here."""

from __future__ import annotations

import asyncio

import pytest

from fastpath.core.cache.snapshot import Snapshot
from fastpath.core.protocol.messages import Message
from fastpath.core.protocol.options import OptionRow
from fastpath.engine.redis.state import begin, resynchronise
from tests.support.core.stage import START, Stage

KEPT, NOT_KEPT, STANDARD_ONLY = "/a/kept", "/a/none", "/a/none/standard"


@pytest.fixture
def stage() -> Stage:
    """One whose options leave out the snapshots of some subjects."""
    stage = Stage()
    stage.sessions.rights.options.replace(
        [OptionRow(1, "/a/none", retained=False), OptionRow(2, "/a/none/*", retained=False)]
    )
    return stage


def of_redis() -> dict[str, Snapshot]:
    """The snapshots as they are kept there: it knows nothing of options."""
    return {subject: Snapshot(Message(subject, "2", time=START)) for subject in (KEPT, NOT_KEPT, STANDARD_ONLY)}


def contents(stage: Stage) -> dict[str, str | None]:
    """What the snapshots say here."""
    topics = stage.broker.interest.topics.values()
    return {topic.subject: topic.snapshot and str(topic.snapshot.newest.content) for topic in topics}


def test_a_broker_begins_with_those_alone_that_are_kept(stage: Stage) -> None:
    asyncio.run(begin(stage.broker, {KEPT: (START, 2), NOT_KEPT: (START, 2)}, of_redis()))
    assert contents(stage) == {KEPT: "2", NOT_KEPT: None, STANDARD_ONLY: None}


@pytest.mark.parametrize("seq", [1, 2])
def test_so_it_is_when_it_is_brought_to_where_redis_stands(stage: Stage, seq: int) -> None:
    """Be it behind, or right there: a snapshot that is not kept is no difference."""
    for subject in (KEPT, NOT_KEPT):
        for number in range(seq):
            stage.publish(subject, str(number + 1))
    positions = {KEPT: (START, 2), NOT_KEPT: (START, 2)}
    restarted = asyncio.run(resynchronise(stage.broker, 0, START, positions, of_redis(), None, unknown=False))
    assert restarted == (2 if seq == 1 else 0)
    assert contents(stage) == {KEPT: "2", NOT_KEPT: None, STANDARD_ONLY: None}
