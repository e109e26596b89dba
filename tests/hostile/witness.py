"""The well-behaved beside an attack: a process with a publisher and readers that measures what it gets.

``python -m tests.hostile.witness CLIENT_URL PUBLISHER_URL``: publishes about 150 messages a second and waits for each
at every reader. For each line on the standard input it prints one with what was measured since the last: 50th, 90th
and 99th percentile and maximum of the latency in ms, and how many messages. A message that is lost, doubled, out of
order or late by more than 10 s ends it with an error.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from statistics import quantiles
from typing import Self

from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.promises import kept
from tests.support.sidecar import ROOT, Sidecar
from tests.support.waiting import PATIENCE_SECONDS

PACE_SECONDS = 0.005
READERS = 3


class Witness:
    """The process, from the test's side."""

    def __init__(self, sidecar: Sidecar) -> None:
        command = [sys.executable, "-m", "tests.hostile.witness", sidecar.client_url, sidecar.publisher_url]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.mark()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.returncode is None:
            _, error = self._process.communicate(timeout=2 * PATIENCE_SECONDS)
            assert self._process.returncode == 0, error

    def mark(self) -> dict[str, float]:
        """What was measured since the last call."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            _, error = self._process.communicate()
            raise AssertionError(f"the well-behaved was harmed:\n{error}")
        found: dict[str, float] = json.loads(line)
        return found


def main(client_url: str, publisher_url: str) -> None:
    """Publish and read until the standard input ends."""
    publisher = WirePublisher(publisher_url)
    readers = [WireClient(client_url) for _ in range(READERS)]
    subject = f"/witness/{os.getpid()}"
    for reader in readers:
        reader.subscribe(subject)
    number, latencies = 0, [0.0]
    while True:
        number += 1
        sent = time.monotonic()
        publisher.packet("batch", number, [[subject, str(number)]])
        for reader in readers:
            message = reader.message()
            kept(message[3] == str(number) == str(message[1]), message)
            latencies.append((time.monotonic() - sent) * 1000)
        assert publisher.next()[3] == [number]
        if select.select([sys.stdin], [], [], PACE_SECONDS)[0]:
            if not sys.stdin.readline():
                return
            p50, p90, p99 = (quantiles(latencies * 2, n=100)[at] for at in (49, 89, 98))
            found = {
                "p50_ms": p50,
                "p90_ms": p90,
                "p99_ms": p99,
                "max_ms": max(latencies),
                "messages": len(latencies) // READERS,
            }
            sys.stdout.write(json.dumps(found) + "\n")
            sys.stdout.flush()
            latencies = [0.0]


if __name__ == "__main__":
    main(*sys.argv[1:])
