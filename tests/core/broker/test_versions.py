"""The version guard: what is older never takes the place of what is newer (protocol.md 4.4)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.core.auth.rule_grants import RuleGrants
from fastpath.core.broker.column_batches import release_runs
from fastpath.core.broker.state_transfer import StateReceiver, whole_part
from fastpath.core.protocol.columns import ColumnBatch
from fastpath.core.protocol.messages import Data, Message, Subscribe
from tests.support.core.rights import SECRET, fill, mint, rule
from tests.support.core.stage import Stage

VERSION = st.none() | st.integers(0, 4)
STEPS = st.lists(
    st.tuples(st.booleans(), st.lists(st.tuples(st.sampled_from(["/v/a", "/v/b"]), VERSION), max_size=5)), max_size=8
)


def as_of(version: int | None) -> Any:
    """What a job would say."""
    return None if version is None else {"version": version, "job": "j"}


def publish(stage: Stage, *rows: tuple[str, int | None]) -> list[Any]:
    """Publish the rows in one step; their outcomes."""
    told: list[Any] = []
    stage.broker.publish(
        None, [Message(subject, "x", as_of=as_of(version)) for subject, version in rows], stage.now, told.extend
    )
    return told


@settings(max_examples=150)
@given(steps=STEPS)
def test_against_a_plain_model(steps: list) -> None:
    """Whatever comes together, as rows or as runs: refused is what has a lower version than came before, and counts."""
    stage = Stage()
    newest: dict[str, int] = {}
    first = 1
    refused = 0
    for as_runs, rows in steps:
        wanted = []
        for subject, version in rows:
            stale = version is not None and version < newest.get(subject, -1)
            wanted.append(stale)
            if version is not None and not stale:
                newest[subject] = version
        if as_runs:
            told: list[Any] = []
            runs = [ColumnBatch(subject, ["x"], None, {"as_of": as_of(version)}) for subject, version in rows]
            release_runs(stage.broker, runs, "p", first, stage.now, told.extend)
            first += len(rows)
        else:
            told = publish(stage, *rows)
        assert [isinstance(one, tuple) and one[0] == "outdated" for one in told] == wanted
        refused += sum(wanted)
    assert stage.broker.counters.refusals.get("outdated", 0) == refused
    found = {topic.subject: topic.version for topic in stage.broker.interest.topics.values() if topic.version >= 0}
    assert found == newest


def test_what_is_outdated_changes_nothing() -> None:
    """No number, no snapshot, nobody is told; the reason names both versions."""
    stage = Stage()
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=["/v/a"]))
    assert publish(stage, ("/v/a", 7), ("/v/a", 6), ("/v/a", 7), ("/v/a", None)) == [
        1,
        ("outdated", "version 6: the subject has version 7 already"),
        2,
        3,
    ]
    stage.end()
    got = [one for one in ann.taken() if isinstance(one, Data)]
    assert [(one.seq, one.meta.as_of) for one in got] == [(1, as_of(7)), (2, as_of(7)), (3, None)]
    assert stage.broker.interest.topics["/v/a"].seq == 3


def test_a_snapshot_says_as_of_when_it_is() -> None:
    """That of its newest message."""
    stage = Stage()
    publish(stage, ("/v/a", 7))
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=["/v/a"]))
    (snapshot,) = [one for one in ann.taken() if isinstance(one, Data)]
    assert (snapshot.meta.kind, snapshot.meta.as_of) == ("snapshot", as_of(7))


def test_rights_are_asked_before_the_version() -> None:
    """Who may not publish is not told what versions there are."""
    grants = RuleGrants(SECRET)
    stage = Stage(grants)
    fill(stage, rule(1, "user:1", "/v/**", action="publish"))
    alice = stage.enter("alice", mint("alice", "1")).client.principal
    publish(stage, ("/v/a", 7))
    told: list[Any] = []
    bob = stage.enter("bob", mint("bob", "2")).client.principal
    for principal in (alice, bob):
        stage.broker.publish(principal, [Message("/v/a", "x", as_of=as_of(3))], stage.now, told.extend)
    assert [one[0] for one in told] == ["outdated", "denied"]


def test_a_copy_of_a_subject_brings_its_version() -> None:
    """To a process that begins anew, and to one that stands elsewhere; where nothing is left of it, it goes."""
    stage, other = Stage(), Stage()
    publish(stage, ("/v/a", 7), ("/v/a", None))
    publish(stage, ("/v/b", 4))
    publish(other, ("/v/b", 9), ("/v/b", 9))
    for subject in ("/v/a", "/v/b"):
        part = whole_part(stage.broker, stage.broker.interest.topics[subject])
        rows = [[getattr(message, name) for name in Message.__struct_fields__] for message in part[1]]
        part[1], part[5] = rows, [*rows[-1]]
        StateReceiver(other.broker).restarted(part)
    topics = other.broker.interest.topics
    assert [topics[subject].version for subject in ("/v/a", "/v/b")] == [7, 4]
    other.broker.reset_topic(topics["/v/a"], 5, 0)
    assert topics["/v/a"].version == -1


@pytest.mark.parametrize("text", ["then", 7, {"time": 3}, {"version": None}])
def test_without_a_version_nothing_is_held_up(text: Any) -> None:
    """Whatever else as_of says."""
    stage = Stage()
    publish(stage, ("/v/a", 7))
    told: list[Any] = []
    stage.broker.publish(None, [Message("/v/a", "x", as_of=text)], stage.now, told.extend)
    assert told == [2]
