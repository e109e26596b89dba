"""The tables and charts of a Markdown page, written between two markers; the prose around them stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastpath.core.protocol.errors import FastpathError

from .charts import standalone
from .page import circumstances
from .tables import Figure, Table, figures

BEGIN = "<!-- tables begin -->"
END = "<!-- tables end -->"


class MarkerError(FastpathError):
    """The page lacks the two markers, each once and in order."""


def write(results: dict[str, Any], path: Path) -> list[Path]:
    """Rewrite what stands between the markers of ``path``, and the charts in the folder of the same name beside it.

    Charts that no figure has any more go. Returns the files written; the same results give the same bytes. Raises
    MarkerError before anything is written.
    """
    found = figures(results)
    folder = path.with_suffix("")
    text = replace(path.read_text(encoding="utf-8"), section(results, found, folder.name))
    folder.mkdir(exist_ok=True)
    charts = {folder / f"{figure.name}.svg": standalone(figure.svg) for figure in found if figure.svg}
    for stale in set(folder.glob("*.svg")) - set(charts):
        stale.unlink()
    for file, svg in charts.items():
        file.write_text(svg, encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    return [path, *charts]


def replace(text: str, inner: str, begin: str = BEGIN, end: str = END) -> str:
    """``text`` with ``inner`` between its markers. Raises MarkerError."""
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise MarkerError(f"the page needs one line {begin} and after it one line {end}: the tables go between them")
    before, rest = text.split(begin)
    after = rest.split(end)[1]
    return f"{before}{begin}\n{inner.strip()}\n{end}{after}"


def section(results: dict[str, Any], found: list[Figure], folder: str) -> str:
    """What goes between the markers: the circumstances, then each figure as a heading, chart and table."""
    parts = ["\n".join(f"* {name}: {value}" for name, value in circumstances(results))]
    for figure in found:
        parts += [f"### {figure.title}", figure.note]
        if figure.svg:
            parts.append(f"![{figure.title}]({folder}/{figure.name}.svg)")
        parts.append(markdown(figure.table))
    return "\n\n".join(parts) + "\n"


def markdown(table: Table) -> str:
    """A table as Markdown; a missed target is set bold."""
    head, *lines = table
    out = [_line(head), _line(["---", *["---:"] * (len(head) - 1)])]
    out += [_line([f"**{cell}**" if cell == "missed" else cell for cell in line]) for line in lines]
    return "\n".join(out)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
