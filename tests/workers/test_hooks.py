"""Clients of every worker are asked about, by way of the first one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fastpath.client.control.client import Control
from tests.support.edge.spread import Spread
from tests.support.hook import Answering, denying, named
from tests.support.sidecar import Sidecar


@pytest.fixture(scope="module")
def custom() -> Iterator[Sidecar]:
    """Two workers, and a hook that decides alone."""
    with Sidecar(mode="custom", workers=2, hook_seconds=4) as running:
        yield running
        assert "Traceback" not in running.log, running.log


def test_a_hook_answers_for_every_worker(custom: Sidecar) -> None:
    """Questions, answers, ends and what is asked again."""
    with Answering(custom.control, named) as hook, Control(custom.control) as control:
        spread = Spread(custom, 2, "ann")
        try:
            for client in spread.all:
                client.subscribe("/w/one")
                assert client.answer("subscribed")["results"][0]["seq"] == 0
                assert client.ask("publish", "published", subject="/w/two", content="1", closure="c")["status"] == "ok"
            hook.rule = denying("subscribe")
            control.call("recheck", {"user": "ann"})
            for client in spread.all:
                assert client.answer("revoked")["reason"] == "not today"
        finally:
            spread.close()
        questions = {question["connection"].split("-")[0] for question in hook.about("subscribe")}
        assert len(questions) == 2, "a connection is named by its process, and no two are the same"
        for question in hook.about("subscribe"):
            hook.wait("disconnect", connection=question["connection"])
