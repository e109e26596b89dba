"""The rule of acknowledgements as tables; tests/redis/test_failover.py has it against real servers."""

from __future__ import annotations

import pytest

from fastpath.engine.redis.address import Address
from fastpath.engine.redis.primary import SentinelView, hosts_in, majority, read_view
from fastpath.engine.redis.writing.confirmation import found
from fastpath.engine.redis.writing.replica_acks import RedisReplica, ReplicaAnswer, objection

P, A, B = ("h", 1), ("h", 2), ("h", 3)
ACKNOWLEDGED = RedisReplica(True, ReplicaAnswer.OURS)


def view(
    primary: Address = P,
    *,
    healthy: bool = True,
    down: tuple[Address, ...] = (),
    down_after: float = 3.0,
    unheard: tuple[Address, ...] = (),
) -> SentinelView:
    """What a Sentinel says."""
    replicas = {one: one in down for one in (A, B)}
    return SentinelView(primary, healthy, replicas, down_after, 2, 2, unheard=frozenset(unheard))


def missing(what: ReplicaAnswer, seconds: float = 0.0) -> RedisReplica:
    return RedisReplica(False, what, seconds)


CONTENT = [view(), view(), view()]
B_IS_DOWN = [view(down=(B,)), view(down=(B,)), view()]

SAFE = {
    "all have it": ({A: ACKNOWLEDGED, B: ACKNOWLEDGED}, []),
    "all have it, whatever the Sentinels say": ({A: ACKNOWLEDGED, B: ACKNOWLEDGED}, [view(B)] * 3),
    "one is dead": ({A: ACKNOWLEDGED, B: missing(ReplicaAnswer.NOTHING)}, B_IS_DOWN),
    "one is dead, and a Sentinel with it": ({A: ACKNOWLEDGED, B: missing(ReplicaAnswer.NOTHING)}, B_IS_DOWN[:2]),
    "one is the primary of before": ({A: ACKNOWLEDGED, B: missing(ReplicaAnswer.FORMER)}, CONTENT),
    "one hangs for long": ({A: ACKNOWLEDGED, B: missing(ReplicaAnswer.OURS, 4.0)}, CONTENT),
    "one was the primary a moment ago and hangs": (
        {A: ACKNOWLEDGED, B: RedisReplica(False, ReplicaAnswer.NOTHING, 1.0, left=5.9)},
        [view(unheard=(B,)), view(unheard=(B,)), view()],
    ),
    "one Sentinel errs": ({A: ACKNOWLEDGED, B: missing(ReplicaAnswer.FORMER)}, [view(), view(), view(healthy=False)]),
}

