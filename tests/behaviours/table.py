"""The table: its cases, what a step may expect, and whether what a client did is that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
EXPECTED = (
    "connect", "sent", "statuses", "messages", "interest", "asked", "over", "results", "wait", "closes", "probes",
)  # fmt: skip
"""The keys of a step that say what the client does; the others are the step's own."""
ANSWERS = {
    "subscribed": "subscribe",
    "unsubscribed": "unsubscribe",
    "published": "publish",
    "responding": "respond",
    "renewed": "token",
    "connected": "connect",
    "advertised": "advertise",
}
"""Which command each answers."""
WAIT_SECONDS = 0.001
"""So exact is a wait."""


def cases(client: str = "") -> list[tuple[str, dict[str, Any]]]:
    """The cases with the name of their file: those for this client, or those that are for every one."""
    return [
        (path.stem, case)
        for path in sorted(FOLDER.glob("*.json"))
        for case in json.loads(path.read_text(encoding="utf-8"))
        if "clients" not in case or client in case["clients"]
    ]


def own(step: dict[str, Any]) -> dict[str, Any]:
    """A step without what it expects."""
    return {name: value for name, value in step.items() if name not in EXPECTED}


def addressed(frame: Any, commands: list[dict[str, Any]]) -> Any:
    """The frame with the id of the command that it answers, of those that the client has sent on this connection."""
    if not isinstance(frame, dict):
        return frame
    op = ANSWERS.get(frame["op"])
    if frame["op"] == "published":
        asked = [each for each in commands if each["op"] == op and each["closure"] == frame["closure"]]
        return {**frame, "id": asked[-1]["id"]}
    if not isinstance(frame.get("id"), str):
        return frame
    asked = [each for each in commands if frame["op"] == "error" or each["op"] == op]
    return {**frame, "id": asked[int(frame["id"].removeprefix("last") or "0") - 1]["id"]}


def agrees(key: str, wanted: Any, found: Any) -> bool:
    """Whether what was seen is what the table says."""
    if wanted is None or found is None:
        return wanted is found
    if key == "wait":
        return abs(wanted - found) <= WAIT_SECONDS
    if key in ("sent", "connect", "closes", "probes"):
        return bool(wanted == found)
    return len(wanted) == len(found) and all(
        one.keys() <= other.keys() and all(one[name] == _plain(other[name]) for name in one)
        for one, other in zip(wanted, found, strict=True)
    )


def _plain(value: Any) -> Any:
    """As JSON has it."""
    return list(value) if isinstance(value, tuple) else value
