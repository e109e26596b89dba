"""What Spark's sink, source and jobs cost: `python -m spark.bench --help`; the figures are in docs/benchmarks.md."""
