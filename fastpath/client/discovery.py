"""The source of the list of servers: an address that answers it as JSON, or a callable."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from urllib.parse import urlsplit
from urllib.request import BaseHandler, HTTPSHandler, ProxyHandler, Request, build_opener

import msgspec

from .asking import ask
from .servers import Servers, WeightedServer, is_loopback, parse_servers

ServersSource = str | Callable[[], Servers | Awaitable[Servers]]
"""An ``http(s)://`` address that answers ``{"servers": [{"url", "weight"}, …]}``, or a callable, async or not."""

ANSWER_BYTES_MAX = 1 << 20


def check_source(source: ServersSource | None) -> None:
    """Raise ValueError for a source that cannot answer."""
    if isinstance(source, str) and not source.startswith(("http://", "https://")):
        raise ValueError(f"the list of servers is at http://… or https://…, not {source!r}")


async def fetch_servers(
    source: ServersSource, seconds: float, tls: ssl.SSLContext | None, proxy: str | bool | None = True
) -> list[WeightedServer]:
    """Return the list at present; raise what the source raises, OSError, ValueError or msgspec.DecodeError."""
    what = "the list of servers"
    if isinstance(source, str):
        return parse_servers(await ask(partial(_get, source, seconds, tls, proxy), seconds, what))
    return parse_servers(await ask(source, seconds, what))


class _ListedServers(msgspec.Struct):
    servers: list[dict[str, str | int]]


def _get(url: str, seconds: float, tls: ssl.SSLContext | None, proxy: str | bool | None) -> list[dict[str, str | int]]:
    request = Request(url, headers={"Accept": "application/json"})  # noqa: S310  # check_source allows HTTP alone
    handlers: list[BaseHandler] = [HTTPSHandler(context=tls)] if tls else []
    if isinstance(proxy, str):
        handlers.append(ProxyHandler({"http": proxy, "https": proxy}))
    elif not proxy or is_loopback(urlsplit(url).hostname or ""):
        handlers.append(ProxyHandler({}))
    with build_opener(*handlers).open(request, timeout=seconds) as answer:
        return msgspec.json.decode(answer.read(ANSWER_BYTES_MAX), type=_ListedServers).servers
