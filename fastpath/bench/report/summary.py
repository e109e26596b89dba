"""The runs of a results file by scenario: medians with their spread, and which targets they meet."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

Run = dict[str, Any]
"""One result as `--json` prints it; where servers are compared it has ``peer``, ours included."""

OURS = "fastpath"
ORDER_KEYS = ("lost", "doubled", "reordered")


@dataclass(frozen=True)
class Spread:
    """The median of a figure over the runs, and its least and greatest value."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Target:
    """The target that a scenario has to reach: ``figure`` of a run, at most (or at least) ``limit``."""

    text: str
    figure: Callable[[Run], float | None]
    limit: float
    show: Callable[[float], str] = str
    """A value without the unit."""
    unit: str = ""
    at_least: bool = False
    is_ratio: bool = False

    def met(self, value: float) -> bool:
        """Return whether a median reaches the limit."""
        return value >= self.limit if self.at_least else value <= self.limit


@dataclass(frozen=True)
class TargetResult:
    """One target and what was measured; ``value`` is None when the runs do not have the figure."""

    target: Target
    value: Spread | None

    @property
    def word(self) -> str:
        """``met``, ``missed`` or ``not measured``."""
        if self.value is None:
            return "not measured"
        return "met" if self.target.met(self.value.median) else "missed"


@dataclass
class Row:
    """All runs of one scenario by one server in one form and size."""

    scenario: str
    peer: str
    form: str
    connections: int
    runs: list[Run] = field(default_factory=list)
    label: str = ""

    def spread(self, figure: str | Callable[[Run], float | None]) -> Spread | None:
        """Return a figure over the runs that have it; None if none has."""
        look = figure if callable(figure) else _key(figure)
        values = [value for run in self.runs if (value := look(run)) is not None]
        return Spread(median(values), min(values), max(values)) if values else None

    def value(self, figure: str) -> float | None:
        """Return the median of a figure, or None."""
        spread = self.spread(figure)
        return None if spread is None else spread.median

    def total(self, key: str) -> int:
        """Return a count added up over the runs."""
        return sum(int(run.get(key) or 0) for run in self.runs)

    @property
    def verdicts(self) -> list[TargetResult]:
        """The scenario's targets; where servers are compared there are none."""
        if self.peer:
            return []
        return [TargetResult(target, self.spread(target.figure)) for target in TARGETS.get(self.scenario, ())]

    @property
    def ratio_target(self) -> float | None:
        """The limit of the ratio to the floor, if the scenario has one."""
        return next((verdict.target.limit for verdict in self.verdicts if verdict.target.is_ratio), None)


def rows(runs: Iterable[Run]) -> list[Row]:
    """Return the runs grouped, in the scenarios' order; a label names form and connections only where they tell rows
    apart."""
    found: dict[tuple[str, str, str, int], Row] = {}
    for run in runs:
        key = (
            str(run["scenario"]),
            str(run.get("peer", "")),
            str(run.get("form", "")),
            int(run.get("connections") or 0),
        )
        found.setdefault(key, Row(*key)).runs.append(run)
    result = sorted(found.values(), key=lambda row: (_number(row.scenario), row.connections, row.form))
    for row in result:
        alike = [other for other in result if (other.scenario, other.peer) == (row.scenario, row.peer)]
        parts = [row.scenario]
        if len({other.form for other in alike}) > 1:
            parts.append(row.form)
        if len({other.connections for other in alike}) > 1:
            parts.append(count(row.connections))
        row.label = " ".join(parts)
    return result


def count(value: float | None) -> str:
    """Return a large number with few digits: 18k, 5.2M."""
    if value is None:
        return "–"
    for limit, suffix in ((1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g}{suffix}"
    return f"{value:.3g}"


def cost(value: float | None) -> str:
    """Return CPU seconds per million with three digits that count."""
    return "–" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def milliseconds(value: float | None) -> str:
    """Return a latency with as many digits as it deserves."""
    return "–" if value is None else f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


def kibibytes(value: float | None) -> str:
    """Return bytes as KiB."""
    return "–" if value is None else f"{value / 1024:.2f}"


def times(value: float) -> str:
    """Return a ratio as text."""
    return f"{value:.2f}"


def _number(scenario: str) -> tuple[str, int, str]:
    """Return what sorts F2 before F10, and what follows the number after both."""
    letters = scenario.rstrip("0123456789")
    digits = scenario[len(letters) :]
    return (letters, int(digits), "") if digits else (scenario, 0, scenario)


def _key(name: str) -> Callable[[Run], float | None]:
    def look(run: Run) -> float | None:
        value = run.get(name)
        return None if value is None else float(value)

    return look


def _per_core(run: Run) -> float | None:
    """Return the deliveries that one core pays for in a second."""
    value = run.get("server_cpu_s_per_million")
    return 1e6 / value if value else None


def _faults(run: Run) -> float | None:
    return float(sum(int(run.get(key) or 0) for key in ORDER_KEYS))


def _decimal(value: float) -> str:
    return f"{value:.1f}"


def _ratio(limit: float) -> Target:
    return Target(f"≤ {limit:.2f} × floor", _key("ratio"), limit, times, "×", is_ratio=True)


TARGETS: dict[str, tuple[Target, ...]] = {
    "F1": (_ratio(1.20),),
    "F2": (_ratio(1.15),),
    "F3": (_ratio(1.40), Target("≥ 5 M deliveries/s a core", _per_core, 5e6, count, at_least=True)),
    "F4": (_ratio(1.20), Target("p99 ≤ 15 ms", _key("p99_ms"), 15, milliseconds, "ms")),
    "F5": (_ratio(2.00),),
    "F6": (Target("≤ 1.30 × sending alone", _key("ratio"), 1.30, times, "×", is_ratio=True),),
    "F7": (_ratio(1.60),),
    "F8": (
        Target("≤ 2 KiB a connection", _key("memory_per_connection_bytes"), 2048, kibibytes, "KiB"),
        Target("≤ 1 KiB a subject", _key("memory_per_subject_bytes"), 1024, kibibytes, "KiB"),
    ),
    "F9": (
        Target("≤ 60 µs a connection", _key("connect_cpu_us"), 60, _decimal, "µs"),
        Target("≤ 100 µs with HS256", _key("connect_hs256_cpu_us"), 100, _decimal, "µs"),
    ),
    "F10": (Target("none missing", _faults, 0, count),),
    "F11": (Target("p99 of the others rises < 20 %", _key("p99_rise_percent"), 20, _decimal, "%"),),
}
"""The targets that docs/explain/benchmarks.md sets beside each scenario."""
