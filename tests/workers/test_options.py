"""Options of subjects take force on every worker, for who is there and who comes, and outlive the first one."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from fastpath.client.control.client import Control
from tests.support.edge.calling import HttpPeer, call_bytes
from tests.support.edge.mqtt import LISTEN, mqtt
from tests.support.edge.rules import Rules, rule, ruled
from tests.support.edge.spread import kill_worker, spread
from tests.support.edge.transacting import Transacting, run
from tests.support.edge.wire import WireClient
from tests.support.sidecar import Sidecar
from tests.support.tokens import mint
from tests.support.waiting import until


def row(pattern: str, **values: int | str) -> dict[str, Any]:
    """Options as Django sends them (protocol.md 8.3)."""
    return {"id": 1, "pattern": pattern} | values


def token_of(rules: Rules) -> str:
    """One of alice, who may read everything."""
    return mint("alice", generation=rules.generation)


def interval(client: WireClient, subject: str) -> int:
    """The interval that the server tells without being asked."""
    [result] = client.answer("subscribed")["results"]
    assert result["subject"] == subject
    return int(result.get("conflation", 0))


def cached(client: WireClient, subject: str) -> list[str]:
    """All that is cached where the client is, told by a subscription to its history; it ends again."""
    [result] = client.subscribe(subject, history=1000)
    found = client.texts(result.get("messages", 0))
    client.ask("unsubscribe", "unsubscribed", subjects=[subject])
    return found


def snapshots(client: WireClient) -> list[str]:
    """What somebody who comes gets of two subjects; the subscriptions end again."""
    results = client.subscribe("/o/a", "/o/b")
    found = client.texts(sum(result.get("messages", 0) for result in results))
    client.ask("unsubscribe", "unsubscribed", subjects=["/o/a", "/o/b"])
    return found


@pytest.mark.parametrize("engine", ["memory", "journal"])
def test_a_cache_that_gets_smaller_is_smaller_on_every_worker_and_a_gap_is_told(engine: str, tmp_path: Path) -> None:
    journal = {"journal": "interval", "data": tmp_path / "data"} if engine == "journal" else {}
    with (
        ruled(rule(1, "/o/**"), workers=2, **journal) as rules,
        spread(rules.sidecar, 2, token=token_of(rules)) as clients,
    ):
        rules.publish(*(["/o/a", f"{number}"] for number in range(1, 9)))
        for client in clients.all:
            until(lambda client=client: cached(client, "/o/a") == [str(number) for number in range(1, 9)])
        rules.change(options=[row("/o/**", cache_messages=3)])
        for client in clients.all:
            until(lambda client=client: cached(client, "/o/a") == ["6", "7", "8"])
            epoch = client.subscribe("/o/a")[0]["epoch"]
            client.message()
            [result] = client.subscribe("/o/a", since={"/o/a": [epoch, 5]})
            assert (result["recovery"], client.texts(3)) == ("recovered", ["6", "7", "8"])
            [result] = client.subscribe("/o/a", since={"/o/a": [epoch, 4]})
            assert result["recovery"] == "resynchronised"
        options = rules.control.subject("/o/a")["options"]
        assert options == {
            "cache_messages": 3,
            "cache_ms": 180_000,
            "conflation_ms": 0,
            "retained": True,
            "delivery": "guaranteed",
            "presence": None,
            "publish_rate": 0,
            "patterns": {"cache_messages": "/o/**"},
        }


def test_a_time_that_gets_shorter_empties_the_caches() -> None:
    with (
        ruled(rule(1, "/o/**"), workers=2) as rules,
        spread(rules.sidecar, 2, token=token_of(rules)) as clients,
    ):
        no_snapshot = {"retained": False}
        rules.publish(["/o/a", "x", None, no_snapshot], ["/o/b", "y", None, no_snapshot])
        rules.change(options=[row("/o/a", cache_ms=100)])
        for client in clients.all:
            until(lambda client=client: cached(client, "/o/a") == [])
            until(lambda client=client: cached(client, "/o/b") == ["y"])


def test_a_least_interval_is_told_to_clients_of_every_worker() -> None:
    with (
        ruled(rule(1, "/o/**"), workers=2) as rules,
        spread(rules.sidecar, 2, token=token_of(rules)) as clients,
    ):
        for client in clients.all:
            client.subscribe("/o/a")
        rules.change(options=[row("/o/*", conflation_ms=300)])
        for client in clients.all:
            assert interval(client, "/o/a") == 300
        rules.publish(*(["/o/a", f"{number}"] for number in range(1, 6)))
        for client in clients.all:
            texts = [client.message()[3]]
            while texts[-1] != "5":
                texts.append(client.message()[3])
            # All came in one tick; an interval may have ended just before a worker had its last one.
            assert len(texts) <= 2
        rules.change(options=[])
        for client in clients.all:
            assert interval(client, "/o/a") == 0
        rules.publish(["/o/a", "6"], ["/o/a", "7"])
        for client in clients.all:
            assert client.texts(2) == ["6", "7"]


def test_a_full_set_without_options_ends_them_and_others_are_left_alone() -> None:
    with ruled(rule(1, "/o/**"), workers=1) as rules:
        rules.change(options=[row("/o/**", cache_messages=1)])
        rules.publish(["/o/a", "1"], ["/o/a", "2"])
        rules.change(rule(2, "/other/*"))
        assert rules.control.subject("/o/a")["cached"] == 1
        rules.full(rule(1, "/o/**"))
        until(lambda: not rules.control.subject("/o/a")["options"]["patterns"])
        rules.publish(["/o/a", "3"])
        assert rules.control.subject("/o/a")["cached"] == 2


def test_options_outlive_the_first_worker() -> None:
    with ruled(rule(1, "/o/**"), workers=2) as rules:
        rules.change(options=[row("/o/**", cache_messages=2)])
        with spread(rules.sidecar, 2, token=token_of(rules)) as clients:
            other = clients.others[0]
            assert "sid" in other.subscribe("/o/a")[0]
            kill_worker(rules.sidecar, 0, 2)
            assert other.answer("notice")["code"] == "stale"
            assert other.answer("notice")["code"] == "fresh"
            rules.control.close()
            assert rules.control.hello()["generation"] == rules.generation
            rules.publish(*(["/o/new", f"{number}"] for number in range(1, 6)))
            assert rules.control.subject("/o/new")["cached"] == 2


def test_options_beside_a_journal_count_on_every_worker_before_anybody_says_so(tmp_path: Path) -> None:
    """What is cached beyond the settings is there again on each, and not on the first one alone."""
    texts = [str(number) for number in range(1, 9)]
    journal = {"journal": "interval", "data": tmp_path / "data", "cache_messages": 2}
    more = row("/o/a", cache_messages=8)
    with ruled(rule(1, "/o/**"), workers=2, **journal) as rules:
        rules.change(options=[more])
        rules.publish(*(["/o/a", text] for text in texts))
        rules.sidecar.stop()
        rules.sidecar.start()
        rules.control.close()
        assert rules.control.hello()["generation"] is None
        rules.control.rules_begin(rules.generation)
        rules.control.rules_chunk(rules=[rule(1, "/o/**")], options=[more])
        rules.control.rules_commit(rules.generation)
        with spread(rules.sidecar, 2, token=token_of(rules)) as clients:
            for client in clients.all:
                assert cached(client, "/o/a") == texts


def test_the_sidecar_says_whether_who_brought_the_rights_knows_of_options() -> None:
    """A Django of a version before them leaves the word out; another one then brings them."""
    with ruled(workers=1) as rules:
        rules.publish(["/o/a", "x"])
        told = [rules.control.hello()["options"]]
        for chunk in ({"rules": [rule(1, "/o/**")]}, {"rules": [rule(1, "/o/**")], "options": []}):
            rules.control.rules_begin(7)
            rules.control.call("rules_chunk", chunk)
            rules.control.rules_commit(7)
            told.append(rules.control.hello()["options"])
        for difference in ({}, {"options": None}, {"options": [row("/o/*", cache_messages=1)]}, {"options": None}):
            rules.control.call("rules_diff", {"after": 7, "generation": 7} | difference)
            told.append(rules.control.hello()["options"])
        assert told == [False, False, True, False, False, True, True]
        assert rules.control.subject("/o/a")["options"]["cache_messages"] == 1


def test_without_a_snapshot_nobody_gets_one_on_any_worker_and_who_is_subscribed_goes_on() -> None:
    """What is there goes; where options say otherwise it begins with what comes next."""
    with (
        ruled(rule(1, "/o/**"), workers=2) as rules,
        spread(rules.sidecar, 2, token=token_of(rules)) as clients,
    ):
        rules.publish(["/o/a", "1", {"x": "1"}], ["/o/b", "1"])
        for client in clients.all:
            until(lambda client=client: snapshots(client) == ["1", "1"])
        rules.change(options=[row("/o/**", retained=False), row("/o/b", retained=True)])
        for client in clients.all:
            until(lambda client=client: snapshots(client) == ["1"])
            client.subscribe("/o/a")
        rules.publish(["/o/a", "2", {"y": "2"}])
        for client in clients.all:
            assert client.texts(1) == ["2"]
            client.ask("unsubscribe", "unsubscribed", subjects=["/o/a"])
            assert (snapshots(client), cached(client, "/o/a")) == (["1"], ["1", "2"])
        told = rules.control.snapshot("/o/a", token_of(rules))
        assert (told["status"], told["reason"]) == ("none", "no snapshot of the subject is kept")
        rules.change(options=[])

        def begun(client: WireClient) -> bool:
            """What is published before the change is in force at the client's worker is in no snapshot there."""
            rules.publish(["/o/a", "3"])
            return snapshots(client) == ["3", "1"]

        for client in clients.all:
            until(lambda client=client: begun(client))


