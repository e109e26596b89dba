"""The options of the data source `realtime`, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter

BATCH_ROWS_MAX = 10_000
OF_SPARK = frozenset({"path", "checkpointlocation", "queryname"})
"""Options that Spark itself puts among ours."""


class InvalidOption(ValueError):
    """An option is unknown, missing or out of its range; the text says which and what to give instead."""


@dataclass(frozen=True)
class Option:
    """What an option means, and what it is when left out; both are shown in errors and in docs/spark.md."""

    meaning: str
    default: str | None = None


OPTIONS = {
    "url": Option(
        "host:port of the sidecar's publisher port; of several nodes with commas: another is used when one is away"
    ),
    "token": Option("what the sidecar asks for: a token of a user who may publish", ""),
    "subject": Option("template of the subject, such as /stocks/us/{symbol}; else there is a column `subject`", ""),
    "content": Option("the column that is the content", "content"),
    "batch_rows": Option(f"rows in one frame to the sidecar, 1 to {BATCH_ROWS_MAX}", "1000"),
    "retry_seconds": Option("how long to go on trying while no sidecar answers", "60"),
    "publisher": Option("what the names of this job's publishers begin with", "spark"),
}


@dataclass(frozen=True)
class SinkOptions:
    """The options of one write."""

    url: str
    token: str
    subject: str
    content: str
    batch_rows: int
    retry_seconds: float
    publisher: str

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SinkOptions:
        """Raises InvalidOption. Names are taken in any case, as everywhere in Spark."""
        options = {name.lower(): value for name, value in given.items()}
        unknown = sorted(set(options) - set(OPTIONS) - OF_SPARK)
        if unknown:
            raise InvalidOption(
                f'unknown option {", ".join(map(repr, unknown))} for format "realtime"; there are: {", ".join(OPTIONS)}'
            )
        values = {name: options.get(name) or option.default for name, option in OPTIONS.items()}
        missing = [f"{name} ({OPTIONS[name].meaning})" for name, value in values.items() if value is None]
        if missing:
            raise InvalidOption(f'format "realtime" needs the option {", ".join(missing)}')
        text = {name: value or "" for name, value in values.items()}
        return cls(
            url=text["url"],
            token=text["token"],
            subject=text["subject"],
            content=text["content"],
            batch_rows=int(_number("batch_rows", text["batch_rows"], 1, BATCH_ROWS_MAX, whole=True)),
            retry_seconds=_number("retry_seconds", text["retry_seconds"], 0, 86_400),
            publisher=text["publisher"],
        )


def template_columns(template: str) -> list[str]:
    """The columns that a template names in braces; raises InvalidOption where it is not a template."""
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise InvalidOption(f"option 'subject' {template!r}: {error}") from None
    columns = []
    for _, column, format_spec, conversion in parts:
        if column is None:
            continue
        if not column or format_spec or conversion:
            raise InvalidOption(f"option 'subject' {template!r}: between braces goes the name of a column, no more")
        columns.append(column)
    return columns


def _number(name: str, value: str, low: float, high: float, whole: bool = False) -> float:
    try:
        number: float = int(value) if whole else float(value)
    except ValueError:
        number = low - 1
    if not low <= number <= high:
        raise InvalidOption(
            f"option {name!r} must be a {'whole ' if whole else ''}number from {low} to {high}, not {value!r}"
        )
    return number
