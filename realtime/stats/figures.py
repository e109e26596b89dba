"""What the meta-subject /__sys__/cluster says: the figures of all nodes together, and of each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastpath.core.telemetry.figures import FIGURES, UNKNOWN, of_nodes

CONTENT_CHARS_MAX = 256 << 10
"""Characters of the content at most; where nodes have more to say the workers' own figures are left out."""

STARVED_PERCENT = 50
"""A worker that waited for a processor for more than that of its last second is called starved."""


def starved(stats: Mapping[str, Any]) -> list[int]:
    """Return the numbers of the node's workers that get too little CPU for what they have to do."""
    workers = stats.get("by_worker", ())
    return [one["worker"] for one in workers if one.get("cpu_waited_percent", 0) > STARVED_PERCENT]


def cluster(answers: Iterable[tuple[Mapping[str, Any], bool]]) -> dict[str, float]:
    """Return all nodes' figures as one, of what each answered to ``stats``, and whether it shares its engine with
    others."""
    found: dict[str, float] = {}
    nodes = 0
    for stats, shared in answers:
        nodes += bool(stats)
        for name, value in stats.items():
            if name == "by_worker" or type(value) not in (int, float):
                continue
            rule = FIGURES.get(name, UNKNOWN).across_nodes
            found[name] = of_nodes(rule, found[name], value, shared=shared) if name in found else value
    return found | {"nodes": nodes}


def node(name: str, error: str, stats: Mapping[str, Any]) -> dict[str, Any]:
    """Return one node; while ``error`` says why it did not answer nothing else is known of it."""
    own = {key: value for key, value in stats.items() if key != "by_worker"}
    return {"node": name, "error": error, "figures": own, "workers": stats.get("by_worker", [])}


def content(nodes: Sequence[dict[str, Any]], time: int) -> str:
    """Return what the nodes say of themselves, at that time (ms since 1970), as JSON."""
    text = json.dumps({"time": time, "nodes": nodes}, separators=(",", ":"))
    if len(text) <= CONTENT_CHARS_MAX:
        return text
    return json.dumps({"time": time, "nodes": [one | {"workers": []} for one in nodes]}, separators=(",", ":"))
