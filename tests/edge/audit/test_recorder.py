"""What is written down of clients, publishers, messages and the cache, by a real sidecar."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fastpath.client.control.client import Control
from tests.support.audit import Written
from tests.support.edge.rules import Rules, rule, ruled
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint
from tests.support.waiting import until

HERE = "127.0.0.1"


@dataclass
class Audited:
    """A sidecar that writes everything down."""

    rights: Rules
    written: Written


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    folder = tmp_path_factory.mktemp("audit") / "made"
    kinds = "access, message, cache, statistics"
    with ruled(rule(1, "/s/**"), audit=kinds, audit_folder=folder, cache_messages=3) as rights:
        yield Audited(rights, Written(folder))
        assert "Traceback" not in rights.sidecar.log
        assert rights.control.stats()["audit_dropped"] == 0


def test_a_client_from_its_connection_to_its_end(audited: Audited) -> None:
    rights, written = audited.rights, audited.written
    token = mint("alice", generation=rights.generation, jti="t1")
    with WireClient(rights.sidecar, path=f"/ws?token={token}", headers="User-Agent: Browser/9\r\n") as client:
        connected = written.find(event="connected", agent="Browser/9")
        assert connected["kind"] == "access"
        assert (connected["user"], connected["address"], connected["worker"]) == ("alice", HERE, 0)
        assert connected["time"].endswith("Z")
        assert len(connected["time"]) == len("2026-11-22T05:00:00.123Z")
        assert connected["expires"] > connected["time"]
        assert connected["token"] == "jti:t1"
        who = {"connection": connected["connection"], "user": "alice", "address": HERE, "node": connected["node"]}
        client.ask("connect", "connected", client="tests/1", token=mint("alice", generation=rights.generation))
        assert written.find(event="introduced", **who)["program"] == "tests/1"
        assert written.find(event="renewed", **who)["before"] == "alice"
        client.subscribe("/s/a", "/t/a", "bad", history=2, conflation=200, slow="conflate")
        subscribed = written.find(event="subscribed", **who)
        wanted = {"subject": "/s/a", "history": 2, "conflation": 200, "slow": "conflate"}
        assert wanted.items() <= subscribed.items()
        client.subscribe("/s/a", since={"/s/a": [1, 7]})
        again = written.find(event="subscribed", recovery="resynchronised", **who)
        assert again["again"]
        denied = written.all(event="denied", **who)
        assert [(one["subject"], one["error"], one["reason"]) for one in denied] == [
            ("/t/a", "denied", "no rule allows it"),
            ("bad", "invalid", "no leading slash"),
        ]
        rights.change(rule(2, "/s/a", allow=False))
        revoked = written.find(event="revoked", **who)
        assert (revoked["subject"], revoked["reason"]) == ("/s/a", "rule 2 denies it")
        rights.change(removed=[2])
        until(lambda: len(written.all(event="subscribed", subject="/s/a", **who)) == 3)
        client.ask("unsubscribe", "unsubscribed", subjects=["/s/a", "/s/unknown"])
        assert written.find(event="unsubscribed", **who)["subject"] == "/s/a"
        client.subscribe("/s/b")
        client.frame(1, b"{")
        client.closed()
    gone = written.find(event="disconnected", **who)
    assert (gone["code"], gone["subscriptions"]) == (4500, 1)
    assert gone["reason"].startswith("bad_message: ")
    assert SECRET not in written.text
    assert token not in written.text
    assert token.rpartition(".")[2] not in written.text


def test_what_a_pattern_finds(audited: Audited) -> None:
    rights, written = audited.rights, audited.written
    rights.publish(["/s/found/x", "1"])
    with rights.client() as client:
        client.subscribe("/s/found/*")
        found = written.find(event="subscribed", subject="/s/found/x")
        assert found["pattern"] == "/s/found/*"


def test_who_is_not_let_in(audited: Audited) -> None:
    rights, written = audited.rights, audited.written
    with WireClient(rights.sidecar, path="/ws?token=no-token-at-all") as client:
        assert client.closed()[0] == 4501
    rejected = written.find(event="rejected", code=4501)
    assert (rejected["address"], rejected["user"]) == (HERE, "")
    assert rejected["reason"].startswith("bad_token: ")
    with pytest.raises(AssertionError, match="404"):
        WireClient(rights.sidecar, path="/elsewhere?token=no-token-at-all")
    assert written.find(event="rejected", status=404)["address"] == HERE
    with WirePublisher(rights.sidecar, hello=False) as publisher:
        publisher.packet("hello", {"token": "no-token-at-all"})
        assert publisher.closed()[0] == 4501
    assert written.find(event="publisher_rejected", code=4501)["address"] == HERE
    assert "no-token-at-all" not in written.text


def test_a_publisher_and_what_is_refused(audited: Audited) -> None:
    rights, written = audited.rights, audited.written
    with WirePublisher(rights.sidecar, mint("pat", generation=rights.generation), publisher="feed") as publisher:
        came = written.find(event="publisher_connected", publisher="feed")
        who = {"connection": came["connection"], "user": "pat", "address": HERE}
        publisher.publish(["/s/a", "not hers"], ["bad", ""], ["/s/a", "", {"": ""}])
        refused = until(lambda: len(found := written.all(event="refused", **who)) == 3 and found)
        assert {(one["subject"], one["error"]) for one in refused} == {
            ("/s/a", "denied"),
            ("bad", "invalid"),
            ("/s/a", "invalid"),
        }
        publisher.packet("nonsense")
        publisher.closed()
    assert written.find(event="publisher_disconnected", **who)["code"] == 4500
    with rights.client() as client:
        assert client.ask("publish", "published", subject="/s/z", content="x", closure="1")["status"] == "denied"
        assert (
            client.ask("publish", "published", subject="/s/y", content="x", closure="1", qos="?")["status"] == "invalid"
        )
    assert written.find(event="refused", subject="/s/z")["user"] == "alice"
    assert written.find(event="refused", subject="/s/y")["error"] == "invalid"


def test_what_is_published(audited: Audited) -> None:
    rights, written = audited.rights, audited.written
    token = mint("root", superuser=True, generation=rights.generation)
    with WirePublisher(rights.sidecar, token, publisher="p") as publisher:
        first, second = publisher.publish(["/s/m", "secret words", {"price": "12"}, {"id": 1}], ["/s/m", "x"])
        publisher.publish(
            ["/s/m", "secret words", {"price": "12"}, {"id": 1}], ["/s/m", "y", None, {"qos": "standard"}]
        )
    events = until(lambda: len(found := written.all(kind="message", subject="/s/m")) == 4 and found)
    assert all((one["event"], one["user"], one["address"]) == ("published", "root", HERE) for one in events)
    assert [one.get("seq", 0) for one in events] == [first, second, first, 0]
    assert [one.get("repeated", False) for one in events] == [False, False, True, False]
    assert [one["bytes"] for one in events] == [19, 1, 19, 1]
    assert events[0]["epoch"] == events[2]["epoch"] > 0
    assert "secret words" not in written.text
    rights.publish(["/s/django", "x"])
    django = written.find(kind="message", subject="/s/django")
    assert (django["connection"], django["user"], django["address"]) == ("django", "django", "")
    with WireClient(rights.sidecar) as client:
        client.ask("connect", "connected", token=token)
        client.ask("publish", "published", subject="/s/by-client", content="x", closure="1")
        client.say("publish", subject="/s/by-client", content="unanswered")
        assert len(until(lambda: len(both := written.all(kind="message", subject="/s/by-client")) == 2 and both)) == 2


def test_the_cache(audited: Audited) -> None:
    rights, written = audited.rights, audited.written
    rights.publish(*(["/s/cache", str(number)] for number in range(5)))
    events = until(lambda: len(found := written.all(kind="cache", subject="/s/cache")) == 7 and found)
    assert [(one["event"], one["seq"]) for one in events if one["event"] == "deleted"] == [
        ("deleted", 1),
        ("deleted", 2),
    ]
    assert {one["cause"] for one in events if one["event"] == "deleted"} == {"count"}
    assert [one["seq"] for one in events if one["event"] == "added"] == [1, 2, 3, 4, 5]
    epoch = events[0]["epoch"]
    with rights.client() as client:
        client.subscribe("/s/cache", history=2)
        read = written.find(event="read", by="history", subject="/s/cache")
        assert (read["messages"], read["user"]) == (2, "alice")
        client.subscribe("/s/cache", since={"/s/cache": [epoch, 4]})
        assert written.find(event="read", by="recovery", subject="/s/cache")["messages"] == 1
        client.subscribe("/s/cache", since={"/s/cache": [epoch, 1]})
        written.find(event="missed", by="recovery", subject="/s/cache")
        client.subscribe("/s/nothing", history=2)
        written.find(event="missed", by="history", subject="/s/nothing")


def test_the_statistics_over_12_windows_are_those_that_the_collector_told(tmp_path: Path) -> None:
    """They are written each minute and at the end, by one worker, and not before there are any."""
    written = Written(tmp_path)
    windows = {"connections": {"1min": {"maximum": 3.0, "average": 2.5, "deviation": None}}}
    with Sidecar(audit="statistics", audit_folder=tmp_path, workers=2) as sidecar:
        written.find(event="figures")
        assert not written.all(event="windows")
        with Control(sidecar.control) as control:
            for told in ({}, windows):
                control.call("figures", {"fields": {}, "content": "{}", "windows": json.dumps(told)})
    events = written.all(event="windows")  # more than one where a minute ended just then
    one = events[-1]
    assert (one["kind"], one["windows"]) == ("statistics", windows)
    assert {event["worker"] for event in events} == {0}
    assert one["told"] <= one["time"]


@pytest.mark.parametrize("kind", ["access", "message"])
def test_each_kind_is_switched_on_by_itself(kind: str, tmp_path: Path) -> None:
    """And what happens at the server's stop is written still."""
    written = Written(tmp_path)
    settings: dict[str, Any] = {"audit": kind, "audit_folder": tmp_path, "audit_content": "on"}
    with Sidecar(**settings) as sidecar, WireClient(sidecar, "msgpack") as client, WirePublisher(sidecar) as publisher:
        client.subscribe("/s/a", history=1)
        client.ask("publish", "published", subject="/s/a", content=b"\xff", closure="1", fields={"a": "b"})
        client.ask("publish", "published", subject="/s/a", content="x" * (16 << 10) + "y", closure="2")
        client.ask("publish", "published", subject="bad", content="", closure="3")
        os.kill(sidecar.pid, signal.SIGTERM)
        client.closed()
        publisher.closed()
    assert {one["kind"] for one in written.all()} == {kind}
    if kind == "message":
        assert [(one.get("content"), one.get("fields"), one["bytes"]) for one in written.all()] == [
            ({"b": "/w=="}, {"a": "b"}, 3),
            (None, None, (16 << 10) + 1),
        ]
    else:
        events = [(one["event"], one.get("code", 0)) for one in written.all()]
        assert events[2:4] == [("subscribed", 0), ("refused", 0)]
        assert set(events[4:]) == {("disconnected", 4000), ("publisher_disconnected", 4000)}


