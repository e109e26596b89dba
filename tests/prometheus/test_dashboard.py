"""What the dashboard and the documentation ask of several nodes."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.prometheus import GRAFANA

SHARED = ("messages_in", "subjects", "cached_messages", "cached_bytes", "evicted")
"""What nodes on one Redis have in common, and each of them counts."""

TARGETS = [
    target["expr"]
    for panel in json.loads((GRAFANA / "fastpath.json").read_text(encoding="utf-8"))["panels"]
    for target in panel.get("targets", ())
]
DOCUMENT = (GRAFANA.parent / "figures.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("figure", SHARED)
def test_what_nodes_have_in_common_is_not_added_up(figure: str) -> None:
    """Else a cluster of three nodes shows three times the truth."""
    asked = [expression for expression in TARGETS if re.search(rf"fastpath_{figure}(_total)?\{{", expression)]
    added = re.compile(r"sum(?! by \(node\))[^(]*\(")
    assert [expression for expression in asked if added.match(expression)] == []
    assert re.search(rf"`fastpath_{figure}(_total)?`", DOCUMENT)


def test_messages_in_are_those_of_one_node() -> None:
    assert any(expression.startswith("max(rate(fastpath_messages_in_total") for expression in TARGETS)
    assert "max(rate(fastpath_messages_in_total[1m]))" in DOCUMENT
