"""The engine of several nodes, on real Redis servers."""
