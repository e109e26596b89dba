"""The engine of several nodes on one Redis: scripts store, logs deliver, and only what is safe is acknowledged."""
