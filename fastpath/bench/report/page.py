"""Results as one HTML page that needs nothing else: no script, font, picture or style from elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from ..machine.description import NOT_RECORDED
from . import charts
from .tables import Figure, Table, figures

STYLE = f"""
:root{{color-scheme:light dark;{charts.variables(charts.LIGHT)}--panel:#f6f8fa}}
@media(prefers-color-scheme:dark){{:root{{{charts.variables(charts.DARK)}--panel:#1a212a}}}}
*{{box-sizing:border-box}}
body{{margin:0;background:var(--surface);color:var(--ink);
  font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}}
main{{max-width:1180px;margin:0 auto;padding:24px 20px 64px}}
h1{{font-size:1.75rem;line-height:1.2;margin:8px 0 12px}}
h2{{font-size:1.125rem;line-height:1.3;margin:0 0 4px}}
p{{margin:0 0 12px;max-width:75ch}}.note{{color:var(--muted);font-size:.9rem}}
dl{{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;margin:0 0 28px;font-size:.9rem}}
dt{{color:var(--muted)}}dd{{margin:0;overflow-wrap:anywhere}}
.figures{{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:20px;align-items:start}}
figure{{margin:0;padding:18px;border:1px solid var(--grid);border-radius:10px;min-width:0}}
figure.wide{{grid-column:1/-1}}
.chart{{display:block;width:100%;max-width:600px;height:auto;margin:4px 0 8px}}
.scroll{{overflow-x:auto}}
.scroll:focus-visible,summary:focus-visible{{outline:2px solid var(--ours);outline-offset:2px}}
table{{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums;width:100%}}
th,td{{padding:5px 10px;border-bottom:1px solid var(--grid);text-align:right;white-space:nowrap}}
th:first-child,td:first-child,.left{{text-align:left}}
th{{font-weight:600;color:var(--muted);vertical-align:bottom}}
tbody th{{color:var(--ink)}}
.met::before{{content:"✓ ";color:var(--ours)}}
.missed{{color:var(--target);font-weight:600}}.missed::before{{content:"✗ "}}
summary{{cursor:pointer;color:var(--muted);font-size:.9rem;padding:4px 0}}
pre{{background:var(--panel);padding:12px;border-radius:8px;overflow-x:auto;
  font:.8rem/1.45 ui-monospace,SFMono-Regular,Menlo,monospace}}
{charts.CHART_STYLE}
.chart text{{font-size:13px}}
@media(max-width:860px){{.figures{{grid-template-columns:minmax(0,1fr)}}}}
@media(max-width:480px){{main{{padding:16px 12px 48px}}figure{{padding:12px}}
.chart text{{font-size:15px}}.chart .muted{{font-size:13.5px}}}}
"""

VERDICTS = {"met", "missed"}
WORDY = {"Target", "Verdict", "Framing", "Server", "Scenario"}
"""Columns of words, which stand at the left."""


def page(results: dict[str, Any]) -> str:
    """The whole page: what ran where, every figure as a chart with its table, every run's numbers and the settings."""
    found = figures(results)
    body = "".join(_figure(figure) for figure in found)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Fan-out benchmark</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>Fan-out benchmark</h1>\n{_circumstances(results)}\n"
        f'<div class="figures">\n{body}</div>\n{_settings(results)}</main>\n</body>\n</html>\n'
    )


def circumstances(results: dict[str, Any]) -> list[tuple[str, str]]:
    """What a reader needs to judge the numbers: the machine, the revisions, the date, the commands."""
    known = {name: value for name, value in results.get("machine", {}).items() if name != "revision"}
    lines = [(_caption(name), _plain(value)) for name, value in known.items()]
    revisions = dict.fromkeys(str(run.get("revision", NOT_RECORDED)) for run in results["runs"])
    lines.append(("Revision", "; ".join(revisions)))
    if single := _single(results["runs"]):
        lines.append(("Single runs", single))
    commands = dict.fromkeys(str(run["command"]) for run in results["runs"] if run.get("command"))
    durations = sorted({round(float(run["duration_s"]), 1) for run in results["runs"] if run.get("duration_s")})
    if durations:
        shown = f"{durations[0]:g}" if len(durations) == 1 else f"{durations[0]:g} to {durations[-1]:g}"
        lines.append(("Measured for", f"{shown} s a run"))
    if commands:
        lines.append(("Command", "; ".join(commands)))
    return lines


def _single(runs: Sequence[dict[str, Any]]) -> str:
    """What was measured once only, so that nothing is known of its spread."""
    counts = Counter((str(run.get("scenario") or run.get("part")), run.get("peer")) for run in runs)
    once = [name if peer is None else f"{name} beside others" for (name, peer), most in counts.items() if most == 1]
    return "all" if len(once) == len(counts) else ", ".join(dict.fromkeys(once))


def _circumstances(results: dict[str, Any]) -> str:
    lines = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in circumstances(results))
    return f"<dl>{lines}</dl>"


def _figure(figure: Figure) -> str:
    title = f"<h2>{escape(figure.title)}</h2>"
    note = f'<p class="note">{escape(figure.note)}</p>'
    table = _table(figure.table, figure.title)
    if not figure.svg:
        wide = ' class="wide"' if figure.wide else ""
        return f"<figure{wide}>{title}{note}{table}</figure>\n"
    return f"<figure>{title}{note}{figure.svg}<details><summary>The numbers</summary>{table}</details></figure>\n"


def _table(table: Table, title: str) -> str:
    head = "".join(f'<th scope="col"{_left(name)}>{escape(name)}</th>' for name in table[0])
    lines = []
    for row in table[1:]:
        cells = [f'<th scope="row">{escape(row[0])}</th>']
        for name, text in zip(table[0][1:], row[1:], strict=True):
            kind = f' class="left {text}"' if text in VERDICTS else _left(name)
            cells.append(f"<td{kind}>{escape(text)}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    # A region that scrolls has to be reachable by keyboard.
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(title)}, table">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _settings(results: dict[str, Any]) -> str:
    """The settings of the server under test: once, and again only where a scenario's differ."""
    found: dict[str, list[str]] = {}
    for run in results["runs"]:
        text = "\n".join(_setting_lines(run.get("settings")))
        if text:
            found.setdefault(text, []).append(str(run["scenario"]))
    blocks = "".join(
        f"<details><summary>Settings: {escape(', '.join(dict.fromkeys(names)))}</summary>"
        f"<pre>{escape(text)}</pre></details>"
        for text, names in found.items()
    )
    return f"<section>{blocks}</section>\n" if blocks else ""


def _setting_lines(settings: object) -> Iterable[str]:
    if isinstance(settings, dict):
        return (f"{name} = {value}" for name, value in sorted(settings.items()))
    return [str(settings)] if settings else []


def _plain(value: object) -> str:
    if isinstance(value, int) and value >= 1 << 30:
        return f"{value / (1 << 30):.1f} GiB"
    if isinstance(value, dict):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _caption(name: str) -> str:
    words = name.removesuffix("_bytes").replace("_", " ")
    return words.upper() if words == "cpu" else words[:1].upper() + words[1:]


def _left(name: str) -> str:
    return ' class="left"' if name in WORDY else ""
