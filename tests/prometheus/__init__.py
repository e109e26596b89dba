"""Tests with Debian's Prometheus."""
