"""The table of MQTT's statements: each statement of both standards is in it once, with a test that is there."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.support.sidecar import ROOT

PAGE = Path("docs/reference/mqtt-statements.md")

COUNTS = {
    "MQTT 5": """
        1.5.4:3 1.5.5:1 1.5.7:1 2.1.3:1 2.2.1:2-6 2.2.2:1 3.1.0:2 3.1.2:30 3.1.3:12 3.1.4:6 3.2.0:2 3.2.2:22 3.3.1:13
        3.3.2:20 3.3.4:10 3.4.2:3 3.5.2:3 3.6.1:1 3.6.2:3 3.7.2:3 3.8.1:1 3.8.3:5 3.8.4:8 3.9.2:2 3.9.3:2 3.10.1:1
        3.10.3:2 3.10.4:6 3.11.2:2 3.11.3:2 3.12.4:1 3.14.0:1 3.14.1:1 3.14.2:4 3.14.4:3 3.15.1:1 3.15.2:3 4.1.0:2 4.2:1
        4.3.1:1 4.3.2:5 4.3.3:13 4.4.0:2 4.5.0:2 4.6.0:6 4.7.0:1 4.7.1:2 4.7.2:1 4.7.3:4 4.8.2:6 4.9.0:3 4.12.0:7
        4.12.1:2 4.13.1:1 4.13.2:1 6.0.0:4
    """,
    "MQTT 3.1.1": """
        1.5.3:3 2.2.2:2 2.3.1:7 3.1.0:2 3.1.2:24 3.1.3:11 3.1.4:5 3.2.0:1 3.2.2:6 3.3.1:12 3.3.2:3 3.3.4:1 3.3.5:2
        3.6.1:1 3.8.1:1 3.8.3:4 3.8.4:6 3.9.3:2 3.10.1:1 3.10.3:2 3.10.4:6 3.12.4:1 3.14.1:1 3.14.4:3 4.1.0:2 4.3.1:1
        4.3.2:2 4.3.3:2 4.4.0:1 4.5.0:2 4.6.0:6 4.7.1:3 4.7.2:1 4.7.3:4 4.8.0:2 6.0.0:4 7.0.0:2 7.1.1:2 7.1.2:3
    """,
}
"""How many statements each section has, by the standards' Appendix B."""


def page() -> str:
    """The page."""
    return (ROOT / PAGE).read_text(encoding="utf-8")


def statements(version: str) -> list[str]:
    """Those that the table of that version has."""
    part = page().partition(f"## {version}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in part.splitlines() if re.match(r"\| \d", line)]
    return [one.strip() for row in rows for one in row.split(",")]


@cache
def names_in(path: str) -> frozenset[str]:
    """The names of the tests in a file."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("version", COUNTS)
def test_each_statement_is_there_once(version: str) -> None:
    wanted = []
    for part in COUNTS[version].split():
        section, _, count = part.partition(":")
        first, _, last = count.rpartition("-")
        wanted += [f"{section}-{number}" for number in range(int(first or 1), int(last) + 1)]
    assert Counter(statements(version)) == Counter(wanted)


def test_each_test_that_is_named_is_there() -> None:
    files = dict(re.findall(r"^\* \*(\w+)\* `(.+)`$", page(), re.MULTILINE))
    named = re.findall(r"`(\w+)::(test_\w+)`", page())
    assert len(named) > 200
    assert {file for file, _ in named} == set(files)
    assert [(file, name) for file, name in named if name not in names_in(files[file])] == []
