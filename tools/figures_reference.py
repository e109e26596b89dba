"""Write the table of all figures into docs/operate/figures.md, from the table of figures itself."""

from __future__ import annotations

import sys
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "operate" / "figures.md"
BEGIN, END = "<!-- figures: tools/figures_reference.py writes this -->", "<!-- figures end -->"
UNITS = {"_per_s": "1/s", "_s": "s", "_ms": "ms", "_seconds": "s", "_bytes": "bytes", "_percent": "%"}


def table() -> str:
    """Return a row for each figure, in the order of their names."""
    from fastpath.core.telemetry.figures import FIGURES  # noqa: PLC0415 - found by the path that main() adds

    lines = ["| figure | kind | unit | over workers | over nodes | sampled as |", "|---|---|---|---|---|---|"]
    for name, figure in sorted(FIGURES.items()):
        unit = next((unit for end, unit in UNITS.items() if name.removesuffix("_max").endswith(end)), "")
        sampled = f"`{figure.sampled}`" if figure.sampled else ""
        lines.append(
            f"| `{name}` | {figure.kind} | {unit} | {figure.across_workers} | {figure.across_nodes} | {sampled} |"
        )
    return "\n".join(lines)


def page(text: str) -> str:
    """Return the page with the table of today."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


def main() -> int:
    """Write the page; the exit status."""
    sys.path.insert(0, str(PAGE.parents[2]))
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
