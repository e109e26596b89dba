"""What the clients of this process remember of transports, by address."""

from __future__ import annotations

from .ladder import RememberedTransport

ADDRESSES_MAX = 64
"""Number of addresses that are remembered; the one that was learnt first is forgotten for a new one."""


class AddressMemory:
    """The memory of a process; times are those of ``time.monotonic()``."""

    def __init__(self) -> None:
        self._known: dict[str, RememberedTransport] = {}

    def load(self, url: str) -> RememberedTransport | None:
        """Return what is remembered of an address."""
        return self._known.get(url)

    def save(self, url: str, remembered: RememberedTransport | None) -> None:
        """Remember it; None forgets it."""
        self._known.pop(url, None)
        if remembered is not None:
            self._known[url] = remembered
            if len(self._known) > ADDRESSES_MAX:
                del self._known[next(iter(self._known))]


PROCESS = AddressMemory()
"""Memory that all clients of the process share: one that comes later need not find out again."""
