"""This process's connections to the nodes' control sockets."""

from __future__ import annotations

import atexit
import os
import threading
from contextlib import AbstractContextManager, nullcontext

from fastpath.client.control.nodes import Nodes
from realtime.conf import conf

SHARED_MAX = 8
"""Settings change in tests alone: there is one set of nodes, with one or two times to wait."""

_shared: dict[tuple[tuple[str, ...], float], Nodes] = {}
_lock = threading.Lock()


def control(seconds: float | None = None) -> Nodes:
    """Return the shared connections to the sockets that the settings name; each waits ``seconds`` for an answer."""
    return _open(tuple(conf.controls), conf.control_seconds if seconds is None else seconds)


def asking() -> AbstractContextManager[Nodes]:
    """Return connections for a question about rights: where a hook takes its time to answer, nobody else waits for
    them."""
    if not conf.hook:
        return nullcontext(control())
    return Nodes(conf.controls, timeout_seconds=conf.control_seconds, client="django/1")


def _open(addresses: tuple[str, ...], seconds: float) -> Nodes:
    key = (addresses, seconds)
    with _lock:
        found = _shared.get(key)
        if found is None:
            if len(_shared) >= SHARED_MAX:
                _shared.pop(next(iter(_shared))).close()  # whoever still asks it opens it again
            found = _shared[key] = Nodes(addresses, timeout_seconds=seconds, client="django/1")
        return found


def close() -> None:
    """Close all of them, as at the end of the process; who asks again opens what is needed."""
    with _lock:
        while _shared:
            _shared.popitem()[1].close()


def _forked() -> None:
    """Begin anew in the child of a fork: nobody gives back what a thread held, and the connections are the parent's."""
    global _lock
    _lock = threading.Lock()
    for nodes in _shared.values():
        nodes.abandon()


atexit.register(close)
os.register_at_fork(after_in_child=_forked)
