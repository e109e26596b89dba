"""The REALTIME settings, read with their types and defaults (docs/develop/django.md names every key)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS

from entitlement import conf as entitlement_conf
from entitlement import keys
from fastpath.client.control.nodes import SILENT_MAX
from fastpath.core.protocol.limits import Limits
from realtime import addresses
from realtime.addresses import Address

LISTEN = "clients://127.0.0.1:8800,publishers://127.0.0.1:8801,mqtt://127.0.0.1:1883"

FEED = "spark"
"""The user that jobs publish for where none is named; ``realtime_demo`` makes it."""

FORWARDED_MAX = 400
"""Each takes two descriptors of a process, which has 1024 where nobody has said otherwise."""

CONTROL_SECONDS = 8.0
"""More than a node that waits for Redis takes to say so: 5 s, and two attempts of 1.5 s each around them."""

PUBLISH_SECONDS_MAX = 300
"""Seconds that a caller may wait at most: a longer wait is better served by a queue of tasks."""

OUTBOX_ROWS_MAX = 1_000_000
"""A row takes as much of the disk as its message and some hundred bytes."""

WEIGHT_MAX = 100
"""The weight of a server that says none; one of weight 0 is tried when no other is left."""

KEYS = {
    "BASE_TEMPLATE": "template that the console and the monitoring pages extend: the project's, or realtime/base.html",
    "CONTROL": "control socket of the sidecar, or a list of those of several nodes: paths and tls:// addresses",
    "CONTROL_SECONDS": "how long to wait for an answer there, in seconds",
    "PUBLISH_SECONDS": "how long a call of publish() may take, in seconds",
    "BACKEND": "where publish() sends: sidecar, memory (its core in this process) or dummy, as by itself in test runs",
    "ON_FAILURE": "what publish() does when no sidecar takes a message: log, raise, or call: not after a commit",
    "OUTBOX": "publish() writes rows that realtime_outbox sends: True, or the database they are in",
    "OUTBOX_ROWS_MAX": "how many rows of the outbox may wait",
    "TRACING": "whether publish() is a span of the project's own OpenTelemetry: True or False",
    "LISTEN": "where the sidecar listens, as FASTPATH_LISTEN",
    "PUBLISHERS": "publisher ports of all nodes for Spark jobs, HOST:PORT or tls://HOST:PORT with commas",
    "SERVERS": "WebSocket addresses for clients, each with its weight; {host} and {web} are filled in",
    "HOOK": "dotted path of the class that decides who may connect, read and publish (docs/develop/hooks.md)",
    "LISTENERS": "dotted paths of the classes that are told what happens in the sidecar (docs/operate/audit.md)",
    "AUDIT_FOLDER": "folder of the audit's files, for runrealtime and `manage.py audit`",
    "DATA": "folder of the sidecar's journal, for runrealtime",
    "STATS_DATABASE": "database of DATABASES for the statistics; unset: a file of their own beside one of SQLite",
    "STATS_LISTEN": "an address for the statistics alone, http://HOST:PORT or https://HOST:PORT?cert=FILE&key=FILE",
    "STATS_PASSWORD": "what is to be given there; empty: nothing",
    "JMX": "where the figures are served as MBeans, jmx://HOST:PORT or jmx+tls://HOST:PORT?cert=FILE&key=FILE",
    "JMX_PASSWORD": "what is to be given there; empty: nothing",
    "RELAY_URL": "the sidecar's client port as the web application reaches it",
    "RUNSERVER": "whether `manage.py runserver` brings the sidecar and /ws up: True or False",
    "FORWARDED_MAX": "how many HTTP requests, streams among them, a web process forwards at a time",
    "TOKEN_SECRET": "HS256 secret of the tokens",
    "TOKEN_KEYS": "path of a JWK set with the private keys that sign the tokens, made by realtime_keys",
    "TOKEN_AUTHENTICATORS": "dotted paths of the REST framework's authenticators that POST /realtime/token/ takes",
    "PROVIDER": "which claims of an identity provider's tokens are the user and the groups, for ProviderAuthentication",
    "PERMISSIONS": "function, or its dotted path, that gives a user rights beside the rules, in each token",
    "TOKEN_SECONDS": "how long a token is valid, in seconds",
    "TOKEN_SECONDS_MAX": "the longest validity that can be asked for, in seconds",
}
"""Every key and what it says; checks.py refuses others."""


BACKENDS = ("sidecar", "memory", "dummy")
ON_FAILURE = ("log", "call", "raise")


class Server(NamedTuple):
    """An address where clients may connect; ``control`` is the control address of the node behind it, empty: not
    known."""

    url: str
    weight: int
    control: str


class Conf:
    """REALTIME as attributes; each is read when asked for, so that overridden settings count."""

    @property
    def controls(self) -> list[str]:
        """The nodes' control sockets, at least one; raises ImproperlyConfigured without any."""
        return entitlement_conf.control_addresses()

    @property
    def own_control(self) -> str:
        """The path of the sidecar that runrealtime starts: the first that is one; raises ImproperlyConfigured."""
        for address in self.controls:
            if "://" not in address:
                return address
        raise ImproperlyConfigured('REALTIME["CONTROL"] names no path: runrealtime has no sidecar to start.')

    @property
    def base_template(self) -> str:
        """Name of the template that the console and the monitoring pages extend."""
        return str(_read("BASE_TEMPLATE", "realtime/base.html"))

    @property
    def control_seconds(self) -> float:
        """Seconds that publish() and the pages wait for the control socket."""
        return float(_read("CONTROL_SECONDS", CONTROL_SECONDS))

    @property
    def publish_seconds(self) -> float:
        """Seconds that a call of publish() may take; unset: CONTROL_SECONDS for each of two nodes. Raises
        ImproperlyConfigured."""
        given = _read("PUBLISH_SECONDS", None)
        if given is None:
            nodes = _read("CONTROL", ())
            return self.control_seconds * (min(len(nodes), SILENT_MAX) or 1 if isinstance(nodes, list | tuple) else 1)
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= PUBLISH_SECONDS_MAX:
            raise ImproperlyConfigured(
                f'REALTIME["PUBLISH_SECONDS"] is a number above 0 and at most {PUBLISH_SECONDS_MAX}, not {given!r}.'
            )
        return float(given)

    @property
    def backend(self) -> str:
        """``sidecar``, ``memory`` or ``dummy``; unset: dummy in Django's test environment. ImproperlyConfigured."""
        return _one_of("BACKEND", BACKENDS, "dummy" if _in_test_run() else "sidecar")

    @property
    def on_failure(self) -> str:
        """``log``, ``raise``, or ``call``: raise at the call, log at the commit. Raises ImproperlyConfigured."""
        return _one_of("ON_FAILURE", ON_FAILURE, "log")

    @property
    def tracing(self) -> bool:
        """Setting of tracing: True where publish() is a span, whose context goes with the message."""
        return bool(_read("TRACING", False))

    @property
    def runserver(self) -> bool:
        """Setting of the command: True where `manage.py runserver` is ours."""
        return bool(_read("RUNSERVER", True))

    @property
    def outbox(self) -> str:
        """The alias of the database that publish() writes rows to; empty: there is none. Raises ImproperlyConfigured.

        A backend of tests takes messages itself.
        """
        given = _read("OUTBOX", False)
        alias = DEFAULT_DB_ALIAS if given is True else given or ""
        if alias and (not isinstance(alias, str) or alias not in settings.DATABASES):
            known = ", ".join(map(repr, settings.DATABASES))
            raise ImproperlyConfigured(f'REALTIME["OUTBOX"] is True, False or a database ({known}), not {given!r}.')
        return alias if alias and self.backend == "sidecar" else ""

    @property
    def logs_full_outbox(self) -> bool:
        """Setting of failures: True where the settings say "log" themselves; else a row that a transaction was promised
        is raised."""
        return self.on_failure == "log" and bool(_read("ON_FAILURE", ""))

    @property
    def outbox_rows_max(self) -> int:
        """Number of rows of the outbox that may wait, those that were set aside among them. Raises
        ImproperlyConfigured."""
        most = _read("OUTBOX_ROWS_MAX", OUTBOX_ROWS_MAX)
        if type(most) is not int or most < 1:
            raise ImproperlyConfigured('REALTIME["OUTBOX_ROWS_MAX"] is a whole number from 1 on.')
        return most

    @property
    def message_bytes_max(self) -> int:
        """Bytes of a message at most for a sidecar that was not asked, as FASTPATH_MESSAGE_BYTES_MAX."""
        return int(os.environ.get("FASTPATH_MESSAGE_BYTES_MAX") or Limits().message_bytes_max)

    @property
    def listen(self) -> str:
        """Addresses at which the sidecar listens; FASTPATH_LISTEN of the environment wins."""
        return os.environ.get("FASTPATH_LISTEN") or str(_read("LISTEN", LISTEN))

    @property
    def token_secret(self) -> str:
        """The secret that the sidecar verifies with; empty where only keys sign."""
        return entitlement_conf.sidecar_secret()

    @property
    def token_keys(self) -> str:
        """The file of public keys that the sidecar verifies with, brought up to date; empty: there are none."""
        return keys.export() if entitlement_conf.token_keys() else ""

    @property
    def token_authenticators(self) -> list[Any] | None:
        """Dotted paths of those who say who asks for a token; None: unset. Raises ImproperlyConfigured."""
        given = _read("TOKEN_AUTHENTICATORS", None)
        if given is not None and not isinstance(given, list | tuple):
            raise ImproperlyConfigured('REALTIME["TOKEN_AUTHENTICATORS"] is a list of dotted paths.')
        return None if given is None else list(given)

    @property
    def provider(self) -> Any:
        """The identity provider, as realtime.provider reads it; None: there is none."""
        return _read("PROVIDER", None)

    @property
    def clients(self) -> str:
        """``HOST:PORT`` of the first plain client port, as this machine reaches it; empty if there is none."""
        return local_address(self.listen, "clients")

    @property
    def publishers(self) -> str:
        """``HOST:PORT`` of the first plain publisher port, as this machine reaches it; empty if there is none."""
        return local_address(self.listen, "publishers")

    @property
    def publish_url(self) -> str:
        """The publisher ports that jobs are told; without the setting this machine's. Empty: there is none."""
        return str(_read("PUBLISHERS", "")) or self.publishers

    @property
    def relay_url(self) -> str:
        """The address that /ws of the web port is relayed to; what is forwarded over HTTP goes to the same port."""
        return str(_read("RELAY_URL", f"ws://{self.clients}/ws" if self.clients else ""))

    @property
    def forwarded_max(self) -> int:
        """Number of HTTP requests, streams among them, that a web process forwards at a time. Raises
        ImproperlyConfigured."""
        most = _read("FORWARDED_MAX", FORWARDED_MAX)
        if type(most) is not int or most < 1:
            raise ImproperlyConfigured('REALTIME["FORWARDED_MAX"] is a whole number from 1 on.')
        return most

    @property
    def data(self) -> str:
        """The folder of the sidecar's journal; FASTPATH_DATA of the environment wins. Empty: none."""
        base = getattr(settings, "BASE_DIR", None)
        default = Path(base) / "var" / "fastpath" if base else ""
        return os.environ.get("FASTPATH_DATA") or str(_read("DATA", default))

    @property
    def hook(self) -> str:
        """The dotted path of the hook's class; empty: there is none."""
        return str(_read("HOOK", ""))

    @property
    def listeners(self) -> list[str]:
        """The dotted paths of the listeners' classes."""
        return list(_read("LISTENERS", ()))

    @property
    def stats_database(self) -> str:
        """The alias of the database that the statistics are in; empty: the rules of realtime.stats.database say.

        Raises ImproperlyConfigured.
        """
        alias = _read("STATS_DATABASE", "")
        if not isinstance(alias, str) or (alias and alias not in settings.DATABASES):
            known = ", ".join(map(repr, settings.DATABASES))
            raise ImproperlyConfigured(f'REALTIME["STATS_DATABASE"] is a database ({known}), not {alias!r}.')
        return alias

    @property
    def is_test_run(self) -> bool:
        """State of this process: True where a test runner has set up its environment."""
        return _in_test_run()

    @property
    def stats_listen(self) -> Address | None:
        """The address for the statistics alone; None: there is none. Raises ImproperlyConfigured."""
        url = str(_read("STATS_LISTEN", ""))
        return addresses.parse("STATS_LISTEN", url, "http", "https") if url else None

    @property
    def stats_password(self) -> str:
        """Password of the statistics' address; empty: none."""
        return str(_read("STATS_PASSWORD", ""))

    @property
    def jmx(self) -> Address | None:
        """Address where the figures are served as MBeans; None: nowhere. Raises ImproperlyConfigured."""
        url = str(_read("JMX", ""))
        return addresses.parse("JMX", url, "jmx", "jmx+tls", "name") if url else None

    @property
    def jmx_password(self) -> str:
        """Password of the MBeans' address; empty: none."""
        return str(_read("JMX_PASSWORD", ""))

    @property
    def audit_folder(self) -> str:
        """The folder of the audit's files; FASTPATH_AUDIT_FOLDER of the environment wins. Empty: none."""
        base = getattr(settings, "BASE_DIR", None)
        default = Path(base) / "var" / "audit" if base else ""
        return os.environ.get("FASTPATH_AUDIT_FOLDER") or str(_read("AUDIT_FOLDER", default))

    def servers(self, host: str = "", secure: bool = False, prefix: str = "", has_relay: bool = True) -> list[Server]:
        """Return where the clients of a page that was asked for as ``host`` may connect.

        ``prefix`` is that of the project's addresses (SCRIPT_NAME), such as ``/app``. A process that has no relay
        (``has_relay``) tells of none where clients may open the sidecar's port. Over TLS clients may not open that
        port, and what is left is /ws of the site: the proxy in front, which has the certificate, may send that to the
        sidecar. Without a host those that depend on it are left out. Raises ImproperlyConfigured for a list that makes
        no sense.
        """
        # A page that came over TLS may not open a plain WebSocket: browsers refuse it.
        ports = [] if secure else _page_ports(self.listen)
        own = [{"url": f"ws://{{host}}:{port}/ws", "control": self.controls[0]} for port in ports]
        relay = [{"url": "{web}", "weight": 0 if own else WEIGHT_MAX}] if has_relay or not own else []
        given = _read("SERVERS", [*own, *relay])
        name = urlsplit(f"//{host}").hostname or "localhost"
        name = f"[{name}]" if ":" in name else name
        web = f"{'wss' if secure else 'ws'}://{host}{prefix}/ws"
        found = []
        for server in map(_server, given):
            url = server.url.replace("{host}", name).replace("{web}", web)
            if host or url == server.url:
                found.append(server._replace(url=url))
        return found


