"""The way of publications into Redis: queued, stored once, confirmed by replicas, answered in order."""
