"""Live data for a Django project: publish(), snapshots, tokens, pages and one command that runs it all."""

from __future__ import annotations

from typing import Any

__all__ = ["Position", "PublishFailed", "PublishRefused", "publish"]


def __getattr__(name: str) -> Any:
    # Lazily, because Django imports this package before its settings are there.
    if name in __all__:
        from realtime.publishing import publisher

        return getattr(publisher, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
