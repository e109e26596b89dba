"""What the journal costs a message and how fast it is replayed; how fast a node that joins reads the logs of Redis."""

from __future__ import annotations

import gc
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fastpath.core.auth.grants import Grants
from fastpath.core.broker.broker import Broker
from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import Message
from fastpath.engine.journal.engine import JournalEngine
from fastpath.engine.memory import MemoryEngine

from ..load.payload import Payloads
from ..scenarios.measure import RunOptions, pinned
from ..servers import fastpath_server
from ..servers.redis_servers import missing
from .acknowledgements import BATCH, CLUSTER, Acks, rounds, servers_of
from .cost import Say

MESSAGES = 1_000_000
SUBJECTS = 1000
SIZE = 140
TICKS = (100, 1)
"""Messages that are appended at once: under load, and one alone."""

STARTS = 3
JOIN_ENTRIES = 500_000
"""Number of entries that are at least in the logs when a node joins."""


def journal(options: RunOptions, say: Say, scale: float = 1.0) -> dict[str, Any]:
    """Return microseconds a message for numbering alone and with the journal, and a start with a journal beside one
    without.

    The file is written as the server does it, and synced in the end.
    """
    count = max(10_000, round(MESSAGES * scale))
    found: dict[str, Any] = {"messages": count}
    with pinned(options.server_core):
        for tick in reversed(TICKS):
            folder = Path(tempfile.mkdtemp(prefix="fp-bench-journal-"))
            try:
                some = count if tick == TICKS[0] else count // 10
                memory_us = _append(MemoryEngine(_clock()), some, tick)
                engine = JournalEngine(str(folder), batch=False, clock=_clock)
                _broker(engine)
                engine.restore()
                journal_us = _append(engine, some, tick)
                found[f"append_{tick}_us"] = round(journal_us - memory_us, 3)
                found[f"number_{tick}_us"] = round(memory_us, 3)
                engine._folder.close()  # as if it were killed: a journal that is closed in order is a base alone
                say(f"journal: {found[f'append_{tick}_us']} us a message beside {memory_us:.2f}, {tick} at a time")
                if tick == TICKS[0]:
                    found["bytes_each"] = round(sum(file.stat().st_size for file in folder.iterdir()) / some)
                    found |= _replay(folder, options, say, count, max(1, round(STARTS * scale)))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    return found


def _append(engine: MemoryEngine, count: int, tick: int) -> float:
    """Return microseconds for a message; making messages is not counted."""
    taken, now = 0, _clock()
    for chunk in _chunks(count, tick):
        gc.collect()
        begin = time.perf_counter_ns()
        for messages in chunk:
            engine.append(messages, now)
        taken += time.perf_counter_ns() - begin
    return taken / 1000 / count


def _chunks(count: int, tick: int) -> Iterator[list[list[Message]]]:
    """Yield ticks of messages, some thousands at a time."""
    payloads, made = Payloads(SIZE, SUBJECTS), 0
    while made < count:
        chunk = []
        for _ in range(max(1, 10_000 // tick)):
            messages = []
            for _ in range(min(tick, count - made)):
                content = payloads.make(made % SUBJECTS, 0).decode()
                message = Message(f"/s/s{made % SUBJECTS:03d}", content)
                made += 1
                message.publisher, message.publication = "5:bench:1", made
                messages.append(message)
            if messages:
                chunk.append(messages)
        yield chunk


def _replay(folder: Path, options: RunOptions, say: Say, count: int, starts: int) -> dict[str, Any]:
    """Return seconds from the start of a server until it serves, with this journal and with an empty one."""
    empty: list[Start] = []
    full: list[Start] = []
    for number in range(starts):
        empty.append(_start({"journal": "interval"}, options))
        copy = folder.with_name(f"{folder.name}-{number}")
        shutil.copytree(folder, copy)
        try:
            full.append(_start({"journal": "interval", "data": str(copy), "cache_bytes": str(1 << 30)}, options))
        finally:
            shutil.rmtree(copy, ignore_errors=True)
        say(f"journal: {count:,} messages replayed in {_more(full[-1:], empty):.2f} s")
    return _seconds("replay", full, empty)


def joining(options: RunOptions, say: Say, scale: float = 1.0) -> dict[str, Any]:
    """Measure one node between a publisher and one subscriber on a primary with two replicas, then a second one that
    joins."""
    if why := missing():
        say(f"left out: {why}")
        return {"missing": why}
    starts = max(1, round(STARTS * scale))
    with servers_of([CLUSTER], options) as found:
        one = found[CLUSTER]
        rounds(found, say, "through Redis", max(1, round(3 * scale)), 3.0 * scale)
        figures = one.figures()
        while (entries := _entries(one)) < JOIN_ENTRIES * scale:
            one.rig.load.batches(BATCH, one.outlet.window, 0, 1)
        with servers_of([CLUSTER], options) as others:
            empty_url = _url(others[CLUSTER])
            empty = [_start({"engine": empty_url}, options) for _ in range(starts)]
        full: list[Start] = []
        for _ in range(starts):
            full.append(_start({"engine": _url(one)}, options))
            say(f"redis: joined with {entries:,} entries in {_more(full[-1:], empty):.2f} s")
    took = _seconds("join", full, empty)
    per_second = round(entries / took["join_s"]) if took["join_s"] > 0 else None
    return figures | took | {"join_entries": entries, "join_per_s": per_second}


def _entries(one: Acks) -> int:
    assert one.redis is not None
    return sum(int(one.redis.call("XLEN", key)) for key in one.redis.call("KEYS", "fastpath:l:*"))


def _url(one: Acks) -> str:
    assert one.redis is not None
    return one.redis.url


Start = tuple[float, float]
"""Seconds from the start of a server until it served, and the CPU time that it took."""


def _start(settings: dict[str, str], options: RunOptions) -> Start:
    with fastpath_server.sidecar(options.server_core, settings=settings) as server:
        return server.ready_s, server.ready_cpu_s


def _more(full: Sequence[Start], empty: Sequence[Start], at: int = 0) -> float:
    """Return the median of the starts less that of the empty ones."""
    return statistics.median(one[at] for one in full) - statistics.median(one[at] for one in empty)


def _seconds(name: str, full: Sequence[Start], empty: Sequence[Start]) -> dict[str, float]:
    return {
        f"{name}_s": round(_more(full, empty), 3),
        f"{name}_cpu_s": round(_more(full, empty, 1), 3),
        "empty_start_s": round(statistics.median(one[0] for one in empty), 3),
    }


def _broker(engine: JournalEngine) -> Broker:
    return Broker(engine, Grants(), Limits(), server="bench", started=_clock(), secret=bytes(32))


def _clock() -> int:
    return time.time_ns() // 1_000_000
