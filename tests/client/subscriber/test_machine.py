"""The Python client's state against the table of behaviours that the JavaScript client keeps as well."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from fastpath.client.errors import CommandRefused
from fastpath.client.message import Status
from fastpath.client.options import Options
from fastpath.client.servers import parse_servers
from fastpath.client.subscriber.events import Arrived, Interesting, Refused, Renew
from fastpath.client.subscriber.machine import Machine, MachineEvent
from fastpath.client.subscriber.outgoing import Publication, Settled

TABLE = sorted((Path(__file__).parents[2] / "behaviours").glob("*.json"))
CASES = [
    pytest.param(case, id=f"{path.stem}-{case['name']}") for path in TABLE for case in json.loads(path.read_text())
]
ANSWERS = {
    "subscribed": "subscribe",
    "unsubscribed": "unsubscribe",
    "published": "publish",
    "renewed": "token",
    "connected": "connect",
    "advertised": "advertise",
}
EXPECTED = ("connect", "sent", "statuses", "messages", "interest", "results", "wait", "closes")
NOT_OPTIONS = ("urls", "publisher", "token", "tokens")


def draws(numbers: Iterable[float]) -> Callable[[], float]:
    """These one after the other, then 0.5 for ever."""
    left = list(numbers)
    return lambda: left.pop(0) if left else 0.5


class Conversation:
    """One case: ``step`` does what a step says and answers what the client did."""

    def __init__(self, case: dict[str, Any]) -> None:
        given = case.get("options", {})
        self.now = 0.0
        self.tokens = list(given.get("tokens", [given.get("token", "")]))
        self.renewable = "tokens" in given
        self.machine = Machine(
            "json",
            parse_servers(given.get("urls", "ws://a/ws")),
            Options(**{name: value for name, value in given.items() if name not in NOT_OPTIONS}),
            publisher=given.get("publisher", "p"),
            renewable=self.renewable,
            pick_draw=draws(case.get("picks", ())),
            wait_draw=draws(case.get("waits", ())),
        )
        self.token = ""
        self.begin_at: float | None = None
        self.standing = False
        self.commands: list[dict[str, Any]] = []
        self.seen: dict[str, Any] = {}

    def step(self, step: dict[str, Any]) -> dict[str, Any]:
        self.seen = {}
        getattr(self, step["do"])(**{name: value for name, value in step.items() if name not in (*EXPECTED, "do")})
        self.sent()
        if len(self.seen.get("connect", ())) == 1:
            [self.seen["connect"]] = self.seen["connect"]
        return self.seen

    # Steps.

    def start(self) -> None:
        self.token = self.next_token()
        self.see("connect", self.machine.begin())

    def open(self) -> None:
        self.standing = True
        self.commands = []
        self.machine.opened(self.token, "json")
        self.sent()

    def up(self, user: str = "", expires: int | None = None) -> None:
        self.open()
        ends = {} if expires is None else {"expires": expires}
        self.frame({"op": "connected", "id": "last", "server": "s", "epoch": 1, "user": user, "time": 0, "base": 0,
                    "ping_ms": 25000, **ends})  # fmt: skip

    def refuse(self) -> None:
        self.close(1006, "it does not open")

    def close(self, code: int, reason: str = "") -> None:
        self.standing = False
        self.happened(self.machine.ended(code, reason, self.now))
        if self.machine.at_once:
            self.start()
        elif self.machine.wait is not None:
            self.begin_at = self.now + self.machine.wait
        elif self.machine.failure is None and not self.machine.paused:
            self.see("connect", self.machine.url)

    def frame(self, frame: Any) -> None:
        if isinstance(frame, dict):
            frame = self.addressed(frame)
        self.happened(self.machine.receive(json.dumps(frame).encode(), self.now))
        if self.machine.leaving:
            self.seen["closes"] = True
            self.close(4000, "drain")

    def subscribe(self, subjects: list[str], history: int = 0, conflation: int = 0, since: Any = None,
                  slow: str = "close", to: str = "owner") -> None:  # fmt: skip
        self.machine.following.subscribe(to, subjects, history, conflation, since, slow)

    def advertise(self, patterns: list[str]) -> None:
        self.happened(self.machine.state.offer(patterns))
        if self.machine.connected:
            self.machine.state.advertise(patterns)

    def unsubscribe(self, subjects: list[str], to: str = "owner") -> None:
        self.happened(self.machine.unsubscribe(subjects)[1])

    def publish(self, subject: str, closure: str, content: str = "x", **options: Any) -> None:
        publication = Publication(subject, content, closure=closure, told=True, **options)
        self.happened(self.machine.publish(publication, self.now))

    def renew(self, token: str) -> None:
        self.machine.state.renew(token)

    def pause(self) -> None:
        self.ends(self.machine.pause())

    def resume(self) -> None:
        if self.machine.resume():
            self.start()

    def end(self) -> None:
        self.ends(self.machine.close())

    def servers(self, servers: list[dict[str, Any]]) -> None:
        self.machine.servers.replace(parse_servers(servers))

    def __getattr__(self, name: str) -> Any:
        if name == "pass":  # no name for a method
            return self.passes
        raise AttributeError(name)

    def passes(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            due = [time for time in (self.begin_at, self.machine.due()) if time is not None and time <= end + 1e-9]
            if not due:
                break
            self.now = max(self.now, min(due))
            if self.begin_at is not None and self.begin_at <= self.now + 1e-9:
                self.begin_at = None
                self.start()
            else:
                self.happened(self.machine.tick(self.now))
        self.now = end

    # What is seen.

    def see(self, key: str, what: Any) -> None:
        self.seen.setdefault(key, []).append(what)

    def ends(self, told: list[MachineEvent]) -> None:
        """The client closes the connection itself, if one stands."""
        if told and self.standing:
            self.seen["closes"] = True
            self.standing = False
        if told:
            self.begin_at = None
        self.happened(told)

    def sent(self) -> None:
        for frame in self.machine.state.take_out():
            command = json.loads(frame)
            self.commands.append(command)
            self.see("sent", {name: value for name, value in command.items() if name not in ("id", "client")})

    def happened(self, events: list[MachineEvent]) -> None:
        self.sent()
        for event in events:
            match event:
                case Status():
                    self.see("statuses", self.status(event))
                case Renew():
                    self.renewed(self.next_token())
                case Interesting(subjects, wanted):
                    self.see("interest", {"subjects": subjects, "wanted": wanted})
                case Arrived(to, message):
                    seen = {name: getattr(message, name) for name in (*message.__struct_fields__, "qos")}
                    self.see("messages", seen | {"to": to})
                case Settled():
                    self.see("results", {"closure": event.publication.closure, "status": event.status,
                                         "epoch": event.epoch, "seq": event.seq})  # fmt: skip
                case Refused(_, subject, error):
                    assert isinstance(error, CommandRefused)
                    self.see("statuses", {"name": "refused", "subject": subject, "code": error.code})

    def status(self, status: Status) -> dict[str, Any]:
        """A status under the names of the table."""
        told = {name: getattr(status, name) for name in status.__struct_fields__}
        if status.name in ("disconnected", "failed"):
            told |= {"name": "disconnected", "final": status.name == "failed"}
            if status.retry_seconds:
                self.seen["wait"] = status.retry_seconds
        if status.name == "notice":
            told["code"] = status.notice
        return told | {"attempts": status.count}

    def addressed(self, frame: dict[str, Any]) -> dict[str, Any]:
        """The frame with the id of the command that it answers."""
        op = ANSWERS.get(frame["op"])
        if frame["op"] == "published":
            asked = [each for each in self.commands if each["op"] == op and each["closure"] == frame["closure"]]
            return {**frame, "id": asked[-1]["id"]}
        if not isinstance(frame.get("id"), str):
            return frame
        asked = [each for each in self.commands if frame["op"] == "error" or each["op"] == op]
        return {**frame, "id": asked[int(frame["id"].removeprefix("last") or "0") - 1]["id"]}

    def next_token(self) -> Any:
        return self.tokens.pop(0) if len(self.tokens) > 1 else self.tokens[0]

    def renewed(self, token: str | None) -> None:
        """A token that is None cannot be had."""
        if token is None:
            self.machine.not_renewed(self.now)
        else:
            self.machine.state.renew(token)
        self.sent()


def agrees(key: str, wanted: Any, found: Any) -> bool:
    """Whether what was seen is what the table says."""
    if wanted is None or found is None:
        return wanted is found
    if key == "wait":
        return abs(wanted - found) <= 0.001
    if key in ("sent", "connect", "closes"):
        return bool(wanted == found)
    return len(wanted) == len(found) and all(
        one.keys() <= other.keys() and all(one[name] == plain(other[name]) for name in one)
        for one, other in zip(wanted, found, strict=True)
    )


def plain(value: Any) -> Any:
    """As JSON has it."""
    return list(value) if isinstance(value, tuple) else value


def test_there_is_a_table() -> None:
    assert len(CASES) > 20


@pytest.mark.parametrize("case", CASES)
def test_behaviour(case: dict[str, Any]) -> None:
    conversation = Conversation(case)
    for index, step in enumerate(case["steps"]):
        seen = conversation.step(step)
        for key in EXPECTED:
            assert agrees(key, step.get(key), seen.get(key)), (
                f"{case['rule']}: step {index} ({step['do']}): {key} is {seen.get(key)}, not {step.get(key)}"
            )
