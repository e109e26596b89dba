"""The options of a write with the data source `realtime`, checked, and what the checks of others are made of."""

from __future__ import annotations

import re
import ssl
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Literal, cast

from fastpath.client.publisher.connection import address

FRAME_ROWS_MAX = 2_000
"""Rows in one frame that is staged (protocol.md 6.5)."""

WINDOW_MAX = 16
"""Frames on the way without an answer: no server allows more (protocol.md 6.3)."""

TRANSACTION = re.compile(r"[A-Za-z0-9._-]{0,100}")
"""Names of transactions are parts of the names of files."""

OF_SPARK = frozenset({"path", "checkpointlocation", "queryname"})
"""Options that Spark itself puts among ours."""

KAFKA_NAMES = {"topic": "subject"}
"""Names that Kafka's connector gives to options of a write that mean the same there."""

Delivery = Literal["exactly_once", "at_least_once"]
Compression = Literal["none", "zlib"]


class InvalidOption(ValueError):
    """An option is unknown, missing or out of its range; the text says which and what to give instead."""


@dataclass(frozen=True)
class Option:
    """The meaning of an option, and its default; both are shown in errors and in docs/develop/spark.md."""

    meaning: str
    default: str | None = None


OPTIONS = {
    "url": Option(
        "host:port of the sidecar's publisher port; of several nodes with commas: another is used when one is away"
    ),
    "token": Option("what the sidecar asks for: a token of a user who may publish", ""),
    "ca_file": Option("with tls:// in url: the certificates to trust, a file in PEM; else those of the system", ""),
    "subject": Option("template of the subject, such as /stocks/us/{symbol}; else there is a column `subject`", ""),
    "content": Option("the column that is the content", ""),
    "fields": Option("the column that holds the fields, a map or a struct", ""),
    "retained": Option("the column that says whether the message becomes the subject's snapshot", ""),
    "removed": Option(
        "the column that says whether the row removes its subject: of such a row nothing else is sent", ""
    ),
    "qos": Option("the column with the quality, guaranteed or standard", ""),
    "closure": Option("the column with the closure, which subscribers get with the message", ""),
    "reply_to": Option("the column with the subject to which subscribers are asked to reply", ""),
    "as_of": Option("the column with the time that the data is as of, a timestamp, ms since 1970 or a text", ""),
    "version": Option("the column with the version: a row below that of its subject's newest message is outdated", ""),
    "job": Option("with as_of or version: the name of the job that subscribers see; else the name of the query", ""),
    "delivery": Option("exactly_once: rows are staged, then committed; at_least_once: published as they come", ""),
    "transaction": Option("a name: what is written again under it is stored once; of each write in foreachBatch", ""),
    "dead_letter": Option("a folder for the rows that are refused; else they fail the write", ""),
    "batch_rows": Option(f"rows in one frame to the sidecar, 1 to {FRAME_ROWS_MAX}", "2000"),
    "window": Option(f"frames of a task on the way without an answer, 1 to {WINDOW_MAX}", "4"),
    "compression": Option("zlib where the network is slower than a core, else none", "none"),
    "retry_seconds": Option("how long to go on trying while no sidecar answers or has room", "60"),
    "publisher": Option("what the names of this job's publishers begin with, with at_least_once", "spark"),
}


