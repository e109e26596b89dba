"""Schema of the people app."""
