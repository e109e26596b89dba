"""What the meta-subject /__sys__/cluster says of several nodes."""

from __future__ import annotations

import json

from realtime.stats import figures


def test_figures_of_several_nodes_are_added_up_but_for_times() -> None:
    """Of nodes that share an engine the messages and subjects are the same ones."""
    one = {"connections": 3, "loop_lag_ms": 7.5, "uptime_s": 20.0, "subjects": 5, "by_worker": [{"pid": 1}]}
    other = {"connections": 4, "loop_lag_ms": 1.0, "uptime_s": 90.0, "subjects": 6, "only_here": 1}
    together = {"connections": 7, "loop_lag_ms": 7.5, "uptime_s": 90.0, "only_here": 1, "nodes": 2}
    assert figures.cluster([(one, False), (other, False)]) == together | {"subjects": 11}
    assert figures.cluster([(one, True), (other, True)]) == together | {"subjects": 6}
    assert figures.cluster([({}, False)]) == {"nodes": 0}


def test_a_node_is_told_with_its_workers_or_with_why_it_is_away() -> None:
    assert figures.node("a", "", {"connections": 3, "by_worker": [{"pid": 1}]}) == {
        "node": "a",
        "error": "",
        "figures": {"connections": 3},
        "workers": [{"pid": 1}],
    }
    assert figures.node("b", "refused", {}) == {"node": "b", "error": "refused", "figures": {}, "workers": []}


def test_of_very_many_workers_the_figures_are_left_out() -> None:
    """So that what is told each second is bounded."""
    node = {"node": "a", "figures": {"connections": 1}, "workers": [{"pid": 1}]}
    assert json.loads(figures.content([node], 7)) == {"time": 7, "nodes": [node]}
    many = node | {"workers": [{"pid": 1}] * 30_000}
    assert json.loads(figures.content([many, node], 7))["nodes"] == [node | {"workers": []}] * 2


def test_what_nodes_have_in_common_is_not_doubled() -> None:
    """A machine, a disk, who is there: two nodes tell of the same one, or of two that no sum describes."""
    one = {
        "silent_s": 3.0,
        "machine_cpu_percent": 60.0,
        "machine_memory_bytes": 16,
        "machine_memory_available_bytes": 9,
        "journal_disk_bytes": 50,
        "journal_disk_free_bytes": 20,
        "redis_connected": 1,
        "roster_members": 7,
    }
    other = one | {"machine_memory_bytes": 8, "machine_memory_available_bytes": 2, "redis_connected": 0}
    together = one | {"machine_memory_available_bytes": 2, "redis_connected": 0, "nodes": 2}
    assert figures.cluster([(one, True), (other, True)]) == together
    assert figures.cluster([(one, False), (other, False)]) == together | {"roster_members": 14}
