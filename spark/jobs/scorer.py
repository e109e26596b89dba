"""Judges the prices of one instrument: a move since the close before, and a step that is out of the ordinary; pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

THRESHOLD = "threshold"
ZSCORE = "zscore"
LEVELS = ("", "warning", "critical")


@dataclass(frozen=True)
class Limits:
    """The values from which on an alert is raised; the pairs are for a warning and for a critical one."""

    change_pct: tuple[float, float] = (5.0, 10.0)
    """Change since the close before, up or down, in percent."""
    zscore: tuple[float, float] = (5.0, 8.0)
    """Standard deviations of a step from one price to the next."""
    span: int = 100
    """Steps over which mean and deviation are weighted: the newest counts 2/(span+1)."""
    steps_min: int = 30
    """Number of steps before which nothing is known of what is ordinary."""
    deviation_min: float = 0.0005
    """A calmer instrument counts as one of this deviation: else after a quiet hour each cent would be a sensation."""
    quiet_ms: int = 30_000
    """Milliseconds after an alert in which there is none of its kind and level."""
    rearm: float = 0.8
    """Part of a warning's limit below which the value has to be before there is another alert."""


class Alert(NamedTuple):
    """One alert; `value` is what exceeded `limit`, in percent or in standard deviations."""

    kind: str
    level: str
    price: float
    value: float
    limit: float
    time: int


class InstrumentState(NamedTuple):
    """The memory of an instrument."""

    time: int = 0
    price: float = 0.0
    steps: int = 0
    mean: float = 0.0
    variance: float = 0.0
    threshold_level: int = 0
    threshold_time: int = 0
    zscore_level: int = 0
    zscore_time: int = 0


def judge(
    state: InstrumentState, limits: Limits, time: int, price: float, previous: float | None
) -> tuple[InstrumentState, list[Alert]]:
    """Return the state after a price (`time` in ms, `previous` the close before it, if known), and the alerts that it
    raises.

    Prices come in the order of time: one that is older than the newest is not judged.
    """
    if time < state.time:
        return state, []
    alerts: list[Alert] = []
    reference = previous or state.price
    if reference > 0:
        value = (price - reference) / reference * 100
        level, since = _raise(
            alerts,
            THRESHOLD,
            value,
            limits.change_pct,
            limits,
            price,
            time,
            state.threshold_level,
            state.threshold_time,
        )
        state = state._replace(threshold_level=level, threshold_time=since)
    if state.price > 0:
        step = math.log(price / state.price)
        deviation = max(math.sqrt(state.variance), limits.deviation_min)
        if state.steps >= limits.steps_min:
            level, since = _raise(
                alerts,
                ZSCORE,
                (step - state.mean) / deviation,
                limits.zscore,
                limits,
                price,
                time,
                state.zscore_level,
                state.zscore_time,
            )
            state = state._replace(zscore_level=level, zscore_time=since)
            # One sensation does not make the next one ordinary.
            bound = limits.zscore[0] * deviation
            step = min(max(step, state.mean - bound), state.mean + bound)
        state = _learn(state, limits, step)
    return state._replace(time=time, price=price), alerts


def _learn(state: InstrumentState, limits: Limits, step: float) -> InstrumentState:
    """Weigh one more step into mean and variance; the first ones count alike, as in an ordinary average."""
    weight = max(2 / (limits.span + 1), 1 / (state.steps + 1))
    distance = step - state.mean
    variance = (1 - weight) * (state.variance + weight * distance * distance)
    return state._replace(steps=state.steps + 1, mean=state.mean + weight * distance, variance=variance)


def _raise(
    alerts: list[Alert],
    kind: str,
    value: float,
    bounds: tuple[float, float],
    limits: Limits,
    price: float,
    time: int,
    level: int,
    since: int,
) -> tuple[int, int]:
    """Add an alert if the value is at a higher level than the one that was told; the level told, and when."""
    size = abs(value)
    if level and size < bounds[0] * limits.rearm and time - since >= limits.quiet_ms:
        level = 0
    reached = 2 if size >= bounds[1] else 1 if size >= bounds[0] else 0
    if reached <= level:
        return level, since
    alerts.append(Alert(kind, LEVELS[reached], price, value, bounds[reached - 1], time))
    return reached, time
