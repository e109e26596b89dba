"""Redis for a node that is measured: one server alone, or with replicas and Sentinels, each in a folder of its own."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..load.sockets import BenchError
from ..machine.processes import free_ports, stop
from .peers import find_program

PROGRAM = "redis-server"
INSTALL = "apt-get install redis-server"
READY_SECONDS_MAX = 30
NAME = "fp"
"""Name under which the Sentinels watch the primary."""

OPTIONS = {
    "bind": "127.0.0.1",
    "protected-mode": "no",
    "save": '""',
    "appendonly": "yes",
    "appendfsync": "everysec",
    "maxmemory": "4gb",
    "maxmemory-policy": "noeviction",
    "repl-diskless-sync": "yes",
    "repl-diskless-sync-delay": "0",
    "repl-diskless-load": "swapdb",
    "repl-backlog-size": "64mb",
    "repl-ping-replica-period": "1",
}
"""Options as docs/operate/cluster.md wants them: with an append-only file, and nothing is ever evicted."""


@dataclass
class RedisServers:
    """``url`` is what the setting ``engine`` takes; ``pids`` has the processes by what they do."""

    url: str
    primary: int
    """The primary's port."""
    pids: dict[str, list[int]] = field(default_factory=dict)

    def call(self, *command: str | int) -> Any:
        """Send one command to the primary."""
        return _call(self.primary, *command)


def missing() -> str:
    """Return why there is no Redis here and what installs it; empty if there is one."""
    return "" if find_program(PROGRAM) else f"no {PROGRAM} on the PATH; install it with: {INSTALL}"


@contextlib.contextmanager
def redis_servers(replicas: int = 0, sentinels: int = 0) -> Iterator[RedisServers]:
    """Run a primary with so many replicas and Sentinels, all of them in step; raise BenchError when they do not
    start."""
    program = find_program(PROGRAM)
    if program is None:
        raise BenchError(missing())
    folder = Path(tempfile.mkdtemp(prefix="fp-bench-redis-"))
    primary, *others = free_ports(1 + replicas + sentinels)
    watchers = others[replicas:]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for port in (primary, *others[:replicas]):
            lines = OPTIONS | ({"replicaof": f"127.0.0.1 {primary}"} if port != primary else {})
            if replicas:
                lines |= {"min-replicas-to-write": "1", "min-replicas-max-lag": "10"}
            started.append(_start(program, folder, port, lines))
        _wait(lambda: _online(primary) == replicas, "the replicas do not follow", folder)
        for port in watchers:
            started.append(_start(program, folder, port, _sentinel(primary, sentinels), "--sentinel"))
        for port in watchers:
            _wait(lambda port=port: _watches(port, replicas, sentinels), "the Sentinels are not in step", folder)  # type: ignore[misc]
        pids = [process.pid for process in started]
        names = ",".join(f"127.0.0.1:{port}" for port in watchers)
        url = f"redis+sentinel://{names}/{NAME}" if sentinels else f"redis://127.0.0.1:{primary}"
        yield RedisServers(
            url,
            primary,
            {"primary": pids[:1], "replicas": pids[1 : 1 + replicas], "sentinels": pids[1 + replicas :]},
        )
    finally:
        for process in reversed(started):
            stop(process)
        shutil.rmtree(folder, ignore_errors=True)


def _start(program: str, folder: Path, port: int, lines: dict[str, str], *arguments: str) -> subprocess.Popen[bytes]:
    own = folder / str(port)
    own.mkdir()
    lines = {"port": str(port), "dir": str(own), "logfile": str(folder / f"{port}.log")} | lines
    conf = own / "redis.conf"
    conf.write_text("".join(f"{name} {value}\n" for name, value in lines.items()))
    quiet = subprocess.DEVNULL
    return subprocess.Popen([program, str(conf), *arguments], stdin=quiet, stdout=quiet, stderr=quiet)


def _sentinel(primary: int, sentinels: int) -> dict[str, str]:
    return {
        "bind": "127.0.0.1",
        "protected-mode": "no",
        "sentinel monitor": f"{NAME} 127.0.0.1 {primary} {sentinels // 2 + 1}",
        "sentinel down-after-milliseconds": f"{NAME} 3000",
    }


def _online(primary: int) -> int:
    """Return how many replicas follow; -1 while the primary does not answer."""
    try:
        found = _call(primary, "INFO", "replication")
    except OSError:
        return -1
    return sum(1 for name, one in found.items() if name.startswith("slave") and one.get("state") == "online")


def _watches(port: int, replicas: int, sentinels: int) -> bool:
    """Return whether a Sentinel knows all others; until then it looks at them more often than by itself."""
    try:
        _call(port, "SENTINEL", "DEBUG", "info-period", 300, "publish-period", 200)
        flat = _call(port, "SENTINEL", "MASTER", NAME)
        known = flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))
        done = int(known["num-slaves"]) == replicas and int(known["num-other-sentinels"]) == sentinels - 1
        if done:
            _call(port, "SENTINEL", "DEBUG", "info-period", 10_000, "publish-period", 2000)
        return done
    except OSError:
        return False


def _call(port: int, *command: str | int) -> Any:
    """Return the answer to one command; raise OSError while nobody answers."""
    import redis  # noqa: PLC0415 - only where Redis is measured

    try:
        with redis.Redis("127.0.0.1", port=port, socket_timeout=10, decode_responses=True, protocol=2) as client:
            return client.execute_command(*command)
    except redis.RedisError as error:
        raise OSError(str(error)) from error


def _wait(done: Callable[[], bool], fault: str, folder: Path) -> None:
    end = time.monotonic() + READY_SECONDS_MAX
    while not done():
        if time.monotonic() > end:
            logs = "".join(path.read_text(errors="replace")[-300:] for path in sorted(folder.glob("*.log")))
            raise BenchError(f"{fault} within {READY_SECONDS_MAX} s: {logs}")
        time.sleep(0.05)
