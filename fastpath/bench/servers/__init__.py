"""The servers under load: the sidecar, Redis, and the peers that are measured beside it."""
