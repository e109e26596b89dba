"""The options of spark.live.write: those of the sink that have a meaning there, and what frames it sends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark.options import KAFKA_NAMES, OPTIONS, WINDOW_MAX, Option, SinkOptions, choice, chosen, number

COLUMNS = ("subject", "content", "fields", "retained", "removed", "qos", "closure", "reply_to", "as_of", "version")
SHARED = ("url", "token", "ca_file", *COLUMNS, "job", "dead_letter")
DELIVERIES = ("exactly_once", "at_least_once")

LIVE_OPTIONS = {name: OPTIONS[name] for name in SHARED} | {
    "delivery": Option(
        "exactly_once: an error where that does not hold; at_least_once: rows get no numbers of Kafka's; "
        "else whichever holds",
        "",
    ),
    "frame_bytes": Option("a frame is sent when it has so many bytes, 1024 to 1048576", "16384"),
    "linger_ms": Option("a frame is sent when its first row has waited for so long, 0 to 1000", "2"),
    "window": Option(f"frames on the way without an answer, 1 to {WINDOW_MAX}", "16"),
    "buffer_bytes": Option("bytes of rows without an answer that a task keeps before it waits", "4194304"),
    "retry_seconds": Option("how long to go on trying while no sidecar answers and rows wait", "120"),
    "timeout_seconds": Option("how long to wait for a connection, and for an answer", "10"),
}


@dataclass(frozen=True)
class LiveOptions:
    """The options of one query; ``sink`` has those that it shares with the sink, ``delivery`` is empty where not given.

    ``spark`` are those of Spark's own: the folder of the checkpoint and the name of the query.
    """

    sink: SinkOptions
    spark: Mapping[str, str]
    delivery: str
    frame_bytes: int
    linger_ms: float
    window: int
    buffer_bytes: int
    retry_seconds: float
    timeout_seconds: float

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> LiveOptions:
        """Read the options; raise InvalidOption. Case and underscores of names are ignored, as the sink does."""
        words = {name: str(value) for name, value in given.items()}
        text = chosen(words, LIVE_OPTIONS, KAFKA_NAMES)
        own = {"checkpointlocation": "checkpointLocation", "queryname": "queryName"}
        spark = {own[name.lower()]: value for name, value in words.items() if name.lower() in own}
        shared = {name: text[name] for name in SHARED} | {"queryName": spark.get("queryName", "")}
        delivery = text["delivery"]
        return cls(
            sink=SinkOptions.parse(shared),
            spark=spark,
            delivery=choice("delivery", delivery, DELIVERIES) if delivery else "",
            frame_bytes=int(number("frame_bytes", text["frame_bytes"], 1 << 10, 1 << 20, whole=True)),
            linger_ms=number("linger_ms", text["linger_ms"], 0, 1000),
            window=int(number("window", text["window"], 1, WINDOW_MAX, whole=True)),
            buffer_bytes=int(number("buffer_bytes", text["buffer_bytes"], 1 << 16, 1 << 30, whole=True)),
            retry_seconds=number("retry_seconds", text["retry_seconds"], 0, 86_400),
            timeout_seconds=number("timeout_seconds", text["timeout_seconds"], 0.1, 3600),
        )
