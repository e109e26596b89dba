"""This process's connections to the nodes' control sockets."""

from __future__ import annotations

from functools import lru_cache

from fastpath.client.nodes import Nodes
from realtime.conf import conf


def control(seconds: float | None = None) -> Nodes:
    """The shared connections to the sockets that the settings name; each waits ``seconds`` for an answer."""
    return _open(tuple(conf.controls), conf.control_seconds if seconds is None else seconds)


@lru_cache(maxsize=8)
def _open(addresses: tuple[str, ...], seconds: float) -> Nodes:
    return Nodes(addresses, timeout_seconds=seconds, client="django/1")
