"""The table that `compare` prints: one line a server as soon as it is measured."""

from __future__ import annotations

from ..report.summary import Run, cost, count, kibibytes, milliseconds

COLUMNS = ("server", "CPU s/M", "× ours", "deliveries/s", "p50 ms", "p99 ms", "KiB/conn", "clients", "lost")
WIDTHS = (22, 9, 8, 13, 9, 9, 10, 8, 8)


def heading(scenario: str, what: str) -> str:
    """The scenario's line and the columns' names."""
    return f"\n{scenario}: {what}\n{line(COLUMNS)}"


def line(cells: tuple[str, ...]) -> str:
    """The first column at the left, all others at the right."""
    first, *rest = zip(cells, WIDTHS, strict=True)
    return first[0].ljust(first[1]) + "".join(text.rjust(width) for text, width in rest)


def floor_line(floor_cost: float, own_cost: float | None) -> str:
    """The bare C server: only its cost counts."""
    return line(("floor (bare C)", cost(floor_cost), _times(floor_cost, own_cost), *["–"] * 6))


def server_line(title: str, run: Run, own_cost: float | None) -> str:
    """One server's figures beside ours."""
    value = run.get("server_cpu_s_per_million")
    return line(
        (
            title,
            cost(value),
            _times(value, own_cost),
            count(run.get("deliveries_per_s")),
            milliseconds(run.get("p50_ms")),
            milliseconds(run.get("p99_ms")),
            kibibytes(run.get("memory_per_connection_bytes")),
            f"{int(run.get('connections') or 0):,}",
            f"{int(run.get('lost') or 0):,}",
        )
    )


def _times(value: float | None, own: float | None) -> str:
    return "–" if value is None or not own else f"{value / own:.2f}"
