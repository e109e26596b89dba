"""The servers of a measurement: a sidecar of the product, and a receiver that acknowledges all and keeps nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

READY_SECONDS = 20
ROOT = Path(__file__).resolve().parents[2]
TICKS = os.sysconf("SC_CLK_TCK")


class BenchError(RuntimeError):
    """The measurement is not possible; the text says why."""


@dataclass
class Server:
    """A server that runs."""

    process: subprocess.Popen[bytes]
    url: str
    """host:port of its publisher port."""
    clients: str = ""
    """The address of its WebSocket."""
    control: str = ""

    def cpu_seconds(self) -> float:
        """Return the CPU time that the server has used so far, in seconds, the kernel's work for it included."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / TICKS


@contextmanager
def sidecar(**settings: Any) -> Iterator[Server]:
    """Run the product's sidecar alone, with FASTPATH_* settings; its journal is on the disk of the temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix="spark-bench-"))
    control = str(folder / "control.sock")
    chosen = {
        "listen": "clients://127.0.0.1:0,publishers://127.0.0.1:0",
        "mode": "none",
        "workers": 1,
        "control": control,
        "data": str(folder / "journal"),
        "journal": "interval",
        "log_level": "warning",
    } | settings
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FASTPATH_")}
    environment |= {f"FASTPATH_{name.upper()}": str(value) for name, value in chosen.items()}
    try:
        with _process([sys.executable, "-m", "fastpath"], environment) as (process, ready):
            addresses = json.loads(ready.removeprefix("ready "))
            clients = f"ws://{addresses['clients'][0]}/ws"
            yield Server(process, addresses["publishers"][0], clients, control)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def discarding() -> Iterator[Server]:
    """Run the receiver that keeps nothing (spark.bench.discard)."""
    with _process([sys.executable, "-m", "spark.bench.discard"], dict(os.environ)) as (process, ready):
        yield Server(process, ready.strip())


@contextmanager
def _process(command: list[str], environment: dict[str, str]) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        if not line:
            raise BenchError(f"{' '.join(command[1:])} ended before it was ready")
        yield process, line
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(READY_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()
