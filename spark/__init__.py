"""Spark jobs that publish through the sidecar, and the PySpark data source `realtime` they use."""
