"""Tracing: spans of publications that belong to a trace, a bounded queue of them, and a thread that exports them.

Laws:

* Where tracing is off nothing of this is imported, and nobody follows a publication for it.
* A span never holds anything up: what the queue has no room for is counted and left out, and the message goes on with
  the context that it came with.
"""
