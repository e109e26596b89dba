"""Charts as SVG text: bars, latency percentiles on a logarithmic axis, ratios with their spread and target.

A chart is 480 units wide, so that its text stays readable on a telephone. Colours come from classes: the page
that holds a chart, or the style that ``standalone`` adds, says what they are in light and in dark.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 480
CHARACTER_WIDTH = 9.6
"""Of a bold label in the font size that a telephone gets; the room for labels is reckoned with it."""
VALUES_WIDTH = 74
"""Room at the right for the value behind the longest bar."""
RIGHT = WIDTH - VALUES_WIDTH
ROW_HEIGHT = 28
TOP = 12

CLIP_FACTOR = 6
"""A bar longer than this many times ours is cut, and marked as cut: else one slow peer hides all the others."""

PERCENTILES = (("p50_ms", "p50"), ("p90_ms", "p90"), ("p99_ms", "p99"), ("p999_ms", "p99.9"), ("max_ms", "max"))
"""The keys of a result and the names they have in charts and tables."""

LIGHT = {
    "surface": "#ffffff", "ink": "#1c2430", "muted": "#5b6675", "grid": "#dfe4ea",
    "ours": "#1f5fbf", "floor": "#8d99a8", "peer": "#c0cad6", "target": "#b3420d",
}  # fmt: skip
DARK = {
    "surface": "#12171e", "ink": "#e8edf3", "muted": "#a3afbd", "grid": "#2c3540",
    "ours": "#6ea8ff", "floor": "#7f8c9b", "peer": "#4a5664", "target": "#ff9a62",
}  # fmt: skip
"""Colours by their role; every text and mark has at least 3:1, every text 4.5:1, on its surface."""

CHART_STYLE = """\
.chart text{font:13px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:var(--ink)}
.chart .muted{fill:var(--muted);font-size:12px}.chart .strong{font-weight:600}
.chart .grid{stroke:var(--grid);stroke-width:1}.chart .axis{stroke:var(--muted);stroke-width:1}
.chart .ours{fill:var(--ours)}.chart .floor{fill:var(--floor)}.chart .peer{fill:var(--peer)}
.chart .line{stroke:var(--ours);stroke-width:2;fill:none}
.chart .ring{stroke:var(--ours);stroke-width:2;fill:var(--surface)}
.chart .target{stroke:var(--target);stroke-width:2}.chart .cut{stroke:var(--surface);stroke-width:3;fill:none}
.chart .back{fill:var(--surface)}"""


@dataclass(frozen=True)
class Bar:
    """One row of a bar chart; ``kind`` is ``ours``, ``floor`` or ``peer``, ``text`` what stands behind the bar."""

    label: str
    value: float
    text: str
    kind: str = "ours"


@dataclass(frozen=True)
class Ratio:
    """A median with its spread over the runs, and the target it may not pass, if there is one."""

    label: str
    median: float
    low: float
    high: float
    target: float | None = None


def bars(title: str, description: str, rows: Sequence[Bar], *, clip: bool = True) -> str:
    """Horizontal bars from zero; with ``clip``, what is much longer than ours is cut, with its value beside it."""
    left = _room(row.label for row in rows)
    longest = _clip(rows) if clip else max((row.value for row in rows), default=0) or 1.0
    height = TOP + ROW_HEIGHT * len(rows) + 6
    parts = [_line("axis", left, TOP, left, height - 6)]
    for number, row in enumerate(rows):
        y = TOP + ROW_HEIGHT * number
        length = max(1.0, (RIGHT - left) * min(row.value, longest) / longest)
        weight = "strong" if row.kind == "ours" else ""
        parts.append(_text(left - 8, y + 18, row.label, weight, "end"))
        parts.append(f'<path class="{row.kind}" d="{_rounded(left, y + 5, length, 18)}"/>')
        if row.value > longest:
            x = left + length - 16
            parts.append(f'<path class="cut" d="M{x:.1f} {y + 3}l6 7l-6 8l6 7"/>')
        parts.append(_text(left + length + 6, y + 18, row.text, weight))
    return _svg(title, description, height, parts)


def percentiles(title: str, description: str, rows: Sequence[tuple[str, dict[str, float]]]) -> str:
    """A row of marks per scenario, p50 to the maximum, in ms on a logarithmic axis; values of 0 are left out."""
    left = _room(label for label, _ in rows)
    values = [value for _, row in rows for value in row.values() if value > 0] or [1.0]
    low, high = _decades(values)
    top = TOP + 24
    bottom = top + ROW_HEIGHT * len(rows)
    place = _logarithmic(low, high, left, WIDTH - 24)
    parts = _legend(left)
    for exponent in range(low, high + 1):
        x = place(10.0**exponent)
        parts.append(_line("grid", x, top, x, bottom))
        parts.append(_text(x, bottom + 17, f"{10.0**exponent:g} ms", "muted", "middle"))
    for number, (label, row) in enumerate(rows):
        y = top + ROW_HEIGHT * number + ROW_HEIGHT / 2
        parts.append(_text(left - 8, y + 5, label, "", "end"))
        present = [(name, place(row[key])) for key, name in PERCENTILES if row.get(key, 0) > 0]
        if present:
            parts.append(_line("line", present[0][1], y, present[-1][1], y))
        parts.extend(_mark(name, x, y) for name, x in reversed(present))
    return _svg(title, description, bottom + 26, parts)


def pairs(title: str, description: str, rows: Sequence[tuple[str, float, float | None]]) -> str:
    """Ours and the floor of each row as two dots on a logarithmic axis, the values at the right."""
    left = _room(label for label, _, _ in rows)
    values = [value for _, *two in rows for value in two if value] or [1.0]
    low, high = _decades(values)
    bottom = TOP + ROW_HEIGHT * len(rows)
    place = _logarithmic(low, high, left, RIGHT - 8)
    parts = []
    for exponent in range(low, high + 1):
        x = place(10.0**exponent)
        parts.append(_line("grid", x, TOP, x, bottom))
        parts.append(_text(x, bottom + 17, f"{10.0**exponent:g}", "muted", "middle"))
    for number, (label, value, floor) in enumerate(rows):
        y = TOP + ROW_HEIGHT * number + ROW_HEIGHT / 2
        parts.append(_text(left - 8, y + 5, label, "", "end"))
        if floor:
            parts.append(_line("axis", place(floor), y, place(value), y))
            parts.append(f'<circle class="floor" cx="{place(floor):.1f}" cy="{y:.1f}" r="5"/>')
        parts.append(f'<circle class="ours" cx="{place(value):.1f}" cy="{y:.1f}" r="5"/>')
        parts.append(_text(RIGHT + 4, y + 5, f"{value:.3g}", "strong"))
    return _svg(title, description, bottom + 26, parts)


def ratios(title: str, description: str, rows: Sequence[Ratio]) -> str:
    """The median as a dot, the runs between its whiskers, the target as an upright line; an axis line at the floor."""
    left = _room(row.label for row in rows)
    most = max([1.2, *(max(row.high, row.target or 0) for row in rows)])
    step = next(step for step in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 1e9) if most - 1 <= step * 4)
    low, high = (0.9 if step == 0.1 else 1 - step / 2), 1 + step * math.ceil((most - 1) / step)
    low = min([low, *(row.low for row in rows)])
    bottom = TOP + ROW_HEIGHT * len(rows)

    def place(value: float) -> float:
        return left + (RIGHT - 8 - left) * (value - low) / (high - low)

    parts = []
    for number in range(round((high - 1) / step) + 1):
        value = 1 + number * step
        parts.append(_line("axis" if number == 0 else "grid", place(value), TOP, place(value), bottom))
        parts.append(_text(place(value), bottom + 17, "floor" if number == 0 else f"×{value:g}", "muted", "middle"))
    for number, row in enumerate(rows):
        y = TOP + ROW_HEIGHT * number + ROW_HEIGHT / 2
        parts.append(_text(left - 8, y + 5, row.label, "", "end"))
        if row.target is not None:
            parts.append(_line("target", place(row.target), y - 9, place(row.target), y + 9))
        parts.append(_line("line", place(row.low), y, place(row.high), y))
        parts.append(f'<circle class="ours" cx="{place(row.median):.1f}" cy="{y:.1f}" r="5"/>')
        parts.append(_text(RIGHT + 2, y + 5, f"×{row.median:.2f}", "strong"))
    return _svg(title, description, bottom + 26, parts)


def standalone(svg: str) -> str:
    """Return the chart as a file: with its colours for light and dark, and a background of its own."""
    colours = f":root{{{variables(LIGHT)}}}@media(prefers-color-scheme:dark){{:root{{{variables(DARK)}}}}}"
    style = f'<style>{colours}\n{CHART_STYLE}</style><rect class="back" width="100%" height="100%" rx="6"/>'
    head, rest = svg.split("</desc>", 1)
    return f"{head}</desc>{style}{rest}\n"


def variables(colours: dict[str, str]) -> str:
    """The colours as CSS variables."""
    return "".join(f"--{name}:{colour};" for name, colour in colours.items())


def slug(title: str) -> str:
    """A title as part of an id or of a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _room(labels: Iterable[str]) -> float:
    """The width of the column of labels."""
    return 14 + CHARACTER_WIDTH * max(map(len, labels), default=0)


