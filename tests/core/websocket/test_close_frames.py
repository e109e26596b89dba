"""The payload of a close frame: codes that may be sent, reasons that fit."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.websocket.close_frames import check_close, close_payload, is_close_code, parse_close


def test_close_codes() -> None:
    """RFC 6455 7.4 and the IANA registry, by the places where the answer changes."""
    changes = [code for last, code in pairwise(range(1 << 16)) if is_close_code(last) != is_close_code(code)]

    assert changes == [1000, 1004, 1007, 1015, 3000, 5000]


@pytest.mark.parametrize(
    ("reason", "kept"),
    [
        ("", ""),
        ("slow_consumer: too slow", "slow_consumer: too slow"),
        ("x" * 123, "x" * 123),
        ("x" * 124, "x" * 123),
        ("€" * 41, "€" * 41),
        ("x" + "€" * 41, "x" + "€" * 40),
        ("x" * 122 + "\U0001f600", "x" * 122),
        ("\ud800", "?"),
    ],
)
def test_close_payload(reason: str, kept: str) -> None:
    payload = close_payload(4001, reason)

    assert parse_close(payload) == (4001, kept)
    check_close(payload)


def test_close_payload_without_a_code() -> None:
    assert parse_close(b"") == (1005, "")
    with pytest.raises(ValueError, match="1005 may not be in a close frame"):
        close_payload(1005)


@given(st.integers(), st.text(max_size=200))
def test_close_payload_of_anything(code: int, reason: str) -> None:
    if is_close_code(code):
        assert len(close_payload(code, reason)) <= 125
    else:
        with pytest.raises(ValueError, match="may not be in a close frame"):
            close_payload(code, reason)
