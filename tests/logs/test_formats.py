"""The log by itself: levels of parts, both forms, what bounds it, and files that several processes rotate."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.listen_address import SettingsError
from fastpath.logs.formats import (
    ALIKE_PER_SECOND,
    PARTS,
    Json,
    LogHandler,
    Text,
    event,
    parse_levels,
    printable,
    use_levels,
)
from fastpath.logs.writer import LINES_MAX, LogFile, LogWriter
from fastpath.settings import load
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]


class Kept:
    """A sink that keeps what it is given; while ``gate`` is not set it takes nothing."""

    def __init__(self) -> None:
        self.text = ""
        self.gate = threading.Event()
        self.gate.set()
        self.asked = threading.Event()
        self.fails = False
        self.reopened = 0

    def write(self, data: bytes) -> None:
        """Sink."""
        self.asked.set()
        self.gate.wait()
        if self.fails:
            raise OSError(28, "No space left on device")
        self.text += data.decode()

    def reopen(self) -> None:
        """Sink."""
        self.reopened += 1

    @property
    def lines(self) -> list[str]:
        """What was written."""
        return self.text.splitlines()


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    """A logger of the clients' part that hands its lines to nobody but the test."""
    logger = logging.getLogger("fastpath.clients")
    before = logger.handlers[:], logger.level, logger.propagate
    logger.handlers, logger.propagate = [], False
    logger.setLevel(logging.DEBUG)
    yield logger
    for handler in logger.handlers:
        handler.close()
    logger.handlers, logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


def attach(log: logging.Logger, formatter: logging.Formatter | None = None) -> tuple[LogHandler, Kept]:
    """A handler whose thread runs, and where its lines go."""
    sink = Kept()
    handler = LogHandler(sink, formatter or Text())
    log.addHandler(handler)
    handler.writer.start()
    return handler, sink


# Levels


def test_the_parts_are_those_that_write_something() -> None:
    used = {"asyncio"}
    for path in (ROOT / "fastpath").rglob("*.py"):
        if path.relative_to(ROOT / "fastpath").parts[0] not in ("client", "bench", "recording"):
            used |= set(re.findall(r'getLogger\("fastpath\.(\w+)"\)', path.read_text()))
    assert used == set(PARTS)
    assert list(PARTS) == sorted(PARTS)
    page = (ROOT / "docs/operate/logs.md").read_text()
    assert [part for part in PARTS if f"`{part}`" not in page] == [], "the page for operators lists them"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("warning", ("warning", {})),
        ("info,clients=warning, control=debug", ("info", {"clients": "warning", "control": "debug"})),
        ("asyncio=error", ("info", {"asyncio": "error"})),
    ],
)
def test_levels(text: str, found: tuple[str, dict[str, str]]) -> None:
    assert parse_levels(text) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("loud", "FASTPATH_LOG_LEVEL: 'loud' is none of debug, info, warning, error"),
        ("info,warning", "FASTPATH_LOG_LEVEL: 'warning' is none of debug, info, warning, error"),
        ("info,client=debug", "FASTPATH_LOG_LEVEL: 'client' is no part of the log; did you mean clients?"),
        ("info,clients=loud", "FASTPATH_LOG_LEVEL: 'loud' is none of debug, info, warning, error"),
        ("info,", "FASTPATH_LOG_LEVEL: a level is missing"),
    ],
)
def test_levels_that_are_none(text: str, why: str) -> None:
    with pytest.raises(SettingsError) as error:
        load({"FASTPATH_MODE": "none", "FASTPATH_LOG_LEVEL": text})
    assert str(error.value) == why


def test_an_unknown_part_is_answered_with_all_of_them() -> None:
    with pytest.raises(ValueError, match="the parts are asyncio, audit, channels"):
        parse_levels("info,xyz=debug")


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("LOG_FORMAT", "xml", "'xml' is none of text, json"),
        ("LOG_BYTES", "100", "100 is less than 4096; 0 is never"),
        ("LOG_FILES", "-1", "-1 is less than 0"),
    ],
)
def test_other_settings_that_make_no_sense(name: str, value: str, why: str) -> None:
    with pytest.raises(SettingsError, match=f"FASTPATH_{name}: {why}"):
        load({"FASTPATH_MODE": "none", f"FASTPATH_{name}": value})


def test_a_level_that_is_not_named_any_more_is_the_common_one() -> None:
    root, clients = logging.getLogger(), logging.getLogger("fastpath.clients")
    before = root.level
    try:
        use_levels("info,clients=error")
        assert (clients.getEffectiveLevel(), root.level) == (logging.ERROR, logging.INFO)
        use_levels("warning")
        assert clients.getEffectiveLevel() == logging.WARNING
    finally:
        use_levels("info")
        root.setLevel(before)


