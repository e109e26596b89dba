"""The groups that this process has put channels into, to say so again to a sidecar that was started anew."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import islice

PER_REQUEST = 1000
"""Number of memberships that are said at once."""

SWEPT_MIN = 1000
"""Number of memberships from which on, and whenever it has doubled since, those are forgotten whose time is over."""

Membership = tuple[str, str]
"""A group and a channel in it, with the prefix of the layer."""


class Memberships:
    """The memberships of a process; its loops may run in several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Membership, tuple[int, float]] = {}
        self._server = ""
        self._sweep_at = SWEPT_MIN

    def __len__(self) -> int:
        return len(self._known)

    def add(self, group: str, channel: str, capacity: int, seconds: float) -> None:
        """Note that the sidecar has taken a channel, which holds so many messages, into a group, for so long."""
        with self._lock:
            self._known[group, channel] = capacity, time.monotonic() + seconds
            if len(self._known) >= self._sweep_at:
                self._forget_expired(time.monotonic())
                self._sweep_at = max(SWEPT_MIN, 2 * len(self._known))

    def discard(self, group: str, channel: str) -> None:
        """Note that the channel is not to be in the group any more."""
        with self._lock:
            self._known.pop((group, channel), None)

    def flush(self, prefix: str) -> None:
        """Note that nothing of a layer is to be in any group any more."""
        with self._lock:
            self._known = {key: value for key, value in self._known.items() if not key[0].startswith(prefix)}

    def missing(self, server: str) -> Iterator[list[list[object]]]:
        """Yield what a sidecar has to be told, by the name that it has from its start on, a request's worth at a
        time."""
        with self._lock:
            now = time.monotonic()
            self._forget_expired(now)
            known = iter(() if server == self._server else list(self._known.items()))
        while part := list(islice(known, PER_REQUEST)):
            yield [[*key, capacity, until - now] for key, (capacity, until) in part]

    def told(self, server: str) -> None:
        """Note that this sidecar knows all memberships."""
        with self._lock:
            self._server = server

    def _forget_expired(self, now: float) -> None:
        self._known = {key: value for key, value in self._known.items() if value[1] > now}
