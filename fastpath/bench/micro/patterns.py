"""What subscriptions to patterns cost: a publication beside many of them, a new subject, and many clients of one."""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable

from fastpath.core.auth.rule_grants import RuleGrants
from fastpath.core.auth.tokens import Claims
from fastpath.core.broker.broker import Broker
from fastpath.core.delivery.link import Link
from fastpath.core.protocol.codec import JSON, encode
from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import Message, Subscribe
from fastpath.core.sessions.sessions import Sessions
from fastpath.core.wires.registry import PLAIN
from fastpath.engine.memory import MemoryEngine

START = 1_700_000_000_000
SUBJECTS = 100
ROUNDS = 9
BATCH = 4000
TEXT = "x" * 140
NAMES = ("subscribers known since its first message", "patterns looked through each time", "the first of a new subject")


class _Nowhere(Link):
    """A client whose socket takes everything."""

    def write(self, data: bytes) -> None:
        """Drop what is written."""

    def lag(self, data: bytes, sent: int) -> None:
        """Do nothing: a client of no socket takes all at once."""

    def hold(self, why: int, held: bool) -> None:
        """Do nothing: a client of no socket says nothing that could be held."""

    def close(self, code: int, reason: str) -> None:
        """Do nothing: a client of no socket has none to close."""


class CoreServer:
    """The core of a sidecar in which everyone may read all below /s, and nothing else."""

    def __init__(self) -> None:
        grants = RuleGrants("")
        self.broker = Broker(
            MemoryEngine(START),
            grants,
            Limits(subscriptions_max=1 << 20, patterns_max=1 << 20),
            server="bench",
            started=START,
            secret=b"bench",
        )
        self.sessions = Sessions(self.broker, 25)
        rights = self.sessions.rights
        rights.begin()
        rules = [
            {"id": 1, "who": "everyone", "pattern": "/s/**", "action": "subscribe", "allow": True},
            {"id": 2, "who": "user:0", "pattern": "/p/**", "action": "subscribe", "allow": True},
        ]
        rights.add(rules, [], [])
        rights.commit(1, START)
        self._grants = grants
        self._clients = 0

    def subscribe(self, *subjects: str) -> None:
        """Subscribe one client more, of a user of its own."""
        user = str(self._clients)
        self._clients += 1
        client = self.sessions.open(_Nowhere(), self._clients, True, PLAIN[JSON], "", "", START)
        client.principal = self._grants.refresh(Claims(user=user, uid=user, expires=START * 2))
        for at in range(0, len(subjects), 1000):
            command = Subscribe(id=1, subjects=list(subjects[at : at + 1000]))
            self.sessions.receive(client, encode(command, JSON), START)
        while self.sessions.rights.busy:
            self.sessions.rights.step(START)
        self.broker.flush()

    def publish(self, subjects: list[str]) -> None:
        """Publish one message to each subject, each in a tick of its own."""
        for subject in subjects:
            self.broker.publish(None, (Message(subject, TEXT),), START)
            self.broker.flush()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the subcommand."""
    parser.add_argument("--patterns", type=int, default=100_000, help="how many patterns (default: %(default)s)")
    parser.add_argument("--clients", type=int, default=10_000, help="clients of one pattern (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """Measure and print; return the exit status."""
    gc.disable()
    count = arguments.patterns
    bare, full = publications(count)
    print(f"| a publication of 140 bytes to one subscriber, µs | no patterns | {count:,} patterns | ratio |")
    print("|---|---|---|---|")
    for name, few, many in zip(NAMES, bare, full, strict=True):
        print(f"| {name} | {few:.2f} | {many:.2f} | {many / few:.2f} |")
    print("\n| clients of one pattern | a new subject, first message, ms | another message, ms | a right taken, ms |")
    print("|---|---|---|---|")
    for clients in (1, arguments.clients // 10, arguments.clients):
        first, second, cut = crowd(clients)
        print(f"| {clients:,} | {first:.3f} | {second:.3f} | {cut:.1f} |")
    return 0


def publications(patterns: int) -> tuple[list[float], list[float]]:
    """Return µs of a publication, by NAMES: without patterns and with them, measured in turn."""
    names = [f"/s/{number}" for number in range(SUBJECTS)]
    bare, full = CoreServer(), CoreServer()
    for server in (bare, full):
        server.subscribe(*names)
    # Half of them differ early, half late; none covers what is published.
    full.subscribe(*(f"/p/{number}/*" if number % 2 else f"/*/u{number}/**" for number in range(patterns)))
    subjects = names * (BATCH // SUBJECTS)

    def known(server: CoreServer, turn: int) -> None:
        del turn
        server.publish(subjects)

    def looked_for(server: CoreServer, turn: int) -> None:
        del turn
        match = server.broker.interest.patterns.match
        for subject in subjects:
            match(subject)

    def new(server: CoreServer, turn: int) -> None:
        server.publish([f"/s/{turn}/{number}" for number in range(BATCH)])

    found: tuple[list[float], list[float]] = ([], [])
    for measured in (known, looked_for, new):
        times: tuple[list[float], list[float]] = ([], [])
        for turn in range(ROUNDS):
            for server, taken in zip((bare, full), times, strict=True):
                begin = time.perf_counter()
                measured(server, turn)
                taken.append((time.perf_counter() - begin) * 1e6 / BATCH)
        for each, taken in zip(found, times, strict=True):
            each.append(min(taken))
    for each in found:
        each[1] += each[0]  # the match comes on top of the publication
    return found


def crowd(clients: int) -> tuple[float, float, float]:
    """Return ms of a new subject's first message, of another, and of a right that all lose, with so many clients."""
    server = CoreServer()
    for _ in range(clients):
        server.subscribe("/s/**")
    new = _each(lambda turn: server.publish([f"/s/{turn}/{number}" for number in range(20)]), 20)
    again = _each(lambda _: server.publish(["/s/0/0"] * 20), 20)
    rights = server.sessions.rights
    begin = time.perf_counter()
    deny = {"id": 3, "who": "everyone", "pattern": "/s/0/*", "action": "both", "allow": False}
    rights.change(1, 2, [deny], [], [], [], START)
    while rights.busy:
        rights.step(START)
        server.broker.flush()
    return new / 1000, again / 1000, (time.perf_counter() - begin) * 1000


def _each(measured: Callable[[int], None], count: int) -> float:
    """Return µs for one of so many, in the best of the rounds: the others were disturbed."""
    times = []
    for turn in range(ROUNDS):
        begin = time.perf_counter()
        measured(turn)
        times.append((time.perf_counter() - begin) * 1e6 / count)
    return min(times)
