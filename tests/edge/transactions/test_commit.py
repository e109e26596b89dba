"""Commits of a real process that is killed, is full, or has others who wait; and what is told of them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fastpath.core.protocol.errors import Close, Refused
from fastpath.core.transactions import release as releasing
from fastpath.core.transactions.records import StagingFailed
from fastpath.edge.transactions import commit as commits
from tests.support.edge.lives import SUBJECTS, TRANSACTION, Life
from tests.support.edge.transacting import Transacting, run
from tests.support.edge.wire import Ended, WireClient, WirePublisher
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS


def rows_of(sidecar: Sidecar, subject: str, count: int) -> list[str]:
    """What a subject has got, as a client sees it who asks for all."""
    with WireClient(sidecar) as client:
        client.subscribe(subject, history=count + 10)
        got = client.texts(count)
        assert client.quiet()
        return got


def stage_many(one: Transacting, subject: str, rows: int, batch: int = 0) -> tuple[int, int, int]:
    """Stage so many rows in one attempt; what the commit names."""
    for chunk in range(rows // 500):
        contents = [str(number) for number in range(chunk * 500, chunk * 500 + 500)]
        assert one.stage(batch, 0, 1, [run(subject, *contents)], chunk=chunk) == ["staged", 500, []]
    return 0, 1, rows


@pytest.mark.parametrize(
    "step",
    [
        pytest.param("stage:3", marks=pytest.mark.slow),
        pytest.param("begin:1", marks=pytest.mark.slow),
        "release:4",
        pytest.param("finish:1", marks=pytest.mark.slow),
    ],
)
def test_a_process_that_is_killed(step: str, tmp_path: Path) -> None:
    """Staged rows are there after the restart; what was begun goes on, by itself or when its commit is repeated."""
    faulty = {"faults": "on", "faults_do": f"kill:{step}"}
    with Sidecar(journal="interval", data=tmp_path / "data", cache_messages=5000, **faulty) as sidecar:
        with WirePublisher(sidecar) as publisher, suppress(Ended, OSError):
            one = Transacting(publisher, "killed")
            one.commit(0, stage_many(one, "/killed/a", 3000))
        assert sidecar.process is not None
        assert sidecar.process.wait(2 * PATIENCE_SECONDS) == -9
        sidecar.kill()
        sidecar.settings.pop("faults_do")
        sidecar.start()
        with WirePublisher(sidecar) as publisher:
            one = Transacting(publisher, "killed")
            winner = stage_many(one, "/killed/a", 3000)  # chunks that are there are left as they are
            kind, summary = one.commit(0, winner)
            assert (kind, summary["rows"], summary["winners"]) == ("committed", 3000, [[0, 1, 3000]])
        assert rows_of(sidecar, "/killed/a", 3000) == [str(number) for number in range(3000)]


def test_who_comes_back_joins_the_commit_that_runs(shared: Sidecar) -> None:
    with WirePublisher(shared) as first, WirePublisher(shared) as second:
        one, other = Transacting(first, "joined"), Transacting(second, "joined")
        winner = stage_many(one, "/joined/a", 20_000)
        first.packet("commit", 900, "joined", 0, [list(winner)], {})
        first.sock.close()  # the answer is for nobody
        assert other.commit(0, winner)[1]["rows"] == 20_000
    assert len(rows_of(shared, "/joined/a", 1000)) == 1000


def test_several_commits_share_the_turns_and_tell_how_far_they_are(shared: Sidecar) -> None:
    with WirePublisher(shared) as publisher, WireClient(shared) as client:
        winners = {}
        for number in range(5):
            name = f"shared {number}"
            winners[name] = stage_many(Transacting(publisher, name), f"/shared/s{number}", 5000)
        for number, (name, winner) in enumerate(winners.items()):
            publisher.packet("commit", 1000 + number, name, 0, [list(winner)], {})
        client.ask("ping", "pong")
        answers: dict[int, Any] = {}
        while len(answers) < 5:
            kind, number, told = publisher.next()
            if kind != "progress":
                answers[number] = told
        assert {number: told["rows"] for number, told in answers.items()} == dict.fromkeys(range(1000, 1005), 5000)


def test_without_a_journal_a_restart_takes_what_was_staged() -> None:
    with Sidecar() as sidecar:
        with WirePublisher(sidecar) as publisher:
            winner = stage_many(Transacting(publisher, "gone"), "/gone/a", 500)
        sidecar.kill()
        sidecar.start()
        with WirePublisher(sidecar) as publisher:
            assert Transacting(publisher, "gone").commit(0, winner)[1] == "missing"


@pytest.mark.parametrize("patient", [True, False])
def test_what_cannot_be_stored_now_is_stored_when_it_can(
    patient: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within its patience the commit waits. Beyond it its publisher is told, and the batch goes on by itself."""
    if not patient:
        monkeypatch.setattr(releasing, "PATIENCE_SECONDS", -1.0)
    life = Life(tmp_path)
    append, refusals = (
        life.engine.append_runs,
        [("failed", "the journal cannot be written: no space left on device")] * 3,
    )
    runs = [run(SUBJECTS[0], "1"), run(SUBJECTS[1], "2")]

    def full(*arguments: Any) -> Any:
        return refusals.pop() if refusals else append(*arguments)

    life.engine.append_runs = full  # type: ignore[method-assign]
    life.ask("stage", [TRANSACTION, 0, 0, 1, 0], 2, runs)
    answer = life.ask("commit", TRANSACTION, 0, [[0, 1, 2]], {})
    if not patient:
        assert answer == ["failed", "unavailable", "the journal cannot be written: no space left on device"]
        while refusals:
            life.go_on()
        life.go_on()
        answer = life.ask("commit", TRANSACTION, 0, [], {})
    assert answer[1]["rows"] == 2
    assert [life.contents(subject) for subject in SUBJECTS] == [["1"], ["2"], []]
    life.end()


