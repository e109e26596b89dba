"""The figures of all nodes, and the statistics, in Prometheus' text format (docs/operate/figures.md)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from django.core.exceptions import ImproperlyConfigured
from django.db import Error as DatabaseFailure
from django.http import HttpResponse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from fastpath.client.control.client import Control
from fastpath.client.control.nodes import label
from realtime.conf import conf
from realtime.nodes.asking import ask_each
from realtime.publishing.failures import failures
from realtime.publishing.outbox.figures import outbox_figures
from realtime.stats import read
from realtime.stats.access import MonitoringView

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_UP = "fastpath_up"
_WINDOWS = "fastpath_statistics"
_UNPUBLISHED = "fastpath_publish_failures_total"
_OUTBOX = "fastpath_outbox_"


class _OneForm(BaseContentNegotiation):
    """The only form that there is, whatever the client prefers: Prometheus asks for several, the plain text among
    them."""

    def select_parser(self, request: Request, parsers: Iterable[type]) -> type | None:
        """Return the first parser: nothing is sent here."""
        del request
        return next(iter(parsers), None)

    def select_renderer(
        self, request: Request, renderers: list[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        """Return the first renderer, for what is refused."""
        del request, format_suffix
        return renderers[0], renderers[0].media_type


@method_decorator(never_cache, name="dispatch")
class MetricsView(MonitoringView):
    """GET /metrics: what the nodes' own listeners say, with the label ``node``, and the statistics."""

    content_negotiation_class = _OneForm

    def get(self, request: Request) -> HttpResponse:
        """Answer 200; a node that does not answer is ``fastpath_up 0``."""
        del request
        return HttpResponse("".join(f"{line}\n" for line in lines()), content_type=CONTENT_TYPE)


def lines() -> Iterator[str]:
    """Yield the text, line by line."""
    addresses = conf.controls
    told = ask_each(addresses, Control.metrics)
    texts = {label(address): said.value or "" for address, said in zip(addresses, told, strict=True)}
    yield f"# HELP {_UP} Whether the node answers."
    yield f"# TYPE {_UP} gauge"
    for node, text in texts.items():
        yield f"{_UP}{{{_label('node', node)}}} {int(bool(text))}"
    yield from merged(texts)
    yield f"# HELP {_UNPUBLISHED} Messages that this Django process could not publish and raised no error for."
    yield f"# TYPE {_UNPUBLISHED} counter"
    yield f"{_UNPUBLISHED}{{{_label('process', str(os.getpid()))}}} {failures.total}"
    yield from _outbox()
    yield from _statistics()


def _outbox() -> Iterator[str]:
    """Yield the outbox, where there is one; nothing while its database does not answer."""
    try:
        found = outbox_figures()
    except (DatabaseFailure, ImproperlyConfigured):
        return
    if found is None:
        return
    yield f"# HELP {_OUTBOX}rows Messages in the outbox that wait, or were refused and set aside."
    yield f"# TYPE {_OUTBOX}rows gauge"
    yield f'{_OUTBOX}rows{{state="waiting"}} {found.waiting}'
    yield f'{_OUTBOX}rows{{state="set_aside"}} {found.set_aside}'
    for name, kind, says, value in (
        ("oldest_seconds", "gauge", "Age of the oldest message that waits.", repr(found.oldest_seconds)),
        ("sent_total", "counter", "Messages of the outbox that were stored.", found.sent),
        ("refused_total", "counter", "Messages of the outbox that were refused and set aside.", found.refused),
        ("retries_total", "counter", "How often messages of the outbox had to be sent again.", found.retries),
    ):
        yield f"# HELP {_OUTBOX}{name} {says}"
        yield f"# TYPE {_OUTBOX}{name} {kind}"
        yield f"{_OUTBOX}{name} {value}"


def _statistics() -> Iterator[str]:
    """Yield the windows; nothing while the database does not answer, as what is missing is told by its absence."""
    try:
        statistics = read.newest()
    except DatabaseFailure:
        return
    yield f"# HELP {_WINDOWS} Maximum, average and standard deviation of an indicator over a window, of all nodes."
    yield f"# TYPE {_WINDOWS} gauge"
    for indicator, windows in statistics.items():
        for window, values in windows.items():
            for statistic, value in values.items():
                if value is not None:
                    labels = f'indicator="{indicator}",window="{window}",statistic="{statistic}"'
                    yield f"{_WINDOWS}{{{labels}}} {float(value)!r}"


def merged(texts: dict[str, str]) -> Iterator[str]:
    """Yield the metrics of several nodes as one text: each metric's lines stand together, its help and type once."""
    heads: dict[str, dict[str, str]] = {}
    samples: dict[str, list[str]] = {}
    for node, text in texts.items():
        own = _label("node", node)
        family = ""
        for line in text.splitlines():
            if line.startswith(("# HELP ", "# TYPE ")):
                _, kind, family, _ = line.split(" ", 3)
                heads.setdefault(family, {}).setdefault(kind, line)
            elif line and not line.startswith("#"):
                samples.setdefault(family, []).append(_labelled(line, own))
    for family, found in samples.items():
        yield from heads.get(family, {}).values()
        yield from found


def _labelled(sample: str, label_text: str) -> str:
    """Return a sample with one more label, the first."""
    name, brace, rest = sample.partition("{")
    if brace:
        return f"{name}{{{label_text},{rest}"
    name, _, value = sample.partition(" ")
    return f"{name}{{{label_text}}} {value}"


def _label(name: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{name}="{escaped}"'
