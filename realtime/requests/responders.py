"""respond(): functions of the project's apps that answer requests, in their ``responders.py``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import autodiscover_modules

from fastpath.client.message import Reply, Request
from fastpath.core.matching.subscribed_patterns import covers
from fastpath.core.protocol.errors import InvalidSubject
from fastpath.core.protocol.limits import RESPONDER_PATTERNS_MAX
from fastpath.core.protocol.messages import Value
from fastpath.core.protocol.subject import check_pattern, is_system

__all__ = ["Responders", "respond"]

MODULE = "responders"
"""Name of the module that is found by itself in an app."""

Returned = Value | Reply | None
Handler = Callable[[Request], Returned | Awaitable[Returned]]
H = TypeVar("H", bound=Handler)


@dataclass(frozen=True)
class Responder:
    """A handler and its pattern."""

    pattern: str
    handler: Handler


class Responders:
    """The responders of a process, by their patterns."""

    def __init__(self) -> None:
        self._by_pattern: dict[str, Responder] = {}

    def __len__(self) -> int:
        return len(self._by_pattern)

    @property
    def patterns(self) -> list[str]:
        """All patterns."""
        return list(self._by_pattern)

    def add(self, pattern: str, handler: Handler) -> None:
        """Answer the pattern's requests with this; raises ImproperlyConfigured."""
        name = f"{handler.__module__}.{handler.__qualname__}"
        try:
            check_pattern(pattern, names=False)
        except InvalidSubject as error:
            raise ImproperlyConfigured(f"respond({pattern!r}) of {name}: {error.reason}") from None
        if is_system(pattern):
            raise ImproperlyConfigured(f"respond({pattern!r}) of {name}: subjects under /__sys__/ are the server's")
        other = self._by_pattern.get(pattern)
        if other is not None and other.handler is not handler:
            taken = f"{other.handler.__module__}.{other.handler.__qualname__}"
            if taken != name:  # the module may be loaded anew
                raise ImproperlyConfigured(f"respond({pattern!r}) of {name}: {taken} answers that already")
        if other is None and len(self._by_pattern) >= RESPONDER_PATTERNS_MAX:
            raise ImproperlyConfigured(
                f"respond({pattern!r}) of {name}: a process has at most {RESPONDER_PATTERNS_MAX} patterns"
            )
        self._by_pattern[pattern] = Responder(pattern, handler)

    def handler(self, subject: str) -> Handler | None:
        """Return the handler of the longest pattern that covers the subject; of several, that with the fewest
        wildcards."""
        found = [one for one in self._by_pattern.values() if covers(one.pattern, subject)]
        # A ** counts as two, so that /a/* stands before /a/**.
        best = max(found, key=lambda one: (one.pattern.count("/"), -one.pattern.count("*")), default=None)
        return None if best is None else best.handler


responders = Responders()
"""Responders of the apps' modules."""


def respond(pattern: str) -> Callable[[H], H]:
    """Let a function answer requests to the subjects of a pattern: ``@respond("/quotes/*")``.

    It is called with a Request in a thread of ``manage.py realtime_respond`` (a coroutine function in a loop there),
    and returns content, a Reply with fields, or None; it raises ResponderError to answer with an error.
    """

    def added(handler: H) -> H:
        responders.add(pattern, handler)
        return handler

    return added


def discover() -> Responders:
    """Import ``responders.py`` of every app; raises ImproperlyConfigured, and what a module raises."""
    autodiscover_modules(MODULE)
    return responders
