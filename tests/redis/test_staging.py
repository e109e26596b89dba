"""Transactions over nodes on one Redis: staged here, committed there, and through the loss of nodes and servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest

from fastpath.client.control.client import Control
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.redis import RedisServer, Topology
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

pytestmark = pytest.mark.redis

_NAMES = count()
HISTORY = {"cache_messages": 100_000}


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    """For stories in which nothing happens to it."""
    with RedisServer() as running:
        yield running


@pytest.fixture(scope="module")
def pair(redis: RedisServer) -> Iterator[tuple[Sidecar, Sidecar]]:
    with Sidecar(engine=redis.url, **HISTORY) as one, Sidecar(engine=redis.url, **HISTORY) as other:
        yield one, other
        assert "Traceback" not in one.log + other.log, one.log + other.log


def name() -> str:
    """Of a transaction, or a part of a subject, that no other test uses."""
    return f"t{next(_NAMES)}"


def ask(publisher: WirePublisher, kind: str, *parts: Any) -> list[Any]:
    """Ask, and return the answer without its number; what tells of progress is left out."""
    publisher.batch += 1
    publisher.packet(kind, publisher.batch, *parts)
    while (answer := publisher.next())[0] == "progress":
        pass
    assert answer[1] == publisher.batch, answer
    return [answer[0], *answer[2:]]


def stage(publisher: WirePublisher, attempt: list[Any], chunk: int, subject: str, contents: list[str]) -> list[Any]:
    """Stage rows of one subject."""
    return ask(publisher, "stage", [*attempt, chunk], len(contents), [[subject, contents]])


def texts(sidecar: Sidecar, subject: str, expected: int) -> list[str]:
    """The contents of all messages that the node has of a subject, once they are so many; in order, without a gap."""

    def read() -> list[str] | None:
        with WireClient(sidecar) as client:
            result = client.ask("subscribe", "subscribed", subjects=[subject], history=100_000)["results"][0]
            if result["seq"] < expected:
                return None
            messages = [client.message() for _ in range(result["seq"])]
            assert [one[1] for one in messages] == list(range(1, len(messages) + 1))
            return [one[3] for one in messages]

    found: list[str] = until(read, 60)
    return found


def numbered(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last)]


def test_what_is_staged_here_is_committed_there(pair: tuple[Sidecar, Sidecar]) -> None:
    one, other = pair
    tx, subject = name(), f"/tx/{name()}"
    with WirePublisher(one) as here, WirePublisher(other) as there:
        assert stage(here, [tx, 7, 0, 1], 0, subject, numbered(0, 50)) == ["staged", 50, []]
        assert stage(there, [tx, 7, 0, 1], 0, subject, numbered(0, 50)) == ["staged", 50, []]  # again: told, not staged
        assert stage(there, [tx, 7, 0, 1], 1, subject, numbered(50, 80)) == ["staged", 30, []]
        assert stage(here, [tx, 7, 0, 1], 5, subject, ["x"])[:2] == ["failed", "gap"]
        assert stage(here, [tx, 7, 1, 2], 0, subject, numbered(80, 90)) == ["staged", 10, []]
        assert stage(here, [tx, 7, 1, 3], 0, subject, ["of an attempt", "that failed"]) == ["staged", 2, []]
        kind, done = ask(there, "commit", tx, 7, [[0, 1, 80], [1, 2, 10]], {})
        assert (kind, done["rows"], done["repeated"]) == ("committed", 90, False)
        for node in pair:
            assert texts(node, subject, 90) == numbered(0, 90)
        # A driver that comes back does it all again, in another order, through the other node.
        assert stage(here, [tx, 7, 0, 9], 0, subject, numbered(0, 90)[::-1]) == ["staged", 90, []]
        kind, done = ask(here, "commit", tx, 7, [[0, 9, 90]], {})
        assert (kind, done["rows"], done["repeated"]) == ("committed", 90, True)
        assert stage(here, [tx, 8, 0, 1], 0, subject, ["next"]) == ["staged", 1, []]
        assert ask(here, "commit", tx, 8, [[0, 1, 1]], {})[1]["rows"] == 1
    for node in pair:
        assert texts(node, subject, 91) == [*numbered(0, 90), "next"]
    with Control(other.control) as control:
        listed = control.call("transactions", {"limit": 5})["transactions"]
    assert any(one["transaction"] == tx and one["batch"] == 8 and one["rows"] == 1 for one in listed), listed


def test_a_refused_row_is_told_again_by_the_other_node(pair: tuple[Sidecar, Sidecar]) -> None:
    tx, subject = name(), f"/tx/{name()}"
    runs = [[subject, ["a"]], ["no subject", ["b", "c"]], [subject, ["d"]]]
    answers = []
    for node in pair:
        with WirePublisher(node) as publisher:
            answers.append(ask(publisher, "stage", [tx, 0, 0, 1, 0], 4, runs))
    assert answers[0] == answers[1]
    assert answers[0][1] == 2 and [one[:2] for one in answers[0][2]] == [[1, "invalid"], [2, "invalid"]]


def test_rows_that_are_dropped_or_unknown_are_missing(pair: tuple[Sidecar, Sidecar]) -> None:
    one, other = pair
    tx, subject = name(), f"/tx/{name()}"
    with WirePublisher(one) as here, WirePublisher(other) as there:
        stage(here, [tx, 0, 0, 1], 0, subject, ["a", "b"])
        assert ask(there, "commit", tx, 0, [[0, 1, 3]], {})[:2] == ["failed", "missing"]
        assert ask(there, "abort", tx, 0, 0, 1) == ["aborted"]
        assert ask(here, "commit", tx, 0, [[0, 1, 2]], {})[:2] == ["failed", "missing"]
        stage(there, [tx, 0, 0, 2], 0, subject, ["c"])
        assert ask(here, "commit", tx, 0, [[0, 2, 1]], {})[1]["rows"] == 1
    assert texts(one, subject, 1) == ["c"]


def test_what_is_staged_goes_with_time_and_counts_until_then(redis: RedisServer) -> None:
    tx = name()
    with Sidecar(engine=redis.url, staged_bytes=1 << 20, staged_seconds=3) as node, WirePublisher(node) as publisher:
        content = "x" * 100_000
        answers = [stage(publisher, [tx, 0, 0, 1], chunk, f"/tx/{tx}", [content])[:2] for chunk in range(12)]
        assert answers.count(["staged", 1]) == 10
        assert answers[-1] == ["failed", "staging_full"]
        with Control(node.control) as control:
            assert control.stats()["staged_rows"] == 10
            until(lambda: control.stats()["staged_bytes"] == 0, 60)
        assert ask(publisher, "commit", tx, 0, [[0, 1, 10]], {})[:2] == ["failed", "missing"]


def test_each_node_tells_what_was_staged_through_it_and_is_not_committed(pair: tuple[Sidecar, Sidecar]) -> None:
    """So that over both nothing is missing and nothing counts twice; what the other one commits goes here, too."""
    tx, subject = name(), f"/tx/{name()}"

    def uncommitted(node: Sidecar) -> tuple[int, int]:
        with Control(node.control) as control:
            senders = {one["name"]: one for one in control.publishers()["senders"]}
        row = senders.get(tx, {"uncommitted": 0, "uncommitted_ms": 0})
        return row["uncommitted"], row["uncommitted_ms"]

    one, other = pair
    with WirePublisher(one) as here, WirePublisher(other) as there:
        stage(here, [tx, 0, 0, 1], 0, subject, ["a", "b"])
        stage(there, [tx, 0, 1, 2], 0, subject, ["c"])
        assert (uncommitted(one)[0], uncommitted(other)[0]) == (2, 1)
        until(lambda: uncommitted(one)[1] > 100)
        assert ask(there, "commit", tx, 0, [[0, 1, 2], [1, 2, 1]], {})[1]["rows"] == 3
        assert uncommitted(other) == (0, 0)
        until(lambda: uncommitted(one) == (0, 0))


def test_what_has_no_answer_is_summed_over_the_connections_of_a_sender(redis: RedisServer) -> None:
    """Rows that Redis has not taken yet: of a publisher and of a transaction, with the age of the oldest."""
    tx, feed = name(), name()
    with Sidecar(engine=redis.url) as node, Control(node.control) as control, ExitStack() as stack:

        def waits(kind: str) -> dict[str, Any]:
            return next(one for one in control.publishers()["senders"] if one["kind"] == kind)

        feeds = [stack.enter_context(WirePublisher(node, publisher=feed)) for _ in range(2)]
        jobs = [stack.enter_context(WirePublisher(node)) for _ in range(2)]
        for publisher in feeds:
            publisher.publish(["/lag/known", "0"])
        stage(jobs[0], [tx, 0, 0, 1], 0, "/lag/staged", ["a"])
        redis.freeze()
        try:
            for partition, job in enumerate(jobs):
                job.packet("stage", job.batch + 1, [tx, 1, partition, 1, 0], 2, [["/lag/staged", ["a", "b"]]])
            for publisher in feeds:
                publisher.packet("batch", publisher.batch + 1, [["/lag/known", "1"]] * 3)
            for kind, expected in (("transaction", 4), ("publisher", 6)):
                until(lambda kind=kind, expected=expected: waits(kind)["unacknowledged"] == expected)
                until(lambda kind=kind: waits(kind)["oldest_ms"] > 100)
            rows = [one for one in control.publishers()["publishers"] if one.get("transaction") == tx]
            assert [(one["unacknowledged"], one["batches"]) for one in rows] == [(2, 1), (2, 1)]
        finally:
            redis.thaw()
        for kind in ("transaction", "publisher"):
            until(lambda kind=kind: (waits(kind)["unacknowledged"], waits(kind)["oldest_ms"]) == (0, 0), 30)


@pytest.mark.slow
def test_a_node_dies_in_the_middle_of_a_commit(redis: RedisServer) -> None:
    chunks, size = 30, 2000
    tx, subject = name(), f"/tx/{name()}"
    with ExitStack() as stack:
        one = stack.enter_context(Sidecar(engine=redis.url, **HISTORY))
        other = stack.enter_context(Sidecar(engine=redis.url, **HISTORY))
        there = stack.enter_context(WirePublisher(other))
        with WirePublisher(one) as here:
            for chunk in range(chunks):
                stage(here, [tx, 3, 0, 1], chunk, f"{subject}/{chunk}", numbered(0, size))
            here.packet("commit", here.batch + 1, tx, 3, [[0, 1, chunks * size]], {})

            def some() -> bool:
                with Control(other.control) as control:
                    return int(control.stats()["messages_in"]) > 1000

            until(some, 60)
            one.kill()
        # The driver died with it: the next one stages the batch anew, in another order, under other attempts.
        for chunk in range(chunks):
            stage(there, [tx, 3, 0, 77], chunk, f"{subject}/{chunks - 1 - chunk}", numbered(0, size)[::-1])
        kind, done = ask(there, "commit", tx, 3, [[0, 77, chunks * size]], {})
        assert (kind, done["rows"]) == ("committed", chunks * size)
        for chunk in range(chunks):
            assert texts(other, f"{subject}/{chunk}", size) == numbered(0, size)


@pytest.mark.slow
def test_commits_go_on_through_the_loss_of_the_primary() -> None:
    batches, size = 60, 40
    tx, subject = name(), f"/tx/{name()}"
    with ExitStack() as stack:
        topology = stack.enter_context(Topology(quick=True))
        node = stack.enter_context(Sidecar(engine=topology.url, **HISTORY))
        publisher = stack.enter_context(WirePublisher(node))
        attempts = count(1)

        def write(batch: int) -> bool:
            """As Spark does: anew from the beginning until the batch is committed."""
            attempt = next(attempts)
            contents = numbered(batch * size, batch * size + size)
            if stage(publisher, [tx, batch, 0, attempt], 0, subject, contents)[0] != "staged":
                return False
            answer = ask(publisher, "commit", tx, batch, [[0, attempt, size]], {})
            if answer[0] == "failed":
                assert answer[1] in {"missing", "unavailable", "busy"}, answer
            return answer[0] == "committed"

        for batch in range(batches):
            if batch == batches // 3:
                topology.servers[0].kill()
            until(lambda batch=batch: write(batch), 60)  # type: ignore[misc]
        assert texts(node, subject, batches * size) == numbered(0, batches * size)
