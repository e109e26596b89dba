"""The past of a subject: the archive and the cache as one sequence, and what is missing told; from lists, and live."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.client import ClientError, Denied, Gap, Message, NotReady, Past, Position, blocking, connect
from fastpath.client.past import end_of, joined, reaches, since_of
from fastpath.client.publisher.publisher import Publisher
from fastpath.core.protocol.errors import InvalidSubject
from tests.support.promises import kept
from tests.support.rights import load_rights, rule
from tests.support.sidecar import Sidecar
from tests.support.tokens import mint
from tests.support.waiting import PATIENCE_SECONDS

NOON = 1_700_049_600_000


def message(seq: int, epoch: int = 7, ms: int | None = None, kind: str = "historical", content: str = "") -> Message:
    """Number `seq` came `seq` ms after noon, unless it says otherwise."""
    at = NOON + (seq if ms is None else ms)
    return Message(subject="/a/b", content=content, fields={}, epoch=epoch, seq=seq, time=at, kind=kind)


def some(*numbers: int, epoch: int = 7) -> list[Message]:
    return [message(seq, epoch) for seq in numbers]


@pytest.mark.parametrize(
    ("archived", "cached", "since", "found", "gaps"),
    [
        (some(1, 2, 3), some(4, 5), None, [1, 2, 3, 4, 5], []),
        (some(3, 1, 2, 2), some(2, 3, 4), None, [1, 2, 3, 4], []),
        (some(1, 2), some(5, 6), None, [1, 2, 5, 6], [Gap(3, 4)]),
        (some(1, 2, 4), some(5), None, [1, 2, 4, 5], [Gap(3, 3)]),
        (some(), some(5, 6), None, [5, 6], []),
        (some(1, 2), some(), None, [1, 2], []),
        # A time, with and without what shows that nothing is missing before.
        (some(2, 3, 4), some(5), NOON + 3, [3, 4, 5], []),
        (some(3, 4), some(5), NOON + 3, [3, 4, 5], [Gap(0, 2)]),
        (some(2), some(5), NOON + 3, [5], [Gap(3, 4)]),
        (some(1, 2), some(3), NOON - 1000, [1, 2, 3], []),
        (some(1), some(2), NOON + 9, [], []),
        # A position: its message need not be there.
        (some(3, 4), some(5), Position(7, 2), [3, 4, 5], []),
        (some(4), some(5), Position(7, 2), [4, 5], [Gap(3, 3)]),
        (some(), some(9), Position(7, 2), [9], [Gap(3, 8)]),
        (some(), some(), Position(7, 2), [], []),
        # A later epoch goes on, or begins anew.
        (some(1, 2), some(3, epoch=8), None, [1, 2, 3], []),
        (some(1, 2), some(1, 2, epoch=8), None, [1, 2, 1, 2], []),
        (some(1, 2), some(2, epoch=8), None, [1, 2, 2], [Gap(1, 1)]),
        (some(1, 2), some(5, epoch=8), Position(7, 1), [2, 5], [Gap(3, 4)]),
    ],
)
def test_one_sequence(
    archived: list[Message], cached: list[Message], since: Any, found: list[int], gaps: list[Gap]
) -> None:
    messages, missing = joined(archived, cached, since)
    assert [one.seq for one in messages] == found
    assert missing == gaps


@given(
    st.sets(st.integers(1, 30)), st.sets(st.integers(1, 30)), st.one_of(st.none(), st.integers(0, 31)), st.booleans()
)
def test_every_number_comes_once_in_order_or_is_in_a_gap(
    archived: set[int], cached: set[int], start: int | None, by_time: bool
) -> None:
    since = None if start is None else NOON + start + 1 if by_time else Position(7, start)
    messages, gaps = joined(some(*archived), some(*cached), since)
    numbers = [one.seq for one in messages]
    assert numbers == sorted({seq for seq in archived | cached if start is None or seq > start})
    if numbers and start is not None:
        missing = {seq for gap in gaps for seq in range(max(gap.first, start + 1), gap.last + 1)}
        assert missing == set(range(start + 1, numbers[-1] + 1)) - set(numbers)


def test_what_the_cache_has_counts_and_is_enough_where_it_reaches_back() -> None:
    messages, _ = joined([message(1, content="old")], [message(1, content="new")], None)
    assert [one.content for one in messages] == ["new"]
    cached = some(4, 5)
    assert [reaches(cached, since) for since in (None, NOON + 4, NOON + 5, Position(7, 2), Position(7, 3))] == [
        False, False, True, False, True,
    ]  # fmt: skip
    assert not reaches([], NOON)


def test_where_the_cache_ends() -> None:
    live = [message(6, kind="update"), message(9, kind="update")]
    assert end_of([*some(4, 5), *live], Position(7, 9)) == (some(4, 5), Position(7, 5))
    assert end_of(live, Position(7, 9)) == ([], Position(7, 5))
    assert end_of([message(0)], Position(7, 3)) == ([], Position(7, 3))
    assert end_of([], None) == ([], Position(0, 0))


def test_since_is_a_time_or_a_position() -> None:
    assert since_of(None) is None
    assert since_of((1, 2)) == Position(1, 2)
    assert since_of(datetime.fromtimestamp(NOON / 1000, UTC)) == since_of(NOON) == NOON
    with pytest.raises(ValueError, match="needs a time zone"):
        since_of(datetime(2026, 11, 21))  # noqa: DTZ001 - that is what is refused
    for wrong in ("2026-11-21", 1.5, True, (1,), (1, "2")):
        with pytest.raises(TypeError, match="since is a datetime, ms since 1970 or a position"):
            since_of(wrong)


@pytest.fixture(scope="module")
def shared() -> Iterator[Sidecar]:
    """It keeps five messages of a subject."""
    with Sidecar(mode="none", cache_messages=5) as running:
        yield running


def publish(sidecar: Sidecar, subject: str, numbers: Iterable[int]) -> None:
    with Publisher(sidecar.publisher_url) as publisher:
        publisher.send_batch([[subject, str(number), {f"f{number % 2}": str(number)}] for number in numbers])
        publisher.flush()


def contents(past: Past) -> list[str]:
    return [str(one.content) for one in past.messages]


async def test_snapshot_tail_and_archive_in_one_call(shared: Sidecar) -> None:
    subject = f"/past/{time.monotonic_ns()}"
    publish(shared, subject, range(1, 6))
    async with connect(shared.client_url) as client:
        first = await client.history(subject)
        assert contents(first) == ["1", "2", "3", "4", "5"]
        publish(shared, subject, range(6, 10))
        asked: list[Any] = []

        def lake(name: str, since: Any) -> list[Message]:
            assert threading.current_thread() is not threading.main_thread()
            asked.append((name, since))
            return first.messages

        past = await client.history(subject, lake=lake)
        kept([str(number) for number in range(1, 10)] == contents(past), past)
        assert past.gaps == []
        assert asked == [(subject, None)]
        assert past.snapshot is not None
        assert (past.snapshot.content, past.snapshot.fields) == ("9", {"f1": "9", "f0": "8"})
        assert past.position == (past.messages[-1].epoch, 9)
        # It goes on where the past ends, and the subscriptions of the call are gone.
        async with client.subscribe(subject, since=past.position) as stream:
            publish(shared, subject, [10])
            async with asyncio.timeout(PATIENCE_SECONDS):
                assert (await anext(stream)).content == "10"

        late = await client.history(subject, since=Position(past.position.epoch, 8), lake=lake)
        assert (contents(late), late.gaps, len(asked)) == (["9", "10"], [], 1)  # the cache reaches back
        publish(shared, subject, range(11, 21))
        torn = await client.history(subject, since=Position(past.position.epoch, 3), lake=lake)
        assert (contents(torn), torn.gaps) == (["4", "5", "16", "17", "18", "19", "20"], [Gap(6, 15)])
        assert (await client.history(subject, since=datetime(2020, 1, 1, tzinfo=UTC))).gaps == [Gap(0, 15)]


async def test_beside_other_streams_of_the_subject(shared: Sidecar) -> None:
    """Which hear nothing of it, also one that is conflated; and a lake that is asynchronous."""
    subject = f"/past/{time.monotonic_ns()}"
    publish(shared, subject, range(1, 4))

    async def archived(name: str, since: Any) -> list[Message]:
        await asyncio.sleep(0)
        return [Message(subject=name, content="0", fields={}, epoch=1, seq=1, time=NOON)]

    async with connect(shared.client_url) as client:
        stream = client.subscribe(subject, conflation=100)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert (await anext(stream)).content == "3"
        for _ in range(3):
            past = await client.history(subject, lake=archived)
            assert (contents(past), past.gaps) == (["0", "1", "2", "3"], [])
            assert past.snapshot is not None
        publish(shared, subject, [4])
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert (await anext(stream)).content == "4"


async def test_a_subject_without_a_past_and_one_that_was_removed(shared: Sidecar) -> None:
    subject = f"/past/{time.monotonic_ns()}"
    async with connect(shared.client_url) as client:
        nothing = await client.history(subject)
        assert (nothing.snapshot, nothing.messages, nothing.gaps) == (None, [], [])
        publish(shared, subject, [1])
        await client.remove(subject)
        past = await client.history(subject)
        assert (past.snapshot, [one.removed for one in past.messages]) == (None, [False, True])
        with pytest.raises(InvalidSubject):
            await client.history("/past/*")
        with pytest.raises(OSError, match="no disk"):
            await client.history(subject, lake=_broken)


def _broken(subject: str, since: Any) -> list[Message]:
    raise OSError("no disk")


async def test_without_the_right_no_archive_is_asked(rules_sidecar: Sidecar) -> None:
    asked: list[str] = []

    def lake(subject: str, since: Any) -> list[Message]:
        asked.append(subject)
        return []

    async with connect(rules_sidecar.client_url, mint("ann", uid="7"), timeout_seconds=PATIENCE_SECONDS) as client:
        with pytest.raises(NotReady):
            await client.history("/a/b", lake=lake)
        load_rights(rules_sidecar.control, rule(1, "user:7", "/open/*"))
        with pytest.raises(Denied):
            await client.history("/a/b", lake=lake)
        waiting = client.subscribe("/a/c")
        with pytest.raises(Denied):
            await client.history("/a/c", lake=lake)
        await waiting.aclose()
        assert (await client.history("/open/a", lake=lake)).messages == []
    assert asked == ["/open/a"]


def test_the_same_without_async(shared: Sidecar) -> None:
    subject = f"/past/{time.monotonic_ns()}"
    publish(shared, subject, range(1, 9))
    with blocking.connect(shared.client_url) as client:
        past = client.history(subject, since=NOON, lake=lambda name, since: [])
        assert (contents(past), past.gaps) == (["4", "5", "6", "7", "8"], [Gap(0, 3)])
    with pytest.raises(ClientError):
        client.history(subject)
