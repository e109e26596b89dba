"""Commands of the example."""
