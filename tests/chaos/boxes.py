"""Redis servers and Sentinels in network namespaces of their own, so that a cut drops packets as a cable does.

Every box has two legs. One is on a bridge with all other boxes: Redis, Sentinels and nodes speak over it, and a box
that is moved to a second bridge is cut off from those on the first. The other leg leads to the run, which never loses
sight of anybody. It needs root and iproute2.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.support.redis import Topology
from tests.support.redis_servers import RedisServer, SentinelServer, Server

_COUNT = count()


def ip(*words: str) -> None:
    """One command of iproute2; CalledProcessError with its words when it fails."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Box:
    """A network namespace; ``inner`` is its address among the boxes, ``outer`` the one that the run uses."""

    def __init__(self, net: Net, number: int) -> None:
        self.name = f"{net.name}-{number}"
        self.leg = f"{net.name}d{number}"
        self.inner = f"{net.inner}.{number}"
        self.outer = f"{net.outer}.{number}"
        ip("netns", "add", self.name)
        for leg, end, bridge, address in (
            (self.leg, "data", net.bridges[0], self.inner),
            (f"{net.name}m{number}", "run", net.outside, self.outer),
        ):
            ip("link", "add", leg, "type", "veth", "peer", "name", end, "netns", self.name)
            ip("link", "set", leg, "master", bridge, "up")
            ip("-n", self.name, "addr", "add", f"{address}/24", "dev", end)
            ip("-n", self.name, "link", "set", end, "up")
        ip("-n", self.name, "link", "set", "lo", "up")

    @property
    def inside(self) -> list[str]:
        """What to put before a command that is to run here."""
        return ["ip", "netns", "exec", self.name]


class Net:
    """Boxes by number, from 1 on, on two bridges."""

    def __init__(self, boxes: int) -> None:
        number = (os.getpid() * 16 + next(_COUNT)) % 0xFFFFF  # the kernel takes a while to forget earlier ones
        self.name = f"fc{number:x}"
        block = f"{number % 250 + 1}"
        self.count = boxes
        self.inner, self.outer = f"10.201.{block}", f"10.202.{block}"
        self.bridges = f"{self.name}a", f"{self.name}b"
        self.outside = f"{self.name}o"
        self.boxes: list[Box] = []
        try:
            for bridge in (*self.bridges, self.outside):
                ip("link", "add", bridge, "type", "bridge")
                ip("link", "set", bridge, "up")
            ip("addr", "add", f"{self.outer}.254/24", "dev", self.outside)
            for one in range(1, boxes + 1):
                self.boxes.append(Box(self, one))
        except BaseException:
            self.close()
            raise

    def part(self, boxes: Iterable[Box]) -> None:
        """These no longer reach the others, nor the others them; nobody is told."""
        for box in boxes:
            ip("link", "set", box.leg, "master", self.bridges[1])

    def heal(self) -> None:
        """Everybody reaches everybody."""
        for box in self.boxes:
            ip("link", "set", box.leg, "master", self.bridges[0])

    def close(self) -> None:
        """Leave no trace; what runs in the boxes must have ended."""
        legs = [f"{self.name}{kind}{number}" for kind in "dm" for number in range(1, self.count + 1)]
        commands = [["link", "del", link] for link in (*legs, *self.bridges, self.outside)]
        commands += [["netns", "del", f"{self.name}-{number}"] for number in range(1, self.count + 1)]
        for words in commands:
            subprocess.run(["ip", *words], check=False, capture_output=True)


class _Boxed(Server):
    """A server in a box."""

    box: Box

    @property
    def address(self) -> tuple[str, int]:
        """As others in boxes know it."""
        return self.box.inner, self.port

    def launch(self) -> None:
        """As in Server, in the box."""
        self.process = subprocess.Popen(
            [*self.box.inside, "redis-server", str(self.conf), *self.arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def call(self, *command: Any, user: str = "", seconds: float = 2) -> Any:
        """As in Server, over the leg that is never cut."""
        del user
        with redis.Redis(
            host=self.box.outer,
            port=self.port,
            socket_timeout=seconds,
            socket_connect_timeout=seconds,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
            protocol=2,
        ) as client:
            return client.execute_command(*command)


class _BoxedRedis(_Boxed, RedisServer):
    pass


class _BoxedSentinel(_Boxed, SentinelServer):
    pass


class BoxedTopology(Topology):
    """As Topology, each Redis with its Sentinel in a box; ``nodes`` further boxes are empty."""

    def __init__(self, *, redis: int = 3, nodes: int = 2, down_after: int = 3000) -> None:
        super().__init__(redis=redis, sentinels=redis, down_after=down_after)
        self.net = Net(redis + nodes)
        self.homes = self.net.boxes[:redis]
        self.node_boxes = self.net.boxes[redis:]
        where = {}
        for number, home in enumerate(self.homes):
            for servers, kind in ((self.servers, _BoxedRedis), (self.sentinels, _BoxedSentinel)):
                server: Any = servers[number]
                server.__class__ = kind
                server.box = home
                where[str(server.port)] = home.inner
        for server in (*self.servers, *self.sentinels):
            _move(server.conf, where)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.net.close()

    def url_for(self, user: str) -> str:
        """The Sentinels as the boxes know them."""
        del user
        hosts = ",".join(f"{home.inner}:{one.port}" for home, one in zip(self.homes, self.sentinels, strict=True))
        return f"redis+sentinel://{hosts}/fp"

    def home(self, server: Server) -> Box:
        """The box of a Redis or a Sentinel."""
        assert isinstance(server, _Boxed)
        return server.box


def _move(conf: Path, where: dict[str, str]) -> None:
    """The addresses of a configuration made for loopback, as the boxes have them."""
    text = re.sub(r"127\.0\.0\.1 (\d+)", lambda found: f"{where[found[1]]} {found[1]}", conf.read_text())
    conf.write_text(text.replace("bind 127.0.0.1", "bind 0.0.0.0\nprotected-mode no"))
