"""The engine of several nodes on one Redis: scripts store, logs deliver, and only what is safe is acknowledged.

Laws:

* One script stores a batch in one atomic step: it finds retries, numbers, appends and merges.
* A node delivers what it reads from Redis' log, its own publications too, so all nodes deliver the same in one order.
* Nothing is acknowledged that a server which may become the primary does not have.
* When Redis is away clients are told ``stale`` and go on from the node's cache.
"""
