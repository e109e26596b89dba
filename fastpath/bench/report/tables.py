"""What a report shows, in order: each figure a table with a sentence on how to read it, some with bars above it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..load import wire_sizes
from ..servers.peers import PEERS
from .charts import Bar
from .summary import OURS, Row, Run, TargetResult, cost, count, kibibytes, milliseconds, rows

Table = list[list[str]]
"""A heading and its rows, as text."""


@dataclass(frozen=True)
class ReportFigure:
    """One thing to show; ``note`` is a sentence on how to read it."""

    title: str
    note: str
    table: Table
    bars: list[Bar] = field(default_factory=list)
    """Bars of the figure's chart, if it has one."""

    @property
    def chart(self) -> str:
        """The name of the chart's file."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-") + ".svg"


PERCENTILES = {"p50_ms": "p50", "p90_ms": "p90", "p99_ms": "p99", "p999_ms": "p99.9", "max_ms": "max"}
"""The keys of a result, and what they are called in tables."""

COST = "server_cpu_s_per_million"
COMPARED = ["Server", "CPU s/M", "× ours", "Deliveries/s", "p50 ms", "p99 ms", "KiB a connection", "Connections",
            "Faults"]  # fmt: skip
"""The heading of a comparison."""


def figures(runs: Sequence[Run]) -> list[ReportFigure]:
    """Return every figure that these results have something for."""
    measured = [row for row in rows(runs) if not row.peer]
    compared = [row for row in rows(runs) if row.peer]
    found = [_scenarios(measured), _ratios(measured), _latency(measured), _throughput(measured)]
    return [figure for figure in found if len(figure.table) > 1] + [*_comparisons(compared), *wire_figures()]


def _scenarios(measured: Sequence[Row]) -> ReportFigure:
    table = [["Scenario", "Verdict", "Measured", "Target", "CPU s/M", "Deliveries/s", "p50 ms", "p99 ms", "Faults",
              "Runs"]]  # fmt: skip
    for row in measured:
        figures_of_row = [
            cost(row.value(COST)),
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
    return ReportFigure(
        "Scenarios and their targets",
        "Medians over the runs, with the least and the greatest in brackets. CPU s/M: the server's CPU seconds for a "
        "million deliveries. Faults: messages lost, doubled and out of order, over all runs.",
        table,
    )


def measured_text(verdict: TargetResult) -> str:
    """Return a verdict's value with its spread, in the target's own unit."""
    spread = verdict.value
    if spread is None:
        return "–"
    show, unit = verdict.target.show, verdict.target.unit
    return f"{show(spread.median)} {unit} ({show(spread.low)} to {show(spread.high)})".replace("  ", " ")


def _ratios(measured: Sequence[Row]) -> ReportFigure:
    table = [["Scenario", "Ratio", "Least", "Greatest", "Target", "Floor CPU s/M", "Runs"]]
    bars: list[Bar] = []
    for row in measured:
        spread, target = row.spread("ratio"), row.ratio_target
        if spread is not None:
            numbers = [f"{value:.2f}" for value in (spread.median, spread.low, spread.high)]
            floor = cost(row.value("floor_cpu_s_per_million"))
            table.append([row.label, *numbers, "–" if target is None else f"{target:.2f}", floor, str(len(row.runs))])
            bars.append((row.label, spread.median, f"×{numbers[0]}"))
    note = "The floor is a bare C server, driven by the same generator in the same run."
    return ReportFigure("Cost as a multiple of the floor", note, table, bars)


def _latency(measured: Sequence[Row]) -> ReportFigure:
    table = [["Scenario", *PERCENTILES.values()]]
    table += [[row.label, *(milliseconds(row.value(key)) for key in PERCENTILES)] for row in measured
              if row.value("p50_ms")]  # fmt: skip
    note = (
        "A scenario that keeps a window full measures throughput: its latency is what waits in the window. Where the "
        "rate is fixed, it is the server's."
    )
    return ReportFigure("Latency from publisher to subscriber, ms", note, table)


def _throughput(measured: Sequence[Row]) -> ReportFigure:
    table = [["Scenario", "Deliveries/s", "Least", "Greatest"]]
    bars: list[Bar] = []
    for row in measured:
        spread = row.spread("deliveries_per_s")
        if spread is not None and spread.median:
            table.append([row.label, *(count(value) for value in (spread.median, spread.low, spread.high))])
            bars.append((row.label, spread.median, count(spread.median)))
    return ReportFigure(
        "Deliveries per second", "The generator has a core of its own and is often the limit.", table, bars
    )


def _comparisons(compared: Sequence[Row]) -> Iterator[ReportFigure]:
    for scenario in dict.fromkeys(row.scenario for row in compared):
        yield comparison(scenario, [row for row in compared if row.scenario == scenario])


def comparison(scenario: str, servers: Sequence[Row]) -> ReportFigure:
    """Return the table of one scenario by each server that was compared, the cheapest first."""
    mine = next((row for row in servers if row.peer == OURS), None)
    own_cost = mine.value(COST) if mine else None
    servers = sorted(servers, key=lambda row: row.value(COST) or float("inf"))
    table = [COMPARED, *floor_line(mine, own_cost), *(compared_line(row, own_cost) for row in servers)]
    named = [(line[0], row.value(COST)) for row, line in zip(servers, table[-len(servers) :], strict=True)]
    if mine:
        named.insert(0, ("Floor (bare C)", mine.value("floor_cpu_s_per_million")))
    bars = [(name, value, cost(value)) for name, value in named if value is not None]
    note = "The bars are CPU s/M."
    return ReportFigure(f"{scenario}: CPU seconds per million deliveries, beside other servers", note, table, bars)


def floor_line(mine: Row | None, own_cost: float | None) -> Table:
    """Return the bare C server's line, of which only the cost counts; none where it was not measured."""
    value = mine.value("floor_cpu_s_per_million") if mine else None
    return [] if value is None else [["Floor (bare C)", cost(value), _times(value, own_cost), *["–"] * 6]]


