"""The log of every process of the sidecar: its parts, their levels, its two forms, and what bounds it.

docs/operate/logs.md explains it.

A line is written with ``logging``, as ever; what it tells of is better named with ``event``. A handler makes text or
JSON of it on the spot, and hands it to the thread that writes (fastpath/logs/writer.py): the loop never waits for that.
"""

from __future__ import annotations

import atexit
import difflib
import json
import logging
import os
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Protocol

from .writer import LogFile, LogWriter, Sink, StandardError

PARTS = (
    "asyncio",
    "audit",
    "channels",
    "clients",
    "control",
    "drain",
    "health",
    "hooks",
    "http",
    "journal",
    "keys",
    "limits",
    "links",
    "metrics",
    "ports",
    "publishers",
    "redis",
    "reload",
    "roster",
    "server",
    "staging",
    "tracing",
    "workers",
)
"""Parts that have a level of their own; ``fastpath.NAME`` is the logger of each, but for ``asyncio``, which is
Python's."""

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")

ALIKE_PER_SECOND = 100
"""Lines of one kind, that is from one place of the program, that are written within a second; more are summed up."""

PAUSE_SECONDS = 0.2
"""Seconds that a fork waits for lines that are being written."""

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:+@*,%()[]{}~!?;<>|&#$^")


def event(log: logging.Logger, text: str, level: int = logging.INFO, /, **values: object) -> None:
    """Log what happened, and its particulars by name: ``text`` is always the same, so that it can be searched for.

    The value ``traceback`` may have several lines.
    """
    if log.isEnabledFor(level):
        log.log(level, text, extra={"values": values}, stacklevel=2)


# Levels


def parse_levels(text: str) -> tuple[str, dict[str, str]]:
    """Return the level of all parts and those of some: ``info,clients=warning,control=debug``; raise ValueError."""
    default, levels = "info", {}
    for index, item in enumerate(item.strip() for item in text.split(",")):
        part, equals, level = (word.strip() for word in item.rpartition("="))
        if level not in LEVELS or (not equals and index):
            raise ValueError(f"{level!r} is none of {', '.join(LEVELS)}" if item else "a level is missing")
        if not equals:
            default = level
        elif part in PARTS:
            levels[part] = level
        else:
            close = difflib.get_close_matches(part, PARTS, 1)
            hint = f"did you mean {close[0]}?" if close else f"the parts are {', '.join(PARTS)}"
            raise ValueError(f"{part!r} is no part of the log; {hint}")
    return default, levels


def use_levels(text: str) -> None:
    """Put these levels in force; raises ValueError."""
    default, levels = parse_levels(text)
    logging.getLogger().setLevel(default.upper())
    for part in PARTS:
        logging.getLogger(_logger_of(part)).setLevel(levels[part].upper() if part in levels else logging.NOTSET)


def _logger_of(part: str) -> str:
    return part if part == "asyncio" else f"fastpath.{part}"


# Forms


class Text(logging.Formatter):
    """``TIME LEVEL [WHO] LOGGER EVENT name=value …``; what can be steered by others breaks no line and no terminal."""

    def __init__(self, who: str = "") -> None:
        super().__init__()
        self._who = f"{who} " if who else ""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, and for an exception those of its traceback, each indented."""
        values = ((name, value) for name, value in _values(record).items() if name != "traceback")
        words = [record.getMessage(), *(f"{name}={_quoted(value)}" for name, value in values)]
        line = f"{_stamp(record.created)} {record.levelname} {self._who}{record.name} {' '.join(words)}"
        lines = [line, *(f"  {line}" for line in _traceback(self, record).splitlines() if line.strip())]
        return "\n".join(map(printable, lines))


class Json(logging.Formatter):
    """An object a line: ``time``, ``level``, ``part``, ``worker``, ``pid``, ``event``, and the particulars."""

    def __init__(self, worker: int | str) -> None:
        super().__init__()
        self._worker = worker

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, in ASCII, whatever the values are."""
        part = record.name.removeprefix("fastpath.")
        line: dict[str, object] = {
            "time": _stamp(record.created),
            "level": record.levelname.lower(),
            "part": part,
            "worker": self._worker,
            "pid": os.getpid(),
            "event": record.getMessage(),
        }
        line |= {name: value for name, value in _values(record).items() if name not in line}
        traceback = _traceback(self, record)
        if traceback:
            line["traceback"] = traceback
        return json.dumps(line, default=str)


def printable(line: str) -> str:
    """Return the line, in which what would break it or steer a terminal is escaped: texts of clients are logged."""
    if line.isprintable():
        return line
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in line)


def _values(record: logging.LogRecord) -> Mapping[str, object]:
    values: Mapping[str, object] = getattr(record, "values", {})
    return values


