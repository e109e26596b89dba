"""What a report shows, in order: each figure a chart and the table behind it, for the page and the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..load import wire_sizes
from ..servers.peers import PEERS
from . import charts
from .summary import OURS, Row, Verdict, cost, count, kibibytes, milliseconds, rows

Table = list[list[str]]
"""A heading and its rows, as text."""


@dataclass(frozen=True)
class Figure:
    """One thing to show. ``svg`` is empty where a table says it all; ``note`` is a sentence on how to read it."""

    title: str
    note: str
    table: Table
    svg: str = ""
    wide: bool = False
    """Whether its table needs the page's whole width."""

    @property
    def name(self) -> str:
        """The figure's name in ids and file names."""
        return charts.slug(self.title)


def figures(results: dict[str, Any]) -> list[Figure]:
    """Every figure that these results have something for."""
    measured = [row for row in rows(results["runs"]) if not row.peer]
    compared = [row for row in rows(results["runs"]) if row.peer]
    found = [_scenarios(measured), _ratios(measured), _costs(measured), _latency(measured), _throughput(measured)]
    return [figure for figure in found if len(figure.table) > 1] + [*_comparisons(compared), *wire_figures()]


def _scenarios(measured: Sequence[Row]) -> Figure:
    head = [
        "Scenario",
        "Verdict",
        "Measured",
        "Target",
        "CPU s/M",
        "Deliveries/s",
        "p50 ms",
        "p99 ms",
        "Faults",
        "Runs",
    ]
    table = [head]
    for row in measured:
        figures_of_row = [
            cost(row.value("server_cpu_s_per_million")),
            count(row.value("deliveries_per_s")),
            milliseconds(row.value("p50_ms")),
            milliseconds(row.value("p99_ms")),
            _faults(row),
            str(len(row.runs)),
        ]
        verdicts = row.verdicts
        if not verdicts:
            table.append([row.label, "–", "–", "–", *figures_of_row])
        for number, verdict in enumerate(verdicts):
            first = number == 0
            line = [row.label if first else "", verdict.word, measured_text(verdict), verdict.target.text]
            table.append(line + (figures_of_row if first else [""] * len(figures_of_row)))
    return Figure(
        "Scenarios and their targets",
        "Medians over the runs, with the least and the greatest in brackets. CPU s/M: the server's CPU seconds for a "
        "million deliveries. Faults: messages lost, doubled and out of order, over all runs.",
        table,
        wide=True,
    )


def measured_text(verdict: Verdict) -> str:
    """A verdict's value with its spread, in the target's own unit."""
    spread = verdict.value
    if spread is None:
        return "–"
    show, unit = verdict.target.show, verdict.target.unit
    return f"{show(spread.median)} {unit} ({show(spread.low)} to {show(spread.high)})".replace("  ", " ")


def _ratios(measured: Sequence[Row]) -> Figure:
    table = [["Scenario", "Ratio", "Least", "Greatest", "Target", "Floor CPU s/M", "Runs"]]
    marks = []
    for row in measured:
        spread = row.spread("ratio")
        if spread is None:
            continue
        target = row.ratio_target
        marks.append(charts.Ratio(row.label, spread.median, spread.low, spread.high, target))
        numbers = [f"{value:.2f}" for value in (spread.median, spread.low, spread.high)]
        floor = cost(row.value("floor_cpu_s_per_million"))
        table.append([row.label, *numbers, "–" if target is None else f"{target:.2f}", floor, str(len(row.runs))])
    said = "; ".join(f"{mark.label} {mark.median:.2f} times" for mark in marks)
    return Figure(
        "Cost as a multiple of the floor",
        "Dot: median, bar: least to greatest run, upright line: the target. The floor is a bare C server, driven by "
        "the same generator in the same run.",
        table,
        charts.ratios("Cost as a multiple of the floor", f"Server CPU against the bare C server: {said}.", marks),
    )


def _costs(measured: Sequence[Row]) -> Figure:
    table = [["Scenario", "Ours, CPU s/M", "Floor, CPU s/M"]]
    pairs = []
    for row in measured:
        ours, floor = row.value("server_cpu_s_per_million"), row.value("floor_cpu_s_per_million")
        if ours is None or not row.total("deliveries"):
            continue
        table.append([row.label, cost(ours), cost(floor)])
        pairs.append((row.label, ours, floor))
    title = "Server CPU seconds per million deliveries"
    said = "; ".join(f"{label} {cost(value)}, floor {cost(floor)}" for label, value, floor in pairs)
    note = "Blue: ours, grey: the floor; further left is better. The axis is logarithmic."
    return Figure(title, note, table, charts.pairs(title, f"{title}: {said}.", pairs))


def _latency(measured: Sequence[Row]) -> Figure:
    table = [["Scenario", *(name for _, name in charts.PERCENTILES)]]
    marks = []
    for row in measured:
        values = {key: value for key, _ in charts.PERCENTILES if (value := row.value(key)) is not None}
        if values.get("p50_ms"):
            table.append([row.label, *(milliseconds(values.get(key)) for key, _ in charts.PERCENTILES)])
            marks.append((row.label, values))
    title = "Latency from publisher to subscriber, ms"
    said = "; ".join(
        f"{label}: p50 {values['p50_ms']:.3g} ms, p99 {values.get('p99_ms', 0):.3g} ms" for label, values in marks
    )
    return Figure(
        title,
        "A scenario that keeps a window full measures throughput: its latency is what waits in the window. Where the "
        "rate is fixed, it is the server's.",
        table,
        charts.percentiles(title, f"{said}.", marks),
    )


