"""The options of a read with the data source `realtime`, checked."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from fastpath.core.protocol.errors import InvalidSubject
from fastpath.core.protocol.subject import check_pattern, check_subject, is_wildcard
from spark.options import InvalidOption, Option, addresses, choice, chosen, number, trusted
from spark.source.positions import EARLIEST, Position

PARTITIONS_MAX = 1000
WAIT_MS_MAX = 5000
ROWS_MAX = 100_000_000

SOURCE_OPTIONS = {
    "url": Option(
        "host:port of the sidecar's publisher port; of several nodes with commas: another is used when one is away"
    ),
    "token": Option("what the sidecar asks for: a token of a user who may subscribe to the subjects", ""),
    "ca_file": Option("with tls:// in url: the certificates to trust, a file in PEM; else those of the system", ""),
    "subjects": Option("subjects and patterns with commas, such as /stocks/us/*,/bonds/**"),
    "start": Option("earliest, latest, a time (ISO 8601, or ms since 1970), or JSON {subject: [epoch, seq]}", ""),
    "max_rows": Option("about so many messages in a batch of a query; else all there are", ""),
    "fail_on_data_loss": Option("false: what is not there any more is left out, and the log says so", "true"),
    "fields": Option("fields as columns of their own, such as `price double, volume long`; else a map", ""),
    "wait_ms": Option(f"how long a query waits for news before it looks again, 0 to {WAIT_MS_MAX}", "200"),
    "partitions": Option("tasks that read a batch, at most; else 2, and one for fewer than 40,000 messages", ""),
    "retry_seconds": Option("how long to go on trying while no sidecar answers", "60"),
}

KAFKA_NAMES = {
    "subscribe": "subjects",
    "startingOffsets": "start",
    "startingTimestamp": "start",
    "maxOffsetsPerTrigger": "max_rows",
}
"""Names that Kafka's connector gives to options of a read that mean the same there; others differ in case alone."""


@dataclass(frozen=True)
class SourceOptions:
    """The options of one read; where ``start`` is ``time``, ``time`` is that in ms."""

    url: str
    token: str
    ca_file: str
    subjects: tuple[str, ...]
    start: str | dict[str, Position]
    time: int | None
    max_rows: int | None
    fail_on_data_loss: bool
    fields: str
    wait_ms: int
    partitions: int | None
    retry_seconds: float

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
        """Read the options; raise InvalidOption. A query begins with what comes, a batch with what is cached, unless
        told otherwise."""
        text = chosen(given, SOURCE_OPTIONS, KAFKA_NAMES)
        start, time = _start(text["start"] or ("latest" if streaming else "earliest"))
        if not streaming and text["max_rows"]:
            raise InvalidOption("option 'max_rows' is for streaming queries")
        return cls(
            url=addresses(text["url"]),
            token=text["token"],
            ca_file=text["ca_file"],
            subjects=_subjects(text["subjects"]),
            start=start,
            time=time,
            max_rows=int(number("max_rows", text["max_rows"], 1, ROWS_MAX, whole=True)) if text["max_rows"] else None,
            fail_on_data_loss=choice("fail_on_data_loss", text["fail_on_data_loss"], ("true", "false")) == "true",
            fields=text["fields"],
            wait_ms=int(number("wait_ms", text["wait_ms"], 0, WAIT_MS_MAX, whole=True)),
            partitions=int(number("partitions", text["partitions"], 1, PARTITIONS_MAX, whole=True))
            if text["partitions"]
            else None,
            retry_seconds=number("retry_seconds", text["retry_seconds"], 0, 86_400),
        )

    def tls(self) -> ssl.SSLContext | None:
        """Return what certificates to trust, where the option says it; raise InvalidOption."""
        return trusted(self.ca_file)


def _subjects(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        try:
            check_pattern(name, names=False) if is_wildcard(name) else check_subject(name)
        except InvalidSubject as error:
            raise InvalidOption(f"option 'subjects' {name!r}: {error.reason}") from None
    if not names:
        raise InvalidOption("option 'subjects' names no subject")
    return names


def _start(text: str) -> tuple[str | dict[str, Position], int | None]:
    wrong = InvalidOption(
        "option 'start' is earliest, latest, a time such as 2026-01-31T09:30:00Z or ms since 1970, "
        f'or JSON {{"/subject/name": [epoch, seq]}}, not {text[:80]!r}'
    )
    if text.lower() in ("earliest", "latest"):
        return text.lower(), None
    if text.lstrip().startswith("{"):
        return _positions(text, wrong), None
    if text.isdecimal():
        return "time", int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise wrong from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return "time", int(moment.timestamp() * 1000)


def _positions(text: str, wrong: InvalidOption) -> dict[str, Position]:
    try:
        given = json.loads(text)
    except ValueError:
        raise wrong from None
    positions: dict[str, Position] = {}
    for subject, place in given.items():
        match place:
            case "earliest":
                positions[subject] = EARLIEST
            case [int(epoch), int(seq)] if epoch >= 0 and seq >= 0:
                positions[subject] = (epoch, seq)
            case _:
                raise wrong
    return positions
