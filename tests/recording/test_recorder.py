"""The recorder without a server: messages and what happened in between, in their order; what its operator is told."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fastpath.client.errors import ClientError, ConnectionRejected
from fastpath.client.message import Message, Status
from fastpath.client.subscriber.streams import MessageStream
from fastpath.recording import recorder as module
from fastpath.recording.lines import Happened, Recorded
from fastpath.recording.record import progress_line
from fastpath.recording.recorder import DENIED_MAX, TOLD_MAX, Clock, Recorder
from fastpath.recording.writing import RecordingParts
from tests.support.recording.samples import BEGAN_US, header, read
from tests.support.waiting import auntil, run


def _message(content: str) -> Message:
    return Message(subject="/a/b", content=content, fields={}, epoch=1, seq=1, time=0)


async def _nothing(_: set[str]) -> None:
    """There is no server to unsubscribe from."""


class Bench:
    """A recorder with a stream that the test fills."""

    def __init__(self, folder: Path, seconds_max: float = 0, *, live: bool = False) -> None:
        self.now = BEGAN_US
        self.told: list[str] = []
        self.recorder = Recorder(self.clock, self.told.append, live=live)
        self.stream = MessageStream(["/a/**"], _nothing)
        self.path = folder / "a.jsonl"
        self.parts = RecordingParts(
            str(self.path), lambda part, at_us: header(part=part, at_us=at_us), BEGAN_US, seconds_max=seconds_max
        )

    def clock(self) -> int:
        """A millisecond later each time."""
        self.now += 1000
        return self.now

    def push(self, *contents: str) -> None:
        """Messages arrive."""
        for content in contents:
            self.stream.push(_message(content))

    def told_of(self, *names: str) -> None:
        """Statuses are told."""
        for name in names:
            self.recorder.noticed(Status(name=name, subject="/a/b"))

    def lines(self) -> list[str]:
        """What is in the file: contents, and names of statuses in capitals."""
        self.parts.flush()
        return [
            line.name.upper() if isinstance(line, Happened) else str(line.content)
            for line in read(self.path)
            if isinstance(line, Happened | Recorded)
        ]


def test_what_happened_stands_where_it_happened(tmp_path: Path) -> None:
    """Between the messages that were there before and those that came after, however many were waiting."""

    async def story() -> None:
        bench = Bench(tmp_path)
        bench.told_of("connected")
        work = asyncio.create_task(bench.recorder.run(bench.stream, bench.parts, lambda: None))
        await asyncio.sleep(0)
        bench.push("1", "2")
        bench.told_of("disconnected", "connected")
        bench.push("3")
        bench.told_of("subscribed", "recovered", "resynchronised")
        bench.push("4", "5")
        await auntil(lambda: bench.parts.messages == 5)
        bench.told_of("gap")
        bench.push("6")
        bench.recorder.stop("signal")
        await work
        assert bench.lines() == [
            "CONNECTED", "1", "2", "DISCONNECTED", "CONNECTED", "3", "RESYNCHRONISED", "4", "5", "GAP", "6",
        ]  # fmt: skip
        assert bench.recorder.why == "signal"
        times = [line.at_us for line in read(bench.path)]
        assert len(set(times)) > 4

    run(story())


def test_what_comes_until_the_end_is_kept(tmp_path: Path) -> None:
    """Also in the turns of the loop that it takes to end."""

    async def story() -> None:
        bench = Bench(tmp_path)
        work = asyncio.create_task(bench.recorder.run(bench.stream, bench.parts, lambda: None))
        await asyncio.sleep(0)
        bench.recorder.stop("signal")
        pushed = 0
        while not work.done():
            bench.push("x")
            pushed += 1
            await asyncio.sleep(0)
        assert pushed > 2
        assert bench.parts.messages >= pushed - 1

    run(story())


def test_a_status_alone_is_written_and_flushed_without_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a file that is looked at says why nothing comes."""
    monkeypatch.setattr(module, "TICK_SECONDS", 0.01)

    async def story() -> None:
        bench = Bench(tmp_path)
        ticks: list[int] = []
        work = asyncio.create_task(bench.recorder.run(bench.stream, bench.parts, lambda: ticks.append(1)))
        bench.told_of("denied")
        await auntil(lambda: [getattr(line, "name", "") for line in read(bench.path)] == ["denied"])
        assert ticks
        bench.recorder.stop("for")
        await work

    run(story())


