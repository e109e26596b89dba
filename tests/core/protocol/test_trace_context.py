"""The form of a traceparent, by the examples and rules of W3C Trace Context."""

from __future__ import annotations

from typing import Any

import pytest

from fastpath.core.protocol.trace_context import (
    flags_of,
    is_sampled,
    make_traceparent,
    read_traceparent,
    span_of,
    trace_of,
)

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE}-{SPAN}-01"


def test_its_parts() -> None:
    assert (trace_of(GOOD), span_of(GOOD)) == (TRACE, SPAN)
    assert make_traceparent(TRACE, SPAN) == GOOD
    assert make_traceparent(TRACE, SPAN, flags_of(f"00-{TRACE}-{SPAN}-02")) == f"00-{TRACE}-{SPAN}-03"


@pytest.mark.parametrize(("flags", "sampled"), [("00", False), ("01", True), ("02", False), ("03", True), ("ff", True)])
def test_the_lowest_bit_of_the_flags_says_sampled(flags: str, sampled: bool) -> None:
    context = read_traceparent(f"00-{TRACE}-{SPAN}-{flags}")
    assert context == f"00-{TRACE}-{SPAN}-{flags}"
    assert is_sampled(context) is sampled


def test_what_a_later_version_appends_is_left_out() -> None:
    """W3C Trace Context, 4: such a header is read as far as it is known."""
    assert read_traceparent(f"cc-{TRACE}-{SPAN}-01-what-the-future-brings") == GOOD
    assert read_traceparent(f"01-{TRACE}-{SPAN}-01") == GOOD
    assert read_traceparent(f"cc-{TRACE}-{SPAN}-01.what") is None
    assert read_traceparent(f"cc-{TRACE}-{SPAN}-01-" + "x" * 1000) is None


@pytest.mark.parametrize(
    "value",
    [
        None, 7, b"", [], {}, "", "x" * 55, GOOD.upper(), GOOD[:-1], GOOD + "0", GOOD + "-", f" {GOOD}", f"{GOOD}\n",
        f"ff-{TRACE}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01", GOOD.replace("-", "_"),
        f"00-{TRACE[:-1]}g-{SPAN}-01", f"٠٠-{TRACE}-{SPAN}-01", GOOD.encode(),
    ],
)  # fmt: skip
def test_a_malformed_one_is_as_none(value: Any) -> None:
    assert read_traceparent(value) is None
