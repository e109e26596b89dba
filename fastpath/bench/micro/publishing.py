"""What publish() costs that threads of Django's processes call, beside a bare round trip and beside Redis, in turns."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from ..load.sockets import BenchError
from ..machine.description import ROOT, machine
from ..machine.processes import close_pipes, stop
from ..machine.procfs import cpu_ns
from ..servers import redis_servers
from ..servers.callers import ECHO, PROGRAM
from ..servers.fastpath_server import sidecar

EPILOG = """\
Each process has its threads, as a worker of gunicorn (gthread) has; each thread calls again as soon as it has its
answer. No HTTP is on the way. channels_redis is measured where it is installed, and Redis where redis-server is."""


@dataclass(frozen=True)
class Round:
    """One kind's turn: calls, their times, and the CPU time of a call, in µs, on both sides."""

    calls: int
    per_second: float
    p50_ms: float
    p99_ms: float
    caller_us: float
    server_us: float


class Kind:
    """A kind of call, by so many processes, and the server that answers; ``work`` lets all threads call."""

    def __init__(self, name: str, title: str, server: Sequence[int], processes: list[subprocess.Popen[str]]) -> None:
        self.name = name
        self.title = title
        self.rounds: list[Round] = []
        self._server = server
        self._processes = processes

    def work(self, seconds: float) -> None:
        """Work for a round; raise BenchError when a call fails."""
        before = cpu_ns(self._server)
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{seconds}\n")
            process.stdin.flush()
        told = [_line(process, self.title) for process in self._processes]
        server_ns = cpu_ns(self._server) - before
        for one in told:
            if one["errors"]:
                raise BenchError(f"{self.title}: {one['errors'][0]}")
        times = sorted(time for one in told for time in one["times_us"])
        if not times:
            raise BenchError(f"{self.title}: no call has ended within {seconds:g} s")
        self.rounds.append(
            Round(
                len(times),
                len(times) / seconds,
                times[len(times) // 2] / 1000,
                times[len(times) * 99 // 100] / 1000,
                sum(one["cpu_s"] for one in told) / len(times) * 1e6,
                server_ns / 1000 / len(times),
            )
        )

    def middle(self, figure: Callable[[Round], float]) -> float:
        """Return the median of a figure over the rounds."""
        return median(map(figure, self.rounds))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `publishing [--processes N] [--threads N] [--seconds S] [--repeat N]`."""
    parser.epilog = EPILOG
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="default 2")
    parser.add_argument("--threads", type=int, default=25, metavar="N", help="of each process (default 25)")
    parser.add_argument("--seconds", type=float, default=2, metavar="S", help="of each round (default 2)")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="rounds of each (default 5)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the rounds as JSON as well")


def run(arguments: argparse.Namespace) -> int:
    """Measure in turns, there and back, and print a table."""
    with contextlib.ExitStack() as stack:
        kinds = [*_kinds(stack, arguments.processes, arguments.threads)]
        for number in range(max(arguments.repeat, 1)):
            for kind in kinds if number % 2 == 0 else kinds[::-1]:
                kind.work(arguments.seconds)
    told = machine()
    print(f"Revision: {told['revision']}; {arguments.processes} processes of {arguments.threads} threads\n")
    print("| | calls/s | p50 ms | p99 ms | callers, CPU s/M | server, CPU s/M | together, × bare |")
    print("|---|---|---|---|---|---|---|")
    floor = kinds[-1].middle(_cost)
    for kind in kinds:
        figures = [kind.middle(lambda one, name=name: getattr(one, name)) for name in _SHOWN]  # type: ignore[misc]
        shown = " | ".join(f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}" for figure in figures)
        print(f"| {kind.title} | {shown} | {kind.middle(_cost) / floor:.2f} |")
    if arguments.output is not None:
        rounds = {kind.name: [asdict(one) for one in kind.rounds] for kind in kinds}
        arguments.output.write_text(json.dumps({"machine": told, "rounds": rounds}, indent=1))
    return 0


_SHOWN = ("per_second", "p50_ms", "p99_ms", "caller_us", "server_us")


def _cost(one: Round) -> float:
    return one.caller_us + one.server_us


def _kinds(stack: contextlib.ExitStack, processes: int, threads: int) -> Iterator[Kind]:
    """Yield the kinds that can be measured here; the bare one is the last."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fp-bench-")))
    (folder / "callers.py").write_text(PROGRAM)
    (folder / "echo.py").write_text(ECHO)

    def kind(name: str, title: str, server: Sequence[int], address: str) -> Kind:
        program = [str(folder / "callers.py"), name, address, str(threads)]
        return Kind(name, title, server, [started(stack, program, title) for _ in range(processes)])

    own = stack.enter_context(sidecar(None))
    yield kind("publish", "`publish()`", own.pids, own.control)
    if redis_servers.missing():
        print(f"Redis: skipped, {redis_servers.missing()}", file=sys.stderr)
    else:
        redis = stack.enter_context(redis_servers.redis_servers())
        yield kind("redis", "`PUBLISH` of redis-py", redis.pids["primary"], redis.url)
        if importlib.util.find_spec("channels_redis") is not None:
            yield kind("channels", "`group_send()` of channels_redis", redis.pids["primary"], redis.url)
    echo = started(stack, [folder / "echo.py", str(folder / "echo.sock")], "the bare server")
    yield kind("bare", "bare round trip", [echo.pid], str(folder / "echo.sock"))


def started(stack: contextlib.ExitStack, program: Sequence[str | Path], title: str) -> subprocess.Popen[str]:
    """Start a process; return it when it has said that it is ready."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.Popen(
        [sys.executable, *map(str, program)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    stack.callback(close_pipes, process)
    stack.callback(stop, process)
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        raise BenchError(f"{title}: its process has not started; what it says is above")
    return process


def _line(process: subprocess.Popen[str], title: str) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise BenchError(f"{title}: a process of it has ended")
    told: dict[str, Any] = json.loads(line)
    return told
