"""Which publications are traced, by the names that OpenTelemetry gives its samplers."""

from __future__ import annotations

import secrets

import pytest
from opentelemetry.sdk.trace.sampling import Decision, TraceIdRatioBased

from fastpath.core.protocol.trace_context import make_traceparent
from fastpath.edge.tracing.sampler import TraceSampler, sampler_of
from fastpath.listen_address import SettingsError


def context(flags: str = "01", trace: str = "") -> str:
    """The context of a publisher."""
    return f"00-{trace or secrets.token_hex(16)}-{secrets.token_hex(8)}-{flags}"


@pytest.mark.parametrize(
    ("name", "sampled", "unsampled", "begins"),
    [
        ("", True, False, False),
        ("parentbased_always_off", True, False, False),
        ("parentbased_always_on", True, False, True),
        ("always_on", True, True, True),
        ("always_off", False, False, False),
    ],
)
def test_samplers_by_name(name: str, sampled: bool, unsampled: bool, begins: bool) -> None:
    sampler = sampler_of({"OTEL_TRACES_SAMPLER": name} if name else {})
    assert (sampler.takes(context()), sampler.takes(context("00"))) == (sampled, unsampled)
    trace = sampler.begin()
    assert bool(trace) is begins
    assert len(trace) in (0, 32)
    assert not begins or sampler.takes(make_traceparent(trace, "1" * 16))


def test_a_share_is_the_one_that_opentelemetry_takes() -> None:
    """So that a trace is whole, or not there."""
    variables = {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.3"}
    theirs, ours = TraceIdRatioBased(0.3), sampler_of(variables)
    taken = 0
    for _ in range(500):
        trace = secrets.token_hex(16)
        decision = theirs.should_sample(None, int(trace, 16), "publish").decision
        assert ours.takes(context("00", trace)) is (decision is Decision.RECORD_AND_SAMPLE)
        taken += decision is Decision.RECORD_AND_SAMPLE
    assert 0 < taken < 500


def test_a_share_of_what_comes_without_a_context_begins_a_trace() -> None:
    named = sampler_of({"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.5"})
    assert named == TraceSampler(follows_parent=True, ratio=0.5)
    assert {bool(named.begin()) for _ in range(200)} == {True, False}
    assert sampler_of({"OTEL_TRACES_SAMPLER": "traceidratio"}) == TraceSampler(follows_parent=False, ratio=1)


@pytest.mark.parametrize(
    ("name", "argument", "why"),
    [
        ("jaeger_remote", "", "is none of always_on"),
        ("parentbased_", "", "is none of"),
        ("traceidratio", "half", "is no number from 0 to 1"),
        ("traceidratio", "1.5", "is no number from 0 to 1"),
        ("traceidratio", "nan", "is no number from 0 to 1"),
    ],
)
def test_what_it_does_not_know_it_says(name: str, argument: str, why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        sampler_of({"OTEL_TRACES_SAMPLER": name, "OTEL_TRACES_SAMPLER_ARG": argument})