def test_rows_that_are_refused_when_they_are_released_are_named(tmp_path: Path) -> None:
    """What was refused when it was staged counts in their places."""
    life = Life(tmp_path)
    later, sooner = {"as_of": {"version": 7}}, {"as_of": {"version": 6}}
    chunks = [
        [run("bad", "0"), run(SUBJECTS[0], "1", "2"), run(SUBJECTS[1], "3", meta=later)],
        [run(SUBJECTS[1], "4", "5", meta=sooner), run(SUBJECTS[0], "6")],
    ]
    for chunk, runs in enumerate(chunks):
        assert life.ask("stage", [TRANSACTION, 0, 2, 1, chunk], sum(len(one[1]) for one in runs), runs)[1] == 3
    refused = life.runtime.broker.admission.refused_runs

    def refuse(runs: Any, now: int) -> Any:
        return refused(runs, now) | {i: ("too_large", "no") for i, one in enumerate(runs) if one.subject == SUBJECTS[0]}

    life.runtime.broker.admission.refused_runs = refuse  # type: ignore[method-assign]
    [_, summary] = life.ask("commit", TRANSACTION, 0, [[2, 1, 6]], {})
    assert (summary["rows"], summary["refused_rows"], summary["outdated"]) == (6, 3, 2)
    assert summary["refused"] == [[2, place, SUBJECTS[0], "too_large", "no"] for place in (1, 2, 6)]
    assert [life.contents(subject) for subject in SUBJECTS] == [[], ["3"], []]
    life.end()


FULL = ("failed", "the journal cannot be written: no space left on device")


def test_a_refused_row_behind_those_that_wait_for_room_does_not_settle_them(tmp_path: Path) -> None:
    life = Life(tmp_path)
    append, refusals = life.engine.append_runs, [FULL]
    life.engine.append_runs = lambda *arguments: (  # type: ignore[method-assign]
        refusals.pop() if refusals else append(*arguments)
    )
    later, sooner = {"as_of": {"version": 7}}, {"as_of": {"version": 6}}
    runs = [run(SUBJECTS[0], "1"), run(SUBJECTS[1], "2", meta=later), run(SUBJECTS[1], "3", meta=sooner)]
    life.ask("stage", [TRANSACTION, 0, 0, 1, 0], 3, runs)
    [_, summary] = life.ask("commit", TRANSACTION, 0, [[0, 1, 3]], {})
    assert (summary["refused_rows"], summary["outdated"]) == (0, 1)
    assert [life.contents(subject) for subject in SUBJECTS] == [["1"], ["2"], []]
    life.end()


def test_refused_rows_are_told_though_the_disk_was_full_behind_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releasing, "PATIENCE_SECONDS", -1.0)
    life = Life(tmp_path)
    append, answers = life.engine.append_runs, [None, FULL]
    refused = life.runtime.broker.admission.refused_runs

    def refuse(runs: Any, now: int) -> Any:
        return refused(runs, now) | {i: ("too_large", "no") for i, one in enumerate(runs) if one.subject == SUBJECTS[1]}

    life.runtime.broker.admission.refused_runs = refuse  # type: ignore[method-assign]
    life.engine.append_runs = lambda *arguments: (  # type: ignore[method-assign]
        (answers.pop(0) if answers else None) or append(*arguments)
    )
    life.ask("stage", [TRANSACTION, 0, 0, 1, 0], 3, [run(SUBJECTS[1], "1"), run(SUBJECTS[0], "2", "3")])
    life.ask("stage", [TRANSACTION, 0, 0, 1, 1], 1, [run(SUBJECTS[0], "4")])
    assert life.ask("commit", TRANSACTION, 0, [[0, 1, 4]], {})[1] == "unavailable"
    [_, summary] = life.ask("commit", TRANSACTION, 0, [[0, 1, 4]], {})
    assert summary["refused"] == [[0, 0, SUBJECTS[1], "too_large", "no"]]
    assert life.contents(SUBJECTS[0]) == ["2", "3", "4"]
    life.end()


