"""The faults of one node: processes that die, disks that fill, clocks that jump."""

from __future__ import annotations

import asyncio
import mmap
import os
import re
import signal
import struct
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from fastpath.engine.journal.format import MAGIC, START_BYTES
from tests.support.waiting import auntil

from .machine import no_mounts
from .model import CRASH, MAYBE, Verdict
from .stage import CACHE_SECONDS, Node, Stage
from .table import Fault
from .watcher import now_ms

JOURNAL = {"journal": "interval"}
HOUR_MS = 3_600_000
PASSES_MAX = 200
"""After at most how many passes a failpoint fires: about a second of load."""

STEPS = ("write", "apply", "acknowledge", "flush")

DISK_BYTES = 64 << 20

BY_MQTT = "0x83"
"""What MQTT says for "failed": implementation specific error, with words besides."""


async def kill_node(stage: Stage) -> None:
    """kill -9, and at once a new process."""
    node = stage.random.choice(stage.nodes)
    stage.note_injection()
    await node.kill()
    await node.start()


async def kill_node_long(stage: Stage) -> None:
    """kill -9, and a new process after the cache time."""
    node = stage.random.choice(stage.nodes)
    stage.note_injection()
    await node.kill()
    await asyncio.sleep(CACHE_SECONDS + 1)
    await node.start()


async def stop_node(stage: Stage) -> None:
    """SIGTERM, and at once a new process."""
    node = stage.random.choice(stage.nodes)
    stage.note_injection()
    await node.stop()
    await node.start()


def kill_worker(number: int) -> Any:
    """kill -9 of one of two workers."""

    async def inject(stage: Stage) -> None:
        node = stage.random.choice(stage.nodes)
        before = _worker(node, number)
        stage.note_injection()
        os.kill(before, signal.SIGKILL)
        await auntil(lambda: _worker(node, number) != before, 20)

    return inject


def _worker(node: Node, number: int) -> int:
    """The process id of a worker, as the parent's log tells."""
    return int(re.findall(rf"worker {number} started, pid (\d+)", node.sidecar.log)[-1])


class Failpoint:
    """The node kills itself at a step, after a number of passes that is drawn each time."""

    def __init__(self, step: str) -> None:
        self.step = step

    def make(self, **settings: Any) -> Stage:
        """A stage whose node counts the passes that a file says."""
        return _with_file(Stage(faults="on", **settings), f"kill:{self.step}")

    async def inject(self, stage: Stage) -> None:
        """It dies by itself, and is started again."""
        (node,) = stage.nodes
        process = node.sidecar.process
        assert process is not None
        _write(stage, stage.random.randint(1, PASSES_MAX))
        await auntil(lambda: process.poll() is not None, 60)
        stage.note_injection()
        await node.kill()
        await node.start()


class AnyFailpoint:
    """One of two workers kills itself, at any of the steps."""

    def make(self, **settings: Any) -> Stage:
        """A stage whose workers have all failpoints."""
        stage = Stage(faults="on", **settings)
        wanted = []
        for step in STEPS:
            path = Path(stage.folder.name) / step
            path.write_bytes(bytes(8))
            wanted.append(f"kill:{step}:{path}")
        stage.nodes[0].sidecar.settings["faults_do"] = ",".join(wanted)
        return stage

    async def inject(self, stage: Stage) -> None:
        """It dies by itself, and its parent starts another."""
        (node,) = stage.nodes
        before = [_worker(node, number) for number in range(2)]
        _write(stage, stage.random.randint(1, PASSES_MAX), stage.random.choice(STEPS))
        await auntil(lambda: [_worker(node, number) for number in range(2)] != before, 60)
        stage.note_injection()


class Disk:
    """The journal lies on a small file system of its own, which is filled up."""

    def make(self, **settings: Any) -> Stage:
        """A stage whose node's folder is a tmpfs."""
        stage = Stage(**settings)
        folder = str(stage.nodes[0].sidecar.settings["data"])
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", folder], check=True)
        stage.on_close.append(lambda: subprocess.run(["umount", "--lazy", folder], check=True))
        return stage

    async def inject(self, stage: Stage) -> None:
        """Full for a second or two, half of the times with a crash and a start while it is."""
        (node,) = stage.nodes
        filler = Path(str(node.sidecar.settings["data"])) / "filler"
        stage.note_injection()
        await asyncio.to_thread(_fill, filler)
        refused = _refusals(stage)
        await auntil(lambda: _refusals(stage) > refused, 10)
        if stage.random.random() < 0.5:
            await node.kill()
            await node.start()
            await auntil(lambda: all(client.connected for client in stage.clients), 20)
        await stage.read()
        filler.unlink()

    @staticmethod
    def judge(stage: Stage, verdict: Verdict) -> list[str]:
        """Publications were refused, and said why."""
        del verdict
        codes = {one.code for pusher in stage.pushers for one in pusher.publications.values() if one.code}
        return [] if codes <= {"failed", BY_MQTT} and codes else [f"refused as {sorted(codes)}, not as failed"]


def _fill(filler: Path) -> None:
    with filler.open("wb", buffering=0) as file:
        for size in (65536, 1):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))


def _refusals(stage: Stage) -> int:
    return sum(one.code == "failed" for pusher in stage.pushers for one in pusher.publications.values())


async def tear_journal(stage: Stage) -> None:
    """kill -9 in the middle of a write: the newest file ends in the beginning of a record that nobody was told of."""
    (node,) = stage.nodes
    stage.note_injection()
    await node.kill()
    newest = max(Path(str(node.sidecar.settings["data"])).rglob("*[0-9]*"), key=lambda path: path.stat().st_mtime_ns)
    data = newest.read_bytes()
    mark = data[len(MAGIC) : START_BYTES]
    record = data[data.rfind(mark) :]
    with newest.open("ab") as file:
        file.write(record[: stage.random.randint(1, len(record) - 1)])
    await node.start()


