"""Reads the statistics that the collector has saved."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from fastpath.core.telemetry.samples import RATES
from realtime.models import StatisticsState
from realtime.stats.database import to_read
from realtime.stats.store import load
from realtime.stats.windows import INDICATORS, KEPT, WINDOWS, History, deviation

CURRENT_SECONDS = 30
"""Seconds: while the newest second is not older the windows end there; else nobody collects, and they end now."""

Told = dict[str, dict[str, dict[str, float | None]]]


class UnknownName(ValueError):
    """The fault of a name: there is no such indicator, or no such window; the text says which there are."""


_lock = threading.Lock()
_read: dict[str, tuple[tuple[Any, ...], History]] = {}
"""History that was read last of each database, and its state: it is read again when something has been saved."""


def newest(names: Iterable[str] = INDICATORS) -> Told:
    """Return maximum, average and standard deviation of each name over each of the 12 windows; None where nothing is
    known.

    Raises UnknownName, and django.db.Error when the database does not answer.
    """
    asked = known(names)
    with to_read() as database, _lock:
        state = StatisticsState.objects.using(database).first()
        if state is None:
            return History().windows(int(time.time()), asked)
        version = (state.holder, state.beat, state.through)
        if database not in _read or _read[database][0] != version:
            _read[database] = version, load(database, state.names)
        return _read[database][1].windows(_moment(state.through), asked)


def series(names: Sequence[str], window: str) -> dict[str, Any]:
    """Return each bucket of a window: ``t``, when it begins (ms since 1970), and per name a list of each of
    ``average``, ``maximum`` and ``deviation``, None where nothing was sampled.

    ``seconds`` is how long a bucket is. Names that end in ``_per_s`` have ``total``, too: what was counted in the whole
    window, and ``sampled``: in how many of its seconds. Raises as ``newest``.
    """
    asked = known(names)
    if window not in WINDOWS:
        raise UnknownName(f"there is no window {window!r}: {', '.join(WINDOWS)}")
    size = WINDOWS[window].size
    with to_read() as database:
        state = StatisticsState.objects.using(database).first()
        moment = _moment(state.through if state is not None else -1)
        first = WINDOWS[window].first(moment // size)
        history = load(database, state.names, size, first) if state is not None else History()
    told: dict[str, Any] = {"window": window, "seconds": moment - first * size, "t": []}
    for name in asked:
        rows = list(history.rows(window, name, moment))
        told["t"] = [1000 * second for second, _ in rows]
        told[name] = {
            "average": [_short(sums[1]) if sums[0] else None for _, sums in rows],
            "maximum": [_short(sums[3]) if sums[0] else None for _, sums in rows],
            "deviation": [_short(deviation(sums)) if sums[0] else None for _, sums in rows],
        }
        if name in RATES:
            known_rows = [sums for _, sums in rows if sums[0]]
            total = sum(sums[0] * sums[1] for sums in known_rows)
            told[name] |= {
                "total": _short(total) if known_rows else None,
                "sampled": round(sum(sums[0] for sums in known_rows)),
            }
    return told


def known(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names, each once; raise UnknownName where one is not kept."""
    asked = tuple(dict.fromkeys(names))
    for name in asked:
        if name not in KEPT:
            raise UnknownName(f"there is no indicator {name!r}: {', '.join(KEPT)}")
    return asked


def _moment(through: int) -> int:
    """Return where the windows end."""
    now = int(time.time())
    return through + 1 if now - through <= CURRENT_SECONDS else now


def _short(value: float) -> float:
    return round(value, 6)
