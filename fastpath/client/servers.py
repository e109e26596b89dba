"""The choice of the next server: at random by weight, away from those that failed or were lost; pure."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import urlsplit

WEIGHT = 100
WEIGHT_MAX = 100

Draw = Callable[[], float]
"""Randomness: a number from 0 up to, but not, 1."""


class WeightedServer(NamedTuple):
    """An address and how often it is picked, 0 to 100; one of weight 0 only when no other is left."""

    url: str
    weight: int = WEIGHT


Servers = str | Iterable[str | tuple[str, int] | Mapping[str, Any]]
"""One address, or several: texts, ``(url, weight)``, or maps as ``/api/servers/`` answers them."""


def parse_servers(given: Servers) -> list[WeightedServer]:
    """Return the servers that are meant, each address once; raise ValueError for what is no address or weight."""
    parsed: dict[str, WeightedServer] = {}
    for one in [given] if isinstance(given, str) else given:
        if isinstance(one, str):
            server = WeightedServer(one)
        elif isinstance(one, Mapping):
            server = WeightedServer(one.get("url", ""), one.get("weight", WEIGHT))
        else:
            server = WeightedServer(*one)
        if not isinstance(server.url, str) or not _is_address(server.url):
            raise ValueError(f"an address is ws://host:port/ws or wss://host:port/ws, not {server.url!r}")
        if type(server.weight) is not int or not 0 <= server.weight <= WEIGHT_MAX:
            raise ValueError(f"the weight of {server.url} is a whole number from 0 to {WEIGHT_MAX}")
        parsed.setdefault(server.url, server)
    return list(parsed.values())


def _is_address(url: str) -> bool:
    """Return True if the address could be connected to: a port is a number of 16 bits, a name is one for DNS."""
    try:
        parts = urlsplit(url)
        host, _ = (parts.hostname or ""), parts.port
        host.encode("idna")
    except ValueError:
        return False
    return url.startswith(("ws://", "wss://")) and host != ""


def is_loopback(host: str) -> bool:
    """Return True if a host is this machine itself, by its name or its address."""
    if host.rstrip(".") == "localhost" or host.rstrip(".").endswith(".localhost"):
        return True
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


class ServerList:
    """Servers by weight: a round tries each at most once, and those whose connection was lost of late last."""

    def __init__(self, servers: Iterable[WeightedServer], draw: Draw = random.random) -> None:
        self._servers = list(servers)
        self._draw = draw
        self._failed: set[str] = set()
        self._avoided: set[str] = set()

    @property
    def urls(self) -> list[str]:
        """The addresses of all servers in the list."""
        return [server.url for server in self._servers]

    def replace(self, servers: Iterable[WeightedServer]) -> None:
        """Take a new list, from the next pick on; an empty one changes nothing."""
        self._servers = list(servers) or self._servers

    def add(self, servers: Iterable[WeightedServer]) -> None:
        """Add servers that a draining server has named: new ones, or other weights of known ones."""
        told = {server.url: server for server in servers}
        self._servers = [told.pop(server.url, server) for server in self._servers]
        self._servers += told.values()

    def pick(self) -> str:
        """Return the next address of this round; empty when each has failed."""
        left = [server for server in self._servers if server.url not in self._failed]
        proper = [server for server in left if server.weight]
        for some in (proper, left):  # those of weight 0 only when no other is left
            choice = [server for server in some if server.url not in self._avoided] or some
            if choice:
                return self._one_of(choice)
        return ""

    def _one_of(self, choice: list[WeightedServer]) -> str:
        if len(choice) == 1:
            return choice[0].url
        at = self._draw() * sum(server.weight or 1 for server in choice)
        for server in choice:
            at -= server.weight or 1
            if at < 0:
                return server.url
        return choice[-1].url

    def fail(self, url: str) -> None:
        """Count a server that did not answer: ``pick()`` leaves it out for the rest of this round."""
        self._failed.add(url)

    def more(self, url: str) -> bool:
        """Return True when a server other than ``url`` is left to try in this round."""
        return any(server.url != url and server.url not in self._failed for server in self._servers)

    def lose(self, url: str) -> bool:
        """Put others before this server, whose connection ended; return True if one with a weight was not lost too."""
        self._avoided.add(url)
        left = any(server.weight and server.url not in self._avoided for server in self._servers)
        if not left:
            # Each was lost once, and the last one is the worst choice still.
            self._avoided = {url}
        return left

    def new_round(self) -> None:
        """Begin a new round, in which every server may be tried again."""
        self._failed.clear()

    def forgive(self) -> None:
        """Forget which connections were lost: no server is avoided any more."""
        self._avoided.clear()
