"""Spark jobs that publish through the sidecar, and the PySpark data source `realtime` they use.

Laws:

* Batch imports no Django; of the sidecar it uses the protocol and the client.
* What a query publishes with a checkpoint is published exactly once, unless `at_least_once` is asked for.
* The package is never bound to its bare name, which is what notebooks call their session.
"""
