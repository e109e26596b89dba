"""What the audit's files tell: who could read what and when, rules that nobody uses, and what is unusual."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fastpath.client.blocking import connect
from fastpath.client.publisher.publisher import Publisher
from spark.jobs import audit, audit_files
from spark.jobs.running import JobError, parse
from spark.support.rules import InvalidRules, Rule, Uses, load, load_members
from tests.support.audit import Written
from tests.support.sidecar import Sidecar
from tests.support.spark.interpreted import interpreted  # noqa: F401 - of all tests here
from tests.support.tokens import SECRET, mint_jwt

pytestmark = pytest.mark.spark
BEGIN = datetime(2026, 11, 2, 9, 0)  # noqa: DTZ001 - as Spark tells times


def frame(session: SparkSession, events: list[dict[str, Any]]) -> DataFrame:
    """Events as the files have them, in their order; `at` is in seconds after BEGIN."""
    rows = [
        {"kind": "access", "node": "web1", "worker": 0, "connection": "c1", "user": "ann", "address": "192.0.2.7"}
        | event
        | {"time": BEGIN + timedelta(seconds=event["at"]), "line": line}
        for line, event in enumerate(events)
    ]
    columns = audit_files.SCHEMA.split(", ")
    names = [column.split()[0] for column in columns] + ["line"]
    return session.createDataFrame(
        [[row.get(name) for name in names] for row in rows], audit_files.SCHEMA + ", line bigint"
    )


def seconds(moment: datetime | None) -> float | None:
    return None if moment is None else (moment - BEGIN).total_seconds()


def seen(session: SparkSession, events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    rows = audit.transform(frame(session, events)).collect()
    return sorted(
        (row.user, row.subject, seconds(row.since), seconds(row.until), row.stored, row.published) for row in rows
    )


IBM, T = "/stocks/us/IBM", "/stocks/us/T"


def published(at: float, subject: str = IBM) -> dict[str, Any]:
    return {"at": at, "kind": "message", "event": "published", "subject": subject, "user": "feed", "connection": "p1"}


def test_who_could_read_what_and_when(session: SparkSession) -> None:
    """Ended by the client, by a right, by a lost connection, by a second request, by nobody; and by another token."""
    events = [
        {"at": 0, "event": "connected"},
        {"at": 0, "event": "subscribed", "subject": IBM, "messages": 3},
        {"at": 1, "event": "subscribed", "subject": T},
        published(2),
        published(2, T),
        {"at": 3, "event": "unsubscribed", "subject": IBM},
        # Of the same millisecond: the lines have the order.
        {"at": 3, "event": "subscribed", "subject": IBM},
        published(4),
        {"at": 5, "event": "revoked", "subject": T},
        published(6, T),
        {"at": 7, "event": "renewed", "user": "bob"},
        published(8),
        {"at": 9, "event": "disconnected", "user": "bob"},
        published(10),
        # The worker was killed and counts its connections anew; the end of the second visit nobody wrote down.
        {"at": 20, "event": "connected", "user": "eve"},
        {"at": 21, "event": "subscribed", "subject": IBM, "user": "eve"},
        published(22),
        # Another worker's connection of the same name.
        {"at": 23, "event": "disconnected", "user": "eve", "worker": 1},
    ]
    assert seen(session, events) == [
        ("ann", IBM, 0.0, 3.0, 3, 1),
        ("ann", IBM, 3.0, 7.0, 0, 1),
        ("ann", T, 1.0, 5.0, 0, 1),
        ("bob", IBM, 7.0, 9.0, 0, 1),
        ("eve", IBM, 21.0, None, 0, 1),
    ]


def test_a_rule_is_used_by_whom_it_is_for() -> None:
    rules = [
        Rule(1, "user:ann", "/stocks/**", "subscribe", "allow"),
        Rule(2, "group:desk", "/stocks/us/*", "subscribe", "allow"),
        Rule(3, "everyone", "/users/{username}/*", "subscribe", "allow"),
        Rule(4, "anonymous", "/stocks/**", "subscribe", "allow"),
        Rule(5, "user:ann", "/stocks/**", "publish", "allow"),
        Rule(6, "everyone", "/**", "subscribe", "deny"),
    ]
    uses = Uses(rules, {"desk": frozenset({"bob"})})
    assert list(uses.of("ann", IBM, "subscribe", "allow")) == [1]
    assert list(uses.of("bob", IBM, "subscribe", "allow")) == [2]
    assert list(uses.of("", IBM, "subscribe", "allow")) == [4]
    assert list(uses.of("bob", "/users/bob/x", "subscribe", "allow")) == [3]
    assert list(uses.of("bob", "/users/ann/x", "subscribe", "allow")) == []
    assert list(uses.of("bob", IBM, "subscribe", "deny")) == [6]
    named = [
        Rule(7, "everyone", "/orders/{user_id}", "subscribe", "allow"),
        Rule(8, "everyone", "/orders/{user_id}", "subscribe", "deny"),
        Rule(9, "everyone", "/{username}/x", "subscribe", "deny"),
    ]
    # The audit has no ids: any may be the user's; who has none is allowed nothing, and denied all.
    assert list(Uses(named).of("ann", "/orders/5", "subscribe", "allow")) == [7]
    assert list(Uses(named).of("", "/orders/5", "subscribe", "allow")) == []
    assert list(Uses(named).of("", "/orders/5", "subscribe", "deny")) == [8]
    assert list(Uses(named).of("", "/ann/x", "subscribe", "deny")) == [9]
    assert list(Uses(named).of("bob", "/ann/x", "subscribe", "deny")) == []
    # Without members a rule for a group is used by whoever could be in it, but by nobody without a name.
    assert list(Uses(rules).of("ann", IBM, "subscribe", "allow")) == [1, 2]
    assert list(Uses(rules).of("", IBM, "subscribe", "allow")) == [4]


def test_rules_that_nobody_used(session: SparkSession) -> None:
    rules = [
        Rule(1, "user:ann", "/stocks/**", "subscribe", "allow"),
        Rule(2, "group:desk", "/bonds/**", "subscribe", "allow"),
        Rule(3, "user:feed", "/stocks/**", "publish", "allow"),
        Rule(4, "everyone", "/bonds/us/*", "subscribe", "deny"),
    ]
    events = [
        {"at": 1, "event": "subscribed", "subject": IBM},
        {"at": 2, "event": "subscribed", "subject": T},
        {"at": 3, "event": "denied", "subject": "/bonds/us/T10", "reason": "rule 4 denies it"},
        {"at": 4, "event": "subscribed", "subject": T, "user": "bob"},
    ]

    def told(events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        rows = audit.usage(frame(session, events), rules).orderBy("number").collect()
        return [(row.number, row.n, row.users, seconds(row.last)) for row in rows]

    # Nothing tells of publications: whether that right is used is not known.
    assert told(events) == [(1, 2, 1, 2.0), (2, 0, 0, None), (3, None, None, None), (4, 1, 1, 3.0)]
    assert told([*events, published(5)])[2] == (3, 1, 1, 5.0)


def test_what_is_no_file_of_rules_is_told(tmp_path: Path) -> None:
    file = tmp_path / "rules.json"
    row = {"who": "everyone", "pattern": "/a/**", "action": "subscribe", "effect": "allow", "enabled": True}
    file.write_text(json.dumps([row, row | {"enabled": False}, row | {"pattern": "/b/*"}]))
    assert [(rule.number, rule.pattern) for rule in load(file)] == [(1, "/a/**"), (3, "/b/*")]
    for text in ("{", "[1]", '[{"who": "everyone"}]', json.dumps([row | {"pattern": "a"}])):
        file.write_text(text)
        with pytest.raises(InvalidRules, match=r"rules\.json is no JSON of manage\.py"):
            load(file)
    file.write_text('{"desk": ["ann"]}')
    assert load_members(file) == {"desk": frozenset({"ann"})}
    file.write_text("[]")
    with pytest.raises(InvalidRules, match="group"):
        load_members(file)


def test_what_is_unusual(session: SparkSession) -> None:
    hour, day = 3600, 86_400
    quiet = [
        {"at": number * hour + 60 * minute, "event": "subscribed", "subject": IBM}
        for number in range(13)
        for minute in range(4)
    ]
    many = [{"at": 20 * hour + second, "event": "subscribed", "subject": IBM} for second in range(13)]
    few = [{"at": 21 * hour + second, "event": "subscribed", "subject": IBM} for second in range(9)]
    new = [{"at": second, "event": "subscribed", "user": "new"} for second in range(500)]
    came = [
        {"at": 0, "event": "connected"},
        {"at": 100, "event": "connected", "address": "192.0.2.8"},
        {"at": 2 * day, "event": "connected"},
        {"at": 2 * day + 1, "event": "connected", "address": "192.0.2.9"},
        {"at": 2 * day + 2, "event": "connected", "address": "192.0.2.9"},
    ]
    slow = [{"at": 50 * second, "event": "denied", "user": "slow"} for second in range(100)]
    burst = [{"at": 7000 + 2 * second, "event": "denied", "user": None, "connection": None} for second in range(25)]
    rows = audit.anomalies(frame(session, [*quiet, *many, *few, *new, *came, *slow, *burst]), burst=20).collect()
    assert [(seconds(row.time), row.what, row.user, row.address, row.value) for row in rows] == [
        (7000.0, "refusals", "", "192.0.2.7", 25.0),
        (20.0 * hour, "volume", "ann", "", 13.0),
        (2.0 * day + 1, "address", "ann", "192.0.2.9", 2.0),
    ]
    volume = rows[1]
    # 13 hours with 4, of which the first has two connections more; one with 9, and 2 days later one with 3.
    others = [6.0, *[4.0] * 12, 9.0, 3.0]
    mean = sum(others) / len(others)
    assert volume.usual == pytest.approx(mean)
    assert volume.score == pytest.approx((13 - mean) / max(mean**0.5, 1))


def test_the_files_of_a_sidecar(session: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A client reads and is refused, a publisher publishes: who saw what, and which rule was of use."""
    folder, out, rules = tmp_path / "audit", tmp_path / "out", tmp_path / "rules.json"
    ann = mint_jwt("ann", subscribe=["/stocks/**"])
    feed = mint_jwt("feed", publish=["/stocks/**"])
    with (
        Sidecar(mode="jwt", token_secret=SECRET, audit="access,message", audit_folder=folder) as sidecar,
        connect(sidecar.client_url, ann) as client,
        Publisher(sidecar.publisher_url, token=feed) as publisher,
    ):
        publisher.publish(T, "1")
        publisher.flush()
        with client.subscribe(IBM) as stream:
            Written(folder).find(event="subscribed", subject=IBM)
            for price in range(5):
                publisher.publish(IBM, str(price))
            publisher.flush()
            while stream.get(20).content != "4":
                pass
        with client.subscribe("/bonds/us/T10"):
            Written(folder).find(event="denied", subject="/bonds/us/T10")
        Written(folder).find(event="unsubscribed", subject=IBM)
    keys = ("who", "pattern", "action", "effect")
    written = [
        ("user:ann", "/stocks/us/*", "subscribe", "allow"),
        ("user:ann", "/news/**", "subscribe", "allow"),
        ("user:feed", "/stocks/**", "publish", "allow"),
    ]
    rules.write_text(json.dumps([dict(zip(keys, one, strict=True)) for one in written]))
    words = ["--audit", str(folder), "--out", str(out), "--rules", str(rules), "--burst", "1"]
    audit.work(session, audit_options(words))
    stays = session.read.parquet(str(out / "seen")).collect()
    assert [(row.user, row.subject, row.published) for row in stays] == [("ann", IBM, 5)]
    assert stays[0].until > stays[0].since
    usage = session.read.parquet(str(out / "usage")).orderBy("number")
    assert [row.n for row in usage.collect()] == [1, 0, 6]
    found = session.read.parquet(str(out / "anomalies")).where(F.col("what") == "refusals").collect()
    assert [(row.user, row.value) for row in found] == [("ann", 1.0)]
    printed = capsys.readouterr().out
    assert "audit: 1 subscriptions, of 1 users, to 1 subjects" in printed
    assert "audit: 1 of 3 rules were never used" in printed
    assert "never used: rule 2 user:ann subscribe allow /news/**" in printed
    assert "refusals ann@127.0.0.1 1" in printed


def audit_options(words: list[str]) -> Any:
    return parse("audit", "", None, audit.arguments, words)


def test_a_folder_without_files_is_told(session: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(JobError, match="FASTPATH_AUDIT_FOLDER"):
        audit.work(session, audit_options(["--audit", str(tmp_path)]))
