"""This process's connection to the sidecar's control socket."""

from __future__ import annotations

from functools import lru_cache

from fastpath.client.control import Control
from realtime.conf import conf


def control(seconds: float | None = None) -> Control:
    """The shared connection to the socket that the settings name; it waits ``seconds`` for an answer."""
    return _open(conf.control, conf.control_seconds if seconds is None else seconds)


@lru_cache(maxsize=8)
def _open(path: str, seconds: float) -> Control:
    return Control(path, timeout_seconds=seconds, client="django/1")