@pytest.mark.parametrize("live", [True, False])
def test_who_reads_along_need_not_wait(tmp_path: Path, live: bool) -> None:
    """Each line is out at once; otherwise many are written together."""

    async def story() -> None:
        bench = Bench(tmp_path, live=live)
        work = asyncio.create_task(bench.recorder.run(bench.stream, bench.parts, lambda: None))
        bench.push("1")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert bench.parts.messages == 1
        assert len(read(bench.path)) == live
        bench.recorder.stop("for")
        await work

    run(story())


def test_a_part_ends_in_time_although_nothing_more_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that who takes away the finished parts has all that there is."""
    monkeypatch.setattr(module, "TICK_SECONDS", 0.01)

    async def story() -> None:
        bench = Bench(tmp_path, seconds_max=0.005)
        work = asyncio.create_task(bench.recorder.run(bench.stream, bench.parts, lambda: None))
        bench.push("1")
        await auntil(lambda: (tmp_path / "a-0002.jsonl").exists())
        bench.recorder.stop("for")
        await work

    run(story())


def test_the_end_of_the_client_ends_it_after_what_came(tmp_path: Path) -> None:
    """With the client's own words; and a stream that is taken away ends it too."""

    async def story(error: Exception | None) -> None:
        bench = Bench(tmp_path)
        work = asyncio.create_task(bench.recorder.run(bench.stream, bench.parts, lambda: None))
        await asyncio.sleep(0)
        bench.push("1")
        bench.told_of("failed")
        bench.stream.end(error)
        try:
            await work
        finally:
            assert bench.lines() == ["1", "FAILED"]
            bench.path.unlink()

    with pytest.raises(ConnectionRejected):
        run(story(ConnectionRejected(4501, "no")))
    with pytest.raises(ClientError, match="the subscription has ended"):
        run(story(None))


def test_the_operator_is_told_in_bounds(tmp_path: Path) -> None:
    """The first of each kind in words, all counted; what is denied until the right comes."""
    bench = Bench(tmp_path)
    for number in range(DENIED_MAX + 5):
        bench.recorder.noticed(Status(name="denied", subject=f"/a/{number}", reason="no rule"))
    assert bench.told == [f"/a/{number} is denied: no rule" for number in range(TOLD_MAX)]
    assert len(bench.recorder.denied) == DENIED_MAX
    assert progress_line(bench.recorder, bench.parts) == f"0 messages in {bench.path}  not connected  1000 denied"

    bench.told_of("connected")
    for number in range(DENIED_MAX):
        bench.recorder.noticed(Status(name="granted", subject=f"/a/{number}"))
    bench.told_of("resynchronised", "resynchronised", "disconnected", "connected")
    assert (bench.recorder.losses, bench.recorder.denied) == (2, set())
    assert bench.told[TOLD_MAX] == "messages of /a/b may be missing: not cached any more"
    assert bench.told[-1].startswith("the connection was lost")
    assert progress_line(bench.recorder, bench.parts) == f"0 messages in {bench.path}"


def test_retries_are_told_apart_from_a_loss(tmp_path: Path) -> None:
    """Before the first connection nothing is lost; an attempt that fails like the one before is not told again."""
    bench = Bench(tmp_path)

    def fails(reason: str, code: int = 1006) -> None:
        bench.recorder.noticed(Status(name="disconnected", code=code, reason=reason))

    for reason in ("refused", "refused", "no route", "refused"):
        fails(reason)
    bench.told_of("connected")
    fails("the server drains", 4000)
    for number in range(2 * TOLD_MAX):
        fails(f"refused {number}")
    bench.told_of("connected")
    fails("no sign of life for 30 s")
    attempts = ["refused", "no route", "refused", *(f"refused {number}" for number in range(TOLD_MAX - 3))]
    away = [f"no connection: {reason}; it is tried again" for reason in attempts]
    lost = [f"the connection was lost: {why}" for why in ("4000 the server drains", "no sign of life for 30 s")]
    assert bench.told == [*away[:3], lost[0], *away[3:], lost[1]]


def test_it_has_begun_when_the_server_has_answered_about_everything(tmp_path: Path) -> None:
    """Then, and once."""
    bench = Bench(tmp_path)
    begun: list[int] = []
    bench.recorder.begin(["/a/b", "/a/*"], lambda: begun.append(1))
    bench.told_of("subscribed")
    assert not begun
    bench.recorder.noticed(Status(name="denied", subject="/a/*"))
    bench.told_of("subscribed")
    assert begun == [1]


def test_the_clock_goes_on_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the machine's clock is set."""
    clock = Clock()
    before = clock()
    monkeypatch.setattr("time.time_ns", lambda: 0)
    assert 0 <= clock() - before < 1_000_000
    assert before > BEGAN_US - 10 * 365 * 86_400_000_000
