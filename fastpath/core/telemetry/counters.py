"""Counters of what the sidecar did since it started; rates are differences between two readings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..protocol.errors import Close

BY_CLIENT, LOST, OTHER = "by_client", "lost", "other"

LABELS = {int(code): code.label for code in Close if code >= Close.PROTOCOL_ERROR}
"""The names of the codes with which the server ends connections."""

ENDS = (BY_CLIENT, LOST, *LABELS.values(), OTHER)
"""Names of whatever ends a client's connection: the client itself, nobody, the server for one of its reasons."""

REFUSALS = ("invalid", "denied", "not_ready", "too_large", "out_of_order", "outdated", "failed")
"""Codes of publications that are refused (protocol.md 4.4)."""

FAILURES = ("failed", "unavailable")
"""Codes of publications that could not be stored."""

LIMITS = (
    "connections",
    "connections_per_user",
    "connections_per_address",
    "handshake",
    "idle",
    "ping",
    "message",
    "subscriptions",
    "requests",
    "subjects",
    "commands",
    "publications",
    "outbox",
    "memory",
    "errors",
)
"""Every limit that is counted; its figure is ``limited_<name>``."""

LOST_WITH_WORKERS = "lost_with_workers"
"""Clients that have gone because their worker has; among what is counted of workers that are no more."""


def with_lost(figures: dict[str, float]) -> dict[str, float]:
    """Return what a worker that is no more had counted, and that the clients that it still had have gone with it."""
    connects = figures.get("connects", 0)
    lost = connects - figures.get("disconnects", 0)
    ends = {"disconnects": connects, f"disconnects_{LOST}": figures.get(f"disconnects_{LOST}", 0) + lost}
    return figures | ends | {LOST_WITH_WORKERS: lost}


class Counters:
    """Plain totals, raised on the data path by integer additions only."""

    __slots__ = (
        "cache_hits",
        "cache_misses",
        "bytes_in",
        "bytes_out",
        "closes",
        "connections_refused",
        "connects",
        "conflated_away",
        "disconnects",
        "ends",
        "failures",
        "lags",
        "limited",
        "messages_in",
        "messages_out",
        "messages_own",
        "publications_refused",
        "recoveries",
        "refusals",
        "resynchronisations",
        "subscriptions",
        "waiting",
    )

    def __init__(self) -> None:
        self.connections_refused = 0
        self.connects = 0
        self.disconnects = 0
        self.messages_in = 0
        self.messages_out = 0
        self.messages_own = 0
        """Messages published by the server itself, which ``messages_in`` leaves out."""
        self.bytes_in = 0
        self.bytes_out = 0
        self.publications_refused = 0
        self.refusals: dict[str, int] = {}
        """The same by the codes of protocol.md 4.4."""
        self.failures: dict[str, int] = {}
        """Publications that were not refused and could not be stored all the same, by code."""
        self.cache_hits = 0
        self.cache_misses = 0
        self.conflated_away = 0
        self.lags = 0
        self.recoveries = 0
        self.resynchronisations = 0
        self.subscriptions = 0
        self.waiting = 0
        self.closes: dict[str, int] = {}
        self.ends: dict[str, int] = {}
        """Numbers of connections of clients by what ended them: the names of close codes, ``by_client``, ``lost``."""
        self.limited: dict[str, int] = {}
        """Numbers of times that limits were met that no close code tells of, by their names
        (edge/clients/quotas.py)."""

    def closed(self, name: str) -> None:
        """Count a close by the name of its code."""
        self.closes[name] = self.closes.get(name, 0) + 1

    def ended(self, name: str) -> None:
        """Count the end of a client's connection, by a name of ENDS."""
        self.ends[name] = self.ends.get(name, 0) + 1

    def refused(self, outcomes: Iterable[tuple[str, str]]) -> None:
        """Count publications that were refused."""
        for code, _ in outcomes:
            self.publications_refused += 1
            self.refusals[code] = self.refusals.get(code, 0) + 1

    def failed(self, outcomes: Iterable[object]) -> None:
        """Count those of the engine's outcomes that say that a publication could not be stored, or must not be."""
        for outcome in outcomes:
            if type(outcome) is tuple and type(outcome[0]) is str:
                code, reason = outcome
                if code in FAILURES:
                    self.failures[code] = self.failures.get(code, 0) + 1
                else:
                    self.refused(((code, reason),))

    def counting(self, done: Callable[[list[Any]], None] | None) -> Callable[[list[Any]], None]:
        """Return ``done``, which counts the failures among the outcomes first."""

        def counted(outcomes: list[Any]) -> None:
            self.failed(outcomes)
            if done is not None:
                done(outcomes)

        return counted

    def limit(self, name: str, times: int = 1) -> None:
        """Count what a limit has refused or held up."""
        self.limited[name] = self.limited.get(name, 0) + times
