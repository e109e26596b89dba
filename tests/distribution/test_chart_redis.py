"""The chart's Redis and Sentinels as processes that know each other by names: a pod comes back with another address."""

from __future__ import annotations

import os
import random
import re
import shlex
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from fastpath.client.publisher.publisher import Publisher
from tests.support.chart import EVERYTHING, Object, environment, one, pods
from tests.support.realtime.server import ROOT, Program
from tests.support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.redis, pytest.mark.timeout(300)]

PASSWORD = "0f" * 16
KINDS = ("redis", "sentinel")


class Pods:
    """Those of `fastpath-redis`: their files are those of the manifest, but that each binds to its own address."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._network = f"127.{random.randint(10, 250)}.{random.randint(0, 250)}."
        self.addresses = [f"{self._network}{10 + number}" for number in range(3)]
        self._hosts = folder / "hosts"
        self._files: dict[str, str] = one(EVERYTHING, "ConfigMap", "fastpath-redis")["data"]
        self._pod: Object = pods(EVERYTHING)["fastpath-redis"]["spec"]
        self.running: dict[tuple[str, int], Program] = {}
        self._name_all()
        for number in range(3):
            self.start(number)

    def _name_all(self) -> None:
        """What the cluster's DNS does; the file stays the same one, as it is mounted."""
        (redis, _) = self._pod["containers"]
        name = environment(EVERYTHING, redis)["ADDRESS"]
        lines = [f"{address} {name.replace('POD', f'fastpath-redis-{n}')}" for n, address in enumerate(self.addresses)]
        self._hosts.write_text("\n".join(["127.0.0.1 localhost", *lines, ""]), encoding="utf-8")

    def program(self, argv: list[str], given: dict[str, str], ready: str) -> Program:
        """A process for which the names are in /etc/hosts."""
        inner = f"mount --bind {shlex.quote(str(self._hosts))} /etc/hosts && exec {shlex.join(argv)}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FASTPATH_")}
        return Program(
            ["unshare", "--mount", "sh", "-c", inner], given, ready, 60, base=kept | {"PYTHONPATH": str(ROOT)}
        )

    def start(self, number: int) -> None:
        """Both containers by their commands, each in a folder of its own that outlasts them."""
        address = self.addresses[number]
        for container in self._pod["containers"]:
            kind = container["name"]
            data = self._folder / f"{kind}-{number}"
            data.mkdir(exist_ok=True)
            for name, text in self._files.items():
                text = re.sub(r"^bind .*", f"bind {address}", text, flags=re.MULTILINE)
                text = text.replace("/etc/fastpath/$kind.conf", f"{data}/$kind.given").replace("/data", str(data))
                (data / name.replace(".conf", ".given")).write_text(text, encoding="utf-8")
            if (kept := data / f"{kind}.conf").exists():
                kept.write_text(re.sub(r"^bind .*", f"bind {address}", kept.read_text(), flags=re.MULTILINE))
            given = environment(EVERYTHING, container) | {"REDIS_PASSWORD": PASSWORD}
            name = given["ADDRESS"].replace("POD", f"fastpath-redis-{number}")
            words = [word.replace("$(ADDRESS)", name) for word in container["command"]]
            words[1] = str(data / Path(words[1]).name)
            ready = "Ready to accept connections" if kind == "redis" else "Sentinel ID is"
            self.running[kind, number] = self._stack.enter_context(self.program(words, given, ready))

    def kill(self, number: int) -> None:
        """The machine of a pod is gone."""
        for kind in KINDS:
            self.running[kind, number].process.send_signal(signal.SIGKILL)
            self.running[kind, number].wait()

    def move(self, number: int) -> None:
        """The pod comes back, under its name and with another address."""
        self.addresses[number] = f"{self._network}{20 + number}"
        self._name_all()
        self.start(number)

    def ask(self, number: int, *words: str, port: int = 6379) -> str:
        argv = ["redis-cli", "-h", self.addresses[number], "-p", str(port), *words]
        given = os.environ | {"REDISCLI_AUTH": PASSWORD}
        return subprocess.run(argv, env=given, capture_output=True, text=True, timeout=60).stdout

    def is_ready(self, number: int) -> bool:
        """By the probes of both containers."""
        given = os.environ | {"REDISCLI_AUTH": PASSWORD}
        for container in self._pod["containers"]:
            shell, option, text = container["readinessProbe"]["exec"]["command"]
            text = text.replace("redis-cli", f"redis-cli -h {self.addresses[number]}")
            if subprocess.run([shell, option, text], env=given, capture_output=True, timeout=60).returncode:
                return False
        return True

    def promoted(self) -> int | None:
        """Which of the two that stayed is the primary now."""
        found = [number for number in (1, 2) if "role:master" in self.ask(number, "info", "replication")]
        return found[0] if len(found) == 1 else None

    def is_whole(self) -> bool:
        """Whether two follow the third, with its data, whichever that is."""
        return any(self.ask(number, "info", "replication").count("state=online") == 2 for number in range(3))


def test_a_redis_that_comes_back_elsewhere_is_known_by_its_name(tmp_path: Path) -> None:
    """The primary dies, another one is promoted, and the first follows it from its new address; nodes publish on."""
    with ExitStack() as stack:
        redis = Pods(tmp_path, stack)
        until(redis.is_whole, 60)
        for number in range(3):
            until(lambda number=number: redis.is_ready(number), 60)  # type: ignore[misc]
        until(lambda: "OK 3 usable" in redis.ask(1, "sentinel", "ckquorum", "fastpath", port=26379), 60)
        (container,) = pods(EVERYTHING)["fastpath"]["spec"]["containers"]
        engine = environment(EVERYTHING, container)["FASTPATH_ENGINE"].replace("redis-password" * 4, PASSWORD)
        given = {
            "FASTPATH_ENGINE": engine,
            "FASTPATH_MODE": "none",
            "FASTPATH_WORKERS": "1",
            "FASTPATH_LISTEN": "clients://127.0.0.1:0,publishers://127.0.0.1:0",
        }
        node = stack.enter_context(
            redis.program([sys.executable, "-m", "fastpath"], given, r'"publishers": \["([^"]+)"')
        )
        with Publisher(node.found[1], retry_seconds=120) as publisher:
            publisher.publish("/chart/redis", "1")
            redis.kill(0)
            publisher.publish("/chart/redis", "2")
            assert until(redis.promoted, 60) in (1, 2)
            redis.move(0)
            until(redis.is_whole, 120)
            until(lambda: redis.is_ready(0), 60)
            publisher.publish("/chart/redis", "3")
        assert "fastpath-redis-0.fastpath-redis.fastpath" in node.output, "it was told names"
