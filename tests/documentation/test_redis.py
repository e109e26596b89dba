"""Redis and Sentinel take the files of docs/operate/cluster.md, and are what the page says that they are."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.guide import one
from tests.support.ports import free_port
from tests.support.realtime.server import Program
from tests.support.waiting import until

pytestmark = pytest.mark.redis

PAGE = "docs/operate/cluster.md"


def server(text: str, folder: Path, *arguments: str) -> Program:
    """A server with a file of the page, but for its address and folder."""
    file = folder / f"{'sentinel' if arguments else 'redis'}.conf"
    file.write_text(text.replace("/var/lib/redis", str(folder)).replace("10.0.0.11", "127.0.0.1"))
    ready = "Sentinel ID is" if arguments else "Ready to accept connections"
    return Program(["redis-server", str(file), *arguments], {}, ready, 30, folder=folder)


def ask(port: int, *command: str) -> str:
    """What a server answers."""
    argv = ["redis-cli", "-p", str(port), "-a", "PASSWORD", "--no-auth-warning", *command]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=30).stdout


def test_the_files_of_the_page(tmp_path: Path) -> None:
    redis_port, sentinel_port = free_port(), free_port()
    text = one(PAGE, "redis", "requirepass PASSWORD\nmasterauth").replace("6379", str(redis_port))
    watching = (
        one(PAGE, "redis", "sentinel monitor").replace("26379", str(sentinel_port)).replace("6379", str(redis_port))
    )
    with server(text, tmp_path), server(watching, tmp_path, "--sentinel"):
        for name, value in re.findall(r"^(maxmemory-policy|min-replicas-to-write|repl-timeout) (\S+)$", text, re.M):
            assert ask(redis_port, "config", "get", name).split() == [name, value]
        found = until(lambda: ask(sentinel_port, "sentinel", "get-master-addr-by-name", "fastpath"), 30)
        assert found.split() == ["127.0.0.1", str(redis_port)]
        assert "NOREPLICAS" in ask(redis_port, "set", "a", "b"), (
            "a primary that has lost its replicas takes nothing more"
        )
