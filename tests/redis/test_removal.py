"""A subject that is removed through one node, as clients of the others see it."""

from __future__ import annotations

import pytest
import redis

from fastpath.client.control.client import Control
from fastpath.engine.redis.entries import group_of, snapshots_key
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.redis import RedisServer
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

pytestmark = pytest.mark.redis

A, B = "/orders/1", "/orders/2"
REMOVED = {"removed": True}


def test_every_node_has_nothing_of_it_also_one_that_comes_later() -> None:
    """Its subscribers are told once; who was away is told by whichever node it comes to; in Redis no field is left."""
    with RedisServer() as server:
        settings = {"engine": server.url, "redis_prefix": "r"}
        with Sidecar(**settings) as one, Sidecar(**settings) as other:
            with WireClient(other) as near, WirePublisher(one) as publisher, WirePublisher(other) as elsewhere:
                publisher.publish([A, "1", {"a": "1", "b": "1"}], [B, "1", {"a": "1"}])
                until(lambda: all(_seq(node, subject) == 1 for node in (one, other) for subject in (A, B)))
                of_a, of_b = near.subscribe(A, B)
                assert [near.message()[4] for _ in range(2)] == [{"a": "1", "b": "1"}, {"a": "1"}]
                assert publisher.publish([A, "", None, REMOVED], [B, "", None, REMOVED]) == [2, 2]
                assert elsewhere.publish([B, "2", {"z": "2"}]) == [3]
                got = [near.message() for _ in range(3)]
                assert [row[3:] for row in got if row[0] == of_a["sid"]] == [["", None, REMOVED]]
                assert [row[3:] for row in got if row[0] == of_b["sid"]] == [["", None, REMOVED], ["2", {"z": "2"}]]
                assert near.quiet()
            for node in (one, other):
                until(lambda node=node: (_seq(node, A), _seq(node, B)) == (2, 3))
                _nothing_of_a(node, of_a["epoch"])
            with Sidecar(**settings) as late:
                _nothing_of_a(late, of_a["epoch"])
        assert _fields(server, A) == [b"/orders/1", b"/orders/1\0"]
        assert _fields(server, B) == [b"/orders/2", b"/orders/2\0", b"/orders/2\0z"]


def _fields(server: RedisServer, subject: str) -> list[bytes]:
    """What Redis has of the subject's snapshot, by name."""
    with redis.Redis("127.0.0.1", port=server.port, protocol=2) as client:
        names = client.hkeys(snapshots_key("r", group_of(subject)))
    return sorted(name for name in names if name.startswith(subject.encode()))


def _seq(node: Sidecar, subject: str) -> int:
    with Control(node.control) as control:
        rows = control.subjects(prefix=subject)["subjects"]
    return rows[0][1] if rows else 0


def _nothing_of_a(node: Sidecar, epoch: int) -> None:
    with Control(node.control) as control:
        assert control.snapshot(A)["status"] == "none"
    with WireClient(node) as fresh, WireClient(node) as back, WireClient(node) as lost:
        assert [one.get("messages", 0) for one in fresh.subscribe(A, B)] == [0, 1]
        assert fresh.message()[3:5] == ["2", {"z": "2"}]
        back.subscribe(A, since={A: [epoch, 1]})
        assert back.message()[3:] == ["", None, {"kind": "recovered", "removed": True}]
        lost.subscribe(A, since={A: [epoch - 1, 1]})
        assert lost.message()[3:] == ["", None, {"kind": "snapshot", "removed": True}]
