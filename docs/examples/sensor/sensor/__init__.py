"""Temperatures that a thing measures and a page shows."""
