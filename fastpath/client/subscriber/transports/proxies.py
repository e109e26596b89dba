"""Which proxy leads to a server, and connections through it."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from urllib.parse import urlsplit

from websockets.exceptions import InvalidProxy
from websockets.proxy import Proxy, get_proxy, parse_proxy
from websockets.uri import parse_uri

from ...servers import is_loopback

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

ANSWER_BYTES_MAX = 1 << 14
SOCKS_MISSING = "a SOCKS proxy needs a package: pip install 'python-socks[asyncio]'"
WITHOUT = "the option proxy=None goes without"


def check_proxy(given: str | bool | None) -> None:
    """Raise ValueError for what is no address of a proxy."""
    if not isinstance(given, str):
        return
    try:
        parse_proxy(given)
    except (InvalidProxy, ValueError):
        raise ValueError(f"a proxy is http://host:port, https://… or socks5://…, not {named(given)}") from None


def proxy_of(url: str, given: str | bool | None) -> str | None:
    """Return the proxy for a server: the given one, or (True) that of the environment, which is not for loopback."""
    if isinstance(given, str):
        return given
    return get_proxy(parse_uri(url)) if given and not is_loopback(urlsplit(url).hostname or "") else None


def named(proxy: str) -> str:
    """Return a proxy as it may be told, without who uses it."""
    return proxy.rpartition("@")[2] if "@" not in proxy else f"{proxy.partition(':')[0]}://{proxy.rpartition('@')[2]}"


def by_way_of(proxy: str | None, reason: str) -> str:
    """Return why a connection does not come about, with the proxy where one was in between."""
    return reason if proxy is None else f"{reason}, by way of the proxy {named(proxy)}; {WITHOUT}"


async def open_streams(host: str, port: int, tls: ssl.SSLContext | None, proxy: str | None, limit: int) -> Streams:
    """Open and return a connection to a host, through a proxy if there is one; raise OSError."""
    if proxy is None:
        return await asyncio.open_connection(host, port, ssl=tls, limit=limit)
    try:
        parsed = parse_proxy(proxy)
    except (InvalidProxy, ValueError):
        raise OSError(f"{named(proxy)} is no address of a proxy") from None
    if parsed.scheme.startswith("socks"):
        return await _through_socks(host, port, tls, proxy, limit)
    streams = await asyncio.open_connection(
        parsed.host, parsed.port, ssl=True if parsed.scheme == "https" else None, limit=limit
    )
    try:
        await _ask(parsed, host, port, streams)
        if tls is not None:
            await streams[1].start_tls(tls, server_hostname=host)
    except BaseException:
        streams[1].transport.abort()
        raise
    return streams


async def _ask(proxy: Proxy, host: str, port: int, streams: Streams) -> None:
    """Ask for a tunnel (RFC 9110 9.3.6)."""
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
    if proxy.user_info is not None:
        lines.append(f"Proxy-Authorization: Basic {b64encode(':'.join(proxy.user_info).encode()).decode()}")
    streams[1].write("\r\n".join([*lines, "", ""]).encode())
    try:
        head = await streams[0].readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        raise OSError("the proxy gave no answer that is HTTP") from None
    version, _, rest = head.partition(b" ")
    status = rest[:3].decode("latin-1")
    if not version.startswith(b"HTTP/1.") or not status.startswith("2"):
        raise OSError(f"the proxy rejected the connection: {status or 'no HTTP'}")


async def _through_socks(host: str, port: int, tls: ssl.SSLContext | None, proxy: str, limit: int) -> Streams:
    try:
        from python_socks import ProxyError  # type: ignore[import-not-found]  # noqa: PLC0415
        from python_socks.async_.asyncio import Proxy as Socks  # type: ignore[import-not-found]  # noqa: PLC0415
    except ImportError:
        raise OSError(SOCKS_MISSING) from None
    by_name = proxy.replace("socks5h://", "socks5://").replace("socks4a://", "socks4://")
    try:
        socket = await Socks.from_url(by_name, rdns=by_name != proxy).connect(host, port)
    except ProxyError as error:
        raise OSError(str(error)) from None
    return await asyncio.open_connection(sock=socket, ssl=tls, server_hostname=host if tls else None, limit=limit)
