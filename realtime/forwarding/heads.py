"""Which requests are forwarded, and their heads: what the sidecar is told, and what is told of its answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from django.conf import settings
from django.http.request import split_domain_port, validate_host
from django.urls import NoReverseMatch, reverse

from fastpath.core.protocol.codec import JSON
from fastpath.core.protocol.openapi import SCHEMA_PATH
from fastpath.core.protocol.rest import encode_body, problem

SNAPSHOT = "/snapshot"

_CALLS = ("publish", "history", "presence", "request", "disconnect", "unsubscribe")

SHORT = frozenset({SNAPSHOT, SCHEMA_PATH} | {f"/api/{name}" for name in _CALLS})
"""Paths that are answered soon, so that any web server can forward them."""

STREAMS = frozenset({"/events"})
SESSIONS = "/session/"
"""Beginning of the paths that are answered for as long as the caller stays: only an ASGI application forwards them."""

RETRY_SECONDS = 1
"""Seconds after which a caller may ask again what could not be forwarded."""

PROBLEM_TYPE = "application/problem+json"

_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer"}
    | {"transfer-encoding", "upgrade"}
)
"""RFC 9110 7.6.1: for the next hop alone."""

_KEPT_HERE = _HOP_BY_HOP | {"cookie", "expect", "x-forwarded-for"}
"""Headers of a request that are not forwarded: cookies are Django's, and what was expected has been answered."""

_QUERY_SAFE = "%/:?[]@!$&'()*+,;="
"""A '#' cannot be part of an address that is sent; the other characters of RFC 3986 stay as they are."""

_PHRASES = {
    400: "Bad Request",
    413: "Content Too Large",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}

Header = tuple[str, str]


class Target(NamedTuple):
    """The sidecar's client port, where requests are forwarded to."""

    host: str
    port: int
    is_secure: bool
    prefix: str

    @classmethod
    def parse(cls, relay_url: str) -> Target | None:
        """Return the target for a relay's address such as ``ws://127.0.0.1:8800/ws``; None without one."""
        parts = urlsplit(relay_url)
        if not parts.hostname:
            return None
        is_secure = parts.scheme in ("wss", "https")
        return cls(parts.hostname, parts.port or (443 if is_secure else 80), is_secure, parts.path.removesuffix("/ws"))


class Problem(NamedTuple):
    """An error of the web port's own, as the sidecar tells its errors (RFC 9457)."""

    status: int
    detail: str

    @property
    def body(self) -> bytes:
        """The document."""
        return encode_body(problem(self.status, _PHRASES[self.status], self.detail), JSON)

    @property
    def headers(self) -> list[Header]:
        """Headers of the problem, with when to ask again where that helps."""
        headers = [
            ("Content-Type", PROBLEM_TYPE),
            ("Content-Length", str(len(self.body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
        ]
        return [*headers, ("Retry-After", str(RETRY_SECONDS))] if self.status in (502, 503, 504) else headers


AWAY = Problem(503, "The sidecar is not running, or not reached by the web server (`manage.py runrealtime`); retry.")
FULL = Problem(503, 'This web server forwards as many requests as it may (REALTIME["FORWARDED_MAX"]); retry.')
BROKEN = Problem(502, "The sidecar went away before its answer was whole; retry.")
LATE = Problem(504, "The sidecar has not answered in time; retry.")
STRANGE_HOST = Problem(400, "The Host header names none of this site's hosts (ALLOWED_HOSTS).")


def is_forwarded(path: str) -> bool:
    """Return True if requests for this path, below the site's prefix, are the sidecar's to answer."""
    return path in SHORT or path in STREAMS or path.startswith(SESSIONS)


def target_of(prefix: str, path: str, query: bytes | str) -> str:
    """Return the target of the request that the sidecar gets."""
    return prefix + quote(path) + (f"?{quoted_query(query)}" if query else "")


def quoted_query(query: bytes | str) -> str:
    """Return a query as it came, with what cannot be sent in one quoted."""
    return quote(query, safe=_QUERY_SAFE)


def without_prefix(path: str, root_path: str) -> str:
    """Return a path as Django sees it: below FORCE_SCRIPT_NAME or the server's, whether or not a proxy took that
    off."""
    prefix = (settings.FORCE_SCRIPT_NAME or root_path or "").rstrip("/")
    return path[len(prefix) :] if path.startswith(f"{prefix}/") else path


def below_mount(path: str) -> str:
    """Return a path of the site as the sidecar knows it, where the project has ``realtime.urls`` below a prefix."""
    try:
        mount = without_prefix(reverse("realtime:snapshot"), "").removesuffix(SNAPSHOT)
    except NoReverseMatch:  # a project without these addresses
        return path
    return path[len(mount) :] if mount and path.startswith(f"{mount}/") else path


def allowed_hosts() -> list[str]:
    """Return the hosts of this site, as Django has them."""
    hosts = list(settings.ALLOWED_HOSTS)
    return hosts if hosts or not settings.DEBUG else [".localhost", "127.0.0.1", "[::1]"]


def is_own_host(host: str) -> bool:
    """Return True if the Host of a request is one of this site's."""
    domain, _ = split_domain_port(host)
    return bool(domain) and validate_host(domain, allowed_hosts())


def forwarded_for(before: Iterable[str], client: str) -> str:
    """Return the value of X-Forwarded-For: what came, and behind it the address that it came from."""
    return ", ".join([*before, client or "unknown"])


def told(headers: Iterable[Header], client: str) -> list[Header]:
    """Return the headers that the sidecar gets, by lower-case name, without a body's: those are the carrier's.

    A page of this very site may ask whatever the sidecar's own list of origins is, as over the relay: its origin is not
    told. The site is known by its host, which is one of ALLOWED_HOSTS (``is_own_host``).
    """
    rows = [(name.lower(), value) for name, value in headers]
    host = next((value for name, value in rows if name == "host"), "")
    named = _named_by_connection(rows)
    kept = [
        (name, value)
        for name, value in rows
        if name not in _KEPT_HERE and name not in named and not (name == "origin" and _is_same_site(value, host))
    ]
    before = [value for name, value in rows if name == "x-forwarded-for"]
    return [*kept, ("x-forwarded-for", forwarded_for(before, client))]


def answered(headers: Iterable[Header]) -> list[Header]:
    """Return the headers of an answer without those that were for this hop."""
    rows = list(headers)
    named = _named_by_connection((name.lower(), value) for name, value in rows)
    return [(name, value) for name, value in rows if name.lower() not in _HOP_BY_HOP and name.lower() not in named]


def has_token(headers: Mapping[str, str], query: str) -> bool:
    """Return True if a request brings a token, right or wrong."""
    return headers.get("authorization", "").lower().startswith("bearer ") or "token=" in query


def _named_by_connection(rows: Iterable[Header]) -> set[str]:
    return {part.strip().lower() for name, value in rows if name == "connection" for part in value.split(",")}


def _is_same_site(origin: str, host: str) -> bool:
    return bool(host) and urlsplit(origin).netloc.lower() == host.lower()


def latin(rows: Iterable[tuple[bytes, bytes]]) -> list[Header]:
    """Return headers in bytes as texts."""
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in rows]


def in_bytes(rows: Iterable[Header]) -> list[tuple[bytes, bytes]]:
    """Return headers as bytes."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in rows]
