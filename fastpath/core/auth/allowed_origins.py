"""Which pages may open a WebSocket: the ``Origin`` that a browser sends, against a list (RFC 6454, RFC 6455 10.2)."""

from __future__ import annotations

import re

_HOST = r"[a-z0-9_~%-]+(?:\.[a-z0-9_~%-]+)*\.?|\[[0-9a-f:.]+\]"
_SCHEME = r"[a-z][a-z0-9+.-]*"
_ENTRY = re.compile(rf"(?:({_SCHEME})://)?(\*\.)?({_HOST})(?::([0-9]{{1,5}}))?")
_ORIGIN = re.compile(rf"({_SCHEME})://({_HOST})(?::([0-9]{{1,5}}))?")
_PORTS = {"http": "80", "https": "443"}
_WEB = frozenset(_PORTS)
"""The schemes that an entry without one stands for: an app or extension names its own."""

_NO_PAGES = frozenset(("ws", "wss"))
"""Schemes that are no origin's, and nearly as often written as the right ones."""


class Origins:
    """A list of origins; ``origin in origins`` for the value of the header."""

    __slots__ = ("_below", "_exact")

    def __init__(self, exact: frozenset[tuple[str, str, str]], below: tuple[tuple[str, str, str], ...]) -> None:
        self._exact = exact
        self._below = below

    @classmethod
    def parse(cls, text: str) -> Origins:
        """Read a list with commas: ``scheme://host[:port]``, ``scheme://*.example.com[:port]``, ``*.example.com``.

        Any scheme is one, such as an app's ``capacitor://localhost`` or ``chrome-extension://…``. The last form stands
        for every name below, under http and https and any port. Raises ValueError with the entry that is none.
        """
        exact, below = set(), []
        for entry in filter(None, (part.strip() for part in text.split(","))):
            match = _ENTRY.fullmatch(entry.lower().rstrip("/"))
            if (
                match is None
                or not (match[1] or match[2])
                or (match[4] and not match[1])
                or match[1] in _NO_PAGES
                or int(match[4] or 0) > 65535
            ):
                examples = "https://app.example.com, *.example.com or, for an app, capacitor://localhost"
                raise ValueError(f"{entry!r} is no origin: write {examples}")
            scheme, star, host, port = match.groups()
            port = port or _PORTS.get(scheme or "", "")
            if star:
                below.append((scheme or "", f".{host}", port))
            else:
                exact.add((scheme, host, port))
        return cls(frozenset(exact), tuple(below))

    def __bool__(self) -> bool:
        return bool(self._exact or self._below)

    def __contains__(self, origin: str) -> bool:
        match = _ORIGIN.fullmatch(origin.lower())
        if match is None:  # also "null", which a page without origin sends
            return False
        scheme, host, port = match.groups()
        port = port or _PORTS.get(scheme, "")
        return (scheme, host, port) in self._exact or any(
            host.endswith(ending)
            and (wanted_scheme == scheme or (not wanted_scheme and scheme in _WEB))
            and wanted_port in ("", port)
            for wanted_scheme, ending, wanted_port in self._below
        )
