"""Makes up ticks between real closes, for volume: tick number i is the same whenever and wherever it is made."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

LEVELS = 6
"""Number of times that the path between two closes is bent: at its middle, at the middles of its halves, and so on."""
ROUGHNESS = 0.01
"""Part of the price by which the first bend moves it at most; each further one half as far."""
PRICE = "decimal(12,2)"


def updates(
    ticks: DataFrame, histories: DataFrame, symbols: int, ticks_per_day: int, seed: int = 0, first_day: int = 0
) -> DataFrame:
    """Make of ticks (`value`, numbered from 0) and `support.histories` updates as `spark.jobs.ticks.messages` takes
    them.

    Each of the `symbols` instruments gets each `symbols`-th tick, and moves in `ticks_per_day` of them from one real
    close to the next: along the line between them, bent at random by `seed`, in cents. Instruments beyond the real ones
    are named after them, such as AAPL.1, and bent otherwise. `step` counts the ticks of an instrument from 0.
    """
    number = F.pmod("value", F.lit(symbols))
    step = F.floor(F.col("value") / symbols)
    rows = ticks.withColumn("number", number).withColumn("step", step)
    rows = rows.join(F.broadcast(histories), F.pmod("number", F.col("stocks")) == F.col("place"))
    copy = F.floor(F.col("number") / F.col("stocks"))
    days = F.size("closes") - 1 - first_day
    rows = rows.select(
        F.concat("symbol", F.when(copy > 0, F.concat(F.lit("."), copy)).otherwise("")).alias("symbol"),
        "name",
        "exchange",
        "dates",
        "closes",
        (F.lit(first_day) + F.pmod(F.floor(F.col("step") / ticks_per_day), days)).cast("int").alias("day"),
        (F.pmod("step", F.lit(ticks_per_day)) / ticks_per_day).alias("place"),
        "step",
    )
    before, after = F.get("closes", F.col("day")), F.get("closes", F.col("day") + 1)
    line = before + (after - before) * F.col("place")
    price = F.greatest(F.round(line * (1 + _bends(seed)), 2), F.lit(0.01)).cast(PRICE)
    return rows.select(
        "symbol",
        "name",
        "exchange",
        F.get("dates", F.col("day")).cast("string").alias("date"),
        price.alias("price"),
        F.round(before, 2).cast(PRICE).alias("previous"),
        F.xxhash64(F.lit(seed), "symbol", "step").alias("chance"),
        "step",
    )


def _bends(seed: int) -> Column:
    """Return the sum of all bends at the column `place`, 0 at both ends of the day."""
    total = F.lit(0.0)
    for level in range(LEVELS):
        cell = F.floor(F.col("place") * 2**level)
        hat = 1 - F.abs((F.col("place") * 2**level - cell) * 2 - 1)
        chance = F.pmod(F.xxhash64(F.lit(seed), "symbol", "day", F.lit(level), cell), F.lit(2001)) / 1000 - 1
        total = total + hat * chance * (ROUGHNESS / 2**level)
    return total
