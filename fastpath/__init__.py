"""Fastpath, the sidecar that carries live data between publishers and subscribers."""
