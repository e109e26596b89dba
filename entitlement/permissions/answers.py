"""What the project's function answers, as the claim of a token: patterns by action, or what is wrong with it."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Iterable, Mapping
from typing import Any

from entitlement.patterns import fault
from fastpath.core.auth.tokens import PERMISSIONS_MAX

ACTIONS = {"subscribe": "sub", "publish": "pub", "both": "all"}
"""Names by which the function calls an action, as rules do, and those that a token has (protocol.md 8.4)."""

CLAIM_BYTES_MAX = 8 << 10
"""Patterns of one token as JSON: it goes through heads of HTTP, of which servers and proxies take 8 to 32 KiB."""

_FORM = '{"subscribe": ["/orders/42/**"], "publish": [], "both": []}'


class Unusable(ValueError):
    """An answer of the function that gives no rights, and what is wrong with it."""


def claim_of(answer: Any) -> dict[str, list[str]]:
    """Return an answer as the claim; raise Unusable."""
    if answer is None:
        return {}
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise Unusable("something to be awaited: use def, not async def")
    if not isinstance(answer, Mapping):
        raise Unusable(f"{_shown(answer)}: rights are like {_FORM}")
    claim: dict[str, list[str]] = {}
    for action, patterns in answer.items():
        if action not in ACTIONS:
            close = difflib.get_close_matches(str(action).lower(), ACTIONS, 1, 0.3)
            raise Unusable(f"the action {action!r}: {f'write {close[0]}' if close else f'rights are like {_FORM}'}")
        if found := list(dict.fromkeys(_patterns(action, patterns))):
            claim[ACTIONS[action]] = sorted(found)
    count, size = sum(map(len, claim.values())), len(json.dumps(claim, separators=(",", ":")))
    if count > PERMISSIONS_MAX or size > CLAIM_BYTES_MAX:
        raise Unusable(
            f"{count} patterns of {size} bytes: a token carries {PERMISSIONS_MAX}, and {CLAIM_BYTES_MAX} bytes. "
            "Write fewer, with * and **, or rules of a group"
        )
    return claim


def _patterns(action: str, given: Any) -> Iterable[str]:
    """Yield the patterns of an action; raise Unusable."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise Unusable(f"{_shown(given)} for {action!r}: that is a list of patterns")
    for count, pattern in enumerate(given):
        if count >= 10 * PERMISSIONS_MAX:  # a generator may have no end
            raise Unusable(f"over {10 * PERMISSIONS_MAX} patterns for {action!r}: a token carries {PERMISSIONS_MAX}")
        if not isinstance(pattern, str):
            raise Unusable(f"{_shown(pattern)} for {action!r}: a pattern is a text like '/orders/42/**'")
        if wrong := fault(pattern):
            raise Unusable(f"the pattern {_shown(pattern)} for {action!r}: {wrong}")
        yield str(pattern)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"