conf = Conf()


def local_address(listen: str, purpose: str) -> str:
    """Return ``HOST:PORT`` of the first plain listener with the purpose, as this machine reaches it; empty if none."""
    for scheme, host, port in _listeners(listen):
        if purpose in scheme and "tls" not in scheme:
            return f"{'127.0.0.1' if host in ('*', '0.0.0.0', '::') else host}:{port}"
    return ""


def _server(given: Any) -> Server:
    """Return an entry of SERVERS; raise ImproperlyConfigured with what is wrong."""
    entry = {"url": given} if isinstance(given, str) else given
    if not isinstance(entry, dict) or not entry.get("url") or set(entry) - {"url", "weight", "control"}:
        raise ImproperlyConfigured(f'REALTIME["SERVERS"]: {given!r} is no {{"url", "weight", "control"}}.')
    server = Server(str(entry["url"]), entry.get("weight", WEIGHT_MAX), str(entry.get("control") or ""))
    if type(server.weight) is not int or not 0 <= server.weight <= WEIGHT_MAX:
        raise ImproperlyConfigured(f'REALTIME["SERVERS"]: the weight of {server.url} is no whole number from 0 to 100.')
    if server.control and server.control not in entitlement_conf.control_addresses():
        raise ImproperlyConfigured(
            f'REALTIME["SERVERS"]: the control address of {server.url} is none of REALTIME["CONTROL"].'
        )
    return server


