"""What may be content or a field's value, and the text or bytes that it is sent as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.core.serializers.json import DjangoJSONEncoder
from django.utils.functional import Promise

from realtime.publishing.outcomes import NotEncodable, PublishRefused

Content = str | bytes | int | float | Decimal | UUID | date | time | timedelta | Mapping[str, Any] | Sequence[Any]
"""Texts, also lazy ones and those of a subclass such as SafeString; bytes; what JSON can say, sent as JSON; and what
Django's encoder makes a text of, sent as that text."""

_TEXTS = (Decimal, UUID, date, time, timedelta)
_JSON = (Mapping, list, tuple, int, float)

_encoder = DjangoJSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def encoded(given: Any, what: str, subject: str) -> str | bytes:
    """Return the text or bytes of a value; ``what`` it is, is told where NotEncodable or PublishRefused is raised."""
    value = plain(given)
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        value = _text(value, what, subject)
    check_text(value, what, subject)
    return value


def plain(value: Any) -> Any:
    """Return a text or bytes of exactly that type, where the value is one: only these can be encoded."""
    if isinstance(value, Promise):
        value = str(value)  # in the language that is active now
    if isinstance(value, str):  # which a SimpleLazyObject only says of itself
        return str.__str__(value) if issubclass(type(value), str) else str(value)
    return bytes(value) if isinstance(value, bytes) else value


def check_text(text: str, what: str, subject: str) -> None:
    """Raise PublishRefused for a text that UTF-8 cannot say."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        reason = f"{what} has half of a character at {error.start} (a lone surrogate), which UTF-8 cannot say"
        raise PublishRefused("invalid", reason, subject) from None


def _text(value: Any, what: str, subject: str) -> str:
    if not isinstance(value, _TEXTS + _JSON):
        kind = "None" if value is None else f"a {type(value).__name__}"
        advice = 'say which text that is, as "" or "null"' if value is None else "use str(…), list(…) or a dict of it"
        raise NotEncodable(f"{what} is {kind}, which has no text of its own: {advice}", subject)
    try:
        if isinstance(value, _TEXTS):
            return str(_encoder.default(value))
        return _encoder.encode(dict(value) if isinstance(value, Mapping) else value)
    except RecursionError:
        raise NotEncodable(f"{what} is nested too deep for JSON", subject) from None
    except (TypeError, ValueError, OverflowError) as error:
        raise NotEncodable(f"{what} cannot be said in JSON: {error}", subject) from None
