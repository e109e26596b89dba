"""Hooks for every run of pytest."""

pytest_plugins = [
    "tests.support.forked",
    "tests.support.no_skips",
    "tests.support.timeouts",
    "tests.support.seeds",
    "tests.support.pure",
    "tests.support.second_look",
    "tests.support.sidecar_logs",
    "tests.support.groups",
]
