"""What goes to a collector as the settings ask for it: checked before anything starts, and imported only then."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..listen_address import SettingsError
from ..settings import PREFIX, Settings

if TYPE_CHECKING:
    from ..edge.runtime.component import Component
    from ..edge.runtime.runtime import Runtime
    from ..edge.telemetry.figures import Statistics

_MISSING = "{}: it needs the package {}, which is not installed: pip install 'django-fastpath[otel]', or {}=off"


def check_tracing(settings: Settings) -> None:
    """Raise SettingsError where spans or metrics are asked for and their packages are missing, or variables cannot be
    read."""
    try:
        if settings.tracing:
            from ..edge.tracing.otlp import make_exporter  # noqa: PLC0415 - it comes with an extra
            from ..edge.tracing.sampler import sampler_of  # noqa: PLC0415 - what is off is not imported

            sampler_of(os.environ)
            make_exporter()
        if settings.otlp_metrics:
            from ..edge.telemetry import otlp_figures  # noqa: PLC0415 - it comes with an extra

            otlp_figures.interval_seconds()
            otlp_figures.make_exporter()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "opentelemetry":
            raise  # a module of ours: no setting is wrong
        name = PREFIX + ("TRACING" if settings.tracing else "OTLP_METRICS")
        raise SettingsError(_MISSING.format(name, error.name, name)) from None


def make_tracing(settings: Settings, runtime: Runtime) -> list[Component]:
    """Make what records the spans of this process; nothing where tracing is off. Raise SettingsError."""
    if not settings.tracing:
        return []
    # What is off costs no process any memory.
    from ..edge.tracing.otlp import OtlpExporter  # noqa: PLC0415
    from ..edge.tracing.recorder import SpanRecorder  # noqa: PLC0415
    from ..edge.tracing.sampler import sampler_of  # noqa: PLC0415
    from ..edge.tracing.spans import ExportQueue  # noqa: PLC0415

    queue = ExportQueue("spans", OtlpExporter(runtime.workers.number))
    return [SpanRecorder(runtime, queue, sampler_of(os.environ))]


def make_metrics(settings: Settings, statistics: Statistics) -> list[Component]:
    """Make what exports the node's figures, whose sums the first worker has; nothing where that is off. Raise
    SettingsError."""
    if not settings.otlp_metrics:
        return []
    from ..edge.telemetry.otlp_figures import FiguresExport, OtlpFigures, interval_seconds  # noqa: PLC0415
    from ..edge.tracing.spans import ExportQueue  # noqa: PLC0415

    return [FiguresExport(statistics, ExportQueue("figures", OtlpFigures()), interval_seconds())]
