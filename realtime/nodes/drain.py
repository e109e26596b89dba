"""Tell a node to send its clients elsewhere (features.md D4)."""

from __future__ import annotations

from collections.abc import Iterable

from fastpath.client.control.client import Control
from realtime.conf import Server, conf


def drain(address: str, servers: Iterable[Server], per_second: int = 0) -> int:
    """Begin, with the servers of other nodes to go to, at the node's own rate or another; how many clients it has.

    Raises ClientError when the node cannot be asked.
    """
    elsewhere = [[server.url, server.weight] for server in servers if server.weight and server.control != address]
    with Control(address, timeout_seconds=conf.control_seconds, client="django/1") as control:
        return int(control.drain(per_second, elsewhere)["clients"])


def undrain(address: str) -> int:
    """Call it off; how many clients stay. Raises ClientError when the node cannot be asked."""
    with Control(address, timeout_seconds=conf.control_seconds, client="django/1") as control:
        return int(control.undrain()["clients"])
