"""The span ``publish`` of publish() and its family, where REALTIME["TRACING"] asks for it (docs/operate/tracing.md)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from django.core.exceptions import ImproperlyConfigured

from realtime.conf import conf
from realtime.publishing.rows import Row

MISSING = (
    'REALTIME["TRACING"] is True, and OpenTelemetry is not installed: '
    "pip install 'django-fastpath[otel]', or set it to False."
)

_NOTHING: AbstractContextManager[None] = nullcontext()


def traced(rows: Sequence[Row]) -> AbstractContextManager[None]:
    """Return a context in which these rows are published: a span whose context goes with them, or, by default, none.

    Raises ImproperlyConfigured without OpenTelemetry.
    """
    if not conf.tracing:
        return _NOTHING
    try:
        from fastpath.client.spans import publish_span  # noqa: PLC0415 - it comes with an extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "opentelemetry":
            raise  # a module of ours
        raise ImproperlyConfigured(MISSING) from None
    return publish_span([row.wire for row in rows])
