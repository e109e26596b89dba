"""What the sidecar counts and measures, read as an operator reads it (docs/operate/figures.md)."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fastpath.client.control.client import Control
from fastpath.client.errors import ControlRefused
from fastpath.client.publisher.transactions import Attempt, Stager
from fastpath.core.protocol.codec import JSON
from fastpath.core.protocol.messages import Message, Subscribe
from fastpath.core.sessions.subscribe_commands import subscribe
from fastpath.core.telemetry.counters import ENDS, FAILURES, REFUSALS
from fastpath.core.telemetry.figures import FIGURES
from fastpath.core.wires.registry import PLAIN
from fastpath.edge.control.publisher_rankings import PublisherRankings
from fastpath.edge.control.rankings import Rankings
from fastpath.edge.runtime.runtime import now
from fastpath.edge.telemetry.figures import Statistics
from fastpath.server.components import make_runtime
from fastpath.settings import Settings
from tests.support.edge.figures import BATCH_MS, SUBJECTS_MAX, Change, control, sidecar
from tests.support.edge.transacting import Transacting, run
from tests.support.edge.wire import Ended, WireClient, WirePublisher
from tests.support.rights import load_rights, rule
from tests.support.sidecar import ROOT, Sidecar
from tests.support.tokens import SECRET, mint
from tests.support.waiting import auntil, until

__all__ = ["control", "sidecar"]

USERS = ("ann", "bob")

_tries = itertools.count()
"""A second try of a test finds the messages of the first one."""


def test_every_delivery_is_measured_whoever_published(sidecar: Sidecar, control: Control) -> None:
    with ExitStack() as stack:
        one, two, three = (stack.enter_context(WireClient(sidecar, form)) for form in (None, "msgpack", None))
        publisher = stack.enter_context(WirePublisher(sidecar))
        for client in (one, two):
            client.subscribe("/latency/one")
        change = Change(control)
        publisher.publish(["/latency/one", "1"], ["/latency/one", "2"])
        control.publish([["/latency/one", "3"]])
        three.ask("publish", "published", subject="/latency/one", content="4", closure="c")
        for client in (one, two):
            assert client.texts(4) == ["1", "2", "3", "4"]
        assert change.of("messages_in", "messages_out") == [4, 8]
        count, seconds = change.of_latencies()
        assert count == 8
        assert seconds > 0


def test_conflation_is_late_on_purpose_and_what_a_listener_collects_counts(sidecar: Sidecar, control: Control) -> None:
    host = sidecar.ready["clients"][1]
    kept, batch = (f"/late/{name}{next(_tries)}" for name in ("conflated", "collected"))
    with (
        WireClient(sidecar) as conflated,
        WireClient(f"ws://{host}/ws") as collected,
        WirePublisher(sidecar) as publisher,
    ):
        conflated.subscribe(kept, conflation=100)
        collected.subscribe(batch)
        change = Change(control)
        publisher.publish([kept, "1"])
        assert conflated.message()[3] == "1"
        assert change.of("messages_out") == [1]
        assert change.of_latencies() == (0, 0)
        publisher.publish([batch, "1"])
        assert collected.message()[3] == "1"
        count, seconds = change.of_latencies()
        assert count == 1
        assert seconds >= BATCH_MS / 1000 - 0.002


def test_disconnections_by_what_ended_the_connection(sidecar: Sidecar, control: Control) -> None:
    change = Change(control)
    with ExitStack() as stack:
        clients = [stage_client(stack, sidecar) for _ in range(4)]
        assert change.of("connects", "disconnects") == [4, 0]
        clients[0].frame(8, b"\x03\xe8")
        with pytest.raises(Ended):
            clients[0].next()
        clients[1].sock.close()
        clients[2].frame(1, b"nonsense")
        clients[2].closed()
        clients[3].frame(8, b"\x0f\xa1bye")  # the code of slow_consumer, said by the client
        with pytest.raises(Ended):
            clients[3].next()
        until(lambda: change.of("disconnects") == [4])
    assert change.by("disconnects", ENDS) == {"by_client": 2, "lost": 1, "bad_message": 1}
    figures = control.stats()
    assert figures["disconnects"] == sum(figures[f"disconnects_{name}"] for name in ENDS)
    assert 'fastpath_disconnects_total{reason="lost"} ' in control.metrics()


def test_who_was_not_let_in_is_counted_apart(sidecar: Sidecar, control: Control) -> None:
    change = Change(control)
    with pytest.raises(AssertionError, match="404"):
        WireClient(sidecar, path="/nowhere")
    assert change.of("connections_refused", "connects", "disconnects") == [1, 0, 0]
    assert change.by("disconnects", ENDS) == {}


def stage_client(stack: ExitStack, sidecar: Sidecar) -> WireClient:
    """A client that has said something."""
    client = stack.enter_context(WireClient(sidecar))
    client.ask("ping", "pong")
    return client


@pytest.mark.slow
def test_slow_clients_and_what_waits_for_them(sidecar: Sidecar, control: Control) -> None:
    subject = f"/slow/{next(_tries)}"
    with WireClient(sidecar, receive_bytes=4096) as slow, WirePublisher(sidecar) as publisher:
        slow.subscribe(subject)
        assert control.stats()["slow_clients"] == 0
        for _ in range(30):
            publisher.publish([subject, "x" * 50_000])

        def sampled() -> dict[str, Any]:
            """The figures of a second; that which ended while it was published has a part of it."""
            figures = control.stats()
            return figures if figures["queued_bytes"] > 100_000 and figures["latency_p50_ms"] else {}

        figures = until(sampled)
        assert figures["slow_clients"] == 1
        assert figures["queued_bytes"] < 1_500_000
        assert figures["latency_p50_ms"] <= figures["latency_p99_ms"]
        assert figures["by_worker"][0]["latency_p99_ms"] == figures["latency_p99_ms"]
        assert until(lambda: (rate := control.publishers()["publishers"][0]["messages_per_s"]) >= 5 and rate) <= 30
        assert slow.texts(30) == ["x" * 50_000] * 30
        figures = until(lambda: not (now := control.stats())["slow_clients"] and now)
        assert figures["queued_bytes"] == 0


def test_how_late_the_loop_was(sidecar: Sidecar, control: Control) -> None:
    os.kill(sidecar.pid, signal.SIGSTOP)
    try:
        time.sleep(0.35)
    finally:
        os.kill(sidecar.pid, signal.SIGCONT)
    lag = until(lambda: (now := control.stats()["loop_lag_ms"]) >= 240 and now)
    assert lag < 5000


def test_the_subjects_with_most_of_each(sidecar: Sidecar, control: Control) -> None:
    with ExitStack() as stack:
        clients = [stage_client(stack, sidecar) for _ in range(3)]
        publisher = stack.enter_context(WirePublisher(sidecar))
        for client in clients:
            client.subscribe("/top/read")
        clients[0].subscribe("/top/often", conflation=500)
        publisher.publish(*[["/top/often", "x"]] * 200, ["/top/large", "x" * 30_000], *[["/top/read", "x"]] * 100)

        def first(by: str, limit: int = 1) -> list[str]:
            return [row["subject"] for row in control.top(by, limit)["subjects"]]

        until(lambda: "/top/often" in first("rate", 5) and "/top/read" in first("rate", 5))
        rows = {row["subject"]: row for row in control.top("rate", 100)["subjects"]}
        often, read = rows["/top/often"], rows["/top/read"]
        assert often["messages_per_s"] == pytest.approx(2 * read["messages_per_s"], abs=0.11)
        assert (often["subscribers"], read["subscribers"]) == (1, 3)
        assert often["deliveries_per_s"] == pytest.approx(min(2, often["messages_per_s"]), abs=0.11)
        assert read["deliveries_per_s"] == pytest.approx(3 * read["messages_per_s"], abs=0.3)
        assert rows["/top/large"]["bytes_per_s"] == pytest.approx(
            30_000 * often["messages_per_s"] / 200, rel=0.05, abs=20
        )
        assert "/top/large" in first("bytes", 2)
        assert first("subscribers") == ["/top/read"]
        assert first("deliveries") == ["/top/read"]
        assert first("subscribers", 100) == ["/top/read", "/top/often"], "nobody reads the others"
        with pytest.raises(ControlRefused, match="by is one of rate, bytes, subscribers, deliveries"):
            control.top("size")
        with pytest.raises(ControlRefused, match="limit is a number from 1 to 100"):
            control.top("rate", 101)


def test_publishers_and_what_they_have_sent(sidecar: Sidecar, control: Control) -> None:
    before = int(time.time() * 1000) - 1
    with WirePublisher(sidecar, publisher="feed-7") as named, WirePublisher(sidecar):
        named.publish(["/refused/1", "x"], ["/refused/1", "x"], ["/nope", "x"])
        answer = until(lambda: (now := control.publishers())["total"] == 2 and now)
        (row,) = (one for one in answer["publishers"] if one["publisher"] == "feed-7")
        assert before <= row.pop("since") <= row.pop("last_ms") <= time.time() * 1000 + 1
        assert re.fullmatch(rf"0\.{sidecar.pid}\.p[0-9]+", row.pop("connection"))
        row.pop("messages_per_s")
        assert row == {
            "publisher": "feed-7", "user": "", "address": "127.0.0.1", "messages": 3, "unacknowledged": 0, "batches": 0,
            "oldest_ms": 0,
        }  # fmt: skip
        assert len(control.publishers(limit=1)["publishers"]) == 1
    until(lambda: control.publishers()["total"] == 0)


def test_who_has_sent_is_known_after_its_connections_are_gone(sidecar: Sidecar, control: Control) -> None:
    """A publisher that reconnects goes on where it was, and so do the tasks of a batch; who only reads is no sender."""
    with WirePublisher(sidecar, publisher="reader"):
        for _ in range(3):
            with WirePublisher(sidecar, publisher="comes-and-goes") as publisher:
                publisher.publish(["/senders/a", "1"], ["/senders/a", "2"])
        rows = msgspec.msgpack.encode([["/senders/b", ("1", "2", "3")]])
        for partition in range(2):
            with Stager(sidecar.publisher_url, None, Attempt("load", 0, partition, 0)) as stager:
                stager.stage(3, rows, None)
                stager.flush()
        senders = {one["name"]: one for one in control.publishers()["senders"]}
        assert "reader" not in senders
        assert (senders["comes-and-goes"]["kind"], senders["comes-and-goes"]["messages"]) == ("publisher", 6)
        assert (senders["load"]["kind"], senders["load"]["messages"]) == ("transaction", 6)
        until(lambda: any(one["messages_per_s"] > 0 for one in control.publishers()["senders"]))


def test_all_senders_are_told_whatever_the_limit_of_connections() -> None:
    """Who adds up nodes needs what each has of everybody."""
    with Sidecar(workers=2) as sidecar, ExitStack() as stack:
        for number in range(30):
            stack.enter_context(WirePublisher(sidecar, publisher=f"p{number}")).publish(["/senders/all", "x"])
        control = stack.enter_context(Control(sidecar.control))
        told = control.publishers(limit=3)
        assert len(told["publishers"]) == 3
        assert sum(one["messages"] for one in told["senders"]) == told["total"] == len(told["senders"]) == 30


def test_senders_of_one_name_are_told_apart_by_their_users() -> None:
    """Each has its own messages, over all connections; a publisher without a name is its user's."""
    with Sidecar(mode="rules", token_secret=SECRET) as sidecar, Control(sidecar.control) as control:
        load_rights(sidecar.control, *(rule(number, f"user:{who}", "/**") for number, who in enumerate(USERS, 1)))
        for count, who in enumerate(USERS, 1):
            for name in ("feed", "feed", ""):
                with WirePublisher(sidecar, mint(who), publisher=name) as publisher:
                    publisher.publish(*[[f"/senders/{who}", "x"]] * count)
        senders = control.publishers()["senders"]
    told = {(one["user"], one["name"]): one["messages"] for one in senders}
    assert told == {("ann", "feed"): 2, ("ann", ""): 1, ("bob", "feed"): 4, ("bob", ""): 2}
    assert len(senders) == len(told)


