"""The job that makes bars in SQL, as docs/develop/jobs.md has it: its text, and what it defines."""

from __future__ import annotations

from types import ModuleType

from tests.support.guide import one

NAME = "sql_bars"


def text() -> str:
    """The whole file."""
    return one("docs/develop/jobs.md", "python", "Publishes bars of all prices, made by Spark's SQL")


def module() -> ModuleType:
    """What it defines, without running it."""
    made = ModuleType(NAME)
    exec(compile(text(), f"{NAME}.py", "exec"), made.__dict__)  # noqa: S102 - of our own page
    return made
