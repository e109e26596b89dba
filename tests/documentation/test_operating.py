"""What the pages for operators type and configure, run as it is printed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from asgiref.sync import async_to_sync
from channels.layers import ChannelLayerManager
from django.test import Client

from fastpath.client.publisher import Publisher
from realtime.nodes.control_sockets import control
from tests.support.documentation.running import Run, here
from tests.support.guide import one
from tests.support.realtime.server import ROOT, Program
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

CLUSTER = "docs/operate/cluster.md"


def surroundings(folder: Path) -> dict[str, str]:
    """A shell whose `python` is this one, which finds the packages of this checkout from everywhere."""
    (folder / "bin").mkdir(exist_ok=True)
    program = folder / "bin" / "python"
    if not program.exists():
        program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        program.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FASTPATH_")}
    return kept | {"PATH": f"{folder / 'bin'}:{kept['PATH']}", "PYTHONPATH": str(ROOT)}


@pytest.mark.slow
def test_settings_are_checked_and_printed(tmp_path: Path) -> None:
    """docs/operate/operations.md: the first line serves until it is ended, the others are over at once."""
    serving, *others = one("docs/operate/operations.md", "sh", "--print-settings").splitlines()
    base = surroundings(tmp_path)
    listen = {"FASTPATH_LISTEN": "clients://127.0.0.1:0,publishers://127.0.0.1:0", "FASTPATH_MODE": "none"}
    listen["FASTPATH_CONTROL"] = str(tmp_path / "control.sock")
    with Program(["sh", "-c", f"exec env {serving}"], listen, "ready {", 30, folder=tmp_path, base=base):
        pass
    text = "\n".join(others)
    subprocess.run(
        ["sh", "-e", "-c", text], cwd=tmp_path, env=base | listen, check=True, timeout=60, capture_output=True
    )
    assert 'mode = "none"' in (tmp_path / "fastpath.toml").read_text()


@pytest.mark.slow
def test_recording_and_replaying(tmp_path: Path, sidecar: Sidecar) -> None:
    """docs/develop/recording.md: recorded until Ctrl-C, shown, and sent again."""
    record, show, replay = one("docs/develop/recording.md", "sh", "recording show").splitlines()
    base = surroundings(tmp_path)
    record = f"exec {record.partition('#')[0]} --url {sidecar.client_url}"
    with Publisher(sidecar.publisher_url) as publisher:
        publisher.publish("/stocks/us/IBM", "193.20")
        with Program(["sh", "-c", record], {}, r"\b1 message|connected", 30, folder=tmp_path, base=base) as program:
            file = tmp_path / "day.jsonl.gz"
            until(lambda: file.exists() and "193" in shown(file), 30)
            program.process.send_signal(signal.SIGINT)
            assert program.wait() == 0, program.output
    options: dict[str, Any] = {"cwd": tmp_path, "env": base, "capture_output": True, "text": True, "timeout": 60}
    assert re.search(r"^messages +1$", subprocess.run(["sh", "-c", show], **options).stdout, re.MULTILINE)
    done = subprocess.run(["sh", "-c", here(replay, sidecar)], **options)
    assert re.search(r"^acknowledged +1$", done.stdout, re.MULTILINE), done.stdout + done.stderr


def shown(file: Path) -> str:
    """What a recording that is still written has so far."""
    return subprocess.run(["zcat", "-q", str(file)], capture_output=True, text=True, timeout=20).stdout


def test_the_log_of_django() -> None:
    """docs/operate/logs.md: one object of JSON a line."""
    text = one("docs/operate/logs.md", "python", "LOGGING = {")
    program = f"{text}\nimport logging.config\nlogging.config.dictConfig(LOGGING)\nlogging.info('it runs')"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    )
    found = json.loads(done.stderr)
    assert (found["event"], found["level"], found["worker"]) == ("it runs", "info", "django")


@pytest.mark.django_db(transaction=True)
def test_health_at_addresses_of_ones_own(sidecar: Sidecar, settings: Any) -> None:
    own: Any = ModuleType("own_urls")
    before = "from django.urls import path\n"
    own.urlpatterns = (
        Run(before + one("docs/operate/logs.md", "python", "health.healthz"), {}).now().names["urlpatterns"]
    )
    settings.REALTIME = settings.REALTIME | {"CONTROL": sidecar.control}
    settings.ROOT_URLCONF = own
    with control():
        assert [Client().get(f"/{name}").status_code for name in ("healthz", "readyz")] == [200, 200]


@pytest.mark.parametrize("words", ["# settings.py", '"channel_capacity"'])
def test_the_channel_layer(words: str, sidecar: Sidecar, settings: Any) -> None:
    """docs/develop/channels.md, each of its two settings."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": sidecar.control}
    text = {
        "# settings.py": one("docs/develop/channels.md", "python", "# settings.py"),
        '"channel_capacity"': one("docs/develop/channels.md", "python", '"channel_capacity"'),
    }[words]
    settings.CHANNEL_LAYERS = Run(text, {}).now().names["CHANNEL_LAYERS"]

    async def there_and_back() -> Any:
        layer = ChannelLayerManager()["default"]
        await layer.group_add("room", "mine")
        await layer.group_send("room", {"type": "said", "text": "hello"})
        return await layer.receive("mine")

    assert async_to_sync(there_and_back)()["text"] == "hello"


@pytest.fixture
def publishing(sidecar: Sidecar, tmp_path: Path) -> Iterator[Program]:
    """feed.py of docs/operate/cluster.md."""
    text = one(CLUSTER, "python", "# feed.py")
    nodes = "10.0.0.11:8801,10.0.0.12:8801,10.0.0.13:8801"
    assert nodes in text
    (tmp_path / "feed.py").write_text(text.replace(nodes, sidecar.publisher_url))
    base = surroundings(tmp_path)
    with Program([sys.executable, "feed.py", "any"], {}, "", folder=tmp_path, base=base) as program:
        yield program


@pytest.mark.slow
def test_the_feed_and_who_watches_it(publishing: Program, sidecar: Sidecar, tmp_path: Path) -> None:
    """A node that comes back without its memory is told, with the numbers that are missing or come again."""
    text = one(CLUSTER, "python", "# watch.py")
    node = "wss://{name}.example.com:8800/ws"
    assert node in text
    (tmp_path / "watch.py").write_text(text.replace(node, sidecar.client_url))
    argv = [sys.executable, "watch.py", "any"]
    with Program(argv, {}, "subscribed /stocks/us/TEST", 30, folder=tmp_path, base=surroundings(tmp_path)) as program:
        sidecar.kill()
        until(lambda: "disconnected" in program.output, 30)
        sidecar.start()
        until(lambda: "resynchronised" in program.output, 60)
    assert "Traceback" not in publishing.output


@pytest.mark.prometheus
def test_prometheus_takes_what_the_page_says(tmp_path: Path) -> None:
    text = one("docs/operate/figures.md", "yaml", "job_name: fastpath")
    assert yaml.safe_load(text)
    (tmp_path / "prometheus.yml").write_text(text)
    subprocess.run(["promtool", "check", "config", str(tmp_path / "prometheus.yml")], check=True, timeout=60)