def compared_line(row: Row, own_cost: float | None) -> list[str]:
    """Return one server's figures beside ours."""
    value = row.value(COST)
    return [
        "Fastpath" if row.peer == OURS else PEERS[row.peer].title if row.peer in PEERS else row.peer,
        cost(value),
        _times(value, own_cost),
        count(row.value("deliveries_per_s")),
        milliseconds(row.value("p50_ms")),
        milliseconds(row.value("p99_ms")),
        kibibytes(row.value("memory_per_connection_bytes")),
        count(row.connections),
        _faults(row),
    ]


def wire_figures() -> list[ReportFigure]:
    """Return bytes a message: one table for each sample, and one for how ours grows with the sequence number."""
    found = []
    for sample in wire_sizes.SAMPLES:
        table: Table = [["Framing", "Bytes", "Overhead", "WebSocket header", "Deflated"]]
        bars: list[Bar] = []
        for wired in wire_sizes.measure(sample):
            numbers = (wired.plain_bytes, wired.overhead_bytes, wired.header_bytes, wired.deflated_bytes)
            table.append([wired.framing, *map(str, numbers)])
            bars.append((wired.framing, wired.overhead_bytes, f"{wired.overhead_bytes} B"))
        named = sample.title if sample.title.startswith("F1") else sample.title[0].lower() + sample.title[1:]
        own = f"content, field names and field values ({sample.own_bytes} bytes here)"
        found.append(ReportFigure(f"On the wire: {named}", f"Bars: overhead, which is all but {own}.", table, bars))
    aging: Table = [["Sequence number", "JSON overhead", "MessagePack overhead"]]
    aging += [
        [f"{seq:,}" if seq else "0 (standard quality)", str(text), str(packed)]
        for seq, text, packed in wire_sizes.overheads_by_seq()
    ]
    note = "F1's message, the WebSocket header included."
    return [*found, ReportFigure("On the wire: overhead as a subject grows old", note, aging)]


def _times(value: float | None, own: float | None) -> str:
    return "–" if value is None or not own else f"×{value / own:.2f}"


def _faults(row: Row) -> str:
    lost, doubled, reordered = (row.total(key) for key in ("lost", "doubled", "reordered"))
    return "none" if not lost + doubled + reordered else f"{lost} lost, {doubled} doubled, {reordered} reordered"
