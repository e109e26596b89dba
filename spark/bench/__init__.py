"""What Spark's sink, source and jobs cost: `python -m spark.bench --help`.

The figures are in docs/explain/benchmarks.md.
"""
