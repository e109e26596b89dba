"""Filters of the monitoring pages: times, durations, sizes and contents as people read them."""

from __future__ import annotations

import base64
import time
from datetime import UTC, datetime
from typing import Any

from django import template
from django.utils import formats, timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext

register = template.Library()

TIME_MS_LEAST = 100_000_000_000
"""1973: a smaller number that a publisher gives is its own count, not a time."""

SHOWN_CHARS = 2000
"""Characters of a longer text that are shown."""

LINE_CHARS = 120
"""Characters of a longer text that stand in a table, until somebody opens it."""

SHOWN_BYTES = 64
"""Bytes of binary content that are shown."""


@register.filter
def moment(ms: float | None) -> SafeString | str:
    """Return a time in ms since 1970, to the ms, as this site reads it; nothing for None and 0."""
    if not ms:
        return ""
    try:
        exact = datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # a publisher's own time may be any number
        return str(ms)
    local = timezone.localtime(exact)
    words = f"{local:%Y-%m-%d %H:%M:%S}.{local.microsecond // 1000:03}"
    return format_html('<time datetime="{}">{}</time>', exact.isoformat(timespec="milliseconds"), words)


@register.filter
def as_of(told: Any) -> SafeString | str:
    """Return as of when a message's data is (protocol.md 5.2): a time, text or number, or ``{time, batch, job,
    version}``."""
    if not isinstance(told, dict):
        return _as_of_time(told)
    made = job = str(told.get("job", ""))
    if "batch" in told:
        words = gettext("batch %(batch)s of %(job)s") if job else gettext("batch %(batch)s")
        made = words % {"batch": told["batch"], "job": job}
    version = gettext("version %(version)s") % {"version": told["version"]} if "version" in told else ""
    parts = [_as_of_time(told.get("time")), made, version]
    return format_html_join(", ", "{}", ((part,) for part in parts if part))


def _as_of_time(told: Any) -> SafeString | str:
    """Return a number in the range of times in ms as a time; any other, and a text, are the publisher's own words."""
    if isinstance(told, int) and told >= TIME_MS_LEAST:
        return moment(told)
    return "" if told is None else str(told)


@register.filter
def ago(ms: float | None) -> str:
    """Return how long ago that was; nothing for None and 0."""
    return duration(max(time.time() - ms / 1000, 0)) if ms else ""


@register.filter
def duration(seconds: float | None) -> str:
    """Return a number of seconds in words: 0.4 s, 12 s, 3 min, 5 h, 2 days."""
    if seconds is None:
        return ""
    if seconds < 9.95:
        return f"{_localized(f'{seconds:.1f}')} s"
    for unit, size, until in (("s", 1, 120), ("min", 60, 120), ("h", 3600, 48)):
        if seconds < size * until:
            return f"{int(seconds // size)} {unit}"
    days = int(seconds // 86400)
    return ngettext("%(count)s days", "%(count)s days", days) % {"count": days}


@register.filter
def value(content: Any) -> str:
    """Return the content of a message or field as text; of bytes, or ``{"b": base64}``, the first ones in
    hexadecimal."""
    if isinstance(content, dict):
        content = base64.b64decode(content.get("b") or "")
    if isinstance(content, bytes | bytearray):
        more = " …" if len(content) > SHOWN_BYTES else ""
        size_words = ngettext("%(count)s bytes", "%(count)s bytes", len(content)) % {"count": len(content)}
        return f"{size_words}: {content[:SHOWN_BYTES].hex(' ')}{more}" if content else size_words
    text = str(content)
    if len(text) <= SHOWN_CHARS:
        return text
    return gettext("%(text)s … (%(count)s characters)") % {"text": text[:SHOWN_CHARS], "count": len(text)}


@register.filter("bytes")
def size(number: float | None) -> str:
    """Return a number of bytes in words, as the pages' scripts say it: 900 B, 1.5 KiB, 300 GiB; a dash for None."""
    if number is None or number == "":
        return "–"
    unit = "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(number) < 1024 or unit == "TiB":
            break
        number /= 1024
    digits = 0 if unit == "B" or abs(number) >= 100 else 1
    return f"{_localized(f'{number:.{digits}f}'.removesuffix('.0'))} {unit}"


@register.simple_tag
def long(content: Any) -> SafeString | str:
    """Show a text; of a long one its beginning, which opens."""
    text = value(content)
    if len(text) <= LINE_CHARS:
        return text
    return format_html("<details><summary>{} …</summary>{}</details>", text[:LINE_CHARS], text)


@register.filter
def milliseconds(ms: float | None) -> str:
    """Return a number of ms in words."""
    if ms is None:
        return "–"
    return f"{_localized(f'{ms:.1f}')} ms" if ms < 10 else f"{round(ms)} ms" if ms < 1000 else duration(ms / 1000)


def _localized(number: str) -> str:
    """Return a number as the active language writes it: with a comma in German, with groups of thousands."""
    return str(formats.number_format(number, force_grouping=True))