@pytest.mark.parametrize("where", ["in the same piece", "in the last record"])
def test_refused_rows_are_told_though_something_failed_right_behind_them(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releasing, "PATIENCE_SECONDS", -1.0)
    life = Life(tmp_path)
    append, finish = life.engine.append_runs, life.store.finish
    refused = life.runtime.broker.admission.refused_runs
    faults = [True]

    def refuse(runs: Any, now: int) -> Any:
        return refused(runs, now) | {i: ("too_large", "no") for i, one in enumerate(runs) if one.subject == SUBJECTS[1]}

    def full(*arguments: Any) -> Any:
        return FULL if where == "in the same piece" and faults and faults.pop() else append(*arguments)

    async def fail(*arguments: Any) -> None:
        if where == "in the last record" and faults and faults.pop():
            raise StagingFailed("unavailable", "the disk is full")
        await finish(*arguments)

    life.runtime.broker.admission.refused_runs = refuse  # type: ignore[method-assign]
    life.engine.append_runs = full  # type: ignore[method-assign]
    life.store.finish = fail
    life.ask("stage", [TRANSACTION, 0, 0, 1, 0], 2, [run(SUBJECTS[1], "1"), run(SUBJECTS[0], "2")])
    assert life.ask("commit", TRANSACTION, 0, [[0, 1, 2]], {})[1] == "unavailable"
    [_, summary] = life.ask("commit", TRANSACTION, 0, [[0, 1, 2]], {})
    assert summary["refused"] == [[0, 0, SUBJECTS[1], "too_large", "no"]]
    assert life.contents(SUBJECTS[0]) == ["2"]
    life.end()


def test_a_batch_that_was_begun_without_its_rows_is_begun_again(tmp_path: Path) -> None:
    """Its committer was told that it could not be begun, and dropped the rows; the record is on the disk though."""
    life = Life(tmp_path)
    life.ask("stage", [TRANSACTION, 0, 0, 1, 0], 1, [run(SUBJECTS[0], "1")])
    assert life.ask("commit", TRANSACTION, 0, [[0, 1, 1]], {})[0] == "committed"
    life.ask("stage", [TRANSACTION, 1, 0, 2, 0], 1, [run(SUBJECTS[0], "2")])
    store = life.commits._store
    key = "0::" + TRANSACTION
    before = store._records[key]
    store._records[key] = structs.replace(before, batch=1, winners=[(0, 99, 5)], base=1, rows=5, state="begun")
    store._begun.add(key)
    life.go_on()
    life.go_on()
    assert life.commits.failed == 1  # who knows no attempts does not try again and again
    assert life.ask("commit", TRANSACTION, 1, [[0, 2, 1]], {})[1]["winners"] == [[0, 2, 1]]
    assert life.contents(SUBJECTS[0]) == ["1", "2"]
    life.end()


def test_a_token_that_is_revoked_while_the_commit_waits(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.ask("stage", [TRANSACTION, 0, 0, 1, 0], 1, [run(SUBJECTS[0], "1")])

    def revoked(principal: Any) -> Any:
        raise Refused(Close.DENIED, "the token was revoked")

    life.runtime.broker.grants.current = revoked  # type: ignore[method-assign]
    life.publisher.current = lambda moment: life.publisher.principal  # type: ignore[method-assign,assignment,return-value]
    assert life.ask("commit", TRANSACTION, 0, [[0, 1, 1]], {})[:2] == ["failed", "denied"]
    assert life.contents(SUBJECTS[0]) == []
    life.end()


def test_commits_that_wait_name_so_many_attempts_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "WAITING_ATTEMPTS_MAX", 100)
    life = Life(tmp_path)
    many = [[number, 1, 1] for number in range(60)]
    life.commits._commits["5:other:x"] = commits.Commit("5:other:x", 0, [(0, 1, 1)] * 60, None, once=False)
    assert life.ask("commit", TRANSACTION, 0, many, {})[1] == "busy"
    assert life.ask("commit", TRANSACTION, 0, many[:40], {})[1] == "missing"
    life.end()
