"""Addresses in blocks: whether sidecar, Django or a page's static files have them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from urllib.parse import urlsplit

from django.contrib.staticfiles import finders
from django.urls import Resolver404, get_resolver, resolve

from fastpath.core.protocol import openapi

OF_A_PORT = {"/ws", "/healthz", "/readyz", "/metrics", "/", ""}
"""Besides what the OpenAPI document has: the WebSocket, and the ports for figures."""
OF_OTHERS = {"id.example.com", "www.example.com"}
"""Hosts whose addresses are not ours."""


@cache
def _of_the_sidecar() -> list[re.Pattern[str]]:
    paths = [*openapi.openapi()["paths"], *OF_A_PORT]
    return [re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)) + "/?") for path in paths]


def missing(address: str) -> Iterator[str]:
    """Nothing, or that there is no such address; ``address`` may be whole or a path."""
    parts = urlsplit(address)
    if parts.hostname in OF_OTHERS or "…" in parts.path.split("/")[-1]:
        return
    path = parts.path
    if path.startswith("/static/"):
        if not finders.find(path.removeprefix("/static/")):
            yield f"{path}: there is no such file"
    elif not any(pattern.fullmatch(path) for pattern in _of_the_sidecar()) and not _of_django(path):
        yield f"{path}: neither the sidecar nor Django has it"


def _of_django(path: str) -> bool:
    """In this repository's project, or in one that has the apps' addresses below realtime/."""
    try:
        resolve(path)
    except Resolver404:
        own = path.removeprefix("/realtime/")
        try:
            get_resolver("realtime.urls").resolve(own if own != path else path)
        except Resolver404:
            return False
    return True