UNSAFE = {
    "nobody has it": ({A: missing(ReplicaAnswer.OURS, 99), B: missing(ReplicaAnswer.OURS, 99)}, CONTENT, "no replica"),
    "nobody is there": ({}, CONTENT, "no replica"),
    "all are dead": (
        {A: missing(ReplicaAnswer.NOTHING, 99), B: missing(ReplicaAnswer.NOTHING, 99)},
        [view(down=(A, B))] * 3,
        "no replica",
    ),
    "one hangs": ({A: ACKNOWLEDGED, B: missing(ReplicaAnswer.OURS, 3.9)}, CONTENT, "missing for 3.9 s of 4 s"),
    "one hangs, a Sentinel is patient": (
        {A: ACKNOWLEDGED, B: missing(ReplicaAnswer.OURS, 5)},
        [view(), view(), view(down_after=9)],
        "missing for 5.0 s of 10 s",
    ),
    "one cannot be reached from here, but from the Sentinels": (
        {A: ACKNOWLEDGED, B: missing(ReplicaAnswer.NOTHING, 99)},
        [view(down=(B,)), view(), view()],
        "1 of 3 Sentinels see it down",
    ),
    "one was the primary a while ago and hangs": (
        {A: ACKNOWLEDGED, B: RedisReplica(False, ReplicaAnswer.NOTHING, 99, left=6.1)},
        [view(unheard=(B,))] * 3,
        "0 of 3 Sentinels see it down",
    ),
    "one was the primary a moment ago, and has been a replica since": (
        {A: ACKNOWLEDGED, B: RedisReplica(False, ReplicaAnswer.NOTHING, 0.1, left=4.0)},
        [view(unheard=(B,)), view(), view()],
        "0 of 3 Sentinels see it down",
    ),
    "one has not been heard of yet, but was no primary": (
        {A: ACKNOWLEDGED, B: missing(ReplicaAnswer.NOTHING, 99)},
        [view(unheard=(B,))] * 3,
        "0 of 3 Sentinels see it down",
    ),
    "one was the primary a moment ago and follows": (
        {A: ACKNOWLEDGED, B: RedisReplica(False, ReplicaAnswer.OURS, 0.5, left=1.0)},
        CONTENT,
        "missing for 0.5 s",
    ),
    "one was promoted": ({A: ACKNOWLEDGED, B: missing(ReplicaAnswer.RIVAL, 99)}, B_IS_DOWN, "h:3 is a primary"),
    "one follows another": ({A: ACKNOWLEDGED, B: missing(ReplicaAnswer.OTHER, 99)}, B_IS_DOWN, "h:3 follows another"),
    "one that has it follows another by now": (
        {A: RedisReplica(True, ReplicaAnswer.OTHER), B: missing(ReplicaAnswer.FORMER)},
        CONTENT,
        "h:2 follows another",
    ),
    "the Sentinels name another": (
        {A: ACKNOWLEDGED, B: missing(ReplicaAnswer.NOTHING, 99)},
        [view(B), view(B), view(down=(B,))],
        "1 of 3 Sentinels call h:1 the primary",
    ),
    "a failover is under way": (
        {A: ACKNOWLEDGED, B: missing(ReplicaAnswer.NOTHING, 99)},
        [view(healthy=False, down=(B,))] * 3,
        "0 of 3 Sentinels",
    ),
    "most Sentinels cannot be reached": (
        {A: ACKNOWLEDGED, B: missing(ReplicaAnswer.NOTHING, 99)},
        [view(down=(B,))],
        "1 of 3 Sentinels",
    ),
    "no Sentinel can be reached": ({A: ACKNOWLEDGED, B: missing(ReplicaAnswer.FORMER)}, [], "0 of 3 Sentinels"),
}


@pytest.mark.parametrize(("replicas", "views"), SAFE.values(), ids=SAFE)
def test_may_be_acknowledged(replicas: dict[Address, RedisReplica], views: list[SentinelView]) -> None:
    assert objection(P, replicas, views, 3) == ""


@pytest.mark.parametrize(("replicas", "views", "why"), UNSAFE.values(), ids=UNSAFE)
def test_must_not_be_acknowledged(replicas: dict[Address, RedisReplica], views: list[SentinelView], why: str) -> None:
    assert why in objection(P, replicas, views, 3)


@pytest.mark.parametrize(
    ("role", "stored", "expected"),
    [
        ([b"slave", b"h", 1, b"connected", 100], b"7", ReplicaAnswer.OURS),
        ([b"slave", b"h", 2, b"connected", 100], b"7", ReplicaAnswer.OTHER),
        ([b"master", 100, []], b"6", ReplicaAnswer.FORMER),
        ([b"master", 100, []], b"7", ReplicaAnswer.RIVAL),
        ([b"master", 100, []], b"8", ReplicaAnswer.RIVAL),
        ([b"master", 100, []], None, ReplicaAnswer.RIVAL),
        (ValueError("LOADING"), ValueError("LOADING"), ReplicaAnswer.NOTHING),
    ],
)
def test_what_a_server_is(role: object, stored: object, expected: ReplicaAnswer) -> None:
    assert found([role, stored], P, 7) is expected


def resolved(address: Address) -> Address:
    """What the names that are used here resolve to; the others do not."""
    return {"redis-a": "h", "h2": "h"}.get(address[0], address[0]), address[1]


