"""Write the table of what rules mean into docs/develop/entitlement.md, from the table that the tests run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "develop" / "entitlement.md"
TRUTH = ROOT / "tests" / "entitlement" / "truth.json"
BEGIN, END = "<!-- rules: tools/truth_table.py writes this -->", "<!-- rules end -->"


def table() -> str:
    """Return a line for each row: what it shows, the rules, who asks for what, the answer."""
    lines = ["| what it shows | rules | asked | answer |", "|---|---|---|---|"]
    for row in json.loads(TRUTH.read_text(encoding="utf-8"))["rows"]:
        texts = [f"{number}. `{text}`" for number, text in enumerate(row["rules"], 1)]
        rules = "<br>".join(texts + [f"code: `{text}`" for text in row.get("grants", ())]) or "none"
        answer = {"allow": "allowed", "deny": "denied"}[row["answer"]]
        by = f" by {row['by']}" if row["by"] else ""
        lines.append(f"| {row['says']} | {rules} | `{row['asks']}` | {answer}{by} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """Return the page with the table of today."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


def main() -> int:
    """Write the page; the exit status."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
