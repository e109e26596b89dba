"""What a query in real-time mode can promise, read from its plan: each row once, or at least once and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from spark.live.columns import PLACE

SOURCE = "kafka"

PASSING = {"Project", "Filter", "SubqueryAlias", "EventTimeWatermark", "View"}
"""Nodes of a plan of which each row that comes out is one that went in, of the same record."""

OF_NOW = ("current_timestamp(", "now(", "current_date(", "localtimestamp(", "current_time(")
"""A filter with one of these takes other rows when it runs again."""

RESETTING = "failondataloss"


class LiveRefused(ValueError):
    """A query cannot be started in real-time mode; the text says in one line why, and what to do."""


class Promise(NamedTuple):
    """The promise of a query: ``once`` where each record's row is stored once; ``words`` say it to a reader, with the
    reason where it is not so."""

    once: bool
    words: str


ONCE = Promise(
    True,
    "each record's row is stored once, also when it is read again after a failure or a restart from the checkpoint: "
    "its number is its offset in Kafka",
)


def at_least_once(why: str) -> Promise:
    """Return the promise of a query whose rows have no numbers of Kafka's."""
    return Promise(False, f"at least once, rows are stored again where a batch runs again: {why}")


def promise_of(frame: DataFrame, source: str = SOURCE) -> Promise:
    """Read the plan of a frame; raises LiveRefused where it is no stream of records of ``source``."""
    plan = _java(frame).queryExecution().analyzed()
    if not plan.isStreaming():
        raise LiveRefused("the frame is no stream: read it with session.readStream")
    nodes = list(_walk(plan))
    sources = [node for node in nodes if node.children().isEmpty() and node.isStreaming()]
    for node in sources:
        if (name := _source(node)) != source:
            raise LiveRefused(
                f"real-time mode reads from Kafka alone, and this frame reads from {name}: use "
                'writeStream.format("fastpath") for others'
            )
    other = next((node.nodeName() for node in nodes if node.nodeName() not in PASSING and node not in sources), "")
    if other:
        return at_least_once(_why(other))
    if len(sources) != 1:
        return at_least_once("records are read by several sources")
    if str(sources[0].extraOptions().getOrDefault(RESETTING, "true")).lower() != "true":
        return at_least_once("with failOnDataLoss=false offsets may begin anew, and say nothing of what is stored")
    if lacking := _lacking(plan, nodes, sources[0]):
        return at_least_once(
            f"the frame has no column{'s' if len(lacking) > 1 else ''} {', '.join(lacking)} of Kafka's any more, by "
            "which rows are numbered"
        )
    if (why := _changing(nodes)) is not None:
        return at_least_once(why)
    return ONCE


def _why(node: str) -> str:
    if node in ("Generate", "Expand"):
        return "a record may become several rows (explode)"
    if node == "Join":
        return "a record may become several rows (join)"
    if node == "Union":
        return "records are read by several sources (union)"
    if node.startswith(("Repartition", "Sort", "RebalancePartitions", "Coalesce")):
        return "rows are shuffled, and come in another order when they are read again"
    return f"the query keeps a state, or makes rows of several records ({node})"


def _changing(nodes: list[Any]) -> str | None:
    """Return why a filter may take other rows when it runs again; None where it cannot."""
    if not any(node.nodeName() == "Filter" for node in nodes):
        return None
    for node in nodes:
        for expression in _each(node.expressions()):
            if not expression.deterministic():
                return "a filter depends on chance, and may take other rows when it runs again"
            if any(name in str(expression.toString()) for name in OF_NOW):
                return "a filter depends on the time, and may take other rows when it runs again"
    return None


def _lacking(plan: Any, nodes: list[Any], source: Any) -> list[str]:
    """Return the columns of the frame that are not, under whatever names between, those of Kafka's source of the same
    name."""
    origin = {}
    for node in nodes:
        if node.nodeName() == "Project":
            for one in _each(node.projectList()):
                child = one.children()
                if one.getClass().getSimpleName() == "Alias" and child.head().getClass().getSimpleName() in (
                    "AttributeReference",
                ):
                    origin[str(one.exprId())] = str(child.head().exprId())
    kafka = {str(one.name()): str(one.exprId()) for one in _each(source.output())}
    found = {}
    for one in _each(plan.output()):
        place = str(one.exprId())
        while place in origin:
            place = origin[place]
        found.setdefault(str(one.name()).lower(), place)
    return [name for name in PLACE if found.get(name) != kafka.get(name)]


def _source(node: Any) -> str:
    try:
        return str(node.sourceName()).lower()
    except Exception:  # py4j raises its own where a node has no such method, which no source of Kafka's is
        return str(node.nodeName())


def _walk(plan: Any) -> Iterator[Any]:
    yield plan
    for child in _each(plan.children()):
        yield from _walk(child)


def _each(sequence: Any) -> Iterator[Any]:
    """Yield the items of a Scala Seq."""
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _java(frame: DataFrame) -> Any:
    return frame._jdf
