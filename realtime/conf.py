"""The REALTIME settings, read with their types and defaults (docs/django.md names every key)."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from entitlement import conf as entitlement_conf

LISTEN = "clients://127.0.0.1:8800,publishers://127.0.0.1:8801"

KEYS = {
    "CONTROL": "path of the sidecar's control socket",
    "CONTROL_SECONDS": "how long to wait for an answer there, in seconds",
    "LISTEN": "where the sidecar listens, as FASTPATH_LISTEN",
    "CLIENT_URLS": "WebSocket addresses for pages, in the order to try; {host} and {web} are filled in",
    "RELAY_URL": "the sidecar's client port as the web application reaches it",
    "TOKEN_SECRET": "HS256 secret of the tokens",
    "TOKEN_SECONDS": "how long a token is valid, in seconds",
    "TOKEN_SECONDS_MAX": "the longest validity that can be asked for, in seconds",
}
"""Every key and what it says; checks.py refuses others."""


class Conf:
    """REALTIME as attributes; each is read when asked for, so that overridden settings count."""

    @property
    def control(self) -> str:
        """Path of the control socket; raises ImproperlyConfigured without one."""
        return entitlement_conf.control_path()

    @property
    def control_seconds(self) -> float:
        """How long publish() and the pages wait for the control socket."""
        return float(_read("CONTROL_SECONDS", 5.0))

    @property
    def listen(self) -> str:
        """Where the sidecar listens; FASTPATH_LISTEN of the environment wins."""
        return os.environ.get("FASTPATH_LISTEN") or str(_read("LISTEN", LISTEN))

    @property
    def token_secret(self) -> str:
        """The secret that Django signs and the sidecar verifies with."""
        return entitlement_conf.token_secret()

    @property
    def clients(self) -> str:
        """``HOST:PORT`` of the first plain client port, as this machine reaches it; empty if there is none."""
        return local_address(self.listen, "clients")

    @property
    def publishers(self) -> str:
        """``HOST:PORT`` of the first plain publisher port, as this machine reaches it; empty if there is none."""
        return local_address(self.listen, "publishers")

    @property
    def relay_url(self) -> str:
        """The address that /ws of the web port is relayed to."""
        return str(_read("RELAY_URL", f"ws://{self.clients}/ws" if self.clients else ""))

    def client_urls(self, host: str, secure: bool) -> list[str]:
        """WebSocket addresses for a page that was asked for as ``host``: the sidecar's own port, then the relay."""
        name = urlsplit(f"//{host}").hostname or "localhost"
        name = f"[{name}]" if ":" in name else name
        web = f"{'wss' if secure else 'ws'}://{host}/ws"
        default = [f"ws://{{host}}:{port}/ws" for port in _page_ports(self.listen)]
        # A page that came over TLS may not open a plain WebSocket: browsers refuse it.
        urls = _read("CLIENT_URLS", (default if not secure else []) + ["{web}"])
        return [str(url).replace("{host}", name).replace("{web}", web) for url in urls]


conf = Conf()


def local_address(listen: str, purpose: str) -> str:
    """``HOST:PORT`` of the first plain listener with the purpose, as this machine reaches it; empty if none."""
    for scheme, host, port in _listeners(listen):
        if purpose in scheme and "tls" not in scheme:
            return f"{'127.0.0.1' if host in ('*', '0.0.0.0', '::') else host}:{port}"
    return ""


def _page_ports(listen: str) -> list[int]:
    return [port for scheme, _, port in _listeners(listen) if "clients" in scheme and "tls" not in scheme][:1]


def _listeners(listen: str) -> list[tuple[list[str], str, int]]:
    """(purposes, host, port) of each address; the sidecar itself says what is wrong with a malformed one."""
    found = []
    for url in listen.split(","):
        parts = urlsplit(url.strip())
        host, _, port = parts.netloc.rpartition(":")
        if port.isdigit():
            found.append((parts.scheme.split("+"), host, int(port)))
    return found


def _read(name: str, default: Any) -> Any:
    value = getattr(settings, "REALTIME", {}).get(name)
    return default if value is None else value
