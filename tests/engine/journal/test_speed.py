"""What a journal costs: by the message appended, and by the million replayed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from statistics import median
from time import process_time

import msgspec
import pytest

from fastpath.core.protocol.messages import Message
from tests.support.engine.journals import START, Node
from tests.support.sidecar import ROOT

APPEND_TIMES_MAX = 2.5
"""Of packing the same rows and writing them to a file, without a broker, numbers, a cache or positions."""

REPLAY_TIMES_MAX = 1.5
"""Of publishing the same messages to an engine in memory, as a process that has just started."""

REPLAY = """
import sys, time
from pathlib import Path
from tests.support.engine.journals import START, Node
begun = time.process_time()
node = Node(Path(sys.argv[1]), START + 1000)
print(time.process_time() - begun, sum(topic.seq for topic in node.broker.interest.topics.values()))
node.vanish()
"""

IN_MEMORY = """
import time
from fastpath.engine.memory import MemoryEngine
from tests.support.engine.journals import START, broker_of
from tests.engine.journal.test_speed import batch
broker, spent = broker_of(MemoryEngine(START)), 0.0
for number in range(10_000):
    messages = batch(number)
    begun = time.process_time()
    broker.publish(None, messages, START)
    spent += time.process_time() - begun
print(spent, sum(topic.seq for topic in broker.interest.topics.values()))
"""


def batch(number: int) -> list[Message]:
    """A hundred prices, of about 140 bytes each on the disk."""
    made = []
    for index in range(number * 100, number * 100 + 100):
        fields = {"bid": f"{index}.25", "ask": f"{index}.50", "volume": "1200", "venue": "XLON-lit"}
        made.append(Message(f"/Stocks/S{index % 1000:04d}", "price tick at London", dict(fields)))
        made[-1].weigh()
    return made


@pytest.mark.slow
def test_a_million_messages_written_and_replayed(tmp_path: Path) -> None:
    node = Node(tmp_path)
    appended, plain = [], []
    with (tmp_path / "plain").open("wb", buffering=0) as file:
        for number in range(10_000):
            messages = batch(number)
            begun = process_time()
            node.engine.append(messages, START)
            appended.append(process_time() - begun)
            begun = process_time()
            file.write(b"".join([msgspec.msgpack.encode((one.subject, one.content, one.fields)) for one in messages]))
            plain.append(process_time() - begun)
            if number % 100 == 0:
                node.engine._syncs._written.clear()  # as a sync does
                node.engine._syncs.bytes = 0
    node.crash()
    assert sum(path.stat().st_size for path in tmp_path.glob("*.log")) < 160_000_000
    assert median(appended) < APPEND_TIMES_MAX * median(plain)
    replayed, in_memory = [], []
    for _ in range(3):
        replayed.append(seconds_of(REPLAY, str(tmp_path)))
        in_memory.append(seconds_of(IN_MEMORY))
    assert median(replayed) < REPLAY_TIMES_MAX * median(in_memory), (replayed, in_memory)


def seconds_of(program: str, *words: str) -> float:
    """How much processor time a program says that it has spent on a million messages."""
    run = subprocess.run([sys.executable, "-c", program, *words], cwd=ROOT, check=True, capture_output=True, text=True)
    spent, messages_seen = run.stdout.split()
    assert messages_seen == "1000000"
    return float(spent)
