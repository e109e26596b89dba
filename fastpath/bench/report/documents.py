"""Results as Markdown: rows, tables, and what a page of the documentation has between two markers, with its charts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from fastpath.core.protocol.errors import FastpathError

from . import charts
from .summary import Run
from .tables import ReportFigure, Table, figures

BEGIN = "<!-- tables begin -->"
END = "<!-- tables end -->"


class MarkerError(FastpathError):
    """The page lacks the two markers, each once and in order."""


def write(path: Path, inner: str, begin: str = BEGIN, end: str = END) -> None:
    """Rewrite what stands between the markers of a page. Raises MarkerError before anything is written."""
    text = path.read_text(encoding="utf-8")
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise MarkerError(f"the page needs one line {begin} and after it one line {end}: the tables go between them")
    before, rest = text.split(begin)
    path.write_text(f"{before}{begin}\n{inner.strip()}\n{end}{rest.split(end)[1]}", encoding="utf-8")


def write_figures(path: Path, runs: Sequence[Run]) -> None:
    """Rewrite a page's tables, and the charts in the folder of the same name beside it; charts that are no more go."""
    found, folder = figures(runs), path.with_suffix("")
    write(path, section(runs, found, folder.name))
    folder.mkdir(exist_ok=True)
    drawn = {folder / figure.chart: charts.svg(figure.title, figure.bars) for figure in found if figure.bars}
    for stale in set(folder.glob("*.svg")) - set(drawn):
        stale.unlink()
    for file, svg in drawn.items():
        file.write_text(svg, encoding="utf-8")


def section(runs: Sequence[Run], found: Iterable[ReportFigure], folder: str = "") -> str:
    """Return what goes between the markers: the circumstances, then each figure: heading, note, chart of a folder,
    table."""
    parts = ["\n".join(f"* {name}: {value}" for name, value in circumstances(runs))]
    for figure in found:
        drawn = [f"![{figure.title}]({folder}/{figure.chart})"] if folder and figure.bars else []
        parts += [f"### {figure.title}", figure.note, *drawn, markdown(figure.table)]
    return "\n\n".join(parts) + "\n"


def markdown(table: Table) -> str:
    """Return a table as Markdown; a missed target is set bold."""
    head, *lines = table
    out = [row(head), row(["---", *["---:"] * (len(head) - 1)])]
    out += [row([f"**{cell}**" if cell == "missed" else cell for cell in line]) for line in lines]
    return "\n".join(out)


def row(cells: Sequence[str]) -> str:
    """Return one row of a table."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def circumstances(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Return what a reader needs to judge the numbers: the first run's machine, the revisions, the date, the
    commands."""
    machine = runs[0].get("machine", {}) if runs else {}
    lines = [(_caption(name), _plain(value)) for name, value in machine.items() if name != "revision"]
    lines.append(("Revision", "; ".join(dict.fromkeys(str(run["machine"]["revision"]) for run in runs))))
    counts = Counter((str(run.get("scenario") or run.get("part")), run.get("peer")) for run in runs)
    once = [name if peer is None else f"{name} beside others" for (name, peer), most in counts.items() if most == 1]
    if once:
        lines.append(("Single runs", "all" if len(once) == len(counts) else ", ".join(dict.fromkeys(once))))
    durations = sorted({round(float(run["duration_s"]), 1) for run in runs if run.get("duration_s")})
    if durations:
        shown = f"{durations[0]:g}" if len(durations) == 1 else f"{durations[0]:g} to {durations[-1]:g}"
        lines.append(("Measured for", f"{shown} s a run"))
    if commands := dict.fromkeys(str(run["command"]) for run in runs if run.get("command")):
        lines.append(("Command", "; ".join(commands)))
    return lines


def _plain(value: object) -> str:
    return f"{value / (1 << 30):.1f} GiB" if isinstance(value, int) and value >= 1 << 30 else str(value)


def _caption(name: str) -> str:
    words = name.removesuffix("_bytes").replace("_", " ")
    return words.upper() if words == "cpu" else words[:1].upper() + words[1:]
