"""The benchmark kit."""
