"""Tracing and metrics at the start: off they are nothing at all, on they are there or say what is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fastpath.listen_address import SettingsError
from fastpath.server.tracing import check_tracing
from fastpath.settings import Settings
from tests.support.sidecar import ROOT

OFF = """
import asyncio, sys
from fastpath.server.app import preload
from fastpath.server.components import Node, make_runtime
from fastpath.settings import Settings

settings = Settings(mode="none")
preload(settings)
runtime = make_runtime(settings, asyncio.new_event_loop())
Node(runtime)
assert runtime.broker.trail is None, runtime.broker.trail
loaded = [name for name in sys.modules if name.startswith(("opentelemetry", "fastpath.edge.tracing"))]
assert not loaded, loaded
"""

MISSING = """
import os, sys
sys.modules["opentelemetry"] = None
from fastpath.__main__ import main

os.environ |= {"FASTPATH_MODE": "none", "FASTPATH_LISTEN": "clients://127.0.0.1:0", "FASTPATH_WORKERS": "1"}
for name in ("FASTPATH_TRACING", "FASTPATH_OTLP_METRICS"):
    os.environ[name] = "on"
    for arguments in (["--check"], []):
        assert main(arguments) == 2
    del os.environ[name]
assert main(["--check"]) == 0
"""


def run(program: str) -> str:
    """What the program says on its standard error, in a process of its own."""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, env={}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_off_nobody_follows_publications_and_nothing_is_imported() -> None:
    """So that it costs nothing: the data path asks whether there is a listener, with tracing or without."""
    run(OFF)


def test_the_missing_extra_is_an_error_at_the_start_and_not_where_both_are_off() -> None:
    words = run(MISSING)
    for name in ("FASTPATH_TRACING", "FASTPATH_OTLP_METRICS"):
        assert words.count(f"fastpath: {name}: it needs the package opentelemetry") == 2
    assert words.count("pip install 'django-fastpath[otel]'") == 4


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("OTEL_TRACES_SAMPLER", "sometimes", "is none of always_on"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "is not http/protobuf"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json", "is not http/protobuf"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", "is not http://HOST:PORT"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "1 s", "is no whole number of ms"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "999", "is no whole number of ms"),
        ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc", "is not http/protobuf"),
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "collector", "is not http://HOST:PORT"),
    ],
)
def test_what_a_variable_may_not_say_is_an_error_at_the_start(
    name: str, value: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = Settings(mode="none", tracing=True, otlp_metrics=True)
    check_tracing(on)
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=f"{name}: '{value}' {why}"):
        check_tracing(on)
    check_tracing(Settings(mode="none"))


def test_the_more_particular_variable_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://collector.example.com/v1/traces")
    check_tracing(Settings(mode="none", tracing=True))
    with pytest.raises(SettingsError, match="OTEL_EXPORTER_OTLP_PROTOCOL"):
        check_tracing(Settings(mode="none", otlp_metrics=True))
