"""The pages that start-up lines name: those that the project has, under its own addresses."""

from __future__ import annotations

from django.urls import NoReverseMatch, reverse

_VIEWS = (
    ("board", "board"),
    ("admin", "admin:index"),
    ("monitoring", "realtime:monitoring"),
    ("console", "realtime:console"),
)


def pages(site: str) -> list[tuple[str, str]]:
    """Return (name, address) of each page; another project than this has no board, and its admin elsewhere or not at
    all."""
    found = {}
    for name, view in _VIEWS:
        try:
            found[name] = site + reverse(view)
        except NoReverseMatch:
            pass
    return [*found.items()] if "board" in found else [("web", f"{site}/"), *found.items()]


def lines(rows: list[tuple[str, str]]) -> list[str]:
    """Return rows as start-up says them, one below the other."""
    return [f"  {name:12}{text}" for name, text in rows]
