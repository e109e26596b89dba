"""This process's connections to the nodes' control sockets."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache

from fastpath.client.nodes import Nodes
from realtime.conf import conf


def control(seconds: float | None = None) -> Nodes:
    """The shared connections to the sockets that the settings name; each waits ``seconds`` for an answer."""
    return _open(tuple(conf.controls), conf.control_seconds if seconds is None else seconds)


def asking() -> AbstractContextManager[Nodes]:
    """Connections for a question about rights: where a hook may take its time to answer, nobody else waits for them."""
    if not conf.hook:
        return nullcontext(control())
    return Nodes(conf.controls, timeout_seconds=conf.control_seconds, client="django/1")


@lru_cache(maxsize=8)
def _open(addresses: tuple[str, ...], seconds: float) -> Nodes:
    return Nodes(addresses, timeout_seconds=seconds, client="django/1")
