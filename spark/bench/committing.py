"""A commit of a million rows, and how long a client beside it waits for the answer to a WebSocket ping."""

from __future__ import annotations

import asyncio
import json
import secrets
import subprocess
import sys
import time

import msgspec
from pyspark.sql import SparkSession

from fastpath.client.publisher.transactions import Attempt, Committer, Stager
from spark.bench.serving import ROOT, Server, sidecar
from spark.bench.tables import Figure
from spark.bench.writing import SYMBOLS

ROWS = 1_000_000
FRAME_ROWS = 2000
FIELDS = ("bid", "ask", "volume", "change")
EVERY_SECONDS = 0.002
QUIET_SECONDS = 2.0

_encode = msgspec.msgpack.Encoder().encode


def measure(session: SparkSession, repeat: int, rows: int = ROWS) -> list[Figure]:
    """Stage, then commit; the client's waits before and during the commit. Spark has no part in it."""
    del session
    longest, quiet, p99, rates = [], [], [], []
    for _ in range(repeat):
        with sidecar() as server, _Pinger(server) as pinger:
            attempt = Attempt(f"bench-{secrets.token_hex(4)}", 0, 0, 1)
            stager = Stager(server.url, None, attempt, window=8)
            for start in range(0, rows, FRAME_ROWS):
                stager.stage(FRAME_ROWS, _frame(start), None)
            stager.flush()
            stager.close()
            began = time.monotonic()
            time.sleep(QUIET_SECONDS)  # what a ping takes when nothing happens
            middle = time.monotonic()
            committer = Committer(server.url, None, timeout_seconds=60)
            done = committer.commit(attempt.transaction, 0, [(0, attempt.attempt, rows)])
            end = time.monotonic()
            committer.close()
            assert done.rows == rows
        waits = pinger.waits
        during = sorted(wait for at, wait in waits if middle <= at <= end)
        before = sorted(wait for at, wait in waits if began <= at < middle)
        longest.append(during[-1])
        p99.append(during[len(during) * 99 // 100])
        quiet.append(before[len(before) * 99 // 100])
        rates.append(rows / (end - middle))
    return [
        Figure("commit of a million rows: longest ping of a client beside it", "ms", longest, 10, least=False),
        Figure("commit of a million rows: p99 of these pings", "ms", p99),
        Figure("the same pings before the commit, p99", "ms", quiet),
        Figure("rows released in a second", "rows/s", rates),
    ]


def _frame(start: int) -> bytes:
    """Return a frame with rows of 200 subjects with four fields, as a run each."""
    numbers = range(start, start + FRAME_ROWS)
    runs = []
    for symbol in range(SYMBOLS):
        own = [str(number) for number in numbers if number % SYMBOLS == symbol]
        runs.append([f"/bench/us/S{symbol:03d}", own, dict.fromkeys(FIELDS, own), None])
    return _encode(runs)


class _Pinger:
    """A process of its own with a WebSocket that pings; afterwards ``waits`` has when each began, and its ms."""

    def __init__(self, server: Server) -> None:
        command = [sys.executable, "-m", "spark.bench.committing", server.clients]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.waits: list[tuple[float, float]] = []

    def __enter__(self) -> _Pinger:
        assert self._process.stdout is not None
        self._process.stdout.readline()
        return self

    def __exit__(self, *_: object) -> None:
        answer, _none = self._process.communicate(timeout=20)
        self.waits = json.loads(answer or b"[]")


async def _ping(url: str) -> list[tuple[float, float]]:
    """Ping until standard input ends."""
    from websockets.asyncio.client import connect  # noqa: PLC0415 - of the pinging process only

    waits = []
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    async with connect(url, ping_interval=None) as socket:
        await socket.send('{"op":"connect","id":1}')
        await socket.recv()
        print("ready", flush=True)
        while not ended.done():
            began = time.monotonic()
            await (await socket.ping())
            waits.append((began, (time.monotonic() - began) * 1000))
            await asyncio.sleep(EVERY_SECONDS)
    return waits


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_ping(sys.argv[1]))))
