"""Figures of a process and its node: the catalogue, samples, health, and their HTTP and Prometheus forms."""
