"""Clients that stall, conflate and change their minds at random, through real sockets: the laws still hold."""

from __future__ import annotations

import random
from contextlib import ExitStack
from typing import Any

from tests.support.certificates import Certificate
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.seeds import run_seed
from tests.support.sidecar import Sidecar

SUBJECTS = [f"/mixed/{letter}" for letter in "abcdef"]
STEPS = 1500


class Checked:
    """A client and what it must see: every number of a live subscription, rising numbers of a conflated one."""

    def __init__(self, wire: WireClient) -> None:
        self.wire = wire
        self.at: dict[str, int] = {}
        self.conflated: set[str] = set()
        self.stored: dict[str, int] = {}
        self.received = 0
        self.answered = 0

    def subscribe(self, subject: str, interval: int, since: list[int] | None) -> None:
        """Ask, without waiting for the answer."""
        more = {"since": {subject: since}} if since else {}
        self.wire.say("subscribe", subjects=[subject], conflation=interval, **more)

    def unsubscribe(self, subject: str) -> None:
        """Ask, without waiting for the answer."""
        self.wire.say("unsubscribe", subjects=[subject])

    def read(self, most: int) -> None:
        """Read up to so many frames, if they are there."""
        while most > 0 and not self.wire.silent():
            most -= 1
            self.take(self.wire.next())

    def settle(self) -> None:
        """Read everything. An answer may pass by what the end of its tick has still to bring, a second one cannot."""
        for _ in range(2):
            self.wire.say("ping")
            while self.answered < self.wire.number:
                self.take(self.wire.next())

    def take(self, value: Any) -> None:
        """Compare what came with what had to come."""
        if isinstance(value, list):
            self.message(value)
            return
        self.answered += "id" in value
        if value["op"] == "subscribed":
            [result] = value["results"]
            subject = result["subject"]
            self.stored[subject] = result.get("messages", 0)
            self.at[subject] = result["seq"]
            self.conflated.discard(subject)
            if result.get("conflation"):
                self.conflated.add(subject)
            if result.get("recovery") == "recovered":
                self.at[subject] -= result.get("messages", 0)
                self.stored[subject] = 0
        elif value["op"] == "unsubscribed":
            for subject in value["subjects"]:
                del self.at[subject]

    def message(self, value: list[Any]) -> None:
        """A message of a subject that is subscribed, in its place, with the content of its number."""
        self.received += 1
        subject = self.wire.subjects[value[0]]
        seq, content = value[1], value[3]
        assert content.partition(" ")[0] == str(seq)
        if self.stored[subject]:
            self.stored[subject] -= 1
            assert (seq, value[5]["kind"]) == (self.at[subject], "snapshot")
            return
        if subject in self.conflated:
            assert seq > self.at[subject]
        else:
            assert seq == self.at[subject] + 1, f"{subject}: {seq} after {self.at[subject]}"
        self.at[subject] = seq


def test_at_random(tmp_path: Any) -> None:
    chance = random.Random(run_seed())
    certificate = Certificate(tmp_path)
    listen = f"clients://127.0.0.1:0,{certificate.url('clients')},publishers://127.0.0.1:0"
    with Sidecar(listen=listen, outbox_bytes_max=64 << 20, unsent_bytes_max=8192) as sidecar, ExitStack() as stack:
        publisher = stack.enter_context(WirePublisher(sidecar))
        plain, secure = sidecar.ready["clients"]
        clients: list[Checked] = []
        for number in range(12):
            tls = certificate.trusting() if number % 3 == 2 else None
            form = "msgpack" if number % 2 else "json"
            wire = WireClient(secure if tls else plain, form, tls=tls, receive_bytes=4096)
            clients.append(Checked(stack.enter_context(wire)))
            wire.ask("connect", "connected")
            clients[-1].answered = wire.number
        numbers = dict.fromkeys(SUBJECTS, 0)
        epoch = publisher.welcome["epoch"]
        for _ in range(STEPS):
            client, subject = chance.choice(clients), chance.choice(SUBJECTS)
            match chance.choices(("publish", "read", "subscribe", "unsubscribe"), (6, 6, 3, 1))[0]:
                case "publish":
                    rows = []
                    for _ in range(chance.choice((1, 2, 30))):
                        one = chance.choice(SUBJECTS)
                        numbers[one] += 1
                        rows.append([one, f"{numbers[one]} {'x' * chance.choice((0, 100, 3000))}"])
                    publisher.publish(*rows)
                case "read":
                    client.read(chance.choice((1, 20, 10_000)))
                case "subscribe":
                    since = [epoch, max(0, numbers[subject] - chance.randrange(8))] if chance.random() < 0.3 else None
                    client.subscribe(subject, chance.choice((0, 0, 0, 100, 300)), since)
                case "unsubscribe":
                    client.unsubscribe(subject)
        for client in clients:
            client.settle()
            for subject, at in client.at.items():
                assert subject in client.conflated or at == numbers[subject], "all that was published has come"
        assert sum(client.received for client in clients) > 2000
        assert "Traceback" not in sidecar.log
