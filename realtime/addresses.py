"""Addresses that parts of Django listen on by themselves: SCHEME://HOST:PORT?option=value."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from django.core.exceptions import ImproperlyConfigured


class Address(NamedTuple):
    """Address to listen on; ``cert`` and ``key`` are files in PEM form, both empty without TLS.

    ``name`` is what clients call this machine, where that is not ``host``; a host of ``*`` is all addresses.
    """

    host: str
    port: int
    cert: str = ""
    key: str = ""
    name: str = ""

    @property
    def shown_host(self) -> str:
        """The host as a part of an URL for somebody on this machine."""
        host = self.name or {"*": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"[{host}]" if ":" in host else host

    def url(self, path: str) -> str:
        """Return the address of a page here over HTTP."""
        return f"http{'s' if self.cert else ''}://{self.shown_host}:{self.port}{path}"

    @property
    def mbeans(self) -> str:
        """Address that a JMX client is given."""
        return f"service:jmx:rmi:///jndi/rmi://{self.shown_host}:{self.port}/jmxrmi"


def parse(setting: str, url: str, plain: str, secure: str, *options: str) -> Address:
    """Return the address that REALTIME[setting] gives; ``plain`` and ``secure`` are its schemes. Raise
    ImproperlyConfigured."""
    where = f'REALTIME["{setting}"]: {url!r}'
    try:
        parts = urlsplit(url)
        port = parts.port
        given = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError as error:
        raise ImproperlyConfigured(f"{where}: {error}") from None
    if parts.scheme not in (plain, secure) or not parts.hostname or port is None or parts.path.strip("/"):
        raise ImproperlyConfigured(
            f"{where} is neither {plain}://HOST:PORT nor {secure}://HOST:PORT?cert=FILE&key=FILE"
        )
    if "@" in parts.netloc:
        raise ImproperlyConfigured(f'REALTIME["{setting}"]: the password has a setting of its own')
    if unknown := sorted(set(given) - {"cert", "key", *options}):
        raise ImproperlyConfigured(f"{where}: unknown option {unknown[0]}")
    cert, key = given.get("cert", ""), given.get("key", "")
    if {bool(cert), bool(key)} != {parts.scheme == secure}:
        raise ImproperlyConfigured(f"{where}: {secure} and ?cert=FILE&key=FILE go together")
    return Address(parts.hostname, port, cert, key, given.get("name", ""))