def test_what_is_published_is_of_standard_quality_by_whatever_door_it_comes() -> None:
    """Who asked for more is told by its answer: it has no position. Elsewhere each publication is what it asks for."""
    may = [rule(1, "/o/**", action="both"), rule(2, "/o/**", "anonymous", action="both")]
    with (
        ruled(*may, workers=2, listen=LISTEN) as rules,
        spread(rules.sidecar, 2, token=token_of(rules)) as clients,
        rules.publisher() as publisher,
        HttpPeer(rules.sidecar) as caller,
        mqtt(rules.sidecar) as thing,
    ):

        def by_http(subject: str) -> int:
            body = json.dumps({"subject": subject, "content": "x"}).encode()
            caller.send(call_bytes("POST", "/api/publish", body))
            [outcome] = caller.response().json["results"]
            assert outcome["status"] == "ok"
            return int(outcome.get("seq", 0))

        def by_client(client: WireClient, subject: str) -> int:
            answer = client.ask("publish", "published", subject=subject, content="x", closure="c")
            assert answer["status"] == "ok"
            return int(answer.get("seq", 0))

        def numbers(subject: str) -> list[int]:
            """The positions that publications have got, through every door."""
            found = [by_client(client, subject) for client in clients.all]
            found += publisher.publish([subject, "x"], [subject, "y"])
            found += [by_http(subject), *rules.control.publish([[subject, "x"]])["results"]]
            assert thing.publish(subject, "x") == 0
            return found

        rules.change(options=[row("/o/**", delivery="standard"), row("/o/kept/*", delivery="guaranteed")])
        until(lambda: all(by_client(client, "/o/a") == 0 for client in clients.all))
        stands = rules.control.subject("/o/a")["seq"]
        assert numbers("/o/a") == [0] * 6
        assert numbers("/o/new") == [0] * 6
        assert rules.control.subject("/o/a")["seq"] == stands
        assert rules.control.subject("/o/new")["cached"] == 0
        assert numbers("/o/kept/a") == [1, 2, 3, 4, 5, 6]
        until(lambda: rules.control.subject("/o/kept/a")["cached"] == 7)
        rules.change(options=[])
        until(lambda: all(by_client(client, "/o/a") > stands for client in clients.all))


