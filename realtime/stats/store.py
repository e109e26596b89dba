"""Keeps the statistics in their database, for one collector at a time."""

from __future__ import annotations

import sys
import time
from array import array
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F

from realtime.models import StatisticsBucket, StatisticsState
from realtime.process.holders import has_ended, new_holder
from realtime.stats.database import prepare, to_write
from realtime.stats.timeline import SampledNode, Timeline
from realtime.stats.windows import SIZES, History, Key

LEASE_SECONDS = 15.0
"""A collector that has saved nothing for so long may be replaced; one whose process has ended at once."""

_STATE = 1
"""The key of the one row of StatisticsState."""

_AT_ONCE = 500
"""Rows of one statement."""


class LeaseLost(Exception):
    """Another collector has taken over: what this one has not saved that one reads from the nodes itself."""


@dataclass
class Saved:
    """The statistics as the database holds them."""

    through: int
    """The last second that is part of the history; -1: nothing has been collected yet."""
    nodes: dict[str, tuple[str, int]]
    history: History


class Store:
    """The database as one collector sees it; every method raises django.db.Error when it does not answer."""

    def __init__(self) -> None:
        self._holder = new_holder()
        self._claimed = False
        self._seen: tuple[str, int, float] = ("", -1, 0.0)

    @property
    def database(self) -> str:
        """The alias that the statistics are under, in this thread."""
        return to_write()

    def claim(self) -> Saved | None:
        """Become the one that collects, and get what has been collected; None while another one does."""
        prepare()
        states = StatisticsState.objects.using(self.database)
        state = states.filter(pk=_STATE).first()
        if state is None:
            with suppress(IntegrityError):  # another one makes it in the same moment
                states.create(pk=_STATE, holder="", beat=0, through=-1, names=[], nodes={})
            state = states.get(pk=_STATE)
        if not self._free(state):
            return None
        with transaction.atomic(using=self.database):
            mine = states.filter(pk=_STATE, holder=state.holder, beat=state.beat)
            if not mine.update(holder=self._holder, beat=state.beat + 1):
                return None
            self._claimed = True
            history = load(self.database, state.names)
            history.kept_as(state.names)
            return Saved(state.through, state.nodes, history)

    def save(self, history: History, timeline: Timeline) -> None:
        """Save what has changed since, and how far it goes, in one transaction; raise LeaseLost."""
        if not self._claimed:
            raise LeaseLost
        buckets = StatisticsBucket.objects.using(self.database)
        if history.moved:
            keys = [(size, number) for size in SIZES for number in history.buckets[size]]
        else:
            keys = sorted(history.changed)
        with transaction.atomic(using=self.database):
            self._renew(
                through=timeline.through,
                names=history.names,
                nodes={name: [node.server, node.base] for name, node in timeline.nodes.items() if node.server},
            )
            if history.moved:
                buckets.all().delete()
            else:
                gone = [_row(*key) for key in (*keys, *history.forgotten)]
                for at in range(0, len(gone), _AT_ONCE):
                    buckets.filter(pk__in=gone[at : at + _AT_ONCE]).delete()
            buckets.bulk_create(map(_bucket, keys, _values(history, keys)), _AT_ONCE)
        history.kept()

    def release(self) -> None:
        """Let another one collect at once."""
        if self._claimed:
            with suppress(LeaseLost):
                self._renew(holder="")
            self._claimed = False

    def _renew(self, **values: Any) -> None:
        """Change the state if it is still this one's; the row stays locked until the transaction ends."""
        mine = StatisticsState.objects.using(self.database).filter(pk=_STATE, holder=self._holder)
        if not mine.update(beat=F("beat") + 1, **values):
            self._claimed = False
            raise LeaseLost

    def _free(self, state: StatisticsState) -> bool:
        """Return True if nobody collects: told without a clock that could jump, or that two machines would have to
        share."""
        if not state.holder or has_ended(state.holder):
            return True
        if self._seen[:2] != (state.holder, state.beat):
            self._seen = (state.holder, state.beat, time.monotonic())
        return time.monotonic() - self._seen[2] > LEASE_SECONDS


def load(database: str, names: list[str], size: int | None = None, first: int = 0) -> History:
    """Return the buckets that are kept; those of one size alone, from a number on, if so wanted."""
    history = History()
    rows = StatisticsBucket.objects.using(database).order_by("size", "number")
    if size is not None:
        rows = rows.filter(size=size, number__gte=first)
    for found, number, data in rows.values_list("size", "number", "values"):
        values = array("d", bytes(data))
        if sys.byteorder == "big":
            values.byteswap()
        if found in SIZES and len(values) == 4 * len(names):
            history.put(found, number, names, values)
    return history


def timeline_of(saved: Saved) -> Timeline:
    """Return a timeline that goes on from where it was saved."""
    nodes = {name: SampledNode(server, base) for name, (server, base) in saved.nodes.items()}
    return Timeline(saved.through, nodes)


def _bucket(key: Key, values: bytes) -> StatisticsBucket:
    size, number = key
    return StatisticsBucket(pk=_row(size, number), size=size, number=number, values=values)


def _values(history: History, keys: Iterable[Key]) -> Iterable[bytes]:
    for size, number in keys:
        values = history.buckets[size][number]
        if sys.byteorder == "big":
            values = values[:]
            values.byteswap()
        yield values.tobytes()


def _row(size: int, number: int) -> int:
    """Return the key of a bucket's row: the same for the same bucket, so that it is replaced in any database."""
    return number * len(SIZES) + SIZES.index(size)