def _clip(rows: Sequence[Bar]) -> float:
    """The value at which a bar is as long as there is room."""
    longest = max((row.value for row in rows), default=0) or 1.0
    reference = max((row.value for row in rows if row.kind == "ours"), default=0)
    within = [row.value for row in rows if row.value <= CLIP_FACTOR * reference]
    return longest if not reference or len(within) == len(rows) else max(within) * 1.15


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around the values, at least one apart."""
    low = math.floor(math.log10(min(values)))
    return low, max(low + 1, math.ceil(math.log10(max(values))))


def _logarithmic(low: int, high: int, left: float, right: float) -> Callable[[float], float]:
    return lambda value: left + (right - left) * (math.log10(value) - low) / (high - low)


def _legend(left: float) -> list[str]:
    parts = []
    x = left
    for _, name in PERCENTILES:
        parts.append(_mark(name, x + 5, TOP + 4))
        parts.append(_text(x + 15, TOP + 8, name, "muted"))
        x += 22 + 8.2 * len(name) + 10
    return parts


def _mark(name: str, x: float, y: float) -> str:
    """Each percentile has a shape of its own, so that nobody has to tell them by colour."""
    match name:
        case "p50":
            return f'<circle class="ours" cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
        case "p90":
            return f'<circle class="ours" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
        case "p99":
            return f'<path class="ours" d="M{x:.1f} {y - 6.5:.1f}l6.5 6.5l-6.5 6.5l-6.5-6.5z"/>'
        case "p99.9":
            return f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
        case _:
            return _line("line", x, y - 6, x, y + 6)


def _rounded(x: float, y: float, length: float, height: float) -> str:
    """A bar whose far end is rounded; the near end stands on the axis."""
    radius = min(3.0, length)
    return (
        f"M{x:.1f} {y:.1f}h{length - radius:.1f}q{radius:.1f} 0 {radius:.1f} {radius:.1f}"
        f"v{height - 2 * radius:.1f}q0 {radius:.1f} {-radius:.1f} {radius:.1f}h{radius - length:.1f}z"
    )


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    anchored = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}"{anchored}>{escape(text)}</text>'


def _svg(title: str, description: str, height: float, parts: Sequence[str]) -> str:
    name = slug(title)
    return (
        f'<svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'aria-labelledby="{name}-title {name}-desc">'
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape(description)}</desc>'
        f"{''.join(parts)}</svg>"
    )
