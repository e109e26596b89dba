"""The way of publications into Redis: queued, stored once, confirmed by replicas, answered in order.

Laws:

* Answers come in the order in which publications were handed in.
* A write that some replica lacks is acknowledged only when no server without it can become the primary.
* No later number of a publisher is stored before one that was answered ``unavailable``.
"""
