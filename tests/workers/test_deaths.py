"""A worker that dies is replaced: its clients resume, and nobody misses an acknowledged message without being told."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from fastpath.client import connect
from fastpath.client.control.client import Control
from fastpath.client.message import Message, Status
from fastpath.client.publisher.publisher import Publisher
from fastpath.client.subscriber.client import Client
from tests.support.edge.spread import kill_worker, publisher, spread
from tests.support.edge.wire import WireClient
from tests.support.reconnecting import SOON
from tests.support.sidecar import ROOT, Sidecar
from tests.support.waiting import PATIENCE_SECONDS, auntil, run, until

WORKERS = 3
CLIENTS = 32
"""So many that no worker goes without one, as it would once in 17,000 times with 24 of them."""
MESSAGES = 2000
SUBJECT = "/deaths/one"


class Reader:
    """One client and all that it was told, in order."""

    def __init__(self, sidecar: Sidecar) -> None:
        self.heard: list[Message | Status] = []
        self.client: Client = connect(sidecar.client_url, on_status=self.heard.append, **SOON)

    async def read(self) -> None:
        async for message in self.client.subscribe(SUBJECT):
            self.heard.append(message)

    @property
    def messages(self) -> list[Message]:
        """What came live or was recovered."""
        return [one for one in self.heard if isinstance(one, Message) and one.kind != "snapshot"]

    def was_told(self, name: str, times: int = 1) -> bool:
        """Whether there was such a status, so often."""
        return sum(isinstance(one, Status) and one.name == name for one in self.heard) >= times


def publish_all(sidecar: Sidecar, acknowledged: list[int]) -> None:
    """Publish the numbers from 0 on, one by one; those that were acknowledged are known at any moment."""
    with Publisher(sidecar.publisher_url) as port:
        for number in range(MESSAGES):
            port.publish(SUBJECT, str(number))
            acknowledged.append(number)


async def story(sidecar: Sidecar, victim: int) -> list[Reader]:
    """Clients on all workers, messages all the time, and one worker killed in the middle."""
    readers = [Reader(sidecar) for _ in range(CLIENTS)]
    async with asyncio.TaskGroup() as group:
        tasks = []
        for reader in readers:
            await reader.client.__aenter__()
            tasks.append(group.create_task(reader.read()))
        await auntil(lambda: all(reader.was_told("subscribed") for reader in readers))
        acknowledged: list[int] = []
        publishing = asyncio.create_task(asyncio.to_thread(publish_all, sidecar, acknowledged))
        await auntil(lambda: len(acknowledged) > MESSAGES // 3)
        await asyncio.to_thread(kill_worker, sidecar, victim, WORKERS)
        await publishing
        last = str(MESSAGES - 1)

        def have_all() -> bool:
            return all(any(isinstance(m, Message) and m.content == last for m in reader.heard) for reader in readers)

        await auntil(have_all, 40)
        for reader in readers:
            await reader.client.aclose()
    return readers


def numbers(reader: Reader) -> list[int]:
    return [int(str(message.content)) for message in reader.messages]


def test_a_worker_dies_and_its_clients_resume() -> None:
    """Everybody has every message, once and in order."""
    with Sidecar(workers=WORKERS, cache_messages=MESSAGES) as sidecar:
        readers = run(story(sidecar, 1), 90)
    hit = [reader for reader in readers if reader.was_told("connected", 2)]
    assert 0 < len(hit) < CLIENTS
    for reader in readers:
        assert numbers(reader) == list(range(MESSAGES))
    assert all(reader.was_told("recovered") for reader in hit)
    assert not any(reader.was_told("resynchronised") for reader in readers)


def test_the_first_worker_dies_and_nothing_acknowledged_is_lost_untold() -> None:
    """Clients of the others follow on; those of the dead one recover, unless they had read what died with it."""
    with Sidecar(workers=WORKERS, cache_messages=MESSAGES) as sidecar:
        readers = run(story(sidecar, 0), 90)
    hit = [reader for reader in readers if reader.was_told("connected", 2)]
    assert 0 < len(hit) < CLIENTS
    for reader in readers:
        positions = [(message.epoch, message.seq) for message in reader.messages]
        assert len(set(positions)) == len(positions), "no position twice"
        assert positions == sorted(positions)
        got = numbers(reader)
        if reader in hit and reader.was_told("resynchronised"):
            # What it had read of the one message that was not acknowledged yet is void, and came again.
            again = [number for number, following in pairwise(got) if following <= number]
            assert len(again) <= 1, got
        else:
            assert got == list(range(MESSAGES))
        assert reader in hit or (reader.was_told("notice") and not reader.was_told("resynchronised"))


def test_clients_are_told_stale_then_fresh_and_the_epoch_before_its_first_message() -> None:
    with Sidecar(workers=2) as sidecar, spread(sidecar, 2) as clients:
        other = clients.others[0]
        for client in clients.all:
            client.subscribe("/told/one", "/told/never")
        with publisher(sidecar) as port:
            port.publish(["/told/one", "1"], ["/told/one", "2"])
        assert other.texts(2) == ["1", "2"]
        kill_worker(sidecar, 0, 2)
        told = [other.next() for _ in range(2)]
        assert [(one["op"], one["code"]) for one in told] == [("notice", "stale"), ("notice", "fresh")]
        with publisher(sidecar) as port:
            assert port.publish(["/told/one", "3"], ["/told/never", "1"]) == [3, 1]
        for subject, seq, text in (("/told/one", 2, "3"), ("/told/never", 0, "1")):
            epoch = other.next()
            assert (epoch["op"], other.subjects[epoch["sid"]], epoch["seq"]) == ("epoch", subject, seq)
            assert other.texts(1) == [text]


@contextmanager
def paused(pid: int) -> Iterator[None]:
    """A process that does not run for a while."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_while_the_first_worker_is_away_publications_fail_and_reads_are_served() -> None:
    with Sidecar(workers=2) as sidecar, spread(sidecar, 2) as clients:
        other = clients.others[0]
        with publisher(sidecar) as port:
            port.publish(["/away/one", "1", {"a": "1"}])
        until(lambda: other.subscribe("/away/one")[0].get("messages"))
        # The parent is held, so that no new first worker comes before the test is done with its absence.
        with paused(sidecar.pid):
            first = sidecar.ready["workers"][0]
            os.kill(first, signal.SIGKILL)
            assert other.answer("notice")["code"] == "stale"
            # Until then the kernel may give it the next connection.
            until(lambda: " Z " in Path(f"/proc/{first}/stat").read_text())
            answer = other.ask("publish", "published", subject="/away/one", content="x", closure="c")
            assert (answer["status"], "restarted" in answer["reason"]) == ("unavailable", True)
            with WireClient(sidecar) as late:
                late.ask("connect", "connected")
                assert late.next()["code"] == "stale"
                [result] = late.subscribe("/away/one", history=5)
                assert (result["seq"], result["messages"]) == (1, 1)
                assert late.message()[3:5] == ["1", {"a": "1"}]
        assert other.answer("notice")["code"] == "fresh"
        answer = other.ask("publish", "published", subject="/away/one", content="x", closure="c")
        assert (answer["status"], answer["seq"]) == ("ok", 2)
        with Control(sidecar.control) as control:
            figures = until(lambda: (now := control.stats())["publications_failed"] and now)
        assert (figures["publications_failed_unavailable"], figures["publications_refused"]) == (1, 0)