def _page_ports(listen: str) -> list[int]:
    return [port for scheme, _, port in _listeners(listen) if "clients" in scheme and "tls" not in scheme][:1]


def _listeners(listen: str) -> list[tuple[list[str], str, int]]:
    """Return (purposes, host, port) of each address; the sidecar itself says what is wrong with a malformed one."""
    found = []
    for url in listen.split(","):
        parts = urlsplit(url.strip())
        host, _, port = parts.netloc.rpartition(":")
        if port.isdigit() and "proxy=v2" not in parts.query:  # there comes who has a proxy before it
            found.append((parts.scheme.split("+"), host, int(port)))
    return found


def _in_test_run() -> bool:
    """Return True between setup_test_environment() and its teardown, which the test runners of Django and of pytest
    call.

    ``mail.outbox`` would not tell: the e-mail backend ``locmem`` makes it in any process that sends a mail with it.
    """
    state = getattr(sys.modules.get("django.test.utils"), "_TestState", None)
    return hasattr(state, "saved_data")


def _one_of(name: str, values: tuple[str, ...], default: str) -> str:
    value = _read(name, default)
    if value not in values:
        raise ImproperlyConfigured(f'REALTIME["{name}"] is one of {", ".join(filter(None, values))}, not {value!r}.')
    return str(value)


def _read(name: str, default: Any) -> Any:
    value = entitlement_conf.given().get(name)
    return default if value is None else value