def test_what_is_staged_and_not_committed_is_told_of_each_transaction(tmp_path: Path) -> None:
    """How many rows, how many bytes, since when; with a journal it is known after a restart, when nobody has sent."""

    def sender() -> dict[str, Any]:
        with Control(sidecar.control) as control:
            found = {one["name"]: one for one in control.publishers()["senders"]}
        return found.get("waits", {"uncommitted": 0, "uncommitted_bytes": 0})

    for data in ("", str(tmp_path / "data")):
        options = {"journal": "batch", "data": data} if data else {}
        with Sidecar(**options) as sidecar:
            with WirePublisher(sidecar) as publisher:
                job = Transacting(publisher, "waits")
                job.stage(1, 0, 1, [run("/uncommitted/rows", "a", "b")])
                job.stage(1, 1, 2, [run("/uncommitted/rows", "c")])
                with Control(sidecar.control) as control:
                    (row,) = control.publishers()["publishers"]
                    assert (row["transaction"], row["messages"]) == ("waits", 3)
            first = sender()
            assert (first["uncommitted"], first["kind"]) == (3, "transaction")
            assert first["uncommitted_bytes"] > 0
            assert until(lambda before=first: sender()["uncommitted_ms"] >= before["uncommitted_ms"] + 100)
        if data:
            with Sidecar(**options) as sidecar:
                again = sender()
                assert (again["uncommitted"], again["messages"]) == (3, 0)
                assert again["uncommitted_ms"] > first["uncommitted_ms"]
                with WirePublisher(sidecar) as publisher:
                    assert Transacting(publisher, "waits").commit(1, (0, 1, 2), (1, 2, 1))[0] == "committed"
                assert (sender()["uncommitted"], sender()["uncommitted_bytes"]) == (0, 0)