class Numbered:
    """A client of another worker than the first, which numbers its publications and waits for no answer."""

    def __init__(self, sidecar: Sidecar, first: str, publisher: str) -> None:
        self.subject = f"/numbered/{publisher}"

        def elsewhere() -> WireClient | None:
            client = WireClient(sidecar)
            if client.ask("connect", "connected", publisher=publisher)["server"] != first:
                return client
            client.sock.close()
            return None

        self.wire = until(elsewhere)

    def say(self, *numbers: int) -> None:
        """Publish, and be sure that the worker has taken it in."""
        for number in numbers:
            self.wire.say("publish", subject=self.subject, content=str(number), closure="c", publication=number)
        self.pong = self.wire.say("ping")

    def told(self, count: int) -> list[str]:
        """The next outcomes."""
        return [str(self.wire.answer("published")["status"]) for _ in range(count)]


def test_what_comes_after_what_the_first_worker_did_not_answer_is_stored_after_it() -> None:
    """One client's were under way when it died, the other's came while it was away; and each has sent more by the time
    that the next one is there."""
    with Sidecar(workers=2) as sidecar, spread(sidecar, 2) as clients:
        asked, late = (Numbered(sidecar, clients.server, name) for name in "pq")
        for each in (asked, late):
            clients.others[0].subscribe(each.subject)
        first = sidecar.ready["workers"][0]
        with paused(sidecar.pid):
            os.kill(first, signal.SIGSTOP)
            asked.say(1, 2, 3)
            asked.wire.answer("pong", asked.pong)
            os.kill(first, signal.SIGKILL)
            assert asked.told(3) == ["unavailable"] * 3
            late.say(1, 2)
            assert late.told(2) == ["unavailable"] * 2
        for each in (asked, late):
            assert each.wire.answer("notice")["code"] == "fresh"
            each.say(4, 5)
            assert each.told(2) == ["unavailable"] * 2
            each.say(1, 2, 3, 4, 5)
            assert each.told(5) == ["ok"] * 5
            assert clients.others[0].texts(5) == ["1", "2", "3", "4", "5"]
            each.wire.sock.close()


