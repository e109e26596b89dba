"""The Python client's state against the table of behaviours that the JavaScript client keeps as well."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from fastpath.client.errors import CommandRefused
from fastpath.client.message import Status
from fastpath.client.options import TRANSPORTS, Options
from fastpath.client.servers import parse_servers
from fastpath.client.subscriber.events import (
    Arrived,
    InterestChange,
    ProbeTransport,
    Renew,
    RequestArrived,
    RequestOver,
    SubscriptionRefused,
)
from fastpath.client.subscriber.machine import Machine, MachineEvent
from fastpath.client.subscriber.outgoing import OutgoingPublication, Settled
from fastpath.client.subscriber.transports.ladder import Failure, RememberedTransport
from fastpath.client.subscriber.transports.memory import AddressMemory
from tests.behaviours.table import EXPECTED, addressed, agrees, cases, own

CASES = [pytest.param(case, id=f"{file}-{case['name']}") for file, case in cases("python")]
NOT_OPTIONS = ("urls", "publisher", "token", "tokens")


def draws(numbers: Iterable[float]) -> Callable[[], float]:
    """These one after the other, then 0.5 for ever."""
    left = list(numbers)
    return lambda: left.pop(0) if left else 0.5


class Conversation:
    """One case: ``step`` does what a step says and answers what the client did."""

    def __init__(self, case: dict[str, Any], transports: tuple[str, ...]) -> None:
        given = {"transports": transports} | case.get("options", {})
        self.pinned = len(given["transports"]) == 1
        self.memory = AddressMemory()
        for url, (transport, seconds) in case.get("remembered", {}).items():
            self.memory.save(url, RememberedTransport(transport, seconds))
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
            memory=self.memory,
        )
        self.token = ""
        self.begin_at: float | None = None
        self.standing = False
        self.commands: list[dict[str, Any]] = []
        self.seen: dict[str, Any] = {}

    def step(self, step: dict[str, Any]) -> dict[str, Any]:
        self.seen = {}
        getattr(self, step["do"])(**{name: value for name, value in own(step).items() if name != "do"})
        self.sent()
        if len(self.seen.get("connect", ())) == 1:
            [self.seen["connect"]] = self.seen["connect"]
        return self.seen

    # Steps.

    def start(self) -> None:
        self.token = self.next_token()
        self.machine.begin(self.now)
        self.tried()

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

    def refuse(self, how: Failure = "unreachable") -> None:
        self.close(1006, "it does not open", how)

    def silence(self) -> None:
        self.close(1006, "no answer", "silent")

    def probed(self, transport: str, works: bool) -> None:
        self.machine.probed(self.machine.url, transport, works, self.now)
        self.leaves()

    def close(self, code: int, reason: str = "", how: Failure = "closed") -> None:
        self.standing = False
        self.happened(self.machine.ended(code, reason, self.now, how))
        if self.machine.at_once:
            self.start()
        elif self.machine.wait is not None:
            self.begin_at = self.now + self.machine.wait
        elif self.machine.failure is None and not self.machine.paused:
            self.tried()

    def frame(self, frame: Any) -> None:
        self.happened(self.machine.receive(json.dumps(addressed(frame, self.commands)).encode(), self.now))
        self.leaves()

    def leaves(self) -> None:
        if self.machine.leaving is not None:
            self.seen["closes"] = True
            self.close(*self.machine.leaving)

    def subscribe(self, subjects: list[str], history: int = 0, conflation: int = 0, since: Any = None,
                  slow: str = "close", to: str = "owner") -> None:  # fmt: skip
        self.machine.following.subscribe(to, subjects, history, conflation, since, slow)

    def advertise(self, patterns: list[str]) -> None:
        self.happened(self.machine.state.offer(patterns))
        if self.machine.connected:
            self.machine.state.advertise(patterns)

    def respond(self, patterns: list[str]) -> None:
        self.machine.state.responds(patterns)
        if self.machine.connected:
            self.machine.state.respond(patterns)

    def unsubscribe(self, subjects: list[str], to: str = "owner") -> None:
        self.happened(self.machine.unsubscribe(subjects, to)[1])

    def publish(self, subject: str, closure: str, content: str = "x", **options: Any) -> None:
        publication = OutgoingPublication(subject, content, closure=closure, told=True, **options)
        self.happened(self.machine.publish(publication, self.now))

    def renew(self, token: str) -> None:
        self.machine.state.renew(token)

    def pause(self) -> None:
        self.ends(self.machine.pause())

    def resume(self) -> None:
        if self.machine.resume():
            self.start()

    def hurry(self) -> None:
        if self.begin_at is not None:
            self.begin_at = self.machine.hurry(self.now, self.begin_at)
            self.passes(0)

    def reconnect(self) -> None:
        if self.begin_at is not None:
            self.begin_at = None
            self.machine.reconnect()
            self.start()
        else:
            self.resume()

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

    def tried(self) -> None:
        """The address that is tried, behind the transport where that is not a WebSocket or the only one."""
        url, transport = self.machine.url, self.machine.transport
        self.see("connect", url if self.pinned or transport == "websocket" else f"{transport} {url}")

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
                case ProbeTransport(_, transport):
                    self.see("probes", transport)
                case InterestChange(subjects, wanted):
                    self.see("interest", {"subjects": subjects, "wanted": wanted})
                case RequestArrived(asked):
                    self.see("asked", {name: getattr(asked, name) for name in asked.__struct_fields__})
                case RequestOver(name):
                    self.see("over", {"to": name})
                case Arrived(to, message):
                    seen = {name: getattr(message, name) for name in (*message.__struct_fields__, "qos")}
                    self.see("messages", seen | {"to": to})
                case Settled():
                    self.see("results", {"closure": event.publication.closure, "status": event.status,
                                         "epoch": event.epoch, "seq": event.seq})  # fmt: skip
                case SubscriptionRefused(_, subject, error):
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

    def next_token(self) -> Any:
        return self.tokens.pop(0) if len(self.tokens) > 1 else self.tokens[0]

    def renewed(self, token: str | None) -> None:
        """A token that is None cannot be had."""
        if token is None:
            self.machine.not_renewed(self.now)
        else:
            self.machine.state.renew(token)
        self.sent()


def test_there_is_a_table() -> None:
    assert len(CASES) > 20


@pytest.mark.parametrize("transports", [TRANSPORTS, *((one,) for one in TRANSPORTS)], ids="/".join)
@pytest.mark.parametrize("case", CASES)
def test_behaviour(case: dict[str, Any], transports: tuple[str, ...]) -> None:
    conversation = Conversation(case, transports)
    for index, step in enumerate(case["steps"]):
        seen = conversation.step(step)
        for key in EXPECTED:
            assert agrees(key, step.get(key), seen.get(key)), (
                f"{case['rule']}: step {index} ({step['do']}): {key} is {seen.get(key)}, not {step.get(key)}"
            )
