"""Kills drivers, executors and sidecars while Spark writes, and proves that every row was stored once."""
