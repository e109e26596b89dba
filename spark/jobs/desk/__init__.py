"""Bars, movers and alerts of one read of the prices, made in the driver: what the jobs of these names and `live` run.

Laws:

* Nothing depends on a clock, or on the order of prices within a batch: a batch that runs again makes the same.
* What is kept after a batch is on the disk before Spark notes the batch as done.
"""
