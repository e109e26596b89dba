"""What Django's agents say of the rights decides whether the node is ready."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from fastpath.client.control.client import Control
from fastpath.edge.runtime.component import ControlPeer
from fastpath.edge.telemetry.rights_assurance import SILENT_SECONDS, Assurance
from tests.support.core.stage import Stage
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


def test_the_last_agent_is_gone(control: Control) -> None:
    """Nothing else says so: the node serves on with the rights that it has, and a load balancer sends clients there."""
    assert "warnings" not in control.health(), "none was there yet"
    with Control(control.path) as first, Control(control.path) as second:
        first.rights()
        second.rights()
        second.close()
        until(lambda: control.stats().get("rights_followed") == 1)
        first.close()
    warning = until(lambda: control.health().get("warnings", {}).get("agent"))
    assert re.fullmatch(r"no agent of Django is connected, for \d+ s: changes of rights are not followed", warning)
    assert control.health()["ready"]
    assert until(lambda: control.stats().get("rights_followed") == 0)
    with Control(control.path) as third:
        third.rights()
        assert "warnings" not in control.health()
        until(lambda: control.stats()["rights_followed"] == 1)


class Peer:
    """Stands for an agent's connection."""

    def __init__(self) -> None:
        self.ended: list[Callable[[], None]] = []


def test_what_an_agent_said_while_the_node_stood_still_is_not_its_silence() -> None:
    """By the time that the node has run, whatever the wall says: what waits unread is read when it runs again."""
    ran = 100.0
    assurance = Assurance(Stage().sessions.rights, lambda: ran)
    tell = assurance.offers.verbs["rights"]
    one, other = cast(ControlPeer, Peer()), cast(ControlPeer, Peer())
    tell(one, {"trouble": ""})
    tell(other, {"trouble": "the database is away"})
    ran += 4.9
    assert assurance.trouble == ""
    ran += 0.1
    assert assurance.trouble == "Django's agent is silent for 5 s"
    tell(one, {"trouble": ""})
    assert assurance.trouble == ""
    for ended in one.ended:
        ended()
    assert assurance.trouble == "Django's agent is silent for 5 s", "the other one"


@pytest.mark.slow
def test_a_node_that_stood_still_is_ready_as_soon_as_it_runs(control: Control) -> None:
    """Longer than an agent may be silent; what this one says comes behind the question."""
    with Control(control.path) as agent:
        agent.rights()
        pid = control.hello()["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(SILENT_SECONDS + 1)
        finally:
            os.kill(pid, signal.SIGCONT)
        assert "rights" not in control.health()["reasons"]
