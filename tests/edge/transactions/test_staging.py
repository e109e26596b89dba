"""Rows are staged, checked one by one, and published when their batch is committed: once, whatever is repeated."""

from __future__ import annotations

import asyncio
import zlib
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from fastpath.client.control.client import Control
from fastpath.edge.publishers import connection as publishers
from tests.support.edge.lives import Life
from tests.support.edge.rules import rule, ruled
from tests.support.edge.transacting import Transacting, committed, run
from tests.support.edge.wire import WireClient, WirePublisher, packed, undisturbed
from tests.support.hook import Answering, named
from tests.support.sidecar import Sidecar
from tests.support.tokens import mint
from tests.support.waiting import until

NAME = "5f0d2c9e-query"


def transacting(publisher: WirePublisher) -> Transacting:
    """A transaction that no test before has had."""
    return Transacting(publisher, uuid4().hex)


def test_nothing_is_seen_before_the_commit_and_everything_after_it(shared: Sidecar) -> None:
    with WirePublisher(shared) as publisher, WireClient(shared, "msgpack") as client:
        client.subscribe("/stage/a", "/stage/b", "/stage/c")
        one = transacting(publisher)
        assert one.stage(0, 1, 8, [run("/stage/b", "3")]) == ["staged", 1, []]
        rows = [
            run("/stage/a", "1", b"2", price=["9", None], size=[None, b"8"]),
            run("/stage/c", "x", meta={"closure": "c"}),
        ]
        assert one.stage(0, 0, 7, rows) == ["staged", 3, []]
        assert one.stage(0, 0, 7, [run("/stage/a", "4")], chunk=1) == ["staged", 1, []]
        assert one.stage(0, 0, 6, [run("/stage/a", "of another attempt")]) == ["staged", 1, []]
        assert client.quiet()
        assert one.commit(0, (1, 8, 1), (0, 7, 4)) == committed(5, (0, 7, 4), (1, 8, 1))
        got = [(client.subjects[message[0]], *message[3:5]) for message in (client.message() for _ in range(5))]
        assert got == [
            ("/stage/a", "1", {"price": "9"}),
            ("/stage/a", b"2", {"size": b"8"}),
            ("/stage/c", "x", None),
            ("/stage/a", "4"),
            ("/stage/b", "3"),
        ]
        assert client.quiet()


def test_a_batch_is_committed_once(shared: Sidecar) -> None:
    with WirePublisher(shared) as publisher, WireClient(shared) as client:
        client.subscribe("/once/a")
        one = transacting(publisher)
        one.stage(4, 0, 1, [run("/once/a", "a")])
        assert one.commit(4, (0, 1, 1)) == committed(1, (0, 1, 1))
        one.stage(4, 0, 2, [run("/once/a", "b")])
        with WirePublisher(shared) as other:  # who comes back after the answer was lost
            assert Transacting(other, one.transaction).commit(4, (0, 2, 1)) == committed(1, (0, 1, 1), repeated=True)
        one.stage(5, 0, 1, [run("/once/a", "c")])
        assert one.commit(5, (0, 1, 1)) == committed(1, (0, 1, 1))
        kind, code, reason = one.commit(4, (0, 2, 1))
        assert (kind, code) == ("failed", "stale"), reason
        assert one.commit(9) == committed(0)
        assert client.texts(2) == ["a", "c"]
        assert client.quiet()


def test_a_name_for_one_batch_is_remembered_as_well(shared: Sidecar) -> None:
    with WirePublisher(shared) as publisher, WireClient(shared) as client:
        client.subscribe("/once/b")
        one = transacting(publisher)
        one.stage(0, 0, 1, [run("/once/b", "a")])
        assert one.commit(0, (0, 1, 1), once=True) == committed(1, (0, 1, 1))
        assert one.commit(0, (0, 1, 1), once=True) == committed(1, (0, 1, 1), repeated=True)
        assert client.texts(1) == ["a"]
        assert client.quiet()


def test_users_and_transactions_do_not_meet(shared: Sidecar) -> None:
    with WirePublisher(shared) as publisher:
        one, other = transacting(publisher), transacting(publisher)
        one.stage(0, 0, 1, [run("/meet/a", "a")])
        assert other.commit(0, (0, 1, 1))[:2] == ["failed", "missing"]
        assert one.commit(0, (0, 1, 1)) == committed(1, (0, 1, 1))


