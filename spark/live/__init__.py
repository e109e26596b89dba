"""Publishes the rows of a query in real-time mode, each within milliseconds (docs/develop/spark-live.md).

Laws:

* Where a query is said to publish once, a row's number is its record's place in Kafka, whatever runs again.
* No batch of a query ends before all of its rows are acknowledged, or are among the dead letters.
* What does not hold is said in one line when a query is started, before its first row.
"""

from spark.live.promise import LiveRefused, Promise
from spark.live.writing import promised, write

__all__ = ["LiveRefused", "Promise", "promised", "write"]
