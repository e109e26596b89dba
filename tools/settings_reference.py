"""Write the table of the sidecar's settings into docs/reference/settings.md, from the settings themselves."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "settings.md"
BEGIN, END = "<!-- settings: tools/settings_reference.py writes this -->", "<!-- settings end -->"
UNITS = {"seconds": "s", "bytes": "bytes", "messages": "messages"}


def table() -> str:
    """Return a row for each setting: name, unit, default, reason."""
    from fastpath.settings import PREFIX, Settings  # noqa: PLC0415

    lines = ["| setting | unit | default | what it is and why |", "|---|---|---|---|"]
    for one in fields(Settings):
        unit = next((UNITS[word] for word in one.name.split("_") if word in UNITS), "")
        if isinstance(one.default, bool):
            unit, default = "on, off", "on" if one.default else "off"
        elif isinstance(one.default, int):
            unit, default = unit or "number", f"{one.default}"
        else:
            unit, default = "text", f"`{one.default}`" if one.default else "empty"
        lines.append(f"| `{PREFIX}{one.name.upper()}` | {unit} | {default} | {one.metadata['help']} |")
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
