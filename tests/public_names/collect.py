"""The public names of a checkout: ``python -m tests.public_names.collect CHECKOUT`` writes names.json anew."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fastpath.client.control import Control
from fastpath.client.errors import ControlRefused
from tests.support.redis import RedisServer
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS

NAMES = Path(__file__).with_name("names.json")
LISTEN = "clients://127.0.0.1:0,publishers://127.0.0.1:0,metrics://127.0.0.1:0"


def of_code(checkout: Path) -> dict[str, Any]:
    """The names that its modules tell."""
    with tempfile.TemporaryDirectory() as var:
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("of_code.py"))],
            cwd=checkout,
            env=os.environ
            | {"PYTHONPATH": str(checkout), "REALTIME_VAR": var, "DJANGO_SETTINGS_MODULE": "realtime.settings"},
            stdout=subprocess.PIPE,
            check=True,
            timeout=120,
        )
    return dict(json.loads(done.stdout))


def of_process(checkout: Path, **settings: Any) -> dict[str, Any]:
    """The names that a sidecar tells: control verbs, figures and metrics."""
    sidecar = Sidecar(listen=LISTEN, **settings)
    sidecar.command = ["env", "-C", str(checkout), *sidecar.command]
    with sidecar, Control(sidecar.control) as control:
        try:
            control.call("?")
            raise AssertionError("there is a verb ?")
        except ControlRefused as error:
            verbs = re.findall(r"\w+", str(error).partition("verbs: ")[2])
        figures = control.stats()
        connection = http.client.HTTPConnection(sidecar.ready["metrics"][0], timeout=PATIENCE_SECONDS)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
    own = figures.pop("by_worker")
    return {
        "verbs": dict.fromkeys(verbs, "a verb"),
        "figures": dict.fromkeys(figures, "a figure"),
        "figures of a worker": dict.fromkeys(own[0], "a figure"),
        "metrics": dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)),
        "labels": dict.fromkeys(re.findall(r"[{,](\w+)=", text), "a label"),
    }


def with_journal(checkout: Path) -> dict[str, Any]:
    """Of a sidecar that has everything but Redis."""
    with tempfile.TemporaryDirectory() as data:
        settings = {"workers": 2, "journal": "interval", "data": data, "presence": "/chat/**", "hooks": "connect"}
        return of_process(checkout, **settings, audit="access", audit_folder=f"{data}/audit")


def with_redis(checkout: Path) -> dict[str, Any]:
    """Of a sidecar on Redis."""
    with RedisServer() as server:
        return of_process(checkout, engine=server.url)


def main() -> None:
    """Write them."""
    checkout = Path(sys.argv[1]).resolve()
    names = of_code(checkout) | {"sidecar": with_journal(checkout), "sidecar on Redis": with_redis(checkout)}
    NAMES.write_text(json.dumps(names, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
