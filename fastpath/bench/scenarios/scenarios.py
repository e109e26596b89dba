"""The scenarios F1 to F11 by name: how many connections, which subjects each has, and how messages are published."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

SEED = 20_251_121
"""The random subjects of F5 are the same in every run."""

Plan = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Scenario:
    """``interest`` says which subjects a connection has: ``one`` (connection i has subject i modulo ``subjects``),
    ``all``, ``random`` (its own ``interest_subjects`` of them).

    With a ``window`` that many publications are on the way; with a ``rate`` each subject is published so often a
    second. With ``pairs`` each subject has a publisher's connection of its own. ``coalesces``: whether the floor may
    gather what it has for a connection; where nothing can be gathered it does not.
    """

    name: str
    title: str
    connections: int
    subjects: int = 1
    interest: str = "one"
    interest_subjects: int = 20
    window: float = 0
    rate: float = 0
    size: int = 140
    duration_s: float = 5
    warmup_s: float = 1
    coalesces: bool = True
    pairs: bool = False
    publish_via: str = "port"
    burst: bool = False
    """True if all subjects are published at the same moment."""

    def plan(self) -> Plan:
        """Return the subjects of each connection."""
        if self.interest == "all":
            everything = range(self.subjects)
            return [everything] * self.connections
        if self.interest == "random":
            chance = random.Random(SEED)  # noqa: S311 - the same choice in every run, not a secret
            return [chance.sample(range(self.subjects), self.interest_subjects) for _ in range(self.connections)]
        return [range(i % self.subjects, i % self.subjects + 1) for i in range(self.connections)]

    def changed(self, changes: dict[str, Any]) -> Scenario:
        """Return the scenario with some values replaced."""
        return replace(self, **changes)


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("F1", "one subject, 1000 subscribers, one message on the way", 1000, window=1, coalesces=False),
        Scenario("F2", "one subject, 1000 subscribers, 16 messages on the way", 1000, window=16),
        Scenario("F3", "50 clients on the same 100 subjects, 64 on the way", 50, 100, "all", window=64),
        Scenario(
            "F4", "100 subjects, each client on one, each one message a second", 10_000, 100, rate=1, coalesces=False,
            duration_s=10, warmup_s=2,
        ),
        Scenario("F5", "each of 1000 clients on a random 20 of 1000 subjects, 64 on the way", 1000, 1000, "random",
                 window=64),
        Scenario("F6", "1000 clients on 100 subjects of 100 updates a second, conflated to 500 ms", 1000, 100, "all",
                 rate=100, duration_s=8, warmup_s=2),
        Scenario("F7", "4000 publishers, each to one subscriber on a subject of their own", 4000, 4000, window=64,
                 pairs=True, publish_via="ws"),
        Scenario("F8", "memory of idle subscribed connections, and of subjects with a snapshot", 18_000, 100_000),
        Scenario("F9", "server CPU of connecting with one subscription", 5000, 100),
        Scenario("F10", "200,000 connections on several workers, 40,000 deliveries a second", 200_000, 100, rate=0.2,
                 duration_s=20, warmup_s=5, coalesces=False),
        Scenario("F11", "5 % of the clients of F1 and F3 stop reading for 10 s", 1000, window=1),
    )
}  # fmt: skip
"""Every scenario by its name."""
