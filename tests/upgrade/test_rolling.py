"""From revision aa72b5c to the present one over two nodes on one Redis, under clients and publishers of both."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fastpath.client.blocking import connect
from fastpath.client.message import Status
from fastpath.client.publisher import Publisher
from tests.support.ports import free_port
from tests.support.promises import kept
from tests.support.realtime.server import ROOT, Program
from tests.support.redis import RedisServer
from tests.support.waiting import until

EARLIER = "aa72b5c"
SUBJECTS = ("/upgrade/present", "/upgrade/earlier")
"""What the present publisher and the earlier one say, each counting from 1."""
CLIENTS = 3
STOP_SECONDS = 120

READER = """
import sys
from fastpath.client.blocking import connect
with connect(sys.argv[2:], on_status=lambda status: print(status.name, flush=True)) as client:
    for message in client.subscribe(sys.argv[1]):
        print("read", message.content, flush=True)
"""
FEED = """
import sys, time
from fastpath.client.publisher import Publisher
number = 0
with Publisher(sys.argv[2:]) as publisher:
    while sys.stdin.readline():
        number += 1
        publisher.publish(sys.argv[1], str(number))
        print("sent", number, flush=True)
"""


class Nodes:
    """Two of them, each with ports that stay its own whatever runs behind them."""

    def __init__(self, engine: str, folder: Path) -> None:
        self.earlier = folder / "earlier"
        self.earlier.mkdir()
        archive = subprocess.run(["git", "archive", EARLIER], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "-x", "-C", str(self.earlier)], input=archive, check=True)
        self._ports = [(free_port(), free_port()) for _ in range(2)]
        self._engine, self._folder = engine, folder
        self.base = {name: value for name, value in os.environ.items() if not name.startswith(("FASTPATH_", "PYTHON"))}

    @property
    def clients(self) -> list[str]:
        return [f"ws://127.0.0.1:{port}/ws" for port, _ in self._ports]

    @property
    def publishers(self) -> list[str]:
        return [f"127.0.0.1:{port}" for _, port in self._ports]

    def start(self, number: int, checkout: Path) -> Program:
        """A node of that checkout."""
        clients, publishers = self._ports[number]
        given = {
            "FASTPATH_LISTEN": f"clients://127.0.0.1:{clients},publishers://127.0.0.1:{publishers}",
            "FASTPATH_CONTROL": str(self._folder / f"{number}.sock"),
            "FASTPATH_SERVERS": ",".join(self.clients),
            "FASTPATH_ENGINE": self._engine,
            "FASTPATH_MODE": "none",
            "FASTPATH_WORKERS": "1",
        }
        return Program([sys.executable, "-m", "fastpath"], given, "ready {", 90, folder=checkout, base=self.base)

    def program(self, text: str, *words: str) -> list[str]:
        """The command of a program of the earlier checkout."""
        return ["env", "-C", str(self.earlier), f"PYTHONPATH={self.earlier}", sys.executable, "-u", "-c", text, *words]


class Reader:
    """A present client, what it has read of a subject, and what it was told."""

    def __init__(self, stack: ExitStack, urls: list[str], subject: str) -> None:
        self.told: list[str] = []
        client = stack.enter_context(connect(urls, on_status=self._note))
        self._stream: Any = client.subscribe(subject)
        self.numbers = [int(self._stream.get(60).content)]

    def _note(self, status: Status) -> None:
        self.told.append(status.name)

    def read_to(self, last: int) -> None:
        while self.numbers[-1] < last:
            self.numbers.append(int(self._stream.get(60).content))


class Feed:
    """Two publishers, the present one and one of the earlier revision, and how many each has sent."""

    def __init__(self, stack: ExitStack, nodes: Nodes) -> None:
        self.sent = [0, 0]
        self._publisher = stack.enter_context(Publisher(nodes.publishers))
        self._process = subprocess.Popen(
            nodes.program(FEED, SUBJECTS[1], *nodes.publishers), env=nodes.base, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        stack.callback(self._end)
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._present), threading.Thread(target=self._earlier)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def goes_on(self) -> None:
        """Wait until each has sent more than it had."""
        before = list(self.sent)
        until(lambda: all(now > then for now, then in zip(self.sent, before, strict=True)), 60)

    def stop(self) -> None:
        """What was begun is done, and acknowledged."""
        self._over.set()
        for thread in self._threads:
            thread.join(STOP_SECONDS)
        assert not any(thread.is_alive() for thread in self._threads)

    def _present(self) -> None:
        while not self._over.wait(0.01):
            self._publisher.publish(SUBJECTS[0], str(self.sent[0] + 1))
            self.sent[0] += 1

    def _earlier(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        while not self._over.wait(0.01):
            self._process.stdin.write("\n")
            self._process.stdin.flush()
            self.sent[1] = int(self._process.stdout.readline().split()[1])

    def _end(self) -> None:
        self._over.set()
        with self._process:
            self._process.kill()


@pytest.mark.slow
@pytest.mark.redis
@pytest.mark.timeout(900)
def test_a_rolling_upgrade_loses_nothing(tmp_path: Path) -> None:
    """One node after the other, as docs/operate/upgrade.md has it: both versions are beside each other meanwhile."""
    argv = ["git", "cat-file", "-e", f"{EARLIER}^{{commit}}"]
    if subprocess.run(argv, cwd=ROOT, capture_output=True, check=False).returncode != 0:
        pytest.skip(f"this checkout has no history back to {EARLIER}")
    with ExitStack() as stack:
        nodes = Nodes(stack.enter_context(RedisServer()).url, tmp_path)
        running = [stack.enter_context(nodes.start(number, nodes.earlier)) for number in range(2)]
        feed = Feed(stack, nodes)
        feed.start()
        try:
            until(lambda: all(feed.sent), 60)
            readers = [Reader(stack, nodes.clients, SUBJECTS[number % 2]) for number in range(CLIENTS)]
            earlier = stack.enter_context(
                Program(nodes.program(READER, SUBJECTS[0], *nodes.clients), {}, "read ", 60, base=nodes.base)
            )
            for number in (1, 0):
                running[number].process.send_signal(signal.SIGTERM)
                assert running[number].wait(STOP_SECONDS) == 0, running[number].output
                stack.enter_context(nodes.start(number, ROOT))
                feed.goes_on()
        finally:
            feed.stop()
        for number, reader in enumerate(readers):
            last = feed.sent[number % 2]
            reader.read_to(last)
            kept(reader.numbers == list(range(reader.numbers[0], last + 1)), f"each once, in order: {reader.numbers}")
            assert "resynchronised" not in reader.told
            assert reader.told.count("connected") >= 2, "it was sent elsewhere at least once"
        last = feed.sent[0]
        until(lambda: f"read {last}\n" in earlier.output, 60)
        numbers = [int(line.split()[1]) for line in earlier.output.splitlines() if line.startswith("read ")]
        kept(numbers == list(range(numbers[0], last + 1)), f"each once, in order: {numbers}")
        assert "resynchronised" not in earlier.output
