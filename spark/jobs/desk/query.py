"""Publishes all that the board makes of the prices of a query; its state is a file for each batch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

from spark import direct
from spark.jobs.desk import messages
from spark.jobs.desk.board import Board, Kept, Plan
from spark.jobs.desk.windows import CENTS, Price

PUBLISHED = {
    "bars": ("as_of", "version"),
    "bars_final": ("as_of",),
    "alerts": ("as_of",),
    "movers": ("as_of", "version"),
}
"""Tables that are published, by the name that subscribers see as the job's, and which of these columns each has."""
FOLDER = "board"
"""Folder beside Spark's own ones in the checkpoint of the query."""
BATCHES_KEPT = 10

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Kept).decode


class Lost(RuntimeError):
    """The state of the batches before is not there; the text says where it should be."""


class Desk:
    """Publishes what each batch of prices makes, exactly once; ``options`` has those of format `realtime` for each of
    PUBLISHED.

    What is kept after a batch is a file, which is there before Spark notes the batch as done. So a batch that runs
    again begins with what the one before it left, makes the same, and is known to the sidecar by its number.
    """

    def __init__(self, plan: Plan, folder: Path, options: Mapping[str, Mapping[str, str]]) -> None:
        self._plan = plan
        self._folder = folder
        self._options = options
        self._board: Board | None = None
        self._next = -1

    def __call__(self, prices: DataFrame, batch: int) -> None:
        """Take a batch; raises Lost, and what publishing raises."""
        if self._board is None or batch != self._next:
            self._board = Board(self._plan, self._kept(batch - 1))
        # Until its file is there nothing may go on from what it makes.
        board, self._board = self._board, None
        made = board.take(rows(prices.toArrow()))
        query = prices.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        for job, table in (
            ("bars", messages.bars(made.moving, final=False)),
            ("bars_final", messages.bars(made.final, final=True)),
            ("alerts", messages.alerts(made.alerts)),
            ("movers", messages.moves(made.moves, self._plan.window)),
        ):
            names = [*messages.PLAIN, *PUBLISHED[job]]
            schema = StructType([messages.SCHEMA[name] for name in names])
            direct.publish_table(table.select(names), schema, f"{query}:{job}", batch, self._options[job])
        self._keep(board.kept, batch)
        self._board, self._next = board, batch + 1

    def _kept(self, batch: int) -> Kept:
        if batch < 0:
            return Kept()
        path = self._path(batch)
        try:
            return _decode(path.read_bytes())
        except FileNotFoundError:
            raise Lost(f"{path} is not there: begin with a new checkpoint") from None

    def _keep(self, kept: Kept, batch: int) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        part = self._folder / ".part"
        with part.open("wb") as file:
            file.write(_encode(kept))
            file.flush()
            os.fsync(file.fileno())
        part.replace(self._path(batch))
        self._path(batch - BATCHES_KEPT).unlink(missing_ok=True)

    def _path(self, batch: int) -> Path:
        return self._folder / f"{batch}.json"


def rows(table: pa.Table) -> list[Price]:
    """Return the prices (`spark.jobs.prices`) of a batch; what was published without a name has none."""
    columns = [
        table["symbol"],
        table["name"],
        _cents(table["price"]),
        _cents(table["previous"]),
        table["volume"],
        pc.divide(table["time"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()), 1000),
        table["seq"],
        table["simulated_price"],
        table["simulated_volume"],
    ]
    return [Price(*row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]


def _cents(column: pa.ChunkedArray) -> Any:
    """Return a column of decimals with two digits as whole numbers."""
    return pc.multiply(column, pa.scalar(CENTS, pa.decimal128(3, 0))).cast(pa.int64())


def start(
    name: str,
    prices: DataFrame,
    plan: Plan,
    options: Mapping[str, Mapping[str, str]],
    checkpoint: str,
    trigger: Mapping[str, Any],
) -> StreamingQuery:
    """Start the query ``name`` over prices; ``options`` are Desk's."""
    place = os.path.join(checkpoint, name)
    return (
        prices.writeStream.foreachBatch(Desk(plan, Path(place, FOLDER), options))
        .queryName(name)
        .option("checkpointLocation", place)
        .trigger(**trigger)
        .start()
    )
