"""The clients that stage and commit, against real sidecars: refusals, repeats, a sidecar that goes away, no room."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fastpath.client.control.client import Control
from fastpath.client.errors import ConnectionRejected, PublishTimeout, StagingFailed
from fastpath.client.publisher.transactions import Attempt, Committer, RefusedRow, Stager
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint_jwt
from tests.support.waiting import until

encode = msgspec.msgpack.encode
ATTEMPT = Attempt("load", 0, 0, 1)


def runs(*contents: str, subject: str = "/t/a") -> bytes:
    return encode([[subject, contents]])


def stored(sidecar: Sidecar, subject: str = "/t/a") -> tuple[int, str] | None:
    with Control(sidecar.control) as control:
        message = control.snapshot(subject).get("message")
    return message and (message["seq"], message["content"])


def figure(sidecar: Sidecar, name: str) -> Any:
    with Control(sidecar.control) as control:
        return control.stats()[name]


def test_what_is_staged_is_published_once_when_it_is_committed(sidecar: Sidecar) -> None:
    with Stager(sidecar.publisher_url, None, ATTEMPT, window=2) as stager:
        for number in range(20):
            stager.stage(2, runs(str(number), f"{number}.5"), None)
        assert stager.flush() == 40
        assert stager.collect() == []
    assert stored(sidecar) is None
    with Committer(sidecar.publisher_url, None) as committer:
        done = committer.commit("load", 0, [(0, 1, 40)])
        assert (done.rows, done.repeated, done.winners) == (40, False, [(0, 1, 40)])
        again = committer.commit("load", 0, [(0, 2, 39)])
        assert (again.rows, again.repeated, again.winners) == (40, True, [(0, 1, 40)])
    assert stored(sidecar) == (40, "19.5")


def test_refused_rows_are_told_and_the_others_are_staged(sidecar: Sidecar) -> None:
    with Stager(sidecar.publisher_url, None, ATTEMPT) as stager:
        stager.stage(3, encode([["/t/a", ["1"]], ["nope", ["2"]], ["/t/a", ["3"]]]), "first")
        stager.stage(1, runs("4"), "second")
        assert stager.flush() == 3
        assert stager.collect() == [("first", [RefusedRow(1, "invalid", "subject 'nope': no leading slash")])]
        assert stager.collect() == []


def test_a_single_row_that_makes_no_frame_is_refused_and_does_not_stop_the_others(sidecar: Sidecar) -> None:
    with Stager(sidecar.publisher_url, None, ATTEMPT, window=4) as stager:
        stager.stage(1, runs("before"), 0)
        stager.stage(1, runs("x" * (3 << 20)), 1)  # a frame, but more than a message may have
        stager.stage(1, runs("between"), 2)
        stager.stage(1, runs("x" * (5 << 20)), 3)  # no frame at all
        stager.stage(1, runs("after"), 4)
        assert stager.flush() == 3
        refused = sorted((tag, code) for tag, rows in stager.collect() for _, code, _ in rows)
        assert refused == [(1, "too_large"), (3, "too_large")]
    with Committer(sidecar.publisher_url, None) as committer:
        assert committer.commit("load", 0, [(0, 1, 3)], once=True).rows == 3
    assert stored(sidecar) == (3, "after")


def test_what_makes_no_sense_fails_at_once(sidecar: Sidecar) -> None:
    with Stager(sidecar.publisher_url, None, ATTEMPT) as stager:
        stager.stage(2, runs("only one"), None)
        with pytest.raises(StagingFailed, match=r"^invalid: a frame of 2 rows has 1"):
            stager.flush()
    with Committer(sidecar.publisher_url, None) as committer:
        with pytest.raises(StagingFailed, match=r"^missing: attempt 1 of partition 0 is not staged here"):
            committer.commit("load", 0, [(0, 1, 1)])
        committer.abort("load", 0, 0, 1)


def test_what_is_aborted_is_not_staged_any_more(sidecar: Sidecar) -> None:
    with Stager(sidecar.publisher_url, None, ATTEMPT) as stager:
        stager.stage(1, runs("1"), None)
        stager.flush()
    assert figure(sidecar, "staged_rows") == 1
    with Committer(sidecar.publisher_url, None) as committer:
        committer.abort("load", 0)
        assert figure(sidecar, "staged_rows") == 0
        with pytest.raises(StagingFailed, match=r"^missing: "):
            committer.commit("load", 0, [(0, 1, 1)])


def test_a_sidecar_that_is_killed_keeps_what_was_staged_in_files(tmp_path: Path) -> None:
    with Sidecar(journal="batch", data=str(tmp_path / "data")) as sidecar:
        url = ["127.0.0.1:1", sidecar.publisher_url]
        with Stager(url, None, ATTEMPT, window=2) as stager, Committer(url, None) as committer:
            for number in range(10):
                stager.stage(1, runs(str(number)), None)
            sidecar.kill()
            sidecar.start()
            for number in range(10, 20):
                stager.stage(1, runs(str(number)), None)
            assert stager.flush() == 20
            sidecar.kill()
            sidecar.start()
            assert committer.commit("load", 0, [(0, 1, 20)]).rows == 20
            sidecar.kill()
            sidecar.start()
            assert committer.commit("load", 0, [(0, 2, 20)]).repeated
        assert stored(sidecar) == (20, "19")


def test_a_sidecar_without_files_has_lost_it_and_says_so(sidecar: Sidecar) -> None:
    with Stager(sidecar.publisher_url, None, ATTEMPT) as stager:
        stager.stage(1, runs("1"), None)
        stager.flush()
        sidecar.kill()
        sidecar.start()
        stager.stage(1, runs("2"), None)
        with pytest.raises(StagingFailed, match=r"^gap: "):
            stager.flush()


def test_without_room_it_waits_until_there_is_some() -> None:
    with Sidecar(staged_bytes=1 << 20) as sidecar:
        full = runs(*["x" * 100] * 2000)

        def stage_all(stager: Stager) -> int:
            for _ in range(4):
                stager.stage(2000, full, None)
            return stager.flush()

        with Stager(sidecar.publisher_url, None, ATTEMPT) as first:
            stage_all(first)
        other = ATTEMPT._replace(transaction="other")
        hasty = Stager(sidecar.publisher_url, None, other, window=1, retry_seconds=0.3)
        with hasty, pytest.raises(PublishTimeout, match="staging_full"):
            stage_all(hasty)
        staged: list[int] = []

        def wait() -> None:
            with Stager(sidecar.publisher_url, None, ATTEMPT._replace(attempt=2)) as second:
                staged.append(stage_all(second))

        thread = threading.Thread(target=wait)
        thread.start()
        with Committer(sidecar.publisher_url, None) as committer:
            committer.abort("other", 0)
            until(lambda: figure(sidecar, "staged_rows") > 8000)  # some of it found room, the rest waits
            committer.abort("load", 0, 0, 1)
        thread.join(60)
        assert staged == [8000]


def test_nobody_but_its_user_commits_it() -> None:
    with Sidecar(mode="jwt", token_secret=SECRET) as sidecar:
        token = mint_jwt("feed", publish=["/t/**"])
        with Stager(sidecar.publisher_url, token, ATTEMPT) as stager:
            stager.stage(2, encode([["/t/a", ["1"]], ["/u/a", ["1"]]]), None)
            assert stager.flush() == 1
            assert [rows[0].code for _, rows in stager.collect()] == ["denied"]
        for user, pattern, why in (("thief", "/t/**", r"^missing: "), ("feed", "/u/**", r"^denied: /t/a: ")):
            committer = Committer(sidecar.publisher_url, mint_jwt(user, publish=[pattern]))
            with committer, pytest.raises(StagingFailed, match=why):
                committer.commit("load", 0, [(0, 1, 1)])
        with Committer(sidecar.publisher_url, "no token") as committer, pytest.raises(ConnectionRejected):
            committer.commit("load", 0, [(0, 1, 1)])
        with Committer(sidecar.publisher_url, token) as committer:
            assert committer.commit("load", 0, [(0, 1, 1)]).rows == 1