class Clock:
    """The node's clock jumps an hour forward, or back, and later to where it was; the cache goes on to forget."""

    def __init__(self) -> None:
        self.oldest: list[int] = []

    def make(self, **settings: Any) -> Stage:
        """A stage whose node reads its clock's fault from a file."""
        return _with_file(Stage(faults="on", **settings), "clock")

    async def inject(self, stage: Stage) -> None:
        """There for a second, and back."""
        offset = stage.random.choice((HOUR_MS, -HOUR_MS))
        stage.note_injection()
        for value in (offset, 0):
            _write(stage, value)
            await stage.reading(10)
            await asyncio.sleep(stage.random.uniform(0.3, 1.5))
        await asyncio.sleep(CACHE_SECONDS + 3)
        sent = {one.content: one.sent_ms for pusher in stage.pushers for one in pusher.publications.values()}
        now = now_ms()
        self.oldest.append(max(now - sent.get(event.content, now) for event in await stage.read(history=1_000_000)))

    def judge(self, stage: Stage, verdict: Verdict) -> list[str]:
        """Nothing is kept much longer than the cache time."""
        del stage, verdict
        oldest, self.oldest = max(self.oldest, default=0), []
        return [f"the cache has kept a message for {oldest} ms"] if oldest > (CACHE_SECONDS + 2.5) * 1000 else []


def _with_file(stage: Stage, what: str) -> Stage:
    """The stage, with a fault that asks a file for its number."""
    path = Path(stage.folder.name) / "number"
    path.write_bytes(bytes(8))
    for node in stage.nodes:
        node.sidecar.settings["faults_do"] = f"{what}:{path}"
    return stage


def _write(stage: Stage, number: int, name: str = "number") -> None:
    with (Path(stage.folder.name) / name).open("r+b") as file, mmap.mmap(file.fileno(), 8) as memory:
        struct.pack_into("<q", memory, 0, number)


def _failpoint(step: str, when: str) -> Fault:
    point = Failpoint(step)
    return Fault(
        f"failpoint-{step}",
        f"the sidecar kills itself when it {when}",
        "acknowledged: 0 lost; retries stored once",
        point.inject,
        JOURNAL,
        point.make,
        sessions=CRASH,
        pause_ms=8000,
    )


_CLOCK = Clock()

FAULTS = (
    Fault(
        "sidecar-killed",
        "sidecar killed, restarted at once",
        "acknowledged: 0 lost; order; clients recover exactly",
        kill_node,
        JOURNAL,
        sessions=CRASH,
        pause_ms=8000,
    ),
    Fault(
        "sidecar-killed-batch",
        "the same with FASTPATH_JOURNAL=batch",
        "acknowledged: 0 lost; order; clients recover exactly",
        kill_node,
        {"journal": "batch"},
        sessions=CRASH,
        pause_ms=8000,
    ),
    Fault(
        "sidecar-killed-long",
        "sidecar killed, restarted after the cache time",
        "acknowledged: 0 lost; clients recover or are told",
        kill_node_long,
        JOURNAL,
        sessions=CRASH,
        cap=None,
    ),
    Fault(
        "sidecar-stopped",
        "sidecar stopped, started again",
        "acknowledged: 0 lost; clients recover exactly",
        stop_node,
        JOURNAL,
    ),
    Fault(
        "worker-0-killed",
        "the worker that numbers killed, of two",
        "acknowledged: 0 lost; order; clients recover exactly",
        kill_worker(0),
        JOURNAL | {"workers": 2},
        sessions=CRASH,
        pause_ms=8000,
    ),
    Fault(
        "worker-1-killed",
        "the other worker killed",
        "acknowledged: 0 lost; its clients recover exactly",
        kill_worker(1),
        JOURNAL | {"workers": 2},
        sessions=CRASH,
        pause_ms=8000,
    ),
    _failpoint("write", "has written a batch"),
    _failpoint("apply", "has applied a batch"),
    _failpoint("acknowledge", "has acknowledged a batch, before clients were sent it"),
    _failpoint("flush", "has sent a batch to clients"),
    Fault(
        "failpoint-workers",
        "one of two workers kills itself at any of these steps",
        "acknowledged: 0 lost; order; clients recover exactly",
        AnyFailpoint().inject,
        JOURNAL | {"workers": 2},
        AnyFailpoint().make,
        sessions=CRASH,
        pause_ms=8000,
    ),
    Fault(
        "disk-full",
        "disk full, half of the times with a crash and a start while it is",
        "refused with a reason; what was acknowledged is kept; reads go on; goes on when there is room",
        Disk().inject,
        JOURNAL,
        Disk().make,
        sessions=MAYBE,  # while the disk is full none is written
        judge=Disk.judge,
        obstacle=no_mounts,
    ),
    Fault(
        "journal-torn",
        "sidecar killed in the middle of a write to the journal",
        "starts; acknowledged and whole records kept",
        tear_journal,
        JOURNAL,
        sessions=CRASH,
    ),
    Fault(
        "clock-jumps",
        "clock set back or forward by an hour, and back again",
        "no effect on order; nobody disconnected; the cache goes on to forget",
        _CLOCK.inject,
        JOURNAL | {"steady": "all"},
        _CLOCK.make,
        pause_ms=2000,
        judge=_CLOCK.judge,
    ),
)
