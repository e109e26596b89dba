"""What the database itself asks of a rule: that a sidecar can read it, whichever code has written the row."""

from __future__ import annotations

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Func, IntegerField, Q, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Concat, Length, Replace, StrIndex
from django.db.models.lookups import Exact, GreaterThan, LessThanOrEqual
from django.db.models.sql.compiler import SQLCompiler

from fastpath.core.protocol.limits import SUBJECT_BYTES_MAX, SUBJECT_SEGMENTS_MAX


class Bytes(Func):
    """The length of a text in bytes of UTF-8."""

    function = "OCTET_LENGTH"
    output_field = IntegerField()

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **more: Any) -> tuple[str, Any]:
        """SQLite has that function since 3.43."""
        return super().as_sql(compiler, connection, template="LENGTH(CAST(%(expressions)s AS BLOB))", **more)


def readable(actions: list[str], effects: list[str]) -> Q:
    """A rule that is switched off, or has a pattern (protocol.md 2.3), and one of these actions and effects."""
    return Q(enabled=False) | (Q(action__in=actions) & Q(effect__in=effects) & _pattern())


def _pattern() -> Q:
    """What ``check_pattern`` accepts, but for NUL and half a character, which databases refuse or cannot look for."""
    pattern = F("pattern")
    closed = Concat(pattern, Value("/"))
    # Each segment with slashes of its own: /a/*/b as //a//*//b/. A wildcard is a whole segment, or none.
    segments: Combinable = Concat(Replace(pattern, Value("/"), Value("//")), Value("/"))
    for whole in ("/*/", "/**/", "/{username}/"):
        segments = Replace(segments, Value(whole), Value(""))
    count = Length(pattern) - Length(Replace(pattern, Value("/"), Value("")))
    found = (
        Q(Exact(StrIndex(pattern, Value("/")), 1))
        & _without(closed, "//")
        & _without(pattern, "/**/")
        & (Q(pattern="/**") | Q(GreaterThan(count, 1)))
        & Q(LessThanOrEqual(count, SUBJECT_SEGMENTS_MAX))
        & Q(LessThanOrEqual(Bytes(pattern), SUBJECT_BYTES_MAX))
    )
    for character in "*{}":
        found &= _without(segments, character)
    return found


def _without(text: Combinable, part: str) -> Q:
    """That the part is nowhere in the text.

    No LIKE, nor an argument of one character: Django cannot read a table of SQLite whose checks have such.
    """
    return Q(Exact(StrIndex(text, Value(part)), 0))