def test_what_is_missing_is_told(shared: Sidecar) -> None:
    with WirePublisher(shared) as publisher:
        one = transacting(publisher)
        one.stage(0, 0, 1, [run("/missing/a", "a")])
        reason = "attempt 1 of partition 0 has 1 rows staged and not 2"
        assert one.commit(0, (0, 1, 2)) == ["failed", "missing", reason]
        assert one.commit(0, (0, 1, 1), (3, 2, 1)) == [
            "failed",
            "missing",
            "attempt 2 of partition 3 is not staged here",
        ]
        assert one.abort(0, 0, 1) == ["aborted"]
        assert one.commit(0, (0, 1, 1))[1] == "missing"
        one.stage(0, 0, 2, [run("/missing/a", "a")])
        assert one.abort(0) == ["aborted"]
        assert one.commit(0, (0, 2, 1))[1] == "missing"


def test_a_chunk_that_comes_again_is_staged_once(shared: Sidecar) -> None:
    with WirePublisher(shared) as publisher:
        one = transacting(publisher)
        first = one.stage(0, 0, 1, [run("/again/a", "a"), run("/again", "b")])
        assert first == ["staged", 1, [[1, "invalid", "subject '/again': only one segment"]]]
        assert one.stage(0, 0, 1, [run("/again/a", "a"), run("/again", "b")]) == first
        assert one.stage(0, 0, 1, [run("/again/a", "a")], chunk=2)[:2] == ["failed", "gap"]
        assert one.commit(0, (0, 1, 1)) == committed(1, (0, 1, 1))


def test_refused_rows_are_named_and_the_others_are_staged(shared: Sidecar) -> None:
    large = "x" * ((1 << 20) + 1)
    with WirePublisher(shared) as publisher:
        one = transacting(publisher)
        answer = one.stage(
            0,
            0,
            1,
            [
                run("/refused/a", "1", "2"),
                run("refused/a", "3", "4"),
                run("/__sys__/stats", "5"),
                run("/refused/a", "6", meta={"qos": "best"}),
                run("/refused/a", "7", meta={"id": 5}),
                run("/refused/a", "8", **{"": ["x"]}),
                run("/refused/a", "9"),
            ],
        )
        assert answer[:2] == ["staged", 3]
        assert [(index, code) for index, code, _ in answer[2]] == [
            (2, "invalid"), (3, "invalid"), (4, "denied"), (5, "invalid"), (6, "invalid"), (7, "invalid")]  # fmt: skip
        reasons = {index: reason for index, _, reason in answer[2]}
        assert reasons[2] == "subject 'refused/a': no leading slash"
        assert reasons[5] == 'qos is "guaranteed" or "standard"'
        assert "nothing else" in reasons[6]
        assert one.stage(0, 1, 1, [run("/refused/a", large)]) == [
            "staged", 0, [[0, "too_large", "over 1048576 bytes"]]]  # fmt: skip
        assert one.stage(0, 2, 1, [run("/refused/a", large[:-1])]) == ["staged", 1, []]
        assert one.commit(0, (0, 1, 3), (1, 1, 0), (2, 1, 1))[1]["rows"] == 4


def test_compressed_runs(shared: Sidecar) -> None:
    with WirePublisher(shared) as publisher, WireClient(shared) as client:
        client.subscribe("/zlib/a")
        one = transacting(publisher)
        data = zlib.compress(msgspec.msgpack.encode([run("/zlib/a", *map(str, range(2000)))]))
        assert one.stage(0, 0, 1, data, rows=2000) == ["staged", 2000, []]
        assert one.commit(0, (0, 1, 2000))[0] == "committed"
        assert client.texts(2000) == [str(number) for number in range(2000)]


def _bomb(size: int) -> bytes:
    return zlib.compress(msgspec.msgpack.encode([run("/bad/a", "x" * size)]))


