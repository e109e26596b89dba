"""Which publications are traced, by OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG (docs/operate/tracing.md)."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from ...core.protocol.trace_context import is_sampled, trace_of
from ...listen_address import SettingsError

NAME, ARGUMENT = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"

DEFAULT = "parentbased_always_off"
"""Sampler by which what is traced elsewhere is traced here, and nothing else: a feed may publish too much to be
seen."""

_RATIOS: dict[str, float | None] = {"always_on": 1.0, "always_off": 0.0, "traceidratio": None}
"""The share of traces by the sampler's name; None: its argument."""

_PARENT_BASED = "parentbased_"


@dataclass(frozen=True, slots=True)
class TraceSampler:
    """The choice of publications that are traced.

    ``follows_parent``: a publication that comes with a context is traced if its publisher's span is. All others are by
    their trace's id, a share ``ratio`` of them.
    """

    follows_parent: bool
    ratio: float

    def begin(self) -> str:
        """Return the id of a trace that begins with a publication without a context; empty: the publication is not
        traced."""
        if not self.ratio:
            return ""
        trace = secrets.token_hex(16)
        return trace if self._in_share(trace) else ""

    def takes(self, traceparent: str) -> bool:
        """Return whether a publication with this context is traced."""
        return is_sampled(traceparent) if self.follows_parent else self._in_share(trace_of(traceparent))

    def _in_share(self, trace: str) -> bool:
        # As OpenTelemetry's TraceIdRatioBased: every process that samples the same share takes the same traces.
        return int(trace[16:], 16) < round(self.ratio * (1 << 64))


def sampler_of(environ: Mapping[str, str]) -> TraceSampler:
    """Return the sampler that the variables name; raise SettingsError."""
    name = environ.get(NAME) or DEFAULT
    kind = name.removeprefix(_PARENT_BASED)
    if kind not in _RATIOS:
        known = ", ".join([*_RATIOS, *(_PARENT_BASED + one for one in _RATIOS)])
        raise SettingsError(f"{NAME}: {name!r} is none of {known}")
    ratio = _RATIOS[kind]
    if ratio is None:
        ratio = _ratio(environ.get(ARGUMENT) or "1")
    return TraceSampler(name.startswith(_PARENT_BASED), ratio)


def _ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise SettingsError(f"{ARGUMENT}: {text!r} is no number from 0 to 1")
    return ratio
