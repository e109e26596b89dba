"""Tests of the Spark side: options, rows, data, the sink against a real sidecar, and the ticks job as a process."""
