"""Holds a client against the table and the vectors of the wire protocol, by its driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tests.vectors.reading import Vector, changed, vectors

from .driver import Driver
from .table import EXPECTED, addressed, agrees, own

CONNECTED = {"op": "connected", "id": "last", "server": "s", "epoch": 1, "time": 0, "base": 0, "ping_ms": 25000}
"""What the server answers in the step ``up``, beside the user and the end of the token."""


class Skipped(Exception):
    """The client does not have what the case is about, with the driver's reason."""


def hold_case(driver: Driver, case: dict[str, Any], transports: Sequence[str]) -> list[str]:
    """What was otherwise than the case says, at the first step where something was; Skipped."""
    options = {"urls": ["ws://a/ws"], "publisher": "p", "transports": list(transports)} | case.get("options", {})
    rest = {name: case.get(name, kind()) for name, kind in (("picks", list), ("waits", list), ("remembered", dict))}
    _taken(driver.ask("begin", options=options, **rest))
    commands: list[dict[str, Any]] = []
    for index, step in enumerate(case["steps"]):
        seen = _step(driver, own(step), commands)
        found = [
            f"step {index} ({step['do']}): {key} is {seen.get(key)}, not {step.get(key)}"
            for key in EXPECTED
            if not agrees(key, step.get(key), seen.get(key))
        ]
        if found:
            return found
    return []


def _step(driver: Driver, step: dict[str, Any], commands: list[dict[str, Any]]) -> dict[str, Any]:
    """What the client does in a step, as the table has it; its commands join the others of the connection."""
    if step["do"] == "up":
        ends = {"expires": step["expires"]} if "expires" in step else {}
        parts = [{"do": "open"}, {"do": "frame", "frame": CONNECTED | {"user": step.get("user", "")} | ends}]
    else:
        parts = [step]
    seen: dict[str, Any] = {}
    for part in parts:
        if part["do"] == "open":
            commands.clear()
        if part["do"] == "frame":
            part = part | {"frame": addressed(part["frame"], commands)}
        for key, value in _taken(driver.ask(**part)).items():
            seen[key] = seen[key] + value if key in seen and isinstance(value, list) else value
            if key == "sent":
                commands += value
    if "sent" in seen:
        seen["sent"] = [
            {name: value for name, value in command.items() if name not in ("id", "client")} for command in seen["sent"]
        ]
    return seen


def _taken(answer: dict[str, Any]) -> dict[str, Any]:
    if "skip" in answer:
        raise Skipped(str(answer["skip"]))
    return answer


def hold_vectors(driver: Driver) -> Iterator[tuple[Vector, list[str]]]:
    """Each vector of client and server, with what the client makes of it otherwise than it should; Skipped."""
    for vector in vectors("client", "server"):
        texts = {"json": vector.forms["json"].decode(), "msgpack": vector.forms["msgpack"].hex()}
        problems = []
        for form, text in texts.items():
            found = _taken(driver.ask("recode", form=form, frame=text))
            if found != texts:
                problems.append(f"{form} {text} becomes {found}")
        for data in changed(vector.forms["msgpack"]):
            found = _taken(driver.ask("recode", form="msgpack", frame=data.hex()))
            if "refused" not in found and found == texts:
                problems.append(f"{data.hex()} is taken for {texts['msgpack']}")
        yield vector, problems
