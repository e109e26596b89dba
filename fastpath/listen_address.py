"""One address to listen on, and all that may be said of it (docs/operate/ports.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

PURPOSES = ("clients", "publishers", "control", "metrics", "mqtt")
BATCH_BYTES = 16 << 10
"""Bytes that a listener with batch_ms alone collects at most for a group of clients."""

BATCH_MS = 100
"""Milliseconds that a listener with batch_bytes alone collects at most: a tick of the grid that conflation has, too."""

UNIX_MODE = 0o600
"""Permissions of a unix socket that names none: for the sidecar's own user alone."""

UNIX_PATH_BYTES_MAX = 100
"""Bytes of a unix socket's path at most: there is room for little more (108 with its end, on Linux)."""

PROXY_VERSIONS = ("v1", "v2")
"""Versions of the proxy protocol; an address speaks one of them, so that there is nothing to guess."""

_NUMBERS = {"deflate": (1, 1 << 30), "batch_ms": (1, 10_000), "batch_bytes": (1, 1 << 20)}
_OF_TLS = ("cert", "key", "tls_min", "ciphers", "ciphers_exclude", "curve", "ca")
_OPTIONS = (*_OF_TLS, "proxy", "mode", *_NUMBERS)
_ALONE = {"control", "metrics"}
"""Purposes that have an address of their own."""


class SettingsError(ValueError):
    """A setting that cannot be used; the text names it and says what to do."""


@dataclass(frozen=True, slots=True)
class Listener:
    """One address to listen on, from an URL such as ``clients+tls://*:8843?cert=/p/c.pem&key=/p/k.pem``.

    ``path`` is that of a unix socket, with the bits ``mode``; it has no ``host`` and ``port``. ``tls_min`` is 1.2 or
    1.3; every connection begins with a header of the proxy protocol of the version ``proxy``, v1 or v2, unless that is
    empty.
    """

    purposes: frozenset[str]
    host: str
    port: int
    cert: str = ""
    key: str = ""
    tls_min: str = "1.2"
    ciphers: str = ""
    ciphers_exclude: str = ""
    curve: str = ""
    ca: str = ""
    proxy: str = ""
    path: str = ""
    mode: int = UNIX_MODE
    deflate: int = 0
    batch_ms: int = 0
    batch_bytes: int = BATCH_BYTES

    @property
    def tls(self) -> bool:
        """State of TLS: True where the listener speaks it."""
        return bool(self.cert)

    @property
    def where(self) -> str:
        """The address for people: HOST:PORT or the path."""
        return self.path or (f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}")

    @classmethod
    def parse(cls, url: str) -> Listener:
        """Read an address; raise SettingsError. The port defaults to 80, and to 443 with TLS; of MQTT to 1883 and
        8883."""
        try:
            parts = urlsplit(url.strip())
        except ValueError as error:  # such as an IPv6 address without its end
            raise SettingsError(f"{url!r}: {error}") from None
        words = parts.scheme.split("+")
        tls, unix = "tls" in words, "unix" in words
        purposes = frozenset(word for word in words if word not in ("tls", "unix"))
        if not purposes or not purposes <= set(PURPOSES):
            raise SettingsError(
                f"{url!r}: the scheme is made of {', '.join(PURPOSES)}, joined by +, "
                "with +tls for TLS or +unix for a unix socket: clients://127.0.0.1:8800"
            )
        options = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        unknown = set(options) - set(_OPTIONS)
        if unknown:
            raise SettingsError(f"{url!r}: unknown option {', '.join(sorted(unknown))} ({', '.join(_OPTIONS)})")
        if tls != bool(options.get("cert")):
            raise SettingsError(f"{url!r}: +tls and ?cert=/path/to/chain.pem&key=… go together")
        if "control" in purposes and (len(purposes) > 1 or not options.get("ca")):
            raise SettingsError(
                f"{url!r}: control has an address of its own, with ?ca=FILE: the authority of those who may connect"
            )
        if "mqtt" in purposes and len(purposes) > 1:
            raise SettingsError(f"{url!r}: mqtt has an address of its own")
        if purposes & _ALONE and len(purposes) > 1:
            raise SettingsError(f"{url!r}: metrics have an address of their own")
        host, port, path = _place(url, parts, tls, unix)
        return cls(
            purposes,
            host,
            port,
            **_tls(url, tls, options),
            proxy=_proxy(url, purposes, options),
            path=path,
            mode=_mode(url, unix, options),
            **_numbers(url, purposes, options),
        )