@dataclass(frozen=True)
class SinkOptions:
    """The options of one write; where a column is named by its default and need not be there, the name is empty."""

    url: str
    token: str
    ca_file: str
    subject: str
    content: str
    fields: str
    retained: str
    removed: str
    qos: str
    closure: str
    reply_to: str
    as_of: str
    version: str
    job: str
    delivery: Delivery
    transaction: str
    dead_letter: str
    batch_rows: int
    window: int
    compression: Compression
    retry_seconds: float
    publisher: str

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SinkOptions:
        """Read the options; raise InvalidOption. Case and underscores of names are ignored, Kafka's names taken as
        well."""
        text = chosen(given, OPTIONS, KAFKA_NAMES)
        delivery = choice("delivery", text["delivery"] or "exactly_once", ("exactly_once", "at_least_once"))
        if delivery == "at_least_once":
            for name in ("transaction", "dead_letter"):
                if text[name]:
                    raise InvalidOption(f"option {name!r} needs delivery exactly_once")
        if not TRANSACTION.fullmatch(text["transaction"]):
            raise InvalidOption("option 'transaction' has up to 100 letters, digits, points, - and _")
        queries = {name.lower(): value for name, value in given.items()}
        return cls(
            url=addresses(text["url"]),
            token=text["token"],
            ca_file=text["ca_file"],
            subject=text["subject"],
            content=text["content"],
            fields=text["fields"],
            retained=text["retained"],
            removed=text["removed"],
            qos=text["qos"],
            closure=text["closure"],
            reply_to=text["reply_to"],
            as_of=text["as_of"],
            version=text["version"],
            job=text["job"] or queries.get("queryname") or "",
            delivery=cast(Delivery, delivery),
            transaction=text["transaction"],
            dead_letter=text["dead_letter"],
            batch_rows=int(number("batch_rows", text["batch_rows"], 1, FRAME_ROWS_MAX, whole=True)),
            window=int(number("window", text["window"], 1, WINDOW_MAX, whole=True)),
            compression=cast(Compression, choice("compression", text["compression"], ("none", "zlib"))),
            retry_seconds=number("retry_seconds", text["retry_seconds"], 0, 86_400),
            publisher=text["publisher"],
        )

    def tls(self) -> ssl.SSLContext | None:
        """Return what certificates to trust, where the option says it; raise InvalidOption."""
        return trusted(self.ca_file)


def chosen(
    given: Mapping[str, str], options: Mapping[str, Option], others: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the value of each option, given under its name or under its other one (``others``: that to ours), or its
    default.

    Case and underscores of names are ignored. Raises InvalidOption for unknown, missing and doubly given ones.
    """
    ours = {_plain(name): name for name in options} | {_plain(other): name for other, name in (others or {}).items()}
    found: dict[str, tuple[str, str]] = {}
    unknown = []
    for name, value in given.items():
        if (option := ours.get(_plain(name))) is not None:
            if option in found and found[option][1] != value:
                raise InvalidOption(f"options {found[option][0]!r} and {name!r} are one, {option!r}: give it once")
            found[option] = (name, value)
        elif _plain(name) not in OF_SPARK:
            unknown.append(name)
    if unknown:
        raise InvalidOption(
            f"unknown option {', '.join(map(repr, sorted(unknown)))} of this format; there are: {', '.join(options)}"
        )
    values = {name: found.get(name, ("", ""))[1] or option.default for name, option in options.items()}
    missing = [f"{name} ({options[name].meaning})" for name, value in values.items() if value is None]
    if missing:
        raise InvalidOption(f"this format needs the option {', '.join(missing)}")
    return {name: value or "" for name, value in values.items()}


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def addresses(urls: str) -> str:
    """Return the option `url`, each address tried for its form; raise InvalidOption before anything waits for one."""
    found = [url.strip() for url in urls.split(",") if url.strip()]
    for url in found or [urls]:
        try:
            address(url)
        except ValueError as error:
            raise InvalidOption(f"option 'url': {error}") from None
    return ",".join(found)


def trusted(ca_file: str) -> ssl.SSLContext | None:
    """Return what certificates to trust, where `ca_file` says it; raise InvalidOption for a file that cannot be
    read."""
    try:
        return ssl.create_default_context(cafile=ca_file) if ca_file else None
    except OSError as error:
        raise InvalidOption(f"option 'ca_file' {ca_file!r}: {error.strerror or error}") from None


def template_columns(template: str) -> list[str]:
    """Return the columns that a template names in braces; raise InvalidOption where it is not a template."""
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


def number(name: str, value: str, low: float, high: float, whole: bool = False) -> float:
    """Return an option that is a number in a range; raise InvalidOption."""
    try:
        result: float = int(value) if whole else float(value)
    except ValueError:
        result = low - 1
    if not low <= result <= high:
        raise InvalidOption(
            f"option {name!r} must be a {'whole ' if whole else ''}number from {low} to {high}, not {value!r}"
        )
    return result


def choice(name: str, value: str, choices: Collection[str]) -> str:
    """Return an option that is one of some words, in any case; raise InvalidOption."""
    if value.lower() not in choices:
        raise InvalidOption(f"option {name!r} must be one of {', '.join(choices)}, not {value!r}")
    return value.lower()
