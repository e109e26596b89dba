"""What a sidecar says of a worker that hangs."""

from __future__ import annotations

import http.client
import json
from typing import Any

from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS


def readiness(sidecar: Sidecar) -> dict[str, Any]:
    """The reasons why the node is not ready."""
    connection = http.client.HTTPConnection(sidecar.ready["metrics"][0], timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", "/readyz")
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
        return dict(answer.get("reasons", {}))
    finally:
        connection.close()


def logged(sidecar: Sidecar, name: str) -> list[dict[str, Any]]:
    """The lines of the log that tell of an event."""
    whole = [line for line in sidecar.log.splitlines(keepends=True) if line.startswith("{") and line.endswith("\n")]
    lines = [json.loads(line) for line in whole]
    return [line for line in lines if line["event"] == name]