def test_a_worker_that_dies_again_and_again_is_restarted_after_a_pause() -> None:
    with Sidecar(workers=2) as sidecar:
        for _ in range(4):
            kill_worker(sidecar, 1, 2)
        pauses = [line.rpartition("restarting it ")[2] for line in sidecar.log.splitlines() if "restarting" in line]
        assert pauses == ["at once", "in 0.1 s", "in 0.2 s", "in 0.4 s"]


def alive(pid: int) -> bool:
    """Whether the process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_end_of_the_parent_leaves_nothing_behind(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = Sidecar(workers=2)
    monkeypatch.setenv("TMPDIR", str(stopped.folder))
    with stopped as sidecar:
        workers = sidecar.ready["workers"]
        [links] = sidecar.folder.glob("fastpath-*")
        assert links.stat().st_mode & 0o777 == 0o700
        with ExitStack() as stack:
            clients = [stack.enter_context(WireClient(sidecar)) for _ in range(8)]
            for client in clients:
                client.ask("ping", "pong")
            assert sidecar.process is not None
            sidecar.process.send_signal(number)
            for client in clients:
                assert client.closed() == (4000, "drain")
        sidecar.process.wait(PATIENCE_SECONDS)
        until(lambda: not any(map(alive, workers)))
        until(lambda: not links.exists())
        until(lambda: not Path(sidecar.control).exists())
        assert sidecar.process.poll() == (-9 if number == signal.SIGKILL else 0)
        assert sidecar.process.stdout is not None
        sidecar.process.stdout.close()
        sidecar.process = None
        sidecar.start()


def test_a_second_sidecar_on_the_same_port_is_refused() -> None:
    with Sidecar(workers=2) as sidecar:
        for workers in ("1", "2"):
            settings = {
                "FASTPATH_MODE": "none",
                "FASTPATH_WORKERS": workers,
                "FASTPATH_LISTEN": f"clients://{sidecar.ready['clients'][0]}",
            }
            second = subprocess.run(
                [sys.executable, "-m", "fastpath"],
                cwd=ROOT,
                env=os.environ | settings,
                capture_output=True,
                text=True,
                timeout=20,
                check=False,
            )
            assert second.returncode == 2
            assert second.stderr.splitlines()[-1].endswith("Address already in use")
