"""The statistics over HTTP: windows and series, as JSON and as CSV (docs/operate/figures.md)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from django.db import Error as DatabaseFailure
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from realtime.rest import OwnJSON
from realtime.stats import read
from realtime.stats.access import MonitoringView
from realtime.stats.windows import INDICATORS, KEPT

ALL = "all"
"""Stands for every name that is kept."""


class CSVRenderer(BaseRenderer):
    """Rows as text/csv, with the columns' names in the first line; what is no table is left to JSON."""

    media_type = "text/csv"
    format = "csv"
    charset = "utf-8"

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> str:
        """Return the table, or the ``detail`` of a refusal as one."""
        del accepted_media_type
        view = (renderer_context or {}).get("view")
        failed = "detail" in data or view is None
        text = io.StringIO()
        csv.writer(text).writerows(data.items() if failed else view.table(data))
        return text.getvalue()


class _View(MonitoringView):
    renderer_classes = [OwnJSON, CSVRenderer]

    def handle_exception(self, exc: Exception) -> Response:
        """Answer 400 for a name that is not known, 503 while the database does not answer."""
        if isinstance(exc, read.UnknownName):
            return self._refusal(400, str(exc))
        if isinstance(exc, DatabaseFailure):
            return self._refusal(503, "the statistics cannot be read now")
        response: Response = super().handle_exception(exc)
        return response

    def _refusal(self, status: int, detail: str) -> Response:
        response = Response({"detail": detail}, status=status)
        response.exception = True
        return response


@method_decorator(never_cache, name="dispatch")
class StatisticsView(_View):
    """GET /api/stats/[?indicators=a,b|all][&format=csv]: all windows of the seven indicators, or of those named."""

    def get(self, request: Request) -> Response:
        """Answer ``{indicator: {window: {"maximum", "average", "deviation"}}}``, null before the first sample."""
        return Response(read.newest(_names(request.query_params.get("indicators", ""), INDICATORS)))

    def table(self, data: read.Told) -> Iterable[Sequence[Any]]:
        """Return one row an indicator and window."""
        yield "indicator", "window", "maximum", "average", "deviation"
        for name, windows in data.items():
            for window, told in windows.items():
                yield name, window, told["maximum"], told["average"], told["deviation"]


@method_decorator(never_cache, name="dispatch")
class SeriesView(_View):
    """GET /api/stats/series/?indicator=a,b|all[&window=1h][&format=csv]: what happened when, for charts."""

    def get(self, request: Request) -> Response:
        """Answer ``window``, ``seconds``, ``t``; per name ``average``, ``maximum``, ``deviation``, perhaps
        ``total``."""
        names = _names(request.query_params.get("indicator", ""), INDICATORS)
        return Response(read.series(names, request.query_params.get("window", "1h")))

    def table(self, data: dict[str, Any]) -> Iterable[Sequence[Any]]:
        """Return one row a bucket."""
        names = [name for name in data if name not in ("window", "seconds", "t")]
        kinds = ("average", "maximum", "deviation")
        yield ("time", *(f"{name} {kind}" for name in names for kind in kinds))
        columns = [data[name][kind] for name in names for kind in kinds]
        for moment, *values in zip(data["t"], *columns, strict=True):
            yield (datetime.fromtimestamp(moment / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), *values)


def _names(given: str, default: Sequence[str]) -> Sequence[str]:
    names = [name for one in given.split(",") if (name := one.strip())]
    return KEPT if names == [ALL] else names or default
