#!/usr/bin/env python
"""Says how much of each package the tests reach, and fails where that is less than its floor.

`coverage json` writes what is read here; the floors are those of `[tool.coverage_floors]` in pyproject.toml, in percent
of the lines of a folder with those below it.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def reached(files: Mapping[str, Any], folder: str) -> float:
    """Return the percentage of the lines of a folder that were run; 0 where there is none."""
    sums = [file["summary"] for path, file in files.items() if path.startswith(f"{folder}/")]
    lines = sum(one["num_statements"] for one in sums)
    return 100 * sum(one["covered_lines"] for one in sums) / lines if lines else 0.0


def main(report: Path, project: Path = ROOT / "pyproject.toml") -> int:
    """Print a line for each package; 0 if none is below its floor, 1 if one is."""
    files = json.loads(report.read_text(encoding="utf-8"))["files"]
    floors = tomllib.loads(project.read_text(encoding="utf-8"))["tool"]["coverage_floors"]
    status = 0
    for folder, floor in floors.items():
        percent = reached(files, folder)
        low = percent < floor
        status |= low
        print(f"{folder:24}{percent:6.1f} %, at least {floor} %{' BELOW ITS FLOOR' if low else ''}")
    return int(status)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
