"""The source: what a sidecar has cached and what comes, by positions, as columns."""