def test_in_another_mode_they_are_the_same_on_every_worker_and_outlive_the_first_one() -> None:
    with Sidecar(mode="none", workers=2) as sidecar, Control(sidecar.control) as control:
        control.rules_begin(3)
        control.rules_chunk(options=[row("/o/**", retained=False, cache_messages=2)])
        control.rules_commit(3)
        with spread(sidecar, 2) as clients:
            for client in clients.all:
                until(lambda client=client: bare(client, control))
            control.rules_diff(3, 4, options=[row("/o/**", retained=False, cache_messages=1)])
            for client in clients.all:
                until(lambda client=client: len(cached(client, "/o/a")) == 1)
            other = clients.others[0]
            kill_worker(sidecar, 0, 2)
            assert other.answer("notice")["code"] == "stale"
            assert other.answer("notice")["code"] == "fresh"
            control.close()
            assert control.hello()["generation"] == 4
            control.publish([["/o/new", "1"], ["/o/new", "2"]])
            assert control.subject("/o/new")["cached"] == 1
            with WireClient(sidecar) as late:
                assert snapshots(late) == []


def bare(client: WireClient, control: Control) -> bool:
    """Whether the client's worker has two messages of a subject and no snapshot, as the options say."""
    control.publish([["/o/a", "x"]])
    return snapshots(client) == [] and cached(client, "/o/a") == ["x", "x"]


