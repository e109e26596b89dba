"""Sets of addresses as operators write them: single ones, CIDR ranges (RFC 4632, RFC 4291), and the word ``unix``."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

UNIX = "unix"
"""Stands for every peer of a unix socket: it has no address."""

UNKNOWN = "unknown"
"""The address of whom a trusted proxy does not name by one; it is in no set."""

KNOWN_MAX = 4096
"""Addresses of which it is remembered whether they are in a set; then all is forgotten and found out anew."""

HOST_CHARS_MAX = 64
"""More than any textual address has: longer ones in a header are no addresses."""


class Networks:
    """A set of addresses; ``address in networks`` for an address in its usual text, also IPv4 mapped into IPv6."""

    __slots__ = ("_hosts", "_known", "_ranges")

    def __init__(self, hosts: frozenset[str], ranges: tuple[IPv4Network | IPv6Network, ...]) -> None:
        self._hosts = hosts
        self._ranges = ranges
        self._known: dict[str, bool] = {}

    @classmethod
    def parse(cls, text: str) -> Networks:
        """Read a list with commas; raise ValueError with the entry that is none and why."""
        hosts, ranges = set(), []
        for entry in filter(None, (part.strip() for part in text.split(","))):
            if entry == UNIX:
                hosts.add(entry)
                continue
            try:
                network = ip_network(entry)
            except ValueError as error:
                raise ValueError(f"{error}: write an address, a range such as 10.1.0.0/16, or {UNIX}") from None
            if network.num_addresses == 1:
                hosts.add(str(network.network_address))
            else:
                ranges.append(network)
        return cls(frozenset(hosts), tuple(ranges))

    def __bool__(self) -> bool:
        return bool(self._hosts or self._ranges)

    def __contains__(self, address: str) -> bool:
        if address in self._hosts:
            return True
        if not self._hosts and not self._ranges:
            return False
        known = self._known.get(address)
        if known is None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            known = self._known[address] = self._find(address)
        return known

    def _find(self, address: str) -> bool:
        try:
            found = ip_address(address)
        except ValueError:
            return False
        mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
        found = mapped or found
        return str(found) in self._hosts or any(found in network for network in self._ranges)


def host_of(text: str) -> str:
    """Return the address of an entry of ``X-Forwarded-For``, which some proxies write with a port; empty for any other
    text."""
    text = text.strip()
    if len(text) > HOST_CHARS_MAX:
        return ""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ip_address(text)
    except ValueError:
        return ""
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)


def client_of(forwarded: str, peer: str, trusted: Networks) -> str:
    """Return for whom a trusted peer speaks: what ``X-Forwarded-For`` says, read from its end as far as it can be
    believed.

    Each proxy appends the address that it was called from. So the last entry is what the peer itself saw; it may be
    another trusted proxy, which saw the one before. The first that is not trusted is the client: what stands before it,
    the client may have written itself. Where an entry that can be believed is no address, the client is UNKNOWN: it is
    not the proxy that wrote so.
    """
    address = peer
    if peer not in trusted:
        return address
    for entry in reversed(forwarded.split(",")):
        address = host_of(entry) or UNKNOWN
        if address not in trusted:
            break
    return address