def _throughput(measured: Sequence[Row]) -> Figure:
    table = [["Scenario", "Deliveries/s", "Least", "Greatest"]]
    bars = []
    for row in measured:
        spread = row.spread("deliveries_per_s")
        if spread is None or not spread.median:
            continue
        table.append([row.label, *(count(value) for value in (spread.median, spread.low, spread.high))])
        bars.append(charts.Bar(row.label, spread.median, count(spread.median)))
    title = "Deliveries per second"
    said = "; ".join(f"{bar.label} {bar.text}" for bar in bars)
    return Figure(title, "Longer is better. The generator has a core of its own and is often the limit.", table,
                  charts.bars(title, f"{title}: {said}.", bars, clip=False))  # fmt: skip


def _comparisons(compared: Sequence[Row]) -> Iterator[Figure]:
    for scenario in dict.fromkeys(row.scenario for row in compared):
        yield comparison(scenario, [row for row in compared if row.scenario == scenario])


def comparison(scenario: str, servers: Sequence[Row]) -> Figure:
    """Return the table of one scenario by each server that was compared, the cheapest first."""
    servers = sorted(servers, key=lambda row: row.value("server_cpu_s_per_million") or float("inf"))
    mine = next((row for row in servers if row.peer == OURS), None)
    own_cost = mine.value("server_cpu_s_per_million") if mine else None
    floor_cost = mine.value("floor_cpu_s_per_million") if mine else None
    head = [
        "Server",
        "CPU s/M",
        "× ours",
        "Deliveries/s",
        "p50 ms",
        "p99 ms",
        "KiB a connection",
        "Connections",
        "Faults",
    ]
    table: Table = [head]
    bars = []
    if floor_cost is not None:
        table.append(["Floor (bare C)", cost(floor_cost), _times(floor_cost, own_cost), "–", "–", "–", "–", "–", "–"])
        bars.append(charts.Bar("Floor (bare C)", floor_cost, cost(floor_cost), "floor"))
    for row in servers:
        value = row.value("server_cpu_s_per_million")
        title = "Fastpath" if row.peer == OURS else PEERS[row.peer].title if row.peer in PEERS else row.peer
        table.append(
            [
                title,
                cost(value),
                _times(value, own_cost),
                count(row.value("deliveries_per_s")),
                milliseconds(row.value("p50_ms")),
                milliseconds(row.value("p99_ms")),
                kibibytes(row.value("memory_per_connection_bytes")),
                count(row.connections),
                _faults(row),
            ]
        )
        if value is not None:
            bars.append(charts.Bar(title, value, cost(value), "ours" if row is mine else "peer"))
    title = f"{scenario}: CPU seconds per million deliveries, beside other servers"
    said = "; ".join(f"{bar.label} {bar.text}" for bar in bars)
    return Figure(title, "Shorter is better; a bar with a cut is longer than there is room for.", table,
                  charts.bars(title, f"{said}.", bars))  # fmt: skip


def wire_figures() -> list[Figure]:
    """Bytes a message: one table for each sample, and one for how ours grows with the sequence number."""
    head = ["Framing", "Bytes", "Overhead", "WebSocket header", "Deflated"]
    found = []
    for sample in wire_sizes.SAMPLES:
        table: Table = [head]
        bars = []
        for wired in wire_sizes.measure(sample):
            numbers = (wired.plain_bytes, wired.overhead_bytes, wired.header_bytes, wired.deflated_bytes)
            table.append([wired.framing, *map(str, numbers)])
            kind = "ours" if wired.framing.startswith("Fastpath") else "peer"
            bars.append(charts.Bar(wired.framing, wired.overhead_bytes, f"{wired.overhead_bytes} B", kind))
        title = (
            f"On the wire: {sample.title[0].lower() if not sample.title.startswith('F1') else 'F'}{sample.title[1:]}"
        )
        note = (
            f"Bars: overhead, which is all but content, field names and field values ({sample.own_bytes} bytes here)."
        )
        said = "; ".join(f"{bar.label} {bar.text}" for bar in bars)
        found.append(Figure(title, note, table, charts.bars(title, f"Overhead a message: {said}.", bars, clip=False)))
    aging: Table = [["Sequence number", "JSON overhead", "MessagePack overhead"]]
    aging += [
        [f"{seq:,}" if seq else "0 (standard quality)", str(text), str(packed)]
        for seq, text, packed in wire_sizes.overheads_by_seq()
    ]
    found.append(
        Figure("On the wire: overhead as a subject grows old", "F1's message, the WebSocket header included.", aging)
    )
    return found


def _times(value: float | None, own: float | None) -> str:
    return "–" if value is None or not own else f"×{value / own:.2f}"


def _faults(row: Row) -> str:
    lost, doubled, reordered = (row.total(key) for key in ("lost", "doubled", "reordered"))
    return "none" if not lost + doubled + reordered else f"{lost} lost, {doubled} doubled, {reordered} reordered"
