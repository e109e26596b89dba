"""An outbox in the default database, with and without a sidecar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fastpath.client.control.client import Control
from fastpath.client.errors import ControlRefused
from tests.support.sidecar import Sidecar


@pytest.fixture
def outbox(transactional_db: None, settings: Any) -> None:
    """publish() writes rows; no sidecar answers."""
    settings.REALTIME = settings.REALTIME | {"OUTBOX": True, "CONTROL": "/nonexistent/c.sock"}


@pytest.fixture
def node(outbox: None, sidecar: Sidecar, settings: Any) -> Sidecar:
    """The sidecar that the outbox is sent to."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": sidecar.control}
    return sidecar


@pytest.fixture
def stored(node: Sidecar) -> Iterator[Callable[[str], list[str]]]:
    """What the sidecar has of a subject, in order."""
    with Control(node.control) as control:

        def contents(subject: str) -> list[str]:
            try:
                messages = control.history(subject, limit=100)["messages"]
            except ControlRefused as error:
                assert error.code == "unknown", error
                return []
            return [message["content"] for message in reversed(messages)]

        yield contents
