"""The ASGI application around Django's that forwards what the sidecar answers, streams as well."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from http.cookies import CookieError, SimpleCookie
from typing import Any

from django.conf import settings

from realtime.conf import conf
from realtime.forwarding.heads import (
    AWAY,
    BROKEN,
    FULL,
    LATE,
    SNAPSHOT,
    STRANGE_HOST,
    Header,
    Problem,
    Target,
    answered,
    below_mount,
    has_token,
    in_bytes,
    is_forwarded,
    is_own_host,
    latin,
    target_of,
    told,
    without_prefix,
)
from realtime.forwarding.upstream import Head, Upstream, UpstreamError

WHOLE_BYTES_MAX = 1 << 20
"""An answer of a known length up to this is read to its end before anything of it is told, so that it comes whole or
as an error."""

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_log = logging.getLogger(__name__)


def http_application(application: Application) -> Application:
    """Return the ASGI application for HTTP: the sidecar answers what is forwarded, and ``application`` everything
    else."""
    return _Forwarding(application)


class _Forwarding:
    """Forwards up to REALTIME["FORWARDED_MAX"] requests at a time."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._carried = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = below_mount(without_prefix(scope["path"], scope.get("root_path", "")))
        headers = latin(scope["headers"])
        if not is_forwarded(path) or (path == SNAPSHOT and _is_for_a_session(scope, headers)):
            await self._application(scope, receive, send)
        elif self._carried >= conf.forwarded_max:
            await _tell(send, FULL)
        elif not is_own_host(next((value for name, value in headers if name == "host"), "")):
            await _tell(send, STRANGE_HOST)
        else:
            self._carried += 1
            try:
                await _forward(path, headers, scope, receive, send)
            finally:
                self._carried -= 1


def _is_for_a_session(scope: Scope, headers: list[Header]) -> bool:
    """Return True if a signed-in user's session asks for a snapshot: Django knows the session (forwarding/view.py)."""
    by_name = dict(headers)
    try:
        named = settings.SESSION_COOKIE_NAME in SimpleCookie(by_name.get("cookie", ""))
    except CookieError:
        return False
    return named and not has_token(by_name, scope.get("query_string", b"").decode("latin-1"))


async def _forward(path: str, headers: list[Header], scope: Scope, receive: Receive, send: Send) -> None:
    target = Target.parse(conf.relay_url)
    try:
        if target is None:
            raise UpstreamError("LISTEN has no plain client port, and RELAY_URL is not set")
        upstream = await Upstream.open(target)
    except UpstreamError as error:
        _log.warning("the sidecar's client port does not answer: %s", error)
        await _tell(send, AWAY)
        return
    client = scope.get("client")
    try:
        rows = _with_coding(told(headers, client[0] if client else ""), headers, scope)
        await upstream.ask(scope["method"], target_of(target.prefix, path, scope.get("query_string", b"")), rows)
        await _Carrying(upstream, receive, send).run()
    except ValueError as error:
        await _tell(send, Problem(400, f"The request cannot be forwarded: {error}."))
    finally:
        upstream.close()


def _with_coding(rows: list[Header], headers: list[Header], scope: Scope) -> list[Header]:
    """Say that a body without a length goes on in chunks: HTTP/2 and 3 do not tell that there is one (RFC 9113 8.1)."""
    names = {name.lower() for name, _ in headers}
    says_nothing = scope["method"] == "POST" and not scope.get("http_version", "1.1").startswith("1")
    chunked = ("transfer-encoding" in names or says_nothing) and "content-length" not in names
    return [*rows, ("transfer-encoding", "chunked")] if chunked else rows


class _Carrying:
    """A caller and the sidecar, until the answer is over or either of them goes."""

    def __init__(self, upstream: Upstream, receive: Receive, send: Send) -> None:
        self._upstream = upstream
        self._receive = receive
        self._send = send

    async def run(self) -> None:
        """Carry the body there and the answer back."""
        caller = asyncio.create_task(self._from_caller())
        answer = asyncio.create_task(self._to_caller())
        try:
            await asyncio.wait((caller, answer), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (caller, answer):
                task.cancel()
            await asyncio.gather(caller, answer, return_exceptions=True)
        for task in (answer, caller):
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _from_caller(self) -> None:
        """Hand on the body, then wait; returns when the caller goes."""
        while True:
            event = await self._receive()
            if event["type"] == "http.disconnect":
                return
            await self._upstream.send(event.get("body", b""))
            if not event.get("more_body", False):
                await self._upstream.end()

    async def _to_caller(self) -> None:
        """Hand on the answer, each piece when the one before it has been taken."""
        try:
            head = await self._upstream.head()
            if 0 <= head.length <= WHOLE_BYTES_MAX:
                body = b"".join([piece async for piece in self._upstream.body()])
                await self._begin(head)
                await self._send({"type": "http.response.body", "body": body})
                return
        except TimeoutError:
            await _tell(self._send, LATE)
            return
        except UpstreamError as error:
            _log.warning("the sidecar's client port broke off: %s", error)
            await _tell(self._send, BROKEN)
            return
        await self._begin(head)
        try:
            async for piece in self._upstream.body():
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        except UpstreamError:
            pass  # a stream has no end but this one: its reader comes back
        await self._send({"type": "http.response.body", "body": b""})

    async def _begin(self, head: Head) -> None:
        rows = in_bytes(answered(head.headers))
        await self._send({"type": "http.response.start", "status": head.status, "headers": rows})


async def _tell(send: Send, problem: Problem) -> None:
    rows = in_bytes(problem.headers)
    await send({"type": "http.response.start", "status": problem.status, "headers": rows})
    await send({"type": "http.response.body", "body": problem.body})
