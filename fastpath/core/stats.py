"""Counters of what the sidecar did since it started; rates are differences between two readings."""

from __future__ import annotations


class Counters:
    """Plain totals, raised on the data path by integer additions only."""

    __slots__ = (
        "cache_hits",
        "cache_misses",
        "bytes_in",
        "bytes_out",
        "closes",
        "connects",
        "conflated_away",
        "disconnects",
        "lags",
        "limited",
        "messages_in",
        "messages_out",
        "publications_refused",
        "recoveries",
        "resynchronisations",
        "subscriptions",
        "waiting",
    )

    def __init__(self) -> None:
        self.connects = 0
        self.disconnects = 0
        self.messages_in = 0
        self.messages_out = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.publications_refused = 0
        self.cache_hits = 0
        self.cache_misses = 0
        self.conflated_away = 0
        self.lags = 0
        self.recoveries = 0
        self.resynchronisations = 0
        self.subscriptions = 0
        self.waiting = 0
        self.closes: dict[str, int] = {}
        self.limited: dict[str, int] = {}
        """How often limits were met that no close code tells of, by their names (edge/limiting.py)."""

    def closed(self, name: str) -> None:
        """Count a close by the name of its code."""
        self.closes[name] = self.closes.get(name, 0) + 1

    def limit(self, name: str, times: int = 1) -> None:
        """Count what a limit has refused or held up."""
        self.limited[name] = self.limited.get(name, 0) + times