def test_publications_that_are_refused_by_code(sidecar: Sidecar, control: Control) -> None:
    change = Change(control)
    with (
        WireClient(sidecar) as client,
        WirePublisher(sidecar) as publisher,
        WirePublisher(sidecar, publisher="numbered") as numbered,
    ):
        for number in (7, 5):
            numbered.publish(["/refused/1", "x", None, {"id": number}])
        publisher.publish(["/nope", "x"], ["/__sys__/x", "x"], ["/refused/large", "x" * 1_100_000], ["/refused/row"])
        client.ask("publish", "published", subject="/refused/one", content="x", qos="best", closure="c")
        client.ask("publish", "published", subject="/nope", content="x", closure="c")
        control.publish([[f"/refused/{n}", "x"] for n in range(SUBJECTS_MAX)])
        control.publish([["/refused/too/many", "x"]])
    found = change.by("publications_refused", REFUSALS)
    assert found == {"invalid": 4, "denied": 1, "too_large": 1, "out_of_order": 1, "failed": 1}  # of subjects
    figures = control.stats()
    assert figures["publications_refused"] == sum(figures[f"publications_refused_{code}"] for code in REFUSALS)
    assert [figures[f"publications_failed_{code}"] for code in FAILURES] == [0, 0]
    assert 'fastpath_publications_refused_total{code="denied"} ' in control.metrics()


