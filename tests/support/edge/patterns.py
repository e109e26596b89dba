"""What a subscriber of a pattern is told of the subjects found."""

from __future__ import annotations

from typing import Any

from tests.support.edge.wire import WireClient


def found(client: WireClient, *subjects: str) -> dict[str, dict[str, Any]]:
    """The results that patterns bring, by subject, until all of these have come."""
    results: dict[str, dict[str, Any]] = {}
    while not results.keys() >= set(subjects):
        value = client.next()
        if isinstance(value, dict) and value["op"] == "subscribed":
            results |= {one["subject"]: one for one in value["results"]}
    return results
