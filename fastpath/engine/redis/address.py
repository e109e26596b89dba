"""Where Redis is and how to log in there: one address, or the Sentinels that know it; which names are one server."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from redis import asyncio as redis_asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError

Address = tuple[str, int]
"""Host and port."""

SCHEMES = ("redis", "rediss", "redis+sentinel", "rediss+sentinel")
CONNECT_SECONDS = 0.5
"""Seconds for a connection to be made, TLS and login included; a server that takes longer is asked again."""

FRESH_SECONDS = 1.0
"""Seconds after which what a name resolves to is asked for anew, behind the back of who compares it."""

STALE_SECONDS = 60.0
"""Seconds that it counts when the name does not resolve any more, as that of a server that is down may not."""

RESOLVE_SECONDS = 0.5
"""Seconds that a name that is new is waited for."""

log = logging.getLogger("fastpath.redis")

Resolve = Callable[[str], Awaitable[Iterable[str]]]
"""Function that resolves a host name; raises OSError when the name does not resolve."""

_PORTS = {False: 6379, True: 26379}
_OPTIONS = ("sentinel_user", "sentinel_password", "ca", "cert", "key")
_EXAMPLES = "redis://127.0.0.1:6379 or redis+sentinel://host1:26379,host2:26379,host3:26379/NAME"


class RedisAway(RedisConnectionError):
    """The error of having no Redis to speak to at this moment."""


@dataclass(frozen=True, slots=True)
class RedisConfig:
    """The parts of an address such as ``redis+sentinel://user:password@h1:26379,h2:26379,h3:26379/NAME?ca=/p/ca.pem``.

    ``hosts`` are the Sentinels when there is a ``name``, under which they watch the primary; else it is one Redis.
    """

    hosts: tuple[Address, ...]
    name: str = ""
    tls: bool = False
    user: str = ""
    password: str = field(default="", repr=False)
    sentinel_user: str = ""
    sentinel_password: str = field(default="", repr=False)
    ca: str = ""
    cert: str = ""
    key: str = ""

    @property
    def sentinels(self) -> tuple[Address, ...]:
        """The Sentinels; none with an address of one Redis."""
        return self.hosts if self.name else ()

    @classmethod
    def parse(cls, url: str) -> RedisConfig:
        """Read an address; raise ValueError with a text that names no password."""
        scheme, separator, rest = url.strip().partition("://")
        if not separator or scheme not in SCHEMES:
            raise ValueError(f"the scheme is one of {', '.join(SCHEMES)}: {_EXAMPLES}")
        try:
            parts = urlsplit("//" + rest)
        except ValueError as error:
            raise ValueError(f"{error}: {_EXAMPLES}") from None
        login, _, names = parts.netloc.rpartition("@")
        user, _, password = login.partition(":")
        by_sentinel = scheme.endswith("+sentinel")
        hosts = tuple(_address(text, _PORTS[by_sentinel]) for text in names.split(",")) if names else ()
        if not hosts:
            raise ValueError(f"no host: {_EXAMPLES}")
        name = unquote(parts.path.strip("/"))
        if by_sentinel and not name:
            raise ValueError(f"after the hosts comes /NAME, under which the Sentinels know the primary: {_EXAMPLES}")
        if not by_sentinel and (name not in ("", "0") or len(hosts) > 1):
            raise ValueError(f"{scheme}:// takes one HOST:PORT, and no database but 0; redis_prefix parts data sets")
        options = _options(parts.query)
        tls = scheme.startswith("rediss")
        if not tls and (options.keys() & {"ca", "cert", "key"}):
            raise ValueError(f"ca, cert and key are for rediss:// and rediss+sentinel://, not {scheme}://")
        if ("cert" in options) != ("key" in options):
            raise ValueError("cert and key go together")
        if not by_sentinel and (options.keys() & {"sentinel_user", "sentinel_password"}):
            raise ValueError(f"sentinel_user and sentinel_password are for redis+sentinel://, not {scheme}://")
        return cls(hosts, name if by_sentinel else "", tls, unquote(user), unquote(password), **options)

    def connection(self, address: Address, *, sentinel: bool = False) -> redis_asyncio.Connection:
        """Return a connection, not made yet, that never tries again by itself and waits for an answer as long as it
        takes."""
        kind = redis_asyncio.SSLConnection if self.tls else redis_asyncio.Connection
        return kind(**self._arguments(address, sentinel), socket_timeout=None)

    def client(self, address: Address, timeout: float) -> redis_asyncio.Redis:
        """Return a client that never tries again by itself; an answer may take ``timeout`` seconds."""
        return redis_asyncio.Redis(**self._arguments(address, False), ssl=self.tls, socket_timeout=timeout)

    def _arguments(self, address: Address, sentinel: bool) -> dict[str, Any]:
        user, password = (self.sentinel_user, self.sentinel_password) if sentinel else (self.user, self.password)
        arguments: dict[str, Any] = {
            "host": address[0],
            "port": address[1],
            "username": user or None,
            "password": password or None,
            "socket_connect_timeout": CONNECT_SECONDS,
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
            "driver_info": None,  # saves two commands a connection
        }
        if self.tls:
            arguments |= {
                "ssl_ca_certs": self.ca or None,
                "ssl_certfile": self.cert or None,
                "ssl_keyfile": self.key or None,
            }
        return arguments


class Names:
    """Knows which of the addresses that Redis' servers and Sentinels write are the same server.

    Each of them writes another one as it knows it: as it was configured, as it was announced, or as the kernel tells
    it. So all are compared by what they resolve to (``one``), and connected to by what was written (``written``), as a
    certificate is for a name. Names are resolved beside the loop, and only ``learn`` waits, for a name that is new.
    """

    def __init__(self, resolve: Resolve | None = None) -> None:
        self._resolve = resolve or _resolved
        self._loop = asyncio.get_running_loop()
        self._hosts: dict[str, _Host] = {}
        self._servers: dict[Address, float] = {}  # those that something stands for alone, and when they were seen
        self._written: dict[Address, Address] = {}

    async def learn(self, addresses: Iterable[Address]) -> None:
        """Resolve the names among them, those that are known in the background."""
        now = self._loop.time()
        addresses = list(addresses)
        asked = [host for host in (self._ask(host, now) for host in {_spelled(host) for host, _ in addresses}) if host]
        waited = {host.task: host.asked + RESOLVE_SECONDS - now for host in asked if host.found is None and host.task}
        if waited:
            await asyncio.wait(waited, timeout=max(0.0, *waited.values()))
        for address in addresses:
            found = self._found(_spelled(address[0]))
            if len(found) == 1:
                self._servers[found[0], address[1]] = now
        for server in [server for server, seen in self._servers.items() if seen < now - STALE_SECONDS]:
            del self._servers[server]
            self._written.pop(server, None)

    def one(self, address: Address) -> Address:
        """Return the server as it is written in all of its spellings.

        A name of several addresses is that one of them which is known to be a server, or the first of them while none
        is. A name of several servers is none of them, as is one that does not resolve: it equals itself alone.
        """
        host, port = _spelled(address[0]), address[1]
        found = self._found(host)
        if len(found) > 1:
            servers = [one for one in found if (one, port) in self._servers]
            if len(servers) > 1:
                return host, port
            found = servers or found
        return (found[0] if found else host), port

    def note(self, address: Address) -> Address:
        """Return ``one``, and reach it by what is written here from now on, unless it is by a name already."""
        one = self.one(address)
        if not _is_literal(_spelled(address[0])) or self.written(one) == one:
            self._written[one] = address
        return one

    def written(self, one: Address) -> Address:
        """Return by what the server is reached: never by a name that is another one's by now."""
        written = self._written.get(one, one)
        return written if self.one(written) == one else one

    def close(self) -> None:
        """Resolve nothing any more."""
        for host in self._hosts.values():
            if host.task is not None:
                host.task.cancel()

    def _found(self, host: str) -> list[str]:
        """Return the addresses of a host, in order; none while it does not resolve."""
        known = self._hosts.get(host)
        if known is None:
            return [host] if _is_literal(host) else []
        return known.found or [] if self._loop.time() - known.heard < STALE_SECONDS else []

    def _ask(self, name: str, now: float) -> _Host | None:
        if not name or _is_literal(name):
            return None
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = _Host(now)
        if (host.task is None or host.task.done()) and (host.task is None or now - host.asked >= FRESH_SECONDS):
            host.asked = now
            host.task = self._loop.create_task(self._answer(name, host))
        return host

    async def _answer(self, name: str, host: _Host) -> None:
        try:
            found = {_spelled(one) for one in await self._resolve(name)}
        except (OSError, UnicodeError) as error:
            if not host.failed:
                log.warning("%s, which is a name of Redis' servers, does not resolve here: %s", name, error)
            host.failed = True
            host.found = host.found or []
            return
        host.found, host.failed = sorted(found, key=lambda one: (":" in one, one)), False
        host.heard = self._loop.time()


