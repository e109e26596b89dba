"""A client that waits for a hook for longer than it may otherwise be silent."""

from __future__ import annotations

import pytest

from tests.support.edge.wire import WireClient
from tests.support.hook import Answering, named
from tests.support.sidecar import Sidecar


@pytest.mark.slow
def test_who_waits_long_is_neither_late_nor_lost() -> None:
    """The time for a first command, and that between two signs of life, do not run while it is not read from."""
    with (
        Sidecar(mode="custom", hook_seconds=20, handshake_seconds=1, ping_seconds=1) as sidecar,
        Answering(sidecar.control, lambda question: None) as hook,
        WireClient(sidecar) as client,
    ):
        for event, command in (
            ("connect", {"token": "ann"}),
            ("publish", {"subject": "/long/one", "content": "x", "closure": "c"}),
        ):
            client.say(event, **command)
            question = hook.wait(event)
            for _ in range(2):
                with WireClient(sidecar) as witness:
                    assert witness.closed()[0] in (4002, 4003), "one that says nothing, later than this one"
            hook.answer(question, named(question))
            assert client.answer({"connect": "connected", "publish": "published"}[event])
