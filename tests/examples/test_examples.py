"""Each example of docs/examples runs by its one command, and does what its page says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

import pytest
from websockets.sync.client import connect as connect_websocket

from fastpath.client.blocking import connect
from tests.support.ports import free_port
from tests.support.realtime.server import ROOT, Program
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

EXAMPLES = ROOT / "docs" / "examples"
RUN = re.escape(str((EXAMPLES / "run.py").relative_to(ROOT)))
PAGE = ROOT / "docs" / "develop" / "examples.md"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/manage.py"))


class Example(Program):
    """One that runs, with files and ports of its own."""

    def __init__(self, name: str, folder: Path, **more: str) -> None:
        text = PAGE.read_text(encoding="utf-8")
        (command,) = re.findall(rf"^\.venv/bin/python ({RUN} {name})$", text, re.MULTILINE)
        self.mqtt_port = free_port()
        listen = f"clients://127.0.0.1:0,publishers://127.0.0.1:0,mqtt://127.0.0.1:{self.mqtt_port}"
        own = ("FASTPATH_", "REALTIME_", "DJANGO_", "PYTHONPATH")
        self.base = {key: value for key, value in os.environ.items() if not key.startswith(own)} | {
            "EXAMPLE_VAR": str(folder),
            "FASTPATH_LISTEN": listen,
            "FASTPATH_WORKERS": "1",
            "SENSOR_PORT": str(self.mqtt_port),
        }
        self.name = name
        self.cookies = CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))
        argv = [sys.executable, *command.split(), "--port", "0"]
        super().__init__(argv, more, r"Everything is running\.(?s:.*)Ctrl-C ends everything", 60, base=self.base)

    @property
    def url(self) -> str:
        """The web server's address."""
        return self._said(r"web +(http://[^/\s]+)")

    @property
    def client_url(self) -> str:
        """The sidecar's."""
        return self._said(r"WebSocket +(ws://\S+)")

    def manage(self, *arguments: str) -> None:
        """``manage.py`` of the example."""
        environment = self.base | {"PYTHONPATH": str(ROOT)}
        argv = [sys.executable, "manage.py", *arguments]
        subprocess.run(argv, cwd=EXAMPLES / self.name, env=environment, check=True, timeout=60)

    def get(self, path: str) -> str:
        """A page."""
        with self.opener.open(self.url + path, timeout=20) as answer:
            return str(answer.read().decode())

    def post(self, path: str, **values: str) -> int:
        """The status of a form that is sent, as the page sends it."""
        (token,) = [cookie.value for cookie in self.cookies if cookie.name == "csrftoken"]
        data = urllib.parse.urlencode(values | {"csrfmiddlewaretoken": token or ""}).encode()
        try:
            with self.opener.open(self.url + path, data, timeout=20) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    def _said(self, pattern: str) -> str:
        found = until(lambda: re.search(pattern, self.output))
        return found[1]


def test_the_page_has_all_of_them() -> None:
    """Each with its command, and what is in its folder."""
    text = PAGE.read_text(encoding="utf-8")
    assert re.findall(rf"{RUN} (\w+)$", text, re.MULTILINE) == NAMES == ["chat", "orders", "reports", "sensor"]
    done = subprocess.run([sys.executable, EXAMPLES / "run.py"], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (2, "usage: run.py chat|orders|reports|sensor [options of runrealtime]\n")


def test_chat(tmp_path: Path) -> None:
    """Who is in a room hears what is said there, also by another process, and nothing of another room."""
    with Example("chat", tmp_path) as example:
        assert "<h1>hall</h1>" in example.get("/")
        where = example.url.replace("http", "ws") + "/rooms/"
        options = {"origin": example.url, "open_timeout": 20}
        with (
            connect_websocket(f"{where}hall/", **options) as one,
            connect_websocket(f"{where}hall/", **options) as two,
            connect_websocket(f"{where}attic/", **options) as other,
        ):
            one.send(json.dumps({"text": "hello"}))
            for socket in (one, two):
                assert json.loads(socket.recv(2 * PATIENCE_SECONDS)) == {"text": "hello"}
            example.manage("say", "hall", "from a command")
            for socket in (one, two):
                assert json.loads(socket.recv(2 * PATIENCE_SECONDS)) == {"text": "from a command"}
            example.manage("say", "attic", "up here")
            assert json.loads(other.recv(2 * PATIENCE_SECONDS)) == {"text": "up here"}


def test_orders(tmp_path: Path) -> None:
    """What is committed is published; what is rolled back is not."""
    with Example("orders", tmp_path) as example, connect(example.client_url) as client:
        assert "the first book" in example.get("/")
        with client.subscribe("/orders/*") as stream:
            messages = iter(stream)
            first = next(messages)
            assert (first.subject, first.content, first.fields) == ("/orders/1", "new", {"item": "the first book"})
            assert example.post("/order/", item="a lamp", fail="1") == 500
            assert example.post("/order/", item="a chair") == 200
            second = next(messages)
            assert second.fields == {"item": "a chair"}, "the lamp was never ordered"
            number = second.subject.rpartition("/")[2]
            assert example.post(f"/advance/{number}/") == 200
            assert (next(messages).content, example.get("/").count("packed")) == ("packed", 1)
            assert "lamp" not in example.get("/")


def test_reports(tmp_path: Path) -> None:
    """What a task of Celery publishes while it works comes to who has ordered it, in order."""
    with Example("reports", tmp_path) as example, connect(example.client_url) as client:
        assert "<h1>Reports</h1>" in example.get("/")
        with client.subscribe("/reports/*") as stream:
            assert example.post("/order/", name="sales") == 200
            messages = iter(stream)
            found = [next(messages) for _ in range(6)]
        assert {one.subject for one in found} == {"/reports/sales"}
        assert [one.content for one in found] == ["waits for a worker", "20 %", "40 %", "60 %", "80 %", "100 %"]


def test_sensor(tmp_path: Path) -> None:
    """What the thing publishes over MQTT comes to a page's client, which need not know of MQTT."""
    with Example("sensor", tmp_path) as example, connect(example.client_url) as client:
        assert "/sensors/**" in example.get("/")
        with client.subscribe("/sensors/**") as stream:
            messages = iter(stream)
            found = [next(messages) for _ in range(2)]
        assert {one.subject for one in found} == {"/sensors/hall/temperature"}
        assert all(20 <= float(one.content) <= 22 for one in found)
