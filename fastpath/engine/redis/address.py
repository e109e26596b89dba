"""Where Redis is and how to log in there: one address, or the Sentinels that know it."""

from __future__ import annotations

from dataclasses import dataclass, field
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
"""Until a connection is made, TLS and login included; a server that takes longer is asked again."""

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
        """Raises ValueError with a text that names no password."""
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
        """A connection, not made yet, that never tries again by itself and waits for an answer as long as it takes."""
        kind = redis_asyncio.SSLConnection if self.tls else redis_asyncio.Connection
        return kind(**self._arguments(address, sentinel), socket_timeout=None)

    def client(self, address: Address, timeout: float) -> redis_asyncio.Redis:
        """A client that never tries again by itself; an answer may take ``timeout`` seconds."""
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


def shown(address: Address) -> str:
    """The address as it is written."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _address(text: str, port: int) -> Address:
    """HOST, HOST:PORT or [IPV6]:PORT; raises ValueError."""
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
