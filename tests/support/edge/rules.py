"""Rights as Django would send them over the control socket, for tests that change them while data flows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastpath.client.control.client import Control
from tests.support.edge.sessions import client_of
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint


def rule(
    number: int, pattern: str, who: str = "user:alice", *, allow: bool = True, action: str = "subscribe", **bounds: int
) -> dict[str, Any]:
    """A rule of protocol.md 8.2; ``start`` and ``end`` in ms."""
    return {"id": number, "who": who, "pattern": pattern, "action": action, "allow": allow} | bounds


def milliseconds(after_seconds: float) -> int:
    """A moment, so many seconds from now."""
    return int((time.time() + after_seconds) * 1000)


class Rules:
    """The rights of one sidecar: a full set at first, then differences."""

    def __init__(self, sidecar: Sidecar) -> None:
        self.sidecar = sidecar
        self.control = Control(sidecar.control)
        self.generation = 0

    def full(self, *rules: dict[str, Any], users: tuple[Any, ...] = (), sessions: tuple[Any, ...] = ()) -> None:
        """Send a whole set."""
        self.generation += 1
        self.control.rules_begin(self.generation)
        self.control.rules_chunk(rules=rules, users=users, sessions=sessions)
        self.control.rules_commit(self.generation)

    def change(self, *rules: dict[str, Any], **others: Any) -> None:
        """Send a difference: rules, and ``removed``, ``users``, ``sessions``."""
        self.generation += 1
        self.control.rules_diff(self.generation - 1, self.generation, rules=rules, **others)

    def client(self, user: str = "alice", form: str | None = None, **keys: Any) -> WireClient:
        """A client of that user; ``receive_bytes`` is the connection's."""
        receive_bytes = keys.pop("receive_bytes", 0)
        token = mint(user, generation=self.generation, **keys) if user else ""
        client = client_of(self.sidecar, form, receive_bytes=receive_bytes)
        client.ask("connect", "connected", token=token)
        return client

    def publisher(self) -> WirePublisher:
        """A publisher that may publish everything."""
        return WirePublisher(self.sidecar, mint("root", superuser=True, generation=self.generation))

    def publish(self, *rows: list[Any]) -> None:
        """Publish as Django does, whose right is not asked."""
        assert all(isinstance(result, int) for result in self.control.publish(rows)["results"])


@contextmanager
def ruled(*rules: dict[str, Any], **settings: Any) -> Iterator[Rules]:
    """A sidecar of its own with these rules."""
    with Sidecar(mode="rules", token_secret=SECRET, **settings) as sidecar:
        rights = Rules(sidecar)
        with rights.control:
            if rules:
                rights.full(*rules)
            yield rights