@dataclass(slots=True)
class _Host:
    """A name, and what it resolved to last; None: there was no answer yet."""

    heard: float
    asked: float = 0.0
    found: list[str] | None = None
    failed: bool = False
    task: asyncio.Task[None] | None = None


async def _resolved(name: str) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def _spelled(host: str) -> str:
    """Return a host in the one spelling of all that mean the same without being resolved."""
    text = host.strip("[]")
    try:
        literal = ip_address(text)
    except ValueError:
        return text.lower().rstrip(".")
    if isinstance(literal, IPv6Address) and literal.ipv4_mapped is not None:
        literal = literal.ipv4_mapped
    return str(literal)


def _is_literal(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def shown(address: Address) -> str:
    """Return the address as it is written."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _address(text: str, port: int) -> Address:
    """Read HOST, HOST:PORT or [IPV6]:PORT; raise ValueError."""
    try:
        parts = urlsplit("//" + text)
        found = parts.port
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
    if not parts.hostname or parts.path:
        raise ValueError(f"{text!r} is no HOST:PORT: {_EXAMPLES}")
    return parts.hostname, port if found is None else found


def _options(query: str) -> dict[str, str]:
    """Return the options behind the question mark; raises ValueError."""
    options = {name: value for name, value in parse_qsl(query, keep_blank_values=True) if value}
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        raise ValueError(f"unknown option {', '.join(unknown)} ({', '.join(_OPTIONS)})")
    return options
