"""The tables of what guarantees cost, from the results of `guarantee`: for the terminal and for the documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ..report.summary import Run, Spread, Target, TargetResult, cost, count, milliseconds, times
from ..report.tables import ReportFigure, Table, measured_text
from .acknowledgements import CLUSTER

BEGIN = "<!-- guarantees begin -->"
END = "<!-- guarantees end -->"

VARIANTS = {
    "standard": "standard",
    "guaranteed": "guaranteed, no journal",
    "interval": "journal, synced each second",
    "batch": "journal, synced before each acknowledgement",
}
SERVERS = {
    "memory": "no journal",
    "interval": "journal, synced each second",
    "batch": "journal, synced before each acknowledgement",
    "redis": "Redis alone",
    "redis1": "Redis, one replica",
    CLUSTER: "Redis, two replicas, three Sentinels",
}


@dataclass(frozen=True)
class Aim:
    """A target of one part, with a word on what it is about."""

    part: str
    what: str
    target: Target


def look(*keys: str) -> Callable[[Run], float | None]:
    """Return what looks for a figure of a run by its path; None where the run does not have it."""

    def found(run: Run) -> float | None:
        value: Any = run
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return None if value is None else float(value)

    return found


def faults(run: Run) -> float:
    """Return the messages lost, doubled and out of order, in a part and all that it consists of."""
    own = sum(float(run.get(key) or 0) for key in ("lost", "doubled", "reordered", "faults"))
    parts = [*run.get("cases", {}).values(), *run.get("servers", {}).values()]
    return own + sum(faults(one) for one in parts)


def _replay(run: Run) -> float | None:
    """Return the seconds for a million messages."""
    seconds = look("replay_s")(run)
    return None if seconds is None else seconds * 1_000_000 / run["messages"]


def _seconds(value: float) -> str:
    return f"{value:.2f}"


_F1 = ("cases", "F1", "variants")
AIMS = (
    Aim("cost", "Guaranteed delivery, CPU on F1",
        Target("≤ 1.03 × standard", look(*_F1, "guaranteed", "ratio"), 1.03, times, "×")),
    Aim("cost", "With the journal, CPU on F1",
        Target("≤ 1.15 × standard", look(*_F1, "interval", "ratio"), 1.15, times, "×")),
    Aim("recovery", "Messages lost, doubled or out of order", Target("none", faults, 0, count)),
    Aim("redis", "Acknowledged through one node, two replicas",
        Target("≥ 20,000 messages/s", look("full_per_s"), 20_000, count, at_least=True)),
    Aim("redis", "Acknowledgement at 500/s, p50", Target("≤ 1 ms", look("p50_ms"), 1, milliseconds, "ms")),
    Aim("redis", "Acknowledgement at 500/s, p99", Target("≤ 5 ms", look("p99_ms"), 5, milliseconds, "ms")),
    Aim("redis", "A joining node",
        Target("≥ 300,000 entries/s", look("join_per_s"), 300_000, count, at_least=True)),
    Aim("journal", "Journal, added to a message in a batch of 100",
        Target("≤ 1.5 µs", look("append_100_us"), 1.5, _seconds, "µs")),
    Aim("journal", "Journal, 1,000,000 messages replayed", Target("≤ 3 s", _replay, 3, _seconds, "s")),
)  # fmt: skip


def figures(results: Iterable[Run]) -> list[ReportFigure]:
    """Return every table that these results have something for."""
    runs: dict[str, list[Run]] = {}
    for one in results:
        if "missing" not in one:
            runs.setdefault(one["part"], []).append(one)
    found = [_aims(runs)]
    for part, make in (
        ("cost", _costs),
        ("ack", _acks),
        ("recovery", _recovery),
        ("redis", _redis),
        ("journal", _journal),
    ):
        if part in runs:
            found += make(runs[part])
    return [figure for figure in found if len(figure.table) > 1]


def _value(runs: Sequence[Run], *keys: str) -> float | None:
    values = [value for run in runs if (value := look(*keys)(run)) is not None]
    return median(values) if values else None


def _aims(runs: dict[str, list[Run]]) -> ReportFigure:
    table: Table = [["", "Verdict", "Measured", "Target"]]
    for aim in AIMS:
        values = [value for run in runs.get(aim.part, ()) if (value := aim.target.figure(run)) is not None]
        if values:
            verdict = TargetResult(aim.target, Spread(median(values), min(values), max(values)))
            shown = measured_text(verdict) if len(values) > 1 else f"{aim.target.show(values[0])} {aim.target.unit}"
            table.append([aim.what, verdict.word, shown.strip(), aim.target.text])
    return ReportFigure("Guarantees and their targets", "Medians; in brackets the least and the greatest run.", table)


def _costs(runs: Sequence[Run]) -> list[ReportFigure]:
    cases = runs[0]["cases"]
    table: Table = [["Delivery", *(f"{name}, {part}" for name in cases for part in ("CPU s/M", "× standard"))]]
    for variant, title in VARIANTS.items():
        line = [title]
        for name in cases:
            low, middle, high = (
                _value(runs, "cases", name, "variants", variant, key) for key in ("ratio_low", "ratio", "ratio_high")
            )
            line.append(cost(_value(runs, "cases", name, "variants", variant, "cpu_s_per_million")))
            line.append("1" if variant == "standard" else f"{middle:.2f} ({low:.2f} to {high:.2f})")
        table.append(line)
    loads = "; ".join(f"{name}: {case['title']}" for name, case in cases.items())
    rounds = ", ".join(f"{name} {sum(run['cases'][name]['rounds'] for run in runs)}" for name in cases)
    note = (
        f"{loads}. CPU seconds of the server for a million deliveries, of *publish* for a million publications. The "
        f"four servers run beside each other, and each is measured for half a second in turn ({rounds} times); a ratio "
        "is to standard delivery in the same round: its median, and in brackets what half of the rounds lay between."
    )
    return [ReportFigure("CPU time by setting", note, table)]


def _acks(runs: Sequence[Run]) -> list[ReportFigure]:
    head = ["Where a message is stored", "p50 ms", "p99 ms", "Messages/s", "p50 ms", "p99 ms"]
    cpu = ("node", "primary", "replicas", "generator")
    table: Table = [head + [f"{name}, µs" for name in ("node", "Redis", "replicas", "generator")]]
    for name in runs[0]["servers"]:
        keys = ("p50_ms", "p99_ms", "full_p50_ms", "full_p99_ms")
        calm50, calm99, full50, full99 = (milliseconds(_value(runs, "servers", name, key)) for key in keys)
        spent = [cost(_value(runs, "servers", name, "cpu_us", one) or None) for one in cpu]
        most = count(_value(runs, "servers", name, "full_per_s"))
        table.append([SERVERS[name], calm50, calm99, most, full50, full99, *spent])
    note = (
        "From before a batch is written by the publisher to after its acknowledgement is read. The first two: one "
        f"message at a time, {runs[0]['rate_per_s']} a second. Then batches of 100, "
        f"{runs[0]['servers']['memory']['window']} of them on the way, as fast as they are acknowledged: the latency "
        "is what waits there. CPU time is for a message, at that load; nothing is pinned, all share the cores. The "
        f"journal is on {runs[0].get('disk') or 'a disk'}."
    )
    return [ReportFigure("From publishing to the acknowledgement", note, table)]


def _recovery(runs: Sequence[Run]) -> list[ReportFigure]:
    names = ("half_s", "most_s", "all_s", "cpu_s")
    half, most, all_, spent = (_text(_value(runs, name), _seconds) for name in names)
    before, during, after = (milliseconds(_value(runs, f"p99_{name}_ms")) for name in ("before", "during", "after"))
    one = runs[0]
    table: Table = [
        ["", "half", "99 %", "all", "Server CPU s", "p99 before", "during", "after", "Faults"],
        ["Back after, s", half, most, all_, spent, before, during, after, f"{sum(map(faults, runs)):g}"],
    ]
    note = (
        f"{one['clients']:,} clients that missed {one['missed_each']} messages each come back within "
        f"{one['within_s']:g} s, each with its token and position; how long until so many of the messages had come. "
        "p99 in ms of a stream to 100 other clients, 100 messages a second. Medians of "
        f"{sum(run['rounds'] for run in runs)} times. Clients and stream share a core, the server has the other."
    )
    return [ReportFigure("Coming back", note, table)]


def _redis(runs: Sequence[Run]) -> list[ReportFigure]:
    cpu = {name: _value(runs, "cpu_us", name) for name in ("node", "primary", "replicas", "sentinels", "generator")}
    rows = [
        ("Acknowledged messages a second, batches of 100", count(_value(runs, "full_per_s"))),
        ("Acknowledgement at 500/s, p50 and p99, ms", _pair(runs, "p50_ms", "p99_ms")),
        ("CPU of the node for a message, µs", cost(cpu["node"])),
        ("CPU of primary, replicas and Sentinels, µs", " + ".join(cost(cpu[name]) for name in list(cpu)[1:4])),
        ("CPU of the generator, µs", cost(cpu["generator"])),
        ("A node that joins: entries read", count(_value(runs, "join_entries"))),
        ("Seconds, and CPU seconds of the node", f"{_text(_value(runs, 'join_s'), _seconds)}, "
         f"{_text(_value(runs, 'join_cpu_s'), _seconds)}"),
        ("Entries a second", count(_value(runs, "join_per_s"))),
    ]  # fmt: skip
    note = (
        "A primary with two replicas and three Sentinels, the node and the generator on the same cores; one subscriber "
        "reads everything and checks it. What a joining node took is its start less that of one with an empty Redis."
    )
    return [ReportFigure("One node on Redis", note, _list(rows))]


def _journal(runs: Sequence[Run]) -> list[ReportFigure]:
    rows = [
        ("Added to a message, 100 at once, µs", _text(_value(runs, "append_100_us"), _seconds)),
        ("Added to a message, one at once, µs", _text(_value(runs, "append_1_us"), _seconds)),
        ("Numbering alone, 100 at once, µs", _text(_value(runs, "number_100_us"), _seconds)),
        ("Bytes a message of 140 bytes", count(_value(runs, "bytes_each"))),
        (f"Start with {runs[0]['messages']:,} messages, s", _text(_value(runs, "replay_s"), _seconds)),
        ("Of it CPU, s", _text(_value(runs, "replay_cpu_s"), _seconds)),
    ]
    note = "All on 1000 subjects, each publication numbered. The start is beside that with an empty journal."
    return [ReportFigure("The journal", note, _list(rows))]


def _list(rows: Iterable[tuple[str, str]]) -> Table:
    return [["", ""], *([name, value] for name, value in rows)]


def _pair(runs: Sequence[Run], *keys: str) -> str:
    return ", ".join(milliseconds(_value(runs, key)) for key in keys)


def _text(value: float | None, show: Callable[[float], str]) -> str:
    return "–" if value is None else show(value)