FRAMES: dict[str, tuple[list[Any], str]] = {
    "nothing": ([], "a frame is"),
    "no runs": ([[NAME, 0, 0, 1, 0], 1], "a frame is"),
    "a place that is no list": ([NAME, 1, []], "a frame is"),
    "a short place": ([[NAME, 0, 0, 1], 1, []], "a frame is"),
    "a batch that is a text": ([[NAME, "0", 0, 1, 0], 1, []], "a frame is"),
    "no name": ([["", 0, 0, 1, 0], 1, [run("/bad/a", "")]], "a transaction is a text of 1 to 256 characters"),
    "a long name": ([["n" * 257, 0, 0, 1, 0], 1, [run("/bad/a", "")]], "a transaction is"),
    "a batch below zero": ([[NAME, -1, 0, 1, 0], 1, [run("/bad/a", "")]], "are numbers from 0 to"),
    "a chunk far away": ([[NAME, 0, 0, 1, 1 << 60], 1, [run("/bad/a", "")]], "are numbers from 0 to"),
    "no rows": ([[NAME, 0, 0, 1, 0], 0, []], "a frame has 1 to 2000 rows"),
    "too many rows": ([[NAME, 0, 0, 1, 0], 2001, [run("/bad/a", *[""] * 2001)]], "a frame has 1 to 2000 rows"),
    "huge counts": ([[NAME, 0, 0, 1, 0], 2000, [run("/bad/a", *[""] * 400_000)]], "not runs of rows"),
    "another count": ([[NAME, 0, 0, 1, 0], 3, [run("/bad/a", "")]], "a frame of 3 rows has 1"),
    "too many bytes": ([[NAME, 0, 0, 1, 0], 2, [run("/bad/a", "", "x" * (600 << 10))]], "over 524288 bytes in a frame"),
    "a bomb": ([[NAME, 0, 0, 1, 0], 2, _bomb(20 << 20)], "over 524288 bytes in a frame, inflated"),
    "a bomb as one row": ([[NAME, 0, 0, 1, 0], 1, _bomb(20 << 20)], "bytes in a frame, inflated"),
    "not compressed": ([[NAME, 0, 0, 1, 0], 1, b"x" * 100], "not runs of rows"),
    "cut off": ([[NAME, 0, 0, 1, 0], 1, _bomb(1000)[:-3]], "does not end where the frame does"),
    "more behind it": ([[NAME, 0, 0, 1, 0], 1, _bomb(1000) + b"x"], "does not end where the frame does"),
    "runs that are a text": ([[NAME, 0, 0, 1, 0], 1, "runs"], "not runs of rows"),
    "a run that is a map": ([[NAME, 0, 0, 1, 0], 1, [{"a": 1}]], "not runs of rows"),
    "content that is a number": ([[NAME, 0, 0, 1, 0], 1, [run("/bad/a", 5)]], "/bad/a: content is text or binary"),
    "content that is nil": ([[NAME, 0, 0, 1, 0], 1, [run("/bad/a", None)]], "/bad/a: content is text or binary"),
    "a field that is a number": (
        [[NAME, 0, 0, 1, 0], 1, [run("/bad/a", b"", p=[5])]],
        "values are text, binary or nil",
    ),
    "a short field": ([[NAME, 0, 0, 1, 0], 2, [run("/bad/a", "", "", p=["1"])]], "has not as many values as there are"),
    "fields that are a list": ([[NAME, 0, 0, 1, 0], 1, [["/bad/a", [""], [1], None]]], "not runs of rows"),
    "300 fields": ([[NAME, 0, 0, 1, 0], 1, [run("/bad/a", "", **{f"f{n}": [""] for n in range(300)})]], "not runs of"),
    "a subject that is a number": ([[NAME, 0, 0, 1, 0], 1, [[7, [""], None, None]]], "not runs of rows"),
}


@pytest.mark.parametrize(("frame", "reason"), FRAMES.values(), ids=FRAMES)
def test_a_bad_frame_is_told_and_nothing_is_staged(shared: Sidecar, frame: list[Any], reason: str) -> None:
    with WirePublisher(shared) as publisher:
        one = Transacting(publisher, NAME)
        kind, code, why = one.ask("stage", *frame)
        assert (kind, code) == ("failed", "invalid")
        assert reason in why
        assert one.commit(0, (0, 1, 1))[1] == "missing"


COMMITS: dict[str, list[Any]] = {
    "nothing": [],
    "no attempts": [NAME, 0],
    "a name that is a number": [5, 0, []],
    "a batch below zero": [NAME, -1, []],
    "an attempt that is a number": [NAME, 0, [5]],
    "a short attempt": [NAME, 0, [[1, 2]]],
    "rows below zero": [NAME, 0, [[0, 1, -1]]],
    "a partition twice": [NAME, 0, [[0, 1, 1], [0, 2, 1]]],
    "10,001 attempts": [NAME, 0, [[number, 1, 1] for number in range(10_001)]],
}


@pytest.mark.parametrize("frame", COMMITS.values(), ids=COMMITS)
def test_a_bad_commit_or_abort(shared: Sidecar, frame: list[Any]) -> None:
    with WirePublisher(shared) as publisher:
        one = Transacting(publisher, NAME)
        assert one.ask("commit", *frame)[:2] == ["failed", "invalid"]
        assert one.ask("abort", *frame)[:2] == ["failed", "invalid"]
        assert one.ask("abort", NAME, 0, None, 7)[:2] == ["failed", "invalid"]  # of which partition?


def test_thousands_of_attempts_in_a_commit(shared: Sidecar) -> None:
    with undisturbed(shared), WirePublisher(shared) as publisher:
        one = transacting(publisher)
        assert one.commit(0, *((number, 1, 1) for number in range(10_000)))[1] == "missing"
        for number in range(100):
            one.stage(1, number, 1, [run("/many/a", str(number))])
        assert one.commit(1, *((number, 1, 1) for number in range(100)))[1]["rows"] == 100