# Forms


def test_a_line_of_text(log: logging.Logger) -> None:
    handler, sink = attach(log, Text("worker 1"))
    event(log, "client closed", address="10.0.0.1", user="ann lee", code=4001, seconds=1.5, program="")
    handler.close()
    time, _, rest = sink.text.partition(" ")
    assert len(time) == len("2026-11-22T07:40:01.123Z")
    expected = 'client closed address=10.0.0.1 user="ann lee" code=4001 seconds=1.5 program=""'
    assert rest == f"INFO worker 1 fastpath.clients {expected}\n"


def test_a_line_of_json(log: logging.Logger) -> None:
    handler, sink = attach(log, Json(2))
    event(log, "client closed", logging.WARNING, user="Zoë", code=4001, worker="mine")
    log.info("%d clients", 3)
    handler.close()
    first, second = map(json.loads, sink.lines)
    assert {name: first[name] for name in ("level", "part", "worker", "pid", "event", "user", "code")} == {
        "level": "warning",
        "part": "clients",
        "worker": 2,
        "pid": os.getpid(),
        "event": "client closed",
        "user": "Zoë",
        "code": 4001,
    }
    assert second["event"] == "3 clients"


def test_a_traceback_is_a_part_of_its_line(log: logging.Logger) -> None:
    handler, sink = attach(log)
    as_json = LogHandler(Kept(), Json(0))
    try:
        raise ValueError("a name\n2026-11-22T00:00:00.000Z ERROR all is lost \x1b[31m")
    except ValueError:
        log.exception("fault")
        made = as_json.format(logging.makeLogRecord({"name": "fastpath.x", "msg": "y", "exc_info": sys.exc_info()}))
    handler.close()
    assert sink.lines[0].endswith("ERROR fastpath.clients fault")
    assert all(line.startswith("  ") for line in sink.lines[1:]), "nothing looks like another line of the log"
    assert "\x1b" not in sink.text
    assert json.loads(made)["traceback"].startswith("Traceback")


@given(st.text())
def test_no_text_of_others_breaks_a_line(text: str) -> None:
    record = logging.makeLogRecord(
        {"name": "fastpath.clients", "levelname": "INFO", "msg": text, "values": {"user": text}}
    )
    line = Text().format(record)
    assert line.isprintable()
    made = Json(0).format(record)
    assert made.isascii()
    assert "\n" not in made
    assert json.loads(made)["user"] == text
    assert printable("a\tb\u202e") == "a\\tb\\u202e"


# Bounds


class Second:
    """A clock that stands still within a second."""

    def monotonic(self) -> float:
        """In seconds."""
        return 700.0


