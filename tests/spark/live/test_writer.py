"""The Java writer against a real sidecar: what it sends, and that each row is stored once whatever is lost."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from fastpath.client.control.client import Control
from fastpath.client.errors import ControlRefused
from spark.live import compiling
from tests.support.certificates import Certificate
from tests.support.promises import kept
from tests.support.proxy import Proxy
from tests.support.rights import load_rights, rule
from tests.support.sidecar import Sidecar
from tests.support.spark.live import QUERY, Task, records
from tests.support.spark.writing import contents, stored
from tests.support.tokens import mint
from tests.support.waiting import until
from tests.vectors.reading import vectors

pytestmark = pytest.mark.spark


def numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def refusal(work: Callable[[], Any]) -> str:
    """What a writer fails with."""
    with pytest.raises(Py4JJavaError) as caught:
        work()
    return str(caught.value.java_exception.getMessage())


def in_thread(work: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def letters(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("vector", vectors("publisher", "publisher server"), ids=str)
def test_packs_and_unpacks_the_vectors_of_the_publisher_port(session: SparkSession, vector: Any) -> None:
    loader = compiling.loader(session.sparkContext.applicationId)
    gateway = session.sparkContext._gateway
    objects = gateway.new_array(gateway.jvm.java.lang.Object, 2)
    objects[0], objects[1] = bytearray(vector.forms["msgpack"]), 0
    value = loader.loadClass(f"{compiling.CLASS}$Unpack").getConstructors()[0].newInstance(objects).next()
    pack = (
        loader.loadClass(f"{compiling.CLASS}$Pack")
        .getConstructors()[0]
        .newInstance(gateway.new_array(gateway.jvm.java.lang.Object, 0))
    )
    pack.any(value)
    assert bytes(pack.made()) == vector.forms["msgpack"]


def test_says_of_a_row_what_the_sink_says(session: SparkSession, sidecar: Sidecar) -> None:
    """Every kind of column, as text; fields, as of, and what the row says of itself."""
    frame = session.sql(
        """select 'prices' topic, 0 partition, id offset, concat('N', id) name, cast(id as string) content,
        array(1/3D, 1e22D, 5e-324D, 1e16D, 0.0001D, 1e-5D, -0.0D, 100D, double('NaN'), -double('inf'),
              5.684341886080802e-14D)[id] d,
        array(0.1F, 1e10F, 1e-7F, 16777216F, float('3.4028235e38'))[id % 5] f,
        cast(id as decimal(20, 8)) / 3 dec, 12.50BD dec2, cast(id as tinyint) small, id % 2 = 0 yes,
        date'1969-07-20' day, timestamp'2026-11-20 10:12:05.120' at, timestamp_ntz'2026-11-20 10:12:00' ntz,
        timestamp_ntz'2026-11-20 10:12:05.000123' ntz2, unhex('00ff') raw, null none, 'a"é\u2028' text,
        if(id = 3, false, true) retained, if(id = 4, 'standard', null) qos, concat('c', id) closure,
        timestamp'2026-11-20 10:12:05.123' true_at, id * 7 v, if(id = 5, true, false) gone, '/answers/1' answers
        from range(0, 11, 1, 1)"""
    )
    options: dict[str, Any] = {"as_of": "true_at", "version": "v", "job": "j", "removed": "gone", "reply_to": "answers"}
    plain = frame.drop("topic", "partition", "offset")
    sink = plain.write.format("realtime").mode("append").options(url=sidecar.publisher_url, subject="/sink/{name}")
    sink.options(**options).save()
    Task(frame, sidecar.publisher_url, subject="/live/{name}", **options).run()
    for number in range(11):
        one, other = (said(sidecar, f"/{where}/N{number}") for where in ("sink", "live"))
        for message in other:
            assert (message.get("as_of") or {}).pop("batch", 7) == 7
        assert other == one, number
    assert len(said(sidecar, "/live/N0")) == 1


def said(sidecar: Sidecar, subject: str) -> list[dict[str, Any]]:
    """The messages of a subject, without their places; none where it has no guaranteed one."""
    with Control(sidecar.control) as control:
        try:
            messages = control.history(subject, limit=10)["messages"]
        except ControlRefused:
            return []
    own = ("subject", "epoch", "seq", "time")
    return [{name: value for name, value in message.items() if name not in own} for message in messages]


def test_takes_fields_from_a_map_and_from_a_struct(session: SparkSession, sidecar: Sidecar) -> None:
    mapped = records(session, 1, more=", map('bid', 1.5D, 'none', null, 'ask', 2D) fields")
    Task(mapped, sidecar.publisher_url).run()
    assert stored(sidecar, "/t/a")["fields"] == {"bid": "1.5", "ask": "2.0"}
    struct = records(session, 1, "'/t/b'", ", named_struct('day', date'2026-11-20', 'none', null) fields")
    Task(struct, sidecar.publisher_url, query="another").run()
    assert stored(sidecar, "/t/b")["fields"] == {"day": "2026-11-20"}


def test_rows_that_are_read_again_are_stored_once_with_gaps_in_their_numbers(
    session: SparkSession, sidecar: Sidecar
) -> None:
    task = Task(records(session, 50).where("offset % 3 != 1"), sidecar.publisher_url)
    task.run(0, 20)
    task.run(10, 30, batch=8)
    task.run()
    assert contents(sidecar, "/t/a") == [number for number in numbers(50) if int(number) % 3 != 1]


def test_rows_are_known_when_their_positions_are_not_any_more(session: SparkSession, tmp_path: Path) -> None:
    """A sidecar that began anew with its journal knows of each publisher how far it was, and `stale` means stored."""
    with Sidecar(mode="none", journal="interval", data=tmp_path / "data") as sidecar:
        task = Task(records(session, 40), sidecar.publisher_url)
        task.run(0, 30)
        sidecar.kill()
        sidecar.start()
        task.run(5)
        assert contents(sidecar, "/t/a") == numbers(40)


def test_a_sidecar_that_is_away_for_a_while_loses_nothing(session: SparkSession, tmp_path: Path) -> None:
    """It dies while rows are on their way, and again while it is away rows come; all in their order, each once."""
    with Sidecar(mode="none", journal="interval", data=tmp_path / "data") as sidecar:
        task = Task(records(session, 60), sidecar.publisher_url)
        with task.opened():
            task.give(0, 20)
            until(lambda: contents(sidecar, "/t/a"))
            sidecar.kill()
            task.give(20, 40)
            sidecar.start()
            until(lambda: len(contents(sidecar, "/t/a")) == 40)
            sidecar.kill()
            task.give(40)
            closing = in_thread(lambda: task.writer.close(None))
            sidecar.start()
            closing.join(60)
            kept(contents(sidecar, "/t/a") == numbers(60), "what a batch ended with is stored, once and in order")


def test_connections_that_are_lost_in_the_midst_lose_and_double_nothing(
    session: SparkSession, sidecar: Sidecar
) -> None:
    with Proxy(sidecar.publisher_url) as proxy:
        task = Task(records(session, 90), proxy.address, linger_ms=0, frame_bytes=1024)
        with task.opened():
            for first in range(0, 90, 10):
                task.give(first, first + 10)
                proxy.cut()
            task.writer.close(None)
        kept(contents(sidecar, "/t/a") == numbers(90), "each row once and in order over ten connections")


def test_a_server_that_does_not_answer_is_left(session: SparkSession, sidecar: Sidecar) -> None:
    with Proxy(sidecar.publisher_url) as proxy:
        task = Task(records(session, 20), f"{proxy.address},{sidecar.publisher_url}", timeout_seconds=0.5)
        with task.opened():
            task.give(0, 10)
            until(lambda: len(contents(sidecar, "/t/a")) == 10)
            proxy.stall()
            task.give(10)
            task.writer.close(None)
        proxy.flow()
        assert contents(sidecar, "/t/a") == numbers(20)


def test_an_idle_stream_sends_its_last_row_at_once(session: SparkSession, sidecar: Sidecar) -> None:
    task = Task(records(session, 2), sidecar.publisher_url)
    with task.opened():
        task.give(0, 1)
        until(lambda: contents(sidecar, "/t/a") == ["0"])
        task.give(1)
        until(lambda: contents(sidecar, "/t/a") == ["0", "1"])


def test_gives_up_after_its_time_and_says_where_it_tried(session: SparkSession) -> None:
    task = Task(records(session, 5), "127.0.0.1:1", retry_seconds=0.2)
    told = refusal(task.run)
    assert told.startswith("nothing was acknowledged for 0 s by the publisher port 127.0.0.1:1: ")


def test_waits_while_too_much_is_not_acknowledged(session: SparkSession, sidecar: Sidecar) -> None:
    """The task holds a bounded number of bytes: it takes no more rows until the sidecar has taken some."""
    with Proxy(sidecar.publisher_url) as proxy:
        proxy.shut()
        frame = records(session, 9, more=", repeat('x', 20000) fill")
        task = Task(frame, proxy.address, buffer_bytes=1 << 16)
        given = threading.Event()

        def give() -> None:
            task.give()
            task.writer.close(None)
            given.set()

        with task.opened():
            giving = in_thread(give)
            assert not given.wait(1)
            proxy.open()
            giving.join(60)
        assert given.is_set()
        assert contents(sidecar, "/t/a") == numbers(9)


def test_rows_that_are_refused_fail_the_task_or_are_dead_letters(
    session: SparkSession, rules_sidecar: Sidecar, tmp_path: Path
) -> None:
    load_rights(rules_sidecar.control, rule(1, "user:u1", "/t/a"))
    frame = records(session, 6, "array('/t/a', '/t/b', 'bad', null)[if(offset < 4, offset, 0)]".replace("offset", "id"))
    frame = frame.selectExpr("*", "unhex('ff') raw")
    options = {"token": mint("writer", "u1")}
    some = frame.where("offset in (0, 1, 4)")
    told = refusal(Task(some, rules_sidecar.publisher_url, query="other", **options).run)
    assert told.startswith(
        "the row of offset 1 of prices, partition 0, subject /t/b, was refused by the sidecar, denied:"
    )
    Task(frame, rules_sidecar.publisher_url, dead_letter=tmp_path / "dead", **options).run(batch=3)
    found = {letter["offset"]: letter for letter in letters(tmp_path / "dead")}
    assert [found[offset]["code"] for offset in sorted(found)] == ["denied", "invalid", "invalid"]
    assert [found[offset]["subject"] for offset in sorted(found)] == ["/t/b", "bad", None]
    same = {"transaction": QUERY, "batch": 3, "partition": 0, "topic": "prices", "row": 2, "content": "1"}
    assert found[1].items() >= (same | {"fields": {"raw": {"base64": "/w=="}}}).items()
    stored = contents(rules_sidecar, "/t/a")
    # The task that failed may have sent what comes behind the refused row before it knew.
    assert stored in (["0", "0", "4", "5"], ["0", "4", "0", "4", "5"])
    told = refusal(Task(frame.where("offset = 3"), rules_sidecar.publisher_url, query="third", **options).run)
    assert told == "the row of offset 3 of prices, partition 0, was refused, invalid: the subject is null"


def test_a_row_that_was_refused_before_later_ones_is_stored_once_when_it_may_be(
    session: SparkSession, rules_sidecar: Sidecar, tmp_path: Path
) -> None:
    """Its number is of no use any more; read again, it has another one, the same each time."""
    load_rights(rules_sidecar.control, rule(1, "user:u1", "/t/a"))
    frame = records(session, 6, "if(id = 2, '/t/b', '/t/a')")
    task = Task(frame, rules_sidecar.publisher_url, token=mint("writer", "u1"), dead_letter=tmp_path)
    task.run()
    assert [letter["offset"] for letter in letters(tmp_path)] == [2]
    load_rights(rules_sidecar.control, rule(1, "user:u1", "/t/*"), generation=2)
    task.run()
    task.run()
    assert contents(rules_sidecar, "/t/b") == ["2"]
    assert contents(rules_sidecar, "/t/a") == ["0", "1", "3", "4", "5"]
    assert len(letters(tmp_path)) == 1


def test_speaks_tls_and_trusts_whom_it_is_told_to(session: SparkSession, tmp_path: Path) -> None:
    certificate, other = Certificate(tmp_path), Certificate(tmp_path, "other")
    listen = f"clients://127.0.0.1:0,{certificate.url('publishers')}"
    with Sidecar(mode="none", listen=listen) as sidecar:
        port = sidecar.publisher_url.rpartition(":")[2]
        Task(records(session, 3), f"tls://127.0.0.1:{port}", ca_file=certificate.cert).run()
        assert contents(sidecar, "/t/a") == numbers(3)
        for options, host in (({"ca_file": other.cert}, "127.0.0.1"), ({}, "127.0.0.1")):
            task = Task(records(session, 3), f"tls://{host}:{port}", retry_seconds=0, query="other", **options)
            assert "PKIX path" in refusal(task.run)
        assert contents(sidecar, "/t/a") == numbers(3)


def test_a_token_that_is_refused_fails_the_task_at_once(session: SparkSession, rules_sidecar: Sidecar) -> None:
    load_rights(rules_sidecar.control)
    told = refusal(Task(records(session, 1), rules_sidecar.publisher_url, token="wrong").run)
    assert told.startswith("the sidecar refused the publisher, 4501 ")


def test_two_rows_of_one_record_are_an_error_where_numbers_are_offsets(session: SparkSession, sidecar: Sidecar) -> None:
    doubled = records(session, 2).union(records(session, 1)).coalesce(1)
    told = refusal(Task(doubled, sidecar.publisher_url).run)
    assert told.startswith("offset 0 of prices, partition 0, came after offset 1: each record can be one row alone")
    Task(doubled, sidecar.publisher_url, once=False).run()
    assert contents(sidecar, "/t/a")[-3:] == ["0", "1", "0"]


def test_without_offsets_a_batch_that_runs_again_is_stored_again(session: SparkSession, sidecar: Sidecar) -> None:
    frame = records(session, 5).drop("topic", "partition", "offset")
    task = Task(frame, sidecar.publisher_url, once=False)
    task.run()
    task.run()
    assert contents(sidecar, "/t/a") == numbers(5) * 2


def test_a_publishers_name_is_that_of_the_partition_even_of_a_long_topic(
    session: SparkSession, sidecar: Sidecar
) -> None:
    for topic in ("prices", "t" * 249):
        frame = records(session, 2).selectExpr(f"'{topic}' topic", "3 partition", "offset", "subject", "content")
        Task(frame, sidecar.publisher_url).run()
    with Control(sidecar.control) as control:
        names = {one["name"] for one in control.publishers()["senders"]}
    assert f"{QUERY}:prices:3" in names
    assert len(names) == 2
    assert all(name.startswith(f"{QUERY}:") and name.endswith(":3") and len(name) <= 256 for name in names)
