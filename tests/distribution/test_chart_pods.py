"""The pods of the chart's manifest as processes, as a kubelet runs them: probes, a rolling update, the time to stop."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fastpath.client.blocking import connect
from fastpath.client.message import Status
from fastpath.client.publisher.publisher import Publisher
from tests.support.certificates import Certificate
from tests.support.chart import PLAIN, Object, environment, pods
from tests.support.containers import FOLDER as CONTAINERS
from tests.support.realtime.server import ROOT, Program
from tests.support.redis import RedisServer
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = [pytest.mark.slow, pytest.mark.redis, pytest.mark.timeout(400)]

SUBJECT = "/scores/final"
READY_SECONDS = 90
CLIENTS = 4


class Machine:
    """Pods of the default manifest, each node on a loopback address of its own, with the ports that it has there."""

    def __init__(self, folder: Path, redis: RedisServer) -> None:
        self.folder = folder
        network = f"127.{random.randint(10, 250)}.{random.randint(0, 250)}."
        self.hosts = [f"{network}{10 + number}" for number in range(3)]
        self._engine = redis.url
        self._templates = pods(PLAIN)
        etc = folder / "etc"
        etc.mkdir()
        node, django = Certificate(etc, "node", self.hosts), Certificate(etc, "django")
        (etc / "ca.pem").write_bytes(node.cert.read_bytes() + django.cert.read_bytes())
        subprocess.run(["cp", "-r", str(CONTAINERS / "site"), str(folder / "site")], check=True)
        (folder / "site" / "var").mkdir()

    def pod(self, name: str) -> Object:
        return dict(self._templates[name]["spec"])

    def container(self, name: str) -> Object:
        (found,) = self.pod(name)["containers"]
        return dict(found)

    def variables(self, name: str) -> dict[str, str]:
        """What the manifest gives a container, with this machine's addresses and files."""
        given = environment(PLAIN, self.container(name))
        for key, value in given.items():
            text = value.replace("/etc/fastpath/", f"{self.folder}/etc/")
            text = re.sub(r"fastpath-(\d)\.fastpath\.fastpath\.svc\.cluster\.local", self._host, text)
            given[key] = text.replace("//fastpath-clients:", f"//{self.hosts[0]}:")
        return given

    def _host(self, found: re.Match[str]) -> str:
        return self.hosts[int(found[1])]

    def node(self, number: int) -> Program:
        """A node. Where the ingress would be, clients are told both nodes' addresses."""
        given = self.variables("fastpath")
        given["FASTPATH_LISTEN"] = given["FASTPATH_LISTEN"].replace("*", self.hosts[number])
        given["FASTPATH_SERVERS"] = ",".join(self.clients)
        given["FASTPATH_ENGINE"] = self._engine
        argv = [sys.executable, *self.container("fastpath")["command"][1:]]
        return Program(argv, given, "ready {", READY_SECONDS, folder=self.folder, base=self._base)

    @property
    def clients(self) -> list[str]:
        """The client addresses of the nodes that run: Django is told of one more, which does not."""
        return [f"ws://{host}:8800/ws" for host in self.hosts[:2]]

    @property
    def _base(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FASTPATH_", "DJANGO_"))}
        return kept | {"PYTHONPATH": f"{self.folder / 'site'}:{ROOT}"}

    def django(self, name: str) -> Program:
        """A process of Django's by the command of its pod."""
        argv = [word if word != "0.0.0.0" else self.hosts[0] for word in self.container(name)["command"][1:]]
        site = self.folder / "site"
        given = self.variables(name) | {"DJANGO_SETTINGS_MODULE": "mysite.settings"}  # as the image has it
        return Program([sys.executable, *argv], given, "", folder=site, base=self._base)

    def manage(self, *arguments: str) -> str:
        """``manage.py`` as the job of migrations runs it."""
        given = self._base | self.variables("fastpath-migrate")
        argv = [sys.executable, "manage.py", *arguments]
        done = subprocess.run(argv, cwd=self.folder / "site", env=given, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def probe(self, name: str, number: int = 0, kind: str = "readinessProbe") -> bool:
        """Ask as the kubelet does."""
        container = self.container(name)
        asked = container[kind]["httpGet"]
        (port,) = [port["containerPort"] for port in container["ports"] if port["name"] == asked["port"]]
        headers = {header["name"]: header["value"] for header in asked.get("httpHeaders", ())}
        url = f"http://{self.hosts[number]}:{port}{asked['path']}"
        request = urllib.request.Request(url, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except OSError:
            return False

    def end(self, node: Program) -> None:
        """What happens to a pod that goes: preStop, SIGTERM, and no more time than the manifest gives."""
        command = self.container("fastpath")["lifecycle"]["preStop"]["exec"]["command"]
        subprocess.run(command, check=True, timeout=60)
        node.process.send_signal(signal.SIGTERM)
        left = self.pod("fastpath")["terminationGracePeriodSeconds"] - int(command[1])
        assert node.wait(left) == 0, node.output
        assert "Traceback" not in node.output


class Reader:
    """A client, what it has read, and whether it was told that something is missing."""

    def __init__(self, stack: ExitStack, urls: list[str], token: str) -> None:
        self.told: list[str] = []
        client = stack.enter_context(connect(urls, token=token, on_status=self._note))
        self._stream: Any = client.subscribe(SUBJECT)
        self.numbers = [int(self._stream.get(60).content)]

    def _note(self, status: Status) -> None:
        self.told.append(status.name)

    def read_to(self, last: int) -> None:
        while self.numbers[-1] < last:
            self.numbers.append(int(self._stream.get(60).content))


@pytest.fixture
def stack() -> Any:
    with ExitStack() as each:
        yield each


def test_a_rolling_update_loses_nothing(tmp_path: Path, stack: ExitStack) -> None:
    """Two nodes of three, the newest first, each when the one before it is ready; under clients and a publisher.

    Before, the probes: a node is alive at once, and ready when the agent has brought the rights over TLS.
    """
    machine = Machine(tmp_path, stack.enter_context(RedisServer()))
    nodes = [stack.enter_context(machine.node(number)) for number in range(2)]
    for number in range(2):
        assert machine.probe("fastpath", number, "livenessProbe")
        assert not machine.probe("fastpath", number)
    machine.manage(*machine.container("fastpath-migrate")["command"][2:], "-v0")
    machine.manage("entitlement_rules", "allow", "everyone", "/scores/**", "--action", "both")
    machine.manage(
        "shell", "-v0", "-c", "from django.contrib.auth.models import User; User.objects.create_user('feed')"
    )
    token = machine.manage("realtime_token", "feed")
    stack.enter_context(machine.django("fastpath-agent"))
    stack.enter_context(machine.django("fastpath-web"))
    for number in range(2):
        until(lambda number=number: machine.probe("fastpath", number), READY_SECONDS)  # type: ignore[misc]
    until(lambda: machine.probe("fastpath-web"), READY_SECONDS)
    assert machine.probe("fastpath-web", 0, "livenessProbe")

    over, sent = threading.Event(), [0]

    def feed() -> None:
        with Publisher([f"{host}:8801" for host in machine.hosts[:2]], token=token) as publisher:
            while not over.wait(0.01):
                publisher.publish(SUBJECT, str(sent[0] + 1))
                sent[0] += 1

    feeding = threading.Thread(target=feed)
    feeding.start()
    try:
        readers = [Reader(stack, machine.clients, token) for _ in range(CLIENTS)]
        for number in (1, 0):
            machine.end(nodes[number])
            stack.enter_context(machine.node(number))
            until(lambda number=number: machine.probe("fastpath", number), READY_SECONDS)  # type: ignore[misc]
            before = sent[0]
            until(lambda before=before: sent[0] > before, 60)  # type: ignore[misc]
    finally:
        over.set()
        feeding.join(60)
    assert not feeding.is_alive()
    for reader in readers:
        reader.read_to(sent[0])
        assert reader.numbers == list(range(reader.numbers[0], sent[0] + 1)), "each once, in order"
        assert "resynchronised" not in reader.told
        assert reader.told.count("connected") >= 2, "it was sent elsewhere at least once"
