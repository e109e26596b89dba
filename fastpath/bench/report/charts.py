"""Bars as SVG: 480 units wide, to be read on a telephone, with colours of their own for light and for dark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from statistics import median

Bar = tuple[str, float, str]
"""A label, a value, and what stands behind the bar."""

WIDTH, ROW, TEXT = 480, 28, 74
"""Units of the chart, of a row with its bar, and of the room for the text behind the longest bar."""
CHARACTER = 9
"""The width of a bold character; the room for labels is reckoned with it."""
CLIP = 6
"""A bar longer than this many times the median is cut, and said to be: one slow server would hide all others."""
OURS = re.compile(r"Fastpath|F\d")

STYLE = """\
:root{--back:#fff;--ink:#1c2430;--bar:#c0cad6;--ours:#1f5fbf}
@media(prefers-color-scheme:dark){:root{--back:#12171e;--ink:#e8edf3;--bar:#4a5664;--ours:#6ea8ff}}
text{font:13px system-ui,sans-serif;fill:var(--ink)}rect{fill:var(--bar)}
.ours{fill:var(--ours)}.back{fill:var(--back)}"""


def svg(title: str, bars: Sequence[Bar]) -> str:
    """Return a chart as a file: horizontal bars from zero, those of Fastpath and of its scenarios in another colour."""
    left = 14 + CHARACTER * max(len(label) for label, _, _ in bars)
    longest = min(max(value for _, value, _ in bars), CLIP * median(value for _, value, _ in bars))
    parts = []
    for number, (label, value, text) in enumerate(bars):
        y, length = 12 + ROW * number, max(1.0, (WIDTH - TEXT - left) * min(value, longest) / longest)
        ours = ' class="ours"' if OURS.match(label) else ""
        shown = f"» {text}" if value > longest else text
        parts.append(f'<text x="{left - 8}" y="{y + 18}" text-anchor="end">{escape(label)}</text>')
        parts.append(f'<rect{ours} x="{left}" y="{y + 5}" width="{length:.1f}" height="18" rx="3"/>')
        parts.append(f'<text x="{left + length + 6:.1f}" y="{y + 18}">{escape(shown)}</text>')
    told = escape("; ".join(f"{label} {text}" for label, _, text in bars))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {18 + ROW * len(bars)}" role="img" '
        f'aria-labelledby="title desc"><title id="title">{escape(title)}</title><desc id="desc">{told}</desc>'
        f'<style>{STYLE}</style><rect class="back" width="100%" height="100%" rx="6"/>{"".join(parts)}</svg>\n'
    )
