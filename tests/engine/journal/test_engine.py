"""A sidecar with a journal is killed, stopped, and its disk fills up: what was acknowledged is there, clients go on."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fastpath.client.control.client import Control
from tests.support.edge.rules import rule, ruled
from tests.support.edge.spread import spread
from tests.support.edge.wire import Ended, WireClient, WirePublisher
from tests.support.promises import kept
from tests.support.sidecar import ROOT, Sidecar
from tests.support.waiting import until

SUBJECTS = [f"/journal/{number}" for number in range(5)]


@pytest.fixture(params=["interval", "batch"])
def sidecar(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """One with a journal of each kind."""
    with Sidecar(journal=request.param, data=tmp_path / "data") as running:
        yield running


class Load(threading.Thread):
    """Publishes batches as fast as they are acknowledged, several on the way, until the connection ends."""

    def __init__(self, sidecar: Sidecar) -> None:
        super().__init__()
        self.publisher = WirePublisher(sidecar, publisher="load")
        self.sent: dict[str, list[str]] = {subject: [] for subject in SUBJECTS}
        self.acknowledged = 0
        self.first = 1

    def batch(self, number: int) -> list[list[Any]]:
        return [[SUBJECTS[(number + index) % 5], f"{number}.{index}", {f"f{index}": f"{number}"}] for index in range(7)]

    def run(self) -> None:
        sent = 0
        with self.publisher:
            try:
                while True:
                    while sent - self.acknowledged < 8:
                        self.publisher.packet("batch", sent + 1, self.batch(sent), sent * 7 + 1)
                        sent += 1
                    kind, number, _, results = self.publisher.next()
                    assert (kind, number) == ("ack", self.acknowledged + 1)
                    assert all(type(one) is int for one in results), results
                    self.acknowledged += 1
            except (Ended, OSError):
                pass

    def contents(self, batches: int) -> dict[str, list[str]]:
        """What so many batches hold, by subject."""
        found: dict[str, list[str]] = {subject: [] for subject in SUBJECTS}
        for number in range(batches):
            for subject, content, _ in self.batch(number):
                found[subject].append(content)
        return found


def positions(client: WireClient) -> dict[str, tuple[int, int]]:
    """Subscribe to all; where each stands."""
    results = client.subscribe(*SUBJECTS)
    for result in results:
        assert result.get("messages", 0) in (0, 1)
    for _ in range(sum(result.get("messages", 0) for result in results)):
        client.message()
    return {result["subject"]: (result["epoch"], result["seq"]) for result in results}


def test_killed_under_load_everything_acknowledged_is_there_and_clients_recover(sidecar: Sidecar) -> None:
    with WireClient(sidecar) as client:
        began = positions(client)
        load = Load(sidecar)
        load.start()
        until(lambda: load.acknowledged > 200)
        sidecar.kill()
        load.join()
        got: dict[str, list[str]] = {subject: [] for subject in SUBJECTS}
        last = {subject: seq for subject, (_, seq) in began.items()}
        try:
            while True:
                sid, seq, _, content, *_ = client.message()
                subject = client.subjects[sid]
                got[subject].append(content)
                last[subject] = seq
        except Ended:
            pass
    sidecar.start()
    (epoch,) = {epoch for epoch, _ in began.values()}
    with WireClient(sidecar) as client:
        since = {subject: [epoch, seq] for subject, seq in last.items()}
        results = client.subscribe(*SUBJECTS, since=since)
        assert [result["recovery"] for result in results] == ["recovered"] * 5
        assert {result["epoch"] for result in results} == {epoch}
        for _ in range(sum(result.get("messages", 0) for result in results)):
            sid, _, _, content, *_ = client.message()
            got[client.subjects[sid]].append(content)
        stored = sum(map(len, got.values())) // 7  # batches are whole or not at all
        kept(stored >= load.acknowledged, f"{stored} batches are there, {load.acknowledged} were acknowledged")
        kept(got == load.contents(stored), "not all that is stored, in its order")
        assert {result["subject"]: result["seq"] for result in results} == {
            subject: len(contents) for subject, contents in got.items()
        }
    with WireClient(sidecar) as client:  # the snapshot has every field's newest value
        client.subscribe(SUBJECTS[0])
        fields = client.message()[4]
        newest = {}
        for number in range(stored):
            newest |= {
                key: value
                for subject, _, own in load.batch(number)
                if subject == SUBJECTS[0]
                for key, value in own.items()
            }
        assert fields == newest


def test_a_publication_sent_again_after_the_restart_is_stored_once(sidecar: Sidecar) -> None:
    rows = [["/journal/once", "a"], ["/journal/once", "b"]]
    with WirePublisher(sidecar, publisher="again") as publisher:
        publisher.packet("batch", 1, rows, 1)
        _, _, epoch, results = publisher.next()
        assert results == [1, 2]
        sidecar.kill()
    sidecar.start()
    with WirePublisher(sidecar, publisher="again") as publisher:
        publisher.packet("batch", 1, [*rows, ["/journal/once", "c"]], 1)
        assert publisher.next() == ["ack", 1, epoch, [[epoch, 1], [epoch, 2], 3]]
    with WireClient(sidecar) as client:
        client.subscribe("/journal/once", history=10)
        assert client.texts(3) == ["a", "b", "c"]


def test_a_clean_restart_goes_on_in_the_epoch(sidecar: Sidecar) -> None:
    with WirePublisher(sidecar) as publisher:
        publisher.publish(["/journal/clean", "1"])
        epoch = publisher.welcome["epoch"]
    sidecar.stop()
    data = Path(str(sidecar.settings["data"]))
    assert not list(data.glob("*.partial"))
    sidecar.start()
    with WireClient(sidecar) as client, WirePublisher(sidecar) as publisher:
        [result] = client.subscribe("/journal/clean", since={"/journal/clean": [epoch, 1]})
        assert (result["recovery"], result["epoch"], result["seq"]) == ("recovered", epoch, 1)
        assert publisher.publish(["/journal/clean", "2"]) == [2]
        assert client.message()[1] == 2
        assert client.quiet()


def test_options_count_again_before_anybody_says_so(tmp_path: Path) -> None:
    """After a kill more is cached than the settings say, and as long; in another mode too."""
    settings = {"journal": "interval", "data": tmp_path, "cache_messages": 2, "cache_seconds": 1}
    with ruled(rule(1, "/o/**"), **settings) as rules:
        more = {"id": 1, "pattern": "/o/more", "cache_messages": 5, "cache_ms": 600_000}
        none = {"id": 2, "pattern": "/o/none", "cache_messages": 0, "retained": False}
        rules.change(options=[more, none])
        for subject in ("/o/more", "/o/none", "/o/other"):
            rules.publish(*([subject, f"{number}"] for number in range(9)))
        until(lambda: rules.control.subject("/o/other")["cached"] == 0)
        rules.sidecar.kill()
        rules.sidecar.start()
        rules.control.close()
        assert rules.control.hello()["generation"] is None
        cached = {subject: rules.control.subject(subject)["cached"] for subject in ("/o/more", "/o/none", "/o/other")}
        assert cached == {"/o/more": 5, "/o/none": 0, "/o/other": 0}
        assert rules.control.subject("/o/other")["snapshot"]["content"] == "8"
        assert rules.control.subject("/o/none")["snapshot"] is None
        rules.full(rule(1, "/o/**"))
        until(lambda: rules.control.subject("/o/more")["cached"] == 0)
    settings |= {"cache_seconds": 180}
    (tmp_path / "options.json").write_text(msgspec.json.encode([more]).decode())
    with Sidecar(mode="none", **settings) as other, Control(other.control) as control:
        control.publish([["/o/more", f"{number}"] for number in range(9)])
        assert control.subject("/o/more")["cached"] == 5
        assert "1 options of subjects count as they did last" in other.log
    (tmp_path / "options.json").write_text("[{")
    with ruled(rule(1, "/o/**"), **settings) as rules:
        rules.publish(*(["/o/more", f"{number}"] for number in range(9)))
        assert rules.control.subject("/o/more")["cached"] == 2
        assert "options.json cannot be read" in rules.sidecar.log


def test_what_the_server_says_of_itself_is_in_no_journal(tmp_path: Path) -> None:
    with Sidecar(journal="interval", data=tmp_path, delivery="guaranteed") as sidecar:
        with WireClient(sidecar) as client:
            client.subscribe("/__sys__/stats")
            for _ in range(2):
                fields = client.message()[4]
        assert fields["journal_segments"] == "1"
        assert int(float(fields["journal_bytes"])) == sum(path.stat().st_size for path in tmp_path.glob("*.log"))
        assert b"__sys__" not in b"".join(path.read_bytes() for path in tmp_path.glob("*.log"))


def test_a_full_disk_refuses_with_the_reason_and_reads_go_on(sidecar: Sidecar) -> None:
    with WireClient(sidecar) as client, WirePublisher(sidecar, publisher="full") as publisher:
        assert publisher.publish(["/journal/full", "1"]) == [1]
        client.subscribe("/journal/full", history=5)
        assert client.texts(1) == ["1"]
        limits = resource.prlimit(sidecar.pid, resource.RLIMIT_FSIZE)
        room = max(path.stat().st_size for path in Path(str(sidecar.settings["data"])).glob("*.log")) + 20
        os.truncate(sidecar.log_path, 0)  # the limit is for all files
        resource.prlimit(sidecar.pid, resource.RLIMIT_FSIZE, (room, limits[1]))
        why = ["failed", "the journal cannot be written: File too large"]
        publisher.packet("batch", 2, [["/journal/full", "x" * 100], ["/journal/other", "y"]], 10)
        assert publisher.next()[3] == [why, why]
        publisher.packet("batch", 3, [["/journal/full", "x" * 100]], 12)
        assert publisher.next()[3] == [why]
        with WireClient(sidecar) as other:
            other.subscribe("/journal/full", history=5)
            assert other.texts(1) == ["1"]
        assert client.quiet()
        resource.prlimit(sidecar.pid, resource.RLIMIT_FSIZE, limits)
        publisher.packet("batch", 4, [["/journal/full", "2"]], 10)
        assert publisher.next()[3] == [2]
        assert client.texts(1) == ["2"]
        with Control(sidecar.control) as control:
            assert control.stats()["journal_failed_writes"] == 2


def test_the_first_of_two_workers_is_killed_and_clients_of_the_other_lose_nothing(tmp_path: Path) -> None:
    with (
        Sidecar(workers=2, journal="batch", data=tmp_path) as sidecar,
        spread(sidecar, 2) as clients,
        WirePublisher(sidecar, publisher="p") as publisher,
    ):
        (client,) = clients.others
        [began] = client.subscribe("/journal/two")
        published = client.ask("publish", "published", subject="/journal/own", content="x", closure="c")
        assert (published["epoch"], published["seq"]) == (began["epoch"], 1)
        publisher.packet("batch", 1, [["/journal/two", str(number)] for number in range(50)], 1)
        assert publisher.next()[3] == list(range(1, 51))
        os.kill(sidecar.ready["workers"][0], signal.SIGKILL)
        again = until(lambda: reconnected(sidecar))
        with again:
            again.packet("batch", 1, [["/journal/two", str(number)] for number in range(25, 100)], 26)
            _, _, epoch, results = again.next()
            assert epoch == began["epoch"]
            assert results == [*([epoch, seq] for seq in range(26, 51)), *range(51, 101)]
        told = []
        texts = []
        while len(texts) < 100:
            value = client.next()
            if isinstance(value, list):
                texts.append(value[3])
            else:
                told.append((value["op"], value.get("code")))
        assert texts == [str(number) for number in range(100)]
        assert told == [("notice", "stale"), ("notice", "fresh")]
        with WireClient(sidecar) as late:
            [result] = late.subscribe("/journal/two", since={"/journal/two": [began["epoch"], 40]})
            assert (result["recovery"], result["messages"]) == ("recovered", 60)


def reconnected(sidecar: Sidecar) -> WirePublisher | None:
    """A publisher again, once the first worker is back."""
    try:
        again = WirePublisher(sidecar, hello=False)
    except OSError:
        return None
    try:
        again.packet("hello", {"version": 1, "token": "", "publisher": "p"})
        assert again.next()[0] == "welcome"
    except (OSError, Ended):
        again.sock.close()
        return None
    return again


def run_sidecar(*arguments: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    """The program with these settings, which ends by itself."""
    environment = {f"FASTPATH_{name.upper()}": str(value) for name, value in settings.items()}
    return subprocess.run(
        [sys.executable, "-m", "fastpath", *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "FASTPATH_MODE": "none", "FASTPATH_LISTEN": "clients://127.0.0.1:0"}
        | environment,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"journal": "always"}, "FASTPATH_JOURNAL: 'always' is none of off, interval, batch"),
        ({"journal": "batch"}, "FASTPATH_JOURNAL: batch needs a folder"),
        ({"journal": "batch", "data": "/proc/x"}, "FASTPATH_DATA: cannot write to /proc/x"),
    ],
)
def test_settings_that_cannot_be_used_are_named(settings: dict[str, str], why: str) -> None:
    ended = run_sidecar("--check", **settings)
    assert ended.returncode == 2
    assert why in ended.stderr


def test_a_second_sidecar_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    with Sidecar(journal="interval", data=tmp_path):
        ended = run_sidecar(journal="interval", data=tmp_path, workers=2)
        assert ended.returncode == 2
        assert ended.stderr.rstrip().endswith("belongs to a sidecar that is running; each needs a folder of its own")
        assert json.dumps("ready") not in ended.stdout
