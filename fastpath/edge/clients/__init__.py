"""The connections of client ports: upgrade, frames in and out, backlogs, quotas, liveness, and how each ends.

Nothing that one client does or leaves undone costs another one more than a bounded slice of a turn.
"""