def test_what_is_too_much_of_a_kind_is_summed_up(log: logging.Logger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastpath.logs.formats.time", Second())
    handler, sink = attach(log)
    for number in range(20 * ALIKE_PER_SECOND):
        event(log, "client closed", number=number)
    log.info("another kind")
    handler.close()
    written = [line for line in sink.lines if "client closed number=" in line]
    summed = [line for line in sink.lines if "more such lines" in line]
    told = sum(int(line.split("fastpath.clients ")[1].split(" more")[0].replace(",", "")) for line in summed)
    assert (len(written), told) == (ALIKE_PER_SECOND, 19 * ALIKE_PER_SECOND), "none is forgotten"
    assert summed[0].endswith("more such lines within a second: client closed")
    assert any(line.endswith("another kind") for line in sink.lines), "it has a bound of its own"
    assert handler.writer.dropped == 0


def test_the_sum_is_told_when_nothing_follows(log: logging.Logger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastpath.logs.writer.IDLE_SECONDS", 0.1)
    _, sink = attach(log)
    for _ in range(4 * ALIKE_PER_SECOND):  # more than enough on one side of a second that ends between two of them
        log.info("alike")
    until(lambda: "more such lines within a second: alike" in sink.text)


def test_who_takes_nothing_holds_nobody_up(log: logging.Logger) -> None:
    sink = Kept()
    sink.gate.clear()
    writer = LogWriter(sink, lambda text: f"{text}\n".encode(), lambda: None)
    writer.start()
    writer.put(b"first\n")
    assert sink.asked.wait(10)
    for _ in range(LINES_MAX + 5000):
        writer.put(b"line\n")
    lost = writer.dropped
    assert lost == 5000
    sink.gate.set()
    until(lambda: sink.text.count("line\n") == LINES_MAX)
    writer.put(b"after\n")
    until(lambda: "after" in sink.text)
    writer.stop()
    assert f"{lost:,} lines of the log are lost: they came too fast" in sink.text


@pytest.mark.parametrize("stuck", [False, True])
def test_lines_of_a_pause_are_written_after_it_in_order(stuck: bool) -> None:
    """As for a fork, for which no thread may run; one that is stuck is not waited for, and ends before the next."""
    sink = Kept()
    writer = LogWriter(sink, str.encode, lambda: None)
    writer.start()
    writer.put(b"0")
    until(lambda: sink.text == "0")
    if stuck:
        sink.gate.clear()
    writer.put(b"1")
    writer.stop(0.01 if stuck else 10)
    assert stuck or "log" not in {thread.name for thread in threading.enumerate()}
    writer.put(b"2")
    writer.start()
    writer.put(b"3")
    sink.gate.set()
    until(lambda: sink.text == "0123")
    writer.stop()
    assert (sink.text, writer.dropped) == ("0123", 0)


def test_long_lines_are_bounded_as_well() -> None:
    sink = Kept()
    sink.gate.clear()
    writer = LogWriter(sink, str.encode, lambda: None)
    for _ in range(100):
        writer.put(b"x" * (1 << 20))
    assert writer.dropped == 92
    sink.gate.set()


def test_what_cannot_be_written_is_counted_and_told_when_it_can(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastpath.logs.writer_thread.RETRY_SECONDS", 0.05)
    sink = Kept()
    sink.fails = True
    writer = LogWriter(sink, lambda text: f"{text}\n".encode(), lambda: None)
    writer.start()
    writer.put(b"one\n")
    until(lambda: writer.dropped == 1)
    writer.put(b"two\n")
    until(lambda: writer.dropped == 2)
    assert capfd.readouterr().err.count("the log cannot be written: No space left on device") == 1
    sink.fails = False
    until(lambda: writer.put(b"again\n") or "again" in sink.text)
    writer.stop()
    assert f"{writer.dropped} lines of the log are lost: No space left on device" in sink.text


# Files


def test_a_file_is_rotated(tmp_path: Path) -> None:
    file = LogFile(str(tmp_path / "log" / "one"), 100, 2)
    for number in range(40):
        file.write(f"line {number:>4}\n".encode())
    names = {path.name: path.read_text() for path in (tmp_path / "log").iterdir()}
    assert set(names) == {"one", "one.1", "one.2"}
    assert all(len(text) <= 100 for text in names.values())
    kept = (names["one.2"] + names["one.1"] + names["one"]).splitlines()
    assert kept == [f"line {number:>4}" for number in range(40 - len(kept), 40)], "the newest, in order"
    assert (tmp_path / "log" / "one").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("files", [0, 3])
def test_so_many_are_kept(tmp_path: Path, files: int) -> None:
    file = LogFile(str(tmp_path / "log"), 50, files)
    for _ in range(60):
        file.write(b"0123456789\n")
    assert len(list(tmp_path.iterdir())) == files + 1


def test_another_program_may_rotate_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = LogFile(str(path), 0, 0)
    file.write(b"one\n")
    path.rename(tmp_path / "log.old")
    file.write(b"two\n")
    path.unlink()
    file.write(b"three\n")
    assert (path.read_text(), (tmp_path / "log.old").read_text()) == ("three\n", "one\n")
    file.reopen()
    file.write(b"four\n")
    assert path.read_text() == "three\nfour\n"


def test_half_a_line_stays_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "log"
    program = (
        "import resource, signal, sys\n"
        "from fastpath.logs.writer import LogFile\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "file = LogFile(sys.argv[1], 0, 0)\n"
        "_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (15, hard))\n"
        "try:\n"
        "    file.write(b'0123456789\\nabcdefgh\\n')\n"
        "except OSError as error:\n"
        "    print(error.strerror)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))\n"
        "file.write(b'whole\\n')\n"
    )
    done = subprocess.run([sys.executable, "-c", program, path], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "File too large\n"
    assert path.read_text() == "0123456789\nabcd\nwhole\n"


def test_several_processes_write_and_rotate_one_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    program = (
        "import sys\n"
        "from fastpath.logs.writer import LogFile\n"
        "file = LogFile(sys.argv[1], 5_000, 1000)\n"
        "for number in range(3000):\n"
        "    file.write(f'{sys.argv[2]} {number}\\n'.encode())\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", program, path, str(n)], cwd=ROOT) for n in range(3)]
    assert [one.wait() for one in writers] == [0, 0, 0]
    files = sorted(tmp_path.iterdir(), key=lambda one: -int(one.suffix[1:] or 0))
    lines = "".join(one.read_text() for one in files).split("\n")[:-1]
    assert sorted(lines) == sorted(f"{n} {number}" for n in range(3) for number in range(3000)), "none lost, none mixed"
    assert len(files) > 3
    assert all(one.stat().st_size <= 5_000 + 100 for one in files)
