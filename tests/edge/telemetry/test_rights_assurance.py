"""What Django's agents say of the rights decides whether the node is ready."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from fastpath.client.control.client import Control
from tests.support.sidecar import Sidecar
from tests.support.waiting import until


@pytest.fixture
def control() -> Iterator[Control]:
    """A node that has rights."""
    with Sidecar(mode="rules", token_secret="s" * 32) as node, Control(node.control) as one:
        one.rules_begin(1)
        one.rules_commit(1)
        yield one


def test_a_node_is_not_ready_while_no_agent_follows(control: Control) -> None:
    with Control(control.path) as first, Control(control.path) as second:
        assert control.health() == {"ready": True, "reasons": {}}
        assert "rights_followed" not in control.stats()
        first.rights("the database is away", 12)
        assert control.health() == {"ready": False, "reasons": {"rights": "the database is away"}}
        figures = until(lambda: "rights_followed" in (found := control.stats()) and found)
        assert (figures["rights_followed"], figures["triggers_missing"]) == (0, 12)
        assert "fastpath_triggers_missing" in control.metrics()
        second.rights("", 0)
        assert control.health()["ready"], "one that follows is enough"
        second.close()
        until(lambda: not control.health()["ready"])
        first.close()
        until(lambda: control.health()["ready"])


def test_an_agent_that_is_connected_and_silent(control: Control) -> None:
    """Its database may not answer it."""
    with Control(control.path) as agent:
        agent.rights()
        assert control.health()["ready"]
        trouble = until(lambda: control.health()["reasons"].get("rights"), 8)
        silent = re.fullmatch(r"Django's agent is silent for (\d+) s", trouble)
        assert silent
        assert int(silent[1]) >= 5
        agent.rights()
        assert control.health()["ready"]
