"""What revision aa72b5c has acknowledged is what the present sidecar has, started on its journal or its Redis."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.edge.transacting import Transacting
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.redis import RedisServer
from tests.support.sidecar import Sidecar
from tests.upgrade import journal_data, redis_data
from tests.upgrade.make_fixtures import FIXTURES
from tests.upgrade.story import (
    BASE,
    BATCHES,
    BEGUN,
    BEGUN_ROWS,
    ENDS,
    FILLED,
    NEXT,
    SETTINGS,
    SUBJECTS,
    WAITING,
    Reader,
    Told,
    chat,
    commit_begun,
    plain,
)

WITH_BASE = [("journal", BASE), ("copied journal", BASE)]
CACHED = [(engine, end) for engine in ("journal", "copied journal", "redis") for end in ENDS if end != BASE]
"""The journal where it was written, a copy of it on another machine, and Redis, by how the earlier sidecar ended."""


class Taken(NamedTuple):
    """The present sidecar on what the earlier one has left, and what that one had told the world."""

    engine: str
    end: str
    sidecar: Sidecar
    facts: dict[str, Any]

    def newest(self) -> dict[str, list[int]]:
        """The position of each subject's last message."""
        numbers = {subject: self.facts["snapshots"][subject][-1][0] for subject in SUBJECTS}
        return {
            subject: [self.facts["feed"][-1][0], seq]
            for subject, seq in {**numbers, FILLED: self.facts["filled"]}.items()
        }

    def goes_on(self, epoch: int) -> bool:
        """Whether this is the epoch that has to be in force: a copy, and Redis filled anew, begin another one."""
        before = self.facts["feed"][-1][0]
        return epoch == before if self.engine == "journal" else epoch > before


def fixtures(pairs: list[tuple[str, str]]) -> list[Any]:
    """As parameters of ``taken``."""
    marks = {"redis": [pytest.mark.redis]}
    return [pytest.param(pair, id=" ".join(pair), marks=marks.get(pair[0], ())) for pair in pairs]


cached = pytest.mark.parametrize("taken", fixtures(CACHED), indirect=True, scope="module")
"""Only where the messages are there, too; a base is made when they have left the cache."""


@pytest.fixture(scope="module", params=fixtures(CACHED + WITH_BASE))
def taken(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Taken]:
    """One for each fixture; no test reads the subjects that another writes to."""
    engine, end = request.param
    name = f"{engine.removeprefix('copied ')}-{end}"
    facts = json.loads((FIXTURES / f"{name}.facts.json").read_text(encoding="utf-8"))
    with ExitStack() as stack:
        if engine != "redis":
            folder = tmp_path_factory.mktemp(name)
            sidecar = journal(name, facts["ended"], folder)
            if engine == "journal":
                journal_data.in_place(folder)
        else:
            server = stack.enter_context(RedisServer())
            redis_data.restore(server, json.loads((FIXTURES / f"{name}.json").read_text(encoding="ascii")))
            sidecar = Sidecar(**SETTINGS, engine=server.url)
        yield Taken(engine, end, stack.enter_context(sidecar), facts)
        assert "Traceback" not in sidecar.log, sidecar.log


def journal(name: str, ended: int, folder: Path) -> Sidecar:
    """A sidecar on a copy of the journal, a second after the earlier one ended."""
    shutil.copytree(FIXTURES / name, folder, dirs_exist_ok=True)
    sidecar = Sidecar(**SETTINGS, journal="batch", data=folder)
    sidecar.command = [sys.executable, "-m", "tests.upgrade.clock", str(int(time.time()) - ended - 1)]
    return sidecar


def since(told: Told, positions: dict[str, list[int]]) -> Told:
    """What a subscriber that has read so far has missed: all that is numbered above it."""
    return {
        subject: [row for row in told.get(subject, []) if row[0] > seq]
        for subject, (_, seq) in positions.items()
        if any(row[0] > seq for row in told.get(subject, []))
    }


def without_kind(told: Told) -> Told:
    """As they were when they were new."""
    return {
        subject: [[*row[:4], {key: value for key, value in row[4].items() if key != "kind"}] for row in rows]
        for subject, rows in told.items()
    }


@cached
@pytest.mark.parametrize("cursor", ["before", "between"])
def test_a_subscriber_that_comes_back_gets_what_it_missed(taken: Taken, cursor: str) -> None:
    positions = {subject: taken.facts[cursor][subject] for subject in SUBJECTS}
    with Reader(taken.sidecar) as reader:
        results = reader.subscribe(*SUBJECTS, since=positions)
        assert [result.get("recovery") for result in results] == ["recovered"] * len(SUBJECTS)
        assert without_kind(reader.all()) == since(taken.facts["told"], positions)


def test_a_new_subscriber_gets_the_snapshots_and_the_positions(taken: Taken) -> None:
    with Reader(taken.sidecar) as reader:
        results = reader.subscribe(*SUBJECTS)
        assert reader.all() == taken.facts["snapshots"]
        ends = {subject: max(row[0] for row in rows) for subject, rows in taken.facts["told"].items()}
        assert {result["subject"]: result["seq"] for result in results} == {
            subject: ends[subject] for subject in SUBJECTS
        }
        assert len({result["epoch"] for result in results}) == 1