async def test_without_statistics_nothing_is_attached_to_the_data_path() -> None:
    for on in (True, False):
        runtime = make_runtime(Settings(mode="none", statistics=on), asyncio.get_running_loop())
        statistics = Statistics(runtime)
        Rankings(runtime, statistics)
        PublisherRankings(runtime, statistics)
        broker = runtime.broker
        assert (runtime.latency is not None) == on
        assert (broker.stopwatch is not None) == on
        assert (broker.batches.released is not None) == on
        assert (broker.sample_at < 1 << 60) == on
        statistics.start()
        statistics.stop()
        assert ("/__sys__/stats" in broker.interest.topics) == on
        figures = statistics.figures()
        assert figures.keys() - {"workers"} == {name for name in figures if name in FIGURES} - {"workers"}
        assert figures["latency_p99_ms"] == 0
        runtime.stop()


class Far:
    """A client whose bytes go nowhere."""

    def write(self, data: bytes) -> None:
        """core.client.Link."""

    def lag(self, data: bytes, sent: int) -> None:
        """core.client.Link."""

    def hold(self, why: int, held: bool) -> None:
        """core.client.Link."""

    def close(self, code: int, reason: str) -> None:
        """core.client.Link."""


async def test_what_comes_together_with_conflation_is_measured_without_it() -> None:
    runtime = make_runtime(Settings(mode="none"), asyncio.get_running_loop())
    assert runtime.latency is not None
    broker, started = runtime.broker, now()
    for conflation in (0, 0, 0, 100, 100):
        client = runtime.sessions.open(Far(), 7, False, PLAIN[JSON], "", "", now())
        subscribe(
            runtime.sessions.wildcards, client, Subscribe(id=1, subjects=["/both/1"], conflation=conflation), now()
        )
    await auntil(lambda: now() // 100 > started // 100 + 1)
    runtime._on_grid()  # who joined is in the feed from now on
    await auntil(lambda: now() // 100 > broker.grid.moment // 100)
    out = broker.counters.messages_out
    broker.publish(None, [Message("/both/1", "x")], now())
    runtime.end()
    runtime._on_grid()
    await auntil(lambda: broker.counters.messages_out == out + 5)
    assert sum(runtime.latency.histogram.counts) == 3
    runtime.stop()


def test_each_figure_is_explained() -> None:
    text = (Path(ROOT) / "docs" / "operate" / "figures.md").read_text()
    missing = [name for name, figure in FIGURES.items() if figure.label is None and f"`{name}`" not in text]
    missing += [one.label[1] for one in FIGURES.values() if one.label and f"`{one.label[1]}`" not in text]
    assert missing == []
