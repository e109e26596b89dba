"""The connections of client ports: upgrade, frames in and out, backlogs, quotas, liveness, and how each ends.

Laws:

* Nothing that one client does or leaves undone costs another one more than a bounded slice of a turn.
* A connection that is closed by the server is told its code before the socket ends.
* While a reason to pause holds, nothing is read from the socket, nor is what was read handled.
"""
