"""Rooms in which people talk, as Django Channels has them; the sidecar carries the groups."""
