"""The audit's files: when they end, how many stay, and what a disk that takes nothing does."""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fastpath.edge.audit import files as audit_files
from fastpath.edge.audit.files import NAME, AuditFiles
from tests.support.waiting import until

BYTES = 4096
ONE = {"access": 1}


def line(number: int, size: int = 0) -> bytes:
    """An event, of about so many bytes."""
    return json.dumps({"number": number, "text": "x" * size}).encode() + b"\n"


def told(counts: Mapping[str, int]) -> bytes:
    return json.dumps({"dropped": dict(counts)}).encode() + b"\n"


@contextmanager
def opened(folder: Path, worker: int = 0, workers: int = 1, files_max: int = 3) -> Iterator[AuditFiles]:
    """The files of a worker; all is written when this ends."""
    files = AuditFiles(str(folder), worker, workers, BYTES, files_max, told)
    try:
        yield files
    finally:
        files.close({})


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def read(folder: Path) -> list[dict[str, Any]]:
    """All lines of all files, in the order of their names."""
    return [json.loads(text) for name in names(folder) for text in (folder / name).read_text().splitlines()]


def test_a_file_ends_at_its_size_and_the_oldest_go(tmp_path: Path) -> None:
    with opened(tmp_path) as files:
        for number in range(0, 100, 5):
            assert files.write(b"".join(line(n, 200) for n in range(number, number + 5)), {"access": 5}, {})
    assert len(names(tmp_path)) == 3
    assert all(NAME.fullmatch(name) for name in names(tmp_path))
    sizes = [(tmp_path / name).stat().st_size for name in names(tmp_path)]
    assert all(BYTES - 300 < size <= BYTES for size in sizes[:-1])
    assert sizes[-1] <= BYTES
    numbers = [event["number"] for event in read(tmp_path)]
    assert numbers == list(range(numbers[0], 100)), "the newest, in order, none missing"


def test_a_line_longer_than_a_file_has_one_for_itself(tmp_path: Path) -> None:
    with opened(tmp_path) as files:
        files.write(line(1) + line(2, 2 * BYTES) + line(3), {"access": 3}, {})
    assert [len((tmp_path / name).read_text().splitlines()) for name in names(tmp_path)] == [1, 1, 1]


def test_a_file_ends_with_its_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = [time.time()]
    monkeypatch.setattr(audit_files, "time", Clock(moment))
    with opened(tmp_path) as files:
        files.write(line(1), ONE, {})
        until(lambda: len(names(tmp_path)) == 1)
        moment[0] += 86400
        files.write(line(2), ONE, {})
    days = [name.split("-")[1][:8] for name in names(tmp_path)]
    assert len(set(days)) == 2


class Clock:
    """In place of the module ``time``: a day need not be waited for."""

    def __init__(self, moment: list[float]) -> None:
        self.time = lambda: moment[0]
        self.monotonic = time.monotonic


def test_a_restart_goes_on_with_the_file_of_today(tmp_path: Path) -> None:
    with opened(tmp_path) as files:
        files.write(line(1), ONE, {})
    [name] = names(tmp_path)
    with (tmp_path / name).open("ab") as file:
        file.write(b'{"broken off by a cra')
    os.chmod(tmp_path / name, 0o644)
    with opened(tmp_path) as files:
        files.write(line(2), ONE, {})
    assert names(tmp_path) == [name]
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    texts = (tmp_path / name).read_bytes().splitlines(keepends=True)
    assert texts == [line(1), b'{"broken off by a cra\n', line(2)]


def test_each_worker_has_its_own_and_the_first_deletes_those_of_workers_that_are_no_more(tmp_path: Path) -> None:
    for second in range(5):
        for worker in (1, 2):
            (tmp_path / f"audit-20200101T00000{second}-{worker}.jsonl").write_text("")
    (tmp_path / "something else").write_text("")
    with opened(tmp_path, worker=0, workers=2, files_max=2) as files:
        files.write(line(1), ONE, {})
    left = [name.partition("T")[2] for name in names(tmp_path) if "20200101" in name]
    assert left == [
        "000000-1.jsonl",
        "000001-1.jsonl",
        "000002-1.jsonl",
        "000003-1.jsonl",
        "000003-2.jsonl",
        "000004-1.jsonl",
        "000004-2.jsonl",
    ]
    assert "something else" in names(tmp_path)


