"""Bars, movers and alerts of one read of the prices, made in the driver, for the few instruments of a desk.

The jobs of these names do the same with Spark's own state, each with a read of its own (docs/develop/jobs.md).

Laws:

* The messages are those of the jobs, to the byte.
* Nothing depends on a clock, or on the order of prices within a batch: a batch that runs again makes the same.
* What is kept after a batch is on the disk before Spark notes the batch as done.
"""