@cached
def test_the_history_is_whole(taken: Taken) -> None:
    with Reader(taken.sidecar) as reader:
        reader.subscribe(*SUBJECTS, history=10_000)
        whole = {subject: [0, 0] for subject in SUBJECTS}
        assert without_kind(reader.all()) == since(taken.facts["told"], whole)


@cached
def test_what_is_published_again_is_stored_once(taken: Taken) -> None:
    first = 1
    for batch, (epoch, results) in zip(BATCHES, taken.facts["feed"], strict=True):
        with WirePublisher(taken.sidecar, publisher="feed") as publisher:
            publisher.packet("batch", 1, batch, first)
            again = plain(publisher.next()[3])
            assert again == [[epoch, one] if isinstance(one, int) and one else one for one in results]
        first += len(batch)
    with WireClient(taken.sidecar, "msgpack") as talker:
        talker.ask("connect", "connected", publisher="talker")
        for number, answer in enumerate(taken.facts["chat"], 1):
            assert chat(talker, answer["closure"], number) == answer
    with Reader(taken.sidecar) as reader:
        [result] = reader.subscribe("/upgrade/prices")
        assert result["seq"] == 4


@pytest.mark.parametrize("taken", fixtures(WITH_BASE), indirect=True, scope="module")
def test_of_a_base_nothing_is_stored_twice_and_numbers_go_on(taken: Taken) -> None:
    with WirePublisher(taken.sidecar, publisher="feed") as publisher:
        publisher.packet("batch", 1, BATCHES[1], len(BATCHES[0]) + 1)
        assert [code for code, _ in publisher.next()[3]] == ["stale"] * len(BATCHES[1])
    newest = taken.newest()
    with Reader(taken.sidecar) as reader:
        for result in reader.subscribe(*SUBJECTS, FILLED, since=newest):
            assert (result["recovery"], result["seq"]) == ("recovered", newest[result["subject"]][1])
        assert reader.all() == {}


def test_numbers_go_on(taken: Taken) -> None:
    first = sum(map(len, BATCHES)) + 1
    with Reader(taken.sidecar) as reader, WirePublisher(taken.sidecar, publisher="feed") as publisher:
        reader.subscribe(NEXT)
        publisher.packet("batch", 1, [[NEXT, "second"]], first)
        _, _, epoch, results = publisher.next()
        assert results == [2]
        assert taken.goes_on(epoch)
        assert [(row[0], row[2]) for row in reader.hear(NEXT, 2)] == [(1, "first"), (2, "second")]


def test_a_committed_batch_is_not_committed_again(taken: Taken) -> None:
    kind, summary = taken.facts["committed"]
    with WirePublisher(taken.sidecar) as spark, Reader(taken.sidecar) as reader:
        reader.subscribe("/upgrade/committed")
        before = len(reader.all()["/upgrade/committed"])
        committed = Transacting(spark, "committed")
        committed.stage(0, 0, 6, [["/upgrade/committed", ["of another attempt"], None, None]])
        assert plain(committed.commit(0, (0, 6, 1))) == [kind, summary | {"repeated": True}]
        assert len(reader.all()["/upgrade/committed"]) == before


def test_what_was_staged_is_committed_once(taken: Taken) -> None:
    with WirePublisher(taken.sidecar) as spark, Reader(taken.sidecar) as reader:
        reader.subscribe("/upgrade/waiting")
        assert reader.all() == {}
        waiting = Transacting(spark, "waiting")
        # What is staged again after an answer was lost is staged already.
        assert waiting.stage(2, 1, 9, WAITING[1]) == ["staged", 1, []]
        for repeated in (False, True):
            kind, summary = waiting.commit(2, (0, 9, 2), (1, 9, 1))
            assert (kind, summary["rows"], summary["repeated"]) == ("committed", 3, repeated), summary
        rows = [(row[0], row[2], row[4]) for row in reader.hear("/upgrade/waiting", 3)]
        assert rows == [(1, "first", {"closure": "w"}), (2, "second", {"closure": "w"}), (3, "third", {})]


def test_a_commit_that_was_begun_is_published_once(taken: Taken) -> None:
    with WirePublisher(taken.sidecar) as spark, Reader(taken.sidecar) as reader:
        kind, summary = commit_begun(spark)
        assert (kind, summary["rows"], summary["refused_rows"]) == ("committed", BEGUN_ROWS, 0)
        assert plain(summary["winners"]) == [[0, 31, BEGUN_ROWS]]
        if taken.end == "finish":
            assert summary["repeated"]
        assert commit_begun(spark)[1]["repeated"]
        reader.subscribe(BEGUN, history=10_000)
        rows = [(row[0], row[2]) for row in reader.hear(BEGUN, BEGUN_ROWS)]
        assert rows == [(number + 1, str(number)) for number in range(BEGUN_ROWS)]