def test_a_file_that_is_deleted_is_made_anew(tmp_path: Path) -> None:
    with opened(tmp_path) as files:
        files.write(line(1), ONE, {})
        until(lambda: names(tmp_path) and (tmp_path / names(tmp_path)[0]).stat().st_size)
        (tmp_path / names(tmp_path)[0]).unlink()
        files.write(line(2), ONE, {})
    assert [event["number"] for event in read(tmp_path)] == [2]


def test_no_link_is_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / f"audit-{time.strftime('%Y%m%d', time.gmtime())}T000000-0.jsonl").symlink_to(victim)
    with opened(folder) as files:
        files.write(line(1), ONE, {})
    assert victim.read_text() == ""
    assert [event["number"] for event in read(folder)] == [1]


def test_only_a_file_of_ours_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    today = time.strftime("%Y%m%d", time.gmtime())
    os.mkfifo(tmp_path / f"audit-{today}T000000-0.jsonl")
    (tmp_path / f"audit-{today}T000000-1.jsonl").write_bytes(line(1))
    with opened(tmp_path, worker=0) as files:
        files.write(line(2), ONE, {})
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with opened(tmp_path, worker=1) as files:
        files.write(line(3), ONE, {})
    texts = [(tmp_path / name).read_bytes() for name in names(tmp_path) if (tmp_path / name).is_file()]
    assert sorted(texts) == [line(1), line(2), line(3)]


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """No half line stays, what is lost is counted, logged once, and told when there is room again."""
    monkeypatch.setattr("fastpath.logs.writer_thread.RETRY_SECONDS", 0)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with opened(tmp_path) as files:
            files.write(line(1), ONE, {})
            until(lambda: names(tmp_path) and (tmp_path / names(tmp_path)[0]).stat().st_size)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
            files.write(line(2, 200), ONE, {})
            files.write(line(3, 200), {"message": 1}, {"access": 5})
            until(lambda: files.failed == {"access": 1, "message": 1})
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            files.write(line(4), ONE, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    first, last, dropped = read(tmp_path)
    assert (first["number"], last["number"]) == (1, 4)
    assert dropped == {"dropped": {"access": 6, "message": 1}}
    assert caplog.text.count("the audit cannot be written") == 1


def test_what_is_missing_is_told_at_the_end(tmp_path: Path) -> None:
    """When no event came after a failure; what was dropped before the files is counted too."""
    folder = tmp_path / "folder"
    folder.write_text("in the way")
    files = AuditFiles(str(folder), 0, 1, BYTES, 3, told)
    files.write(line(1), ONE, {})
    until(lambda: files.failed == ONE)
    folder.unlink()
    files.close({"message": 2})
    assert read(folder) == [{"dropped": {"access": 1, "message": 2}}]


def test_an_end_with_nothing_to_tell_makes_no_file(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    assert names(tmp_path) == []


def test_nobody_waits_for_a_slow_disk(tmp_path: Path) -> None:
    """A fifo that nobody reads is as slow as a disk can be: what is beyond the bound is not taken."""
    os.mkfifo(tmp_path / "fifo")
    files = AuditFiles(str(tmp_path), 0, 1, BYTES, 3, lambda _: _block(tmp_path / "fifo"))
    assert files.write(line(1), ONE, {"access": 1})
    taken = sum(files.write(line(2), {"access": 1000}, {}) for _ in range(60))
    assert taken in (49, 50)
    with (tmp_path / "fifo").open("rb"):
        files.close({})


def _block(fifo: Path) -> bytes:
    """Until somebody reads."""
    with fifo.open("wb"):
        return b""