@pytest.mark.parametrize(
    ("host", "port", "expected"),
    [
        (b"redis-a", 1, ReplicaAnswer.OURS),
        (b"h", 1, ReplicaAnswer.OURS),
        (b"redis-a", 2, ReplicaAnswer.OTHER),
        (b"unknown", 1, ReplicaAnswer.OTHER),
    ],
)
def test_whom_a_replica_follows_by_name(host: bytes, port: int, expected: ReplicaAnswer) -> None:
    assert found([[b"slave", host, port, b"connected", 100], b"7"], P, 7, resolved) is expected


def test_servers_that_a_sentinel_names() -> None:
    """Each by what its name resolves to, and the one that a replica follows, too."""
    row = REPLICA | {"ip": "h2", "master-host": "redis-a"}
    said = read_view(flat(MASTER | {"ip": "redis-a"}), [flat(row)], 5.0, resolved, resolved)
    assert (said.primary, said.replicas, said.linked) == (P, {A: False}, {A})
    assert hosts_in(flat(MASTER | {"ip": "redis-a"}), [flat(row)]) == [("redis-a", 1), ("h2", 2), ("redis-a", 1)]


@pytest.mark.parametrize(
    ("named", "voters", "expected"),
    [([P, P, A], 3, P), ([P, A, B], 3, None), ([P], 3, None), ([P], 1, P), ([], 3, None), ([P, P, A, A], 4, None)],
)
def test_the_majority_is_of_all_sentinels(named: list[Address], voters: int, expected: Address | None) -> None:
    assert majority(named, voters) == expected


MASTER = {
    "ip": "h",
    "port": "1",
    "flags": "master",
    "down-after-milliseconds": "3000",
    "quorum": "2",
    "num-other-sentinels": "2",
}
REPLICA = {
    "ip": "h",
    "port": "2",
    "flags": "slave",
    "master-host": "h",
    "master-port": "1",
    "master-link-status": "ok",
    "last-ok-ping-reply": "400",
    "info-refresh": "9000",
}


def flat(row: dict[str, str]) -> list[bytes]:
    return [part.encode() for pair in row.items() for part in pair]


@pytest.mark.parametrize(
    ("master", "replica", "healthy", "down", "linked"),
    [
        ({}, {}, True, False, True),
        ({"flags": "master,failover_in_progress"}, {}, False, False, True),
        ({"flags": "s_down,master"}, {}, False, False, True),
        ({}, {"flags": "s_down,slave"}, True, True, False),
        ({}, {"flags": "slave,disconnected"}, True, False, False),
        ({}, {"flags": "slave,disconnected", "last-ok-ping-reply": "2001"}, True, True, False),
        ({}, {"last-ok-ping-reply": "2001"}, True, False, True),
        ({}, {"master-link-status": "err"}, True, False, False),
        ({}, {"master-port": "9"}, True, False, False),
        ({}, {"master-host": "?", "master-port": ""}, True, False, False),
    ],
)
def test_what_a_sentinel_says(
    master: dict[str, str], replica: dict[str, str], healthy: bool, down: bool, linked: bool
) -> None:
    said = read_view(flat(MASTER | master), [flat(REPLICA | replica)], 5.0)
    assert (said.primary, said.healthy, said.replicas, said.down_after) == (P, healthy, {A: down}, 3.0)
    assert said.linked == ({A} if linked else set())


@pytest.mark.parametrize(
    ("refresh", "follows", "unheard"),
    [("0", "?", {A}), ("1795311000000", "?", {A}), ("0", "h", set()), ("500", "?", set()), ("9999999", "h", set())],
)
def test_whom_a_sentinel_has_not_heard_of(refresh: str, follows: str, unheard: set[Address]) -> None:
    row = REPLICA | {"info-refresh": refresh, "master-host": follows}
    assert read_view(flat(MASTER), [flat(row)], 5.0).unheard == unheard


def test_a_sentinel_that_knows_no_primary_says_nothing() -> None:
    with pytest.raises(ValueError, match="No such master"):
        read_view(RuntimeError("No such master with that name"), [], 0)