def test_staging_is_bounded_and_goes_on_when_there_is_room() -> None:
    with Sidecar(staged_bytes=100_000, staged_seconds=3600) as sidecar, WirePublisher(sidecar) as publisher:
        one = transacting(publisher)
        chunks = 0
        while (answer := one.stage(0, 0, 1, [run("/full/a", "x" * 9000)], chunk=chunks))[0] == "staged":
            chunks += 1
        assert answer[:2] == ["failed", "staging_full"]
        assert chunks == 10
        with Control(sidecar.control) as control:
            figures = control.stats()
            assert figures["staged_rows"] == 10
            assert 90_000 < figures["staged_bytes"] <= 100_000
        assert one.commit(0, (0, 1, 10))[1]["rows"] == 10
        assert one.stage(1, 0, 1, [run("/full/a", "x" * 9000)]) == ["staged", 1, []]


def test_what_is_not_committed_goes_after_its_time() -> None:
    with Sidecar(staged_seconds=1) as sidecar, WirePublisher(sidecar) as publisher, Control(sidecar.control) as control:
        one = transacting(publisher)
        one.stage(0, 0, 1, [run("/late/a", "x")])
        until(lambda: control.stats()["staged_rows"] == 0, 30)
        assert one.commit(0, (0, 1, 1))[1] == "missing"


def test_rights_are_asked_of_rows_and_again_when_the_commit_begins() -> None:
    with ruled(rule(1, "/s/**", action="both")) as rights, WirePublisher(rights.sidecar, mint("alice")) as publisher:
        one = transacting(publisher)
        answer = one.stage(0, 0, 1, [run("/t/a", "1"), run("/s/a", "2"), run("/s/b", "3")])
        assert answer[:2] == ["staged", 2]
        assert [one[:2] for one in answer[2]] == [[0, "denied"]]
        rights.change(rule(2, "/s/b", allow=False, action="publish"))
        assert one.commit(0, (0, 1, 2))[:2] == ["failed", "denied"]
        rights.change(removed=[2])
        assert one.commit(0, (0, 1, 2))[1]["rows"] == 2


def test_a_hook_is_asked_about_the_rows_of_a_frame() -> None:
    def rule(question: Any) -> Any:
        if question["event"] != "publish":
            return named(question)
        return {"verdicts": [["no" not in one, "closed", 0] for one in question["subjects"]]}

    with (
        Sidecar(mode="custom", hook_seconds=20) as sidecar,
        Answering(sidecar.control, rule) as hook,
        WirePublisher(sidecar, "spark") as publisher,
    ):
        one = transacting(publisher)
        runs = [run("/h/a", "1"), run("/h/no", "2"), run("bad", "3")]
        answer = one.stage(0, 0, 1, zlib.compress(msgspec.msgpack.encode(runs)), rows=3)
        assert answer[:2] == ["staged", 1]
        assert [refused[:2] for refused in answer[2]] == [[1, "denied"], [2, "invalid"]]
        assert sorted(hook.about("publish")[-1]["subjects"]) == ["/h/a", "/h/no"]
        assert one.commit(0, (0, 1, 1))[1]["rows"] == 1, "allowed once is allowed"


def test_operators_see_transactions_and_have_them_forgotten(shared: Sidecar) -> None:
    with WirePublisher(shared) as publisher, Control(shared.control) as control:
        one = transacting(publisher)
        one.stage(3, 0, 1, [run("/seen/a", "1", "2"), run("/seen", "3")])
        one.commit(3, (0, 1, 2))
        [row] = [row for row in control.transactions()["transactions"] if row["transaction"] == one.transaction]
        assert {name: row[name] for name in ("user", "batch", "state", "rows", "rows_before")} == {
            "user": "", "batch": 3, "state": "done", "rows": 2, "rows_before": 0}  # fmt: skip
        assert len(control.transactions(1)["transactions"]) == 1
        assert control.forget_transaction("", one.transaction)
        assert not control.forget_transaction("", one.transaction)
        with WireClient(shared) as client:
            client.subscribe("/seen/a")
            one.stage(0, 0, 2, [run("/seen/a", "4")])
            assert one.commit(0, (0, 2, 1)) == committed(1, (0, 2, 1))
            while client.message()[3] != "4":
                pass
        assert control.stats()["transactions_committed"] >= 2


def test_many_small_frames_are_handled_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many come in one piece; they are answered in their order."""
    monkeypatch.setattr(publishers, "TURN_SECONDS", 0.0)
    life = Life(tmp_path)
    del life.wire.packets[:]
    life.publisher.data_received(b"".join(packed("abort", number, NAME, 0, 0, 1) for number in range(100)))
    assert len(life.wire.packets) == 1

    async def answered() -> None:
        while len(life.wire.packets) < 100:  # noqa: ASYNC110 - each turn of the loop counts
            await asyncio.sleep(0)

    life.loop.run_until_complete(asyncio.wait_for(answered(), 30))
    assert life.wire.packets == [["aborted", number] for number in range(100)]
    life.end()
