"""What other people's clients of MQTT see of the server: MQTT.js as npm has it, Eclipse Paho's for Go."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.edge.mqtt import LISTEN
from tests.support.edge.rules import rule, ruled
from tests.support.sidecar import Sidecar

pytestmark = pytest.mark.slow

CLIENTS = Path(__file__).parent / "clients"
SECONDS_MAX = 120
INSTALL_SECONDS_MAX = 240
PAHO = "github.com/eclipse/paho.mqtt.golang@v1.5.1"


@pytest.fixture(params=[1, 2], ids=["one worker", "two workers"])
def broker(request: pytest.FixtureRequest) -> Iterator[Sidecar]:
    """Anybody may do everything."""
    with ruled(rule(1, "/**", "anonymous", action="both"), listen=LISTEN, workers=request.param) as rights:
        yield rights.sidecar


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our program for MQTT.js, where it finds that."""
    folder = tmp_path_factory.mktemp("npm")
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), "mqtt@5"]
    subprocess.run(command, check=True, timeout=INSTALL_SECONDS_MAX, cwd=folder)
    return Path(shutil.copy(CLIENTS / "mqtt_js.mjs", folder))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our program for Paho's Go client, built."""
    folder = tmp_path_factory.mktemp("go")
    shutil.copy(CLIENTS / "paho.go", folder)
    for command in (["go", "mod", "init", "paho"], ["go", "get", PAHO], ["go", "build", "-o", "paho", "paho.go"]):
        env = os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
        subprocess.run(command, check=True, timeout=INSTALL_SECONDS_MAX, cwd=folder, env=env, capture_output=True)
    return folder / "paho"


def told(*command: str | Path) -> Any:
    """What the program says it was told."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("path", ["", "/mqtt"], ids=["TCP", "WebSocket"])
@pytest.mark.parametrize("version", ["4", "5"])
def test_mqtt_js(broker: Sidecar, script: Path, version: str, path: str) -> None:
    address = broker.client_url.removesuffix("/ws") + path if path else f"mqtt://{broker.ready['mqtt'][0]}"
    kind = "text/plain" if version == "5" else None
    assert told("node", script, address, version) == {
        "granted": [1, 1],
        "live": [
            ["js/a", "0", 0, False, None],
            ["js/b", "1", 1, False, kind],
            ["js/c", "2", 1, False, None],
        ],
        "retained": [["kept/js", "kept", 1, True, None]],
        "will": [["will/js", "gone", 1, False, None]],
        "missed": [["missed/js", "while away", 1, False, None]],
    }


@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go: apt-get install -y golang-go")
@pytest.mark.parametrize("path", ["", "/mqtt"], ids=["TCP", "WebSocket"])
def test_paho_for_go(broker: Sidecar, program: Path, path: str) -> None:
    address = broker.client_url.removesuffix("/ws") + path if path else f"tcp://{broker.ready['mqtt'][0]}"

    def message(topic: str, payload: str, qos: int = 1, *, retained: bool = False) -> dict[str, Any]:
        return {"Topic": topic, "Payload": payload, "QoS": qos, "Retained": retained}

    assert told(program, address) == {
        "live": [message("go/0", "0", 0), message("go/1", "1"), message("go/2", "2")],
        "retained": [message("gokept/a", "kept", retained=True)],
        "missed": [message("gomissed/a", "while away")],
    }
