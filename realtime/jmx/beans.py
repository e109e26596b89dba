"""Which MBeans there are: one a node, one a worker, one a window of an indicator."""

from __future__ import annotations

from typing import Any

from django.db import Error as DatabaseFailure

from realtime.nodes import nodes
from realtime.stats import read

Values = dict[str, float | str | None]


def beans() -> dict[str, Values]:
    """Return every MBean's attributes, as they are now; those of the statistics are away while the database is."""
    found: dict[str, Values] = {}
    for state in nodes.states():
        node = quote(state.name)
        found[f"fastpath:type=Node,name={node}"] = {
            "up": float(not state.error),
            "draining": float(state.draining),
            "error": state.error,
            **_numbers(state.figures),
        }
        for worker in state.figures.get("by_worker", ()):
            found[f"fastpath:type=Worker,node={node},worker={int(worker['worker'])}"] = _numbers(worker)
    try:
        statistics = read.newest()
    except DatabaseFailure:
        statistics = {}
    for indicator, windows in statistics.items():
        for window, values in windows.items():
            found[f"fastpath:type=Statistics,indicator={indicator},window={window}"] = dict(values)
    return found


def quote(text: str) -> str:
    """Quote a text as ``javax.management.ObjectName.quote`` does."""
    return '"' + "".join(f"\\{char}" if char in '\\"*?' else char for char in text) + '"'


def _numbers(figures: dict[str, Any]) -> Values:
    return {name: value for name, value in figures.items() if isinstance(value, int | float)}
