"""One address to listen on, and all that may be said of it (docs/operations.md)."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

PURPOSES = ("clients", "publishers", "control")
BATCH_BYTES = 16 << 10
"""What a listener with batch_ms collects at most for a group of clients."""

_NUMBERS = {"deflate": (1, 1 << 30), "batch_ms": (1, 10_000), "batch_bytes": (1, 1 << 20)}
_OPTIONS = ("cert", "key", "ciphers", "ca", *_NUMBERS)


class SettingsError(ValueError):
    """A setting that cannot be used; the text names it and says what to do."""


@dataclass(frozen=True, slots=True)
class Listener:
    """One address to listen on, from an URL such as ``clients+tls://*:8843?cert=/p/c.pem&key=/p/k.pem``."""

    purposes: frozenset[str]
    host: str
    port: int
    cert: str = ""
    key: str = ""
    ciphers: str = ""
    ca: str = ""
    deflate: int = 0
    batch_ms: int = 0
    batch_bytes: int = BATCH_BYTES

    @property
    def tls(self) -> bool:
        """Whether the listener speaks TLS."""
        return bool(self.cert)

    @classmethod
    def parse(cls, url: str) -> Listener:
        """Raises SettingsError; the port defaults to 80, and to 443 with TLS."""
        try:
            parts = urlsplit(url.strip())
        except ValueError as error:  # such as an IPv6 address without its end
            raise SettingsError(f"{url!r}: {error}") from None
        words = parts.scheme.split("+")
        tls = "tls" in words
        purposes = frozenset(word for word in words if word != "tls")
        if not purposes or not purposes <= set(PURPOSES):
            raise SettingsError(
                f"{url!r}: the scheme is made of {' and '.join(PURPOSES)}, joined by +, "
                "with +tls for TLS: clients://127.0.0.1:8800"
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
        try:
            port = parts.port if parts.port is not None else (443 if tls else 80)
        except ValueError as error:
            raise SettingsError(f"{url!r}: {error}") from None
        if parts.path.strip("/") or "@" in parts.netloc:
            raise SettingsError(f"{url!r}: after the scheme come only HOST:PORT and ?options")
        host = parts.netloc
        host = host[: host.rindex("]") + 1].strip("[]") if "]" in host else host.partition(":")[0]
        if not host:
            raise SettingsError(f"{url!r}: an address is missing; * is all addresses")
        return cls(
            purposes,
            host,
            port,
            options.get("cert", ""),
            options.get("key", ""),
            options.get("ciphers", ""),
            options.get("ca", ""),
            **_numbers(url, purposes, options),
        )


def _numbers(url: str, purposes: frozenset[str], options: dict[str, str]) -> dict[str, int]:
    """The options that are whole numbers; raises SettingsError."""
    numbers: dict[str, int] = {}
    for name, (least, most) in _NUMBERS.items():
        if name not in options:
            continue
        text = options[name]
        if not text.isdecimal() or len(text) > 10 or not least <= int(text) <= most:
            raise SettingsError(f"{url!r}: {name}={text} is no whole number from {least} to {most}")
        if "clients" not in purposes:
            raise SettingsError(f"{url!r}: {name} is for a listener of clients")
        numbers[name] = int(text)
    if "batch_bytes" in numbers and not numbers.get("batch_ms"):
        raise SettingsError(f"{url!r}: batch_bytes goes with batch_ms: collect so long, or until so many bytes wait")
    return numbers
