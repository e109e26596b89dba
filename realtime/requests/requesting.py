"""request(): ask whoever responds to a subject, from any Django code, and wait for the replies."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Literal, overload

from django.utils.asyncio import async_unsafe

from fastpath.client.control.client import Control
from fastpath.client.errors import ControlRefused, NoResponders, SidecarUnavailable, request_failure
from fastpath.client.message import Reply
from fastpath.core.protocol.limits import REPLIES_MAX, REQUEST_MS_MAX
from realtime.conf import conf
from realtime.publishing.contents import Content
from realtime.publishing.rows import Publication, checked

__all__ = ["request"]

_IN_ASYNC_CODE = (
    "request() waits for the reply and would hold up the event loop: "
    "call it as `await sync_to_async(request, thread_sensitive=False)(…)`."
)

_LATE_SECONDS = 2.0
"""Seconds that the caller waits longer than the node, which tells that the time is over."""


@overload
def request(  # type: ignore[overload-overlap]
    subject: str,
    content: Content,
    fields: Mapping[str, Content] | None = None,
    *,
    timeout: float = 5.0,
    replies: Literal[1] = 1,
) -> Reply: ...


@overload
def request(
    subject: str,
    content: Content,
    fields: Mapping[str, Content] | None = None,
    *,
    timeout: float = 5.0,
    replies: int,
) -> list[Reply]: ...


@async_unsafe(_IN_ASYNC_CODE)
def request(
    subject: str,
    content: Content,
    fields: Mapping[str, Content] | None = None,
    *,
    timeout: float = 5.0,
    replies: int = 1,
) -> Reply | list[Reply]:
    """Ask whoever responds to the subject, and wait for the reply (protocol.md 3.12). Rights are not asked.

    It is sent at once, whatever transaction is open. ``timeout`` is in s, at most 300. With ``replies`` above 1: a list
    of up to so many. Raises NoResponders, at once; RequestTimeout, ResponderGone, ResponderError (the responder's own)
    or RequestFailed with another code, each with the ``replies`` that came before; TypeError, ValueError or
    PublishRefused for what can never be asked; SidecarUnavailable when no node answers, or the one that was asked does
    not any more: then its outcome is not known. With REALTIME["BACKEND"] "dummy" or "memory" nobody responds.
    """
    if not 0 < timeout * 1000 <= REQUEST_MS_MAX:
        raise ValueError(f"timeout is above 0 and at most {REQUEST_MS_MAX // 1000} s")
    if not 0 < replies <= REPLIES_MAX:
        raise ValueError(f"replies is 1 to {REPLIES_MAX}")
    row = checked(Publication(subject, content, fields, False, "standard"))
    if conf.backend != "sidecar":
        row.check_size(conf.message_bytes_max)
        raise NoResponders("no_responders", f'nobody responds where REALTIME["BACKEND"] is "{conf.backend}"')
    return _answered(_ask(row.wire[:3], timeout, replies), replies)


def _ask(row: list[Any], timeout: float, replies: int) -> dict[str, Any]:
    """Return the answer of the first node that takes it; raise SidecarUnavailable, and what the node refuses."""
    failures: list[SidecarUnavailable] = []
    end = time.monotonic() + timeout
    for address in conf.controls:
        left = max(0.001, end - time.monotonic())
        # A connection of its own: other calls would wait for the answer.
        with Control(address, timeout_seconds=left + _LATE_SECONDS, client="django/1") as control:
            try:
                control.hello(deadline=time.monotonic() + conf.control_seconds)
            except SidecarUnavailable as error:
                failures.append(error)
                continue
            try:
                return control.request(*row, timeout_seconds=left, replies=replies)
            except ControlRefused as error:
                raise request_failure(error.code, error.reason, (), own=True) from None
    if not failures:
        raise SidecarUnavailable("", 'REALTIME["CONTROL"] names no node')
    raise failures[-1]


def _answered(answer: dict[str, Any], count: int) -> Reply | list[Reply]:
    found = [Reply(content, fields) for content, fields in answer["replies"]]
    if answer.get("error"):
        raise request_failure(answer["error"], answer["reason"], found, own=answer["own"])
    return found[0] if count == 1 else found