def test_a_folder_that_takes_nothing_harms_nobody(tmp_path: Path) -> None:
    """It is logged once, what is dropped is counted and shown, and told when there is a folder again."""
    folder = tmp_path / "folder"
    folder.write_text("this is a file")
    with Sidecar(audit="access", audit_folder=folder) as sidecar, Control(sidecar.control) as control:
        for expected in range(1, 3):
            with WireClient(sidecar) as client:
                client.subscribe("/s/a")
                until(lambda: control.stats()["audit_dropped"] >= expected)  # noqa: B023
        until(lambda: sidecar.log.count("the audit cannot be written") == 1)
        folder.unlink()
        written = Written(folder)

        def told() -> list[dict[str, Any]]:
            with WireClient(sidecar):
                return written.all(kind="audit", event="dropped") if folder.exists() else []

        [line] = until(told)[:1]
        assert line["dropped"]["access"] >= 3
        assert folder.stat().st_mode & 0o777 == 0o700
        assert [path.stat().st_mode & 0o777 for path in folder.iterdir()] == [0o600]
        until(lambda: "the audit is written again" in sidecar.log)


def test_what_a_token_permits_is_named(tmp_path: Path) -> None:
    """With the pattern, in place of a rule; and why there is none any more."""
    written = Written(tmp_path)
    with ruled(audit="access", audit_folder=tmp_path) as rights, WireClient(rights.sidecar) as client:
        rights.full(rule(1, "/s/**", who="everyone"))
        client.ask("connect", "connected", token=mint("ann", permissions={"sub": ["/orders/42/*"]}))
        for subject in ("/s/a", "/orders/42/a"):
            assert "error" not in client.subscribe(subject)[0]
        assert "reason" not in written.find(event="subscribed", subject="/s/a")
        assert written.find(event="subscribed", subject="/orders/42/a")["reason"] == "the token permits /orders/42/*"
        client.ask("token", "renewed", token=mint("ann"))
        assert written.find(event="revoked", subject="/orders/42/a")["reason"] == "no rule allows it"


def test_a_denial_that_comes_when_the_rights_arrive(tmp_path: Path) -> None:
    written = Written(tmp_path)
    settings: dict[str, Any] = {"audit": "access", "audit_folder": tmp_path, "connections_max": 1}
    with ruled(**settings) as rights, WireClient(rights.sidecar) as client:
        with pytest.raises(AssertionError, match="503"):
            WireClient(rights.sidecar)
        assert written.find(event="rejected")["status"] == 503
        assert client.subscribe("/s/late")[0]["error"] == "not_ready"
        rights.full(rule(1, "/other/**"))
        client.answer("subscribed")
        denied = written.find(event="denied")
        assert (denied["subject"], denied["reason"]) == ("/s/late", "no rule allows it")
        assert len(written.all(event="denied")) == 1