RATE = 10
"""Publications a second, of which as many may come at once."""

MORE = 5
"""So many more take half a second."""


def test_whoever_publishes_more_waits_by_whatever_door_and_nothing_is_lost() -> None:
    """What is beyond the rate is taken, and paid for by a pause; a subject that says otherwise is not counted."""
    may = [rule(1, "/o/**", action="both"), rule(2, "/o/**", "anonymous", action="both")]
    with (
        ruled(*may, workers=2, listen=LISTEN) as rules,
        spread(rules.sidecar, 2, token=token_of(rules)) as clients,
        rules.client() as reader,
        rules.publisher() as publisher,
        rules.publisher() as staging,
        HttpPeer(rules.sidecar) as caller,
        mqtt(rules.sidecar) as thing,
    ):
        for client in clients.all:
            client.subscribe("/o/mark")
        free = row("/o/free/*", publish_rate=0)
        rules.change(options=[row("/o/**", publish_rate=RATE), free, row("/o/mark", conflation_ms=100)])
        for client in clients.all:
            assert interval(client, "/o/mark") == 100, "what came with it is in force on the worker"

        def say(client: WireClient, subject: str) -> None:
            assert client.ask("publish", "published", subject=subject, content="x", closure="c")["status"] == "ok"

        def call(*subjects: str) -> None:
            body = json.dumps([{"subject": subject, "content": "x"} for subject in subjects]).encode()
            caller.send(call_bytes("POST", "/api/publish", body))
            assert [one["status"] for one in caller.response().json["results"]] == ["ok"] * len(subjects)

        def waits(publish: Callable[[str], Any], at_once: Callable[[str], Any] | None = None) -> None:
            """More than a second's worth waits; elsewhere nothing is counted."""
            before = rules.control.stats()["limited_publications"]
            for _ in range(3 * RATE):
                publish("/o/free/a")
            if at_once is not None:
                at_once("/o/a")
                publish("/o/free/a")
            else:
                for _ in range(many):
                    publish("/o/a")
            until(lambda: rules.control.stats()["limited_publications"] > before)

        many = RATE + MORE
        transaction, chunks = Transacting(staging, "t"), count()
        for client in clients.all:
            waits(lambda subject, client=client: say(client, subject))
        waits(lambda subject: thing.publish(subject, "x"))
        waits(
            lambda subject: publisher.publish([subject, "x"]),
            lambda subject: publisher.publish(*[[subject, "x"]] * many),
        )
        waits(call, lambda subject: call(*[subject] * many))
        waits(
            lambda subject: transaction.stage(1, 0, 1, [run(subject, "x")], chunk=next(chunks)),
            lambda subject: transaction.stage(1, 0, 1, [run(subject, *["x"] * many)], chunk=next(chunks)),
        )
        [result] = reader.subscribe("/o/a")
        assert result["seq"] == 5 * many


def test_when_options_change_nobody_waits_any_more() -> None:
    """A rate that a batch exceeds by far would hold its publisher for hours."""
    with ruled(rule(1, "/o/**", action="both"), workers=1) as rules, rules.publisher() as publisher:
        rules.change(options=[row("/o/**", publish_rate=1)])
        assert len(publisher.publish(*[["/o/a", "x"]] * 5000)) == 5000
        publisher.packet("ping", 1)
        assert publisher.silent()
        rules.change(options=[])
        assert publisher.next() == ["pong", 1]