def _place(url: str, parts: SplitResult, tls: bool, unix: bool) -> tuple[str, int, str]:
    """Return host, port and path; raise SettingsError."""
    if unix:
        path = unquote(parts.path)
        if tls or parts.netloc or not path.strip("/") or len(path.encode()) > UNIX_PATH_BYTES_MAX:
            raise SettingsError(
                f"{url!r}: a unix socket has a path of at most {UNIX_PATH_BYTES_MAX} bytes, and no TLS: "
                "clients+unix:///run/fastpath/clients.sock"
            )
        return "", 0, path
    try:
        port = parts.port if parts.port is not None else _default_port(parts.scheme, tls)
    except ValueError as error:
        raise SettingsError(f"{url!r}: {error}") from None
    if parts.path.strip("/") or "@" in parts.netloc:
        raise SettingsError(f"{url!r}: after the scheme come only HOST:PORT and ?options")
    host = parts.netloc
    host = host[: host.rindex("]") + 1].strip("[]") if "]" in host else host.partition(":")[0]
    if not host:
        raise SettingsError(f"{url!r}: an address is missing; * is all addresses")
    return host, port, ""


def _default_port(scheme: str, tls: bool) -> int:
    if "mqtt" in scheme.split("+"):
        return 8883 if tls else 1883
    return 443 if tls else 80


def _tls(url: str, tls: bool, options: dict[str, str]) -> dict[str, Any]:
    """Return the options of TLS that are given; raise SettingsError."""
    given = {name: options[name] for name in _OF_TLS if options.get(name)}
    if given and not tls:
        raise SettingsError(f"{url!r}: {', '.join(given)} is for +tls")
    if given.get("tls_min", "1.2") not in ("1.2", "1.3"):
        raise SettingsError(f"{url!r}: tls_min is 1.2 or 1.3")
    return given


def _proxy(url: str, purposes: frozenset[str], options: dict[str, str]) -> str:
    """Return the version of the proxy's header that connections begin with; raise SettingsError."""
    given = options.get("proxy", "")
    if given not in ("", *PROXY_VERSIONS):
        raise SettingsError(f"{url!r}: proxy is the version of the proxy protocol, {' or '.join(PROXY_VERSIONS)}")
    if given and purposes & _ALONE:
        raise SettingsError(f"{url!r}: proxy is for listeners of clients and publishers")
    return given


def _mode(url: str, unix: bool, options: dict[str, str]) -> int:
    """Return the permissions of a unix socket; raise SettingsError."""
    text = options.get("mode", "")
    if not text:
        return UNIX_MODE
    if not unix or len(text) not in (3, 4) or not set(text) <= set("01234567") or int(text, 8) > 0o777:
        raise SettingsError(f"{url!r}: mode is for a unix socket, three octal digits such as 660")
    return int(text, 8)


def _numbers(url: str, purposes: frozenset[str], options: dict[str, str]) -> dict[str, Any]:
    """Return the options that are whole numbers; raise SettingsError."""
    numbers: dict[str, int] = {}
    for name, (least, most) in _NUMBERS.items():
        if name not in options:
            continue
        text = options[name]
        if not text.isdecimal() or len(text) > 10 or not least <= int(text) <= most:
            raise SettingsError(f"{url!r}: {name}={text} is no whole number from {least} to {most}")
        if purposes.isdisjoint(("clients", "mqtt")) or (name == "deflate" and "clients" not in purposes):
            raise SettingsError(f"{url!r}: {name} is for a listener of clients")
        numbers[name] = int(text)
    if "batch_bytes" in numbers:
        numbers.setdefault("batch_ms", BATCH_MS)
    return numbers