def _quoted(value: object) -> str:
    text = str(value)
    return text if text and _PLAIN.issuperset(text) else json.dumps(text, ensure_ascii=False)


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    if record.exc_info:
        return formatter.formatException(record.exc_info)
    return str(_values(record).get("traceback", ""))


# The handler


class LogHandler(logging.Handler):
    """Makes lines of records, sums up those that are too many, and hands the lines on."""

    def __init__(self, sink: Sink, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.writer = LogWriter(sink, self._says, self._due)
        self._ended = False
        self._second = 0
        self._counts: dict[tuple[str, int], int] = {}
        self._more: dict[tuple[str, int], logging.LogRecord] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Hand on a record, unless there were too many like it; called under the handler's lock."""
        kind = (record.pathname, record.lineno)
        self._look()
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if count > ALIKE_PER_SECOND:
            self._more[kind] = record
            return
        try:
            self.writer.put(self._line(record))
        except Exception:
            self.handleError(record)

    def reopen(self) -> None:
        """Begin anew at the same name."""
        with self.lock:  # type: ignore[union-attr]
            self.writer.reopen()

    def close(self) -> None:
        """Write what waits, for a while; a second time there is nothing to wait for."""
        if not self._ended:
            self._ended = True
            self._due(last=True)
            self.writer.stop()
        super().close()

    def _due(self, *, last: bool = False) -> None:
        """Sum up, once a second and at the end, what was too much."""
        if self._more:
            with self.lock:  # type: ignore[union-attr]
                self._look(last=last)

    def _look(self, *, last: bool = False) -> None:
        second = int(time.monotonic())
        if second == self._second and not last:
            return
        self._second = second
        counts, more, self._counts, self._more = self._counts, self._more, {}, {}
        for kind, record in more.items():
            left = counts[kind] - ALIKE_PER_SECOND
            self.writer.put(self._line(_summary(record, f"{left:,} more such lines within a second: {record.msg}")))

    def _line(self, record: logging.LogRecord) -> bytes:
        return self.format(record).encode(errors="backslashreplace") + b"\n"

    def _says(self, text: str) -> bytes:
        return self._line(logging.LogRecord("fastpath.server", logging.WARNING, __file__, 0, text, None, None))


def _summary(like: logging.LogRecord, text: str) -> logging.LogRecord:
    return logging.LogRecord(like.name, like.levelno, like.pathname, like.lineno, text, None, None)


# The process


class LogSettings(Protocol):
    """The settings of the log (fastpath/settings.py)."""

    @property
    def log_level(self) -> str:
        """Level of all parts, and levels of some."""

    @property
    def log_format(self) -> str:
        """Form of the lines, one of FORMATS."""

    @property
    def log_file(self) -> str:
        """Path of the file; empty for the standard error."""

    @property
    def log_bytes(self) -> int:
        """Bytes at which the file is renamed; 0: never."""

    @property
    def log_files(self) -> int:
        """Number of renamed files that are kept."""


def begin_simply(settings: LogSettings) -> None:
    """Log to the standard error until ``begin``: while this process may still become another user."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(settings, ""))
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    use_levels(settings.log_level)


def begin(settings: LogSettings, who: str = "", worker: int | str = 0) -> None:
    """Log as the settings say, in the process that a fork has made as well; ``who`` tells the processes apart."""
    before = _handler()
    if before is not None:
        before.writer.release()
    sink = LogFile(settings.log_file, settings.log_bytes, settings.log_files) if settings.log_file else StandardError()
    handler = LogHandler(sink, _formatter(settings, who, worker))
    logging.getLogger().handlers.clear()
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    use_levels(settings.log_level)
    handler.writer.start()


def end() -> None:
    """Write what waits, for a while; the last call of a process."""
    handler = _handler()
    if handler is not None:
        handler.close()


def reopen() -> None:
    """Begin the file anew, which may have been renamed; without a file nothing changes."""
    handler = _handler()
    if handler is not None:
        handler.reopen()


def dropped() -> int:
    """Return how many lines of this process were lost because nobody took them."""
    handler = _handler()
    return handler.writer.dropped if handler is not None else 0


def pause() -> None:
    """End the thread, for a fork; lines are taken all the same."""
    handler = _handler()
    if handler is not None:
        handler.writer.stop(PAUSE_SECONDS)


def resume() -> None:
    """Write them again."""
    handler = _handler()
    if handler is not None:
        handler.writer.start()


def _handler() -> LogHandler | None:
    return next((one for one in logging.getLogger().handlers if isinstance(one, LogHandler)), None)


def _formatter(settings: LogSettings, who: str, worker: int | str = 0) -> logging.Formatter:
    return Json(worker) if settings.log_format == "json" else Text(who)


atexit.register(end)
