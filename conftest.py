"""Hooks for every run of pytest."""

pytest_plugins = ["tests.support.no_skips", "tests.support.groups"]
