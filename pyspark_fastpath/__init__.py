"""The data source `fastpath`, which Spark finds by itself where this is installed: packages named `pyspark_…` register.

Laws:

* Importing this fails nowhere: Spark imports it before any data source written in Python is used, ours or not.
* It is spark.datasource under another name; options, guarantees and errors are written there, once.
* What the workers' Python lacks is said with what to type.
"""

from __future__ import annotations

from pyspark_fastpath.source import DefaultSource

__all__ = ["DefaultSource"]
