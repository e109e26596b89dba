"""How long a body is: a table of what two readers could understand differently, and the status it is refused with."""

from __future__ import annotations

import pytest

from fastpath.core.websocket.handshake import BadRequest, Request
from fastpath.core.websocket.request_body import CHUNKED, body_length, check_expectation


def request(version: str = "HTTP/1.1", **headers: str) -> Request:
    """A request with these headers."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request("POST", "/", "/", "", version, named, 0)


@pytest.mark.parametrize(
    ("headers", "length"),
    [
        ({}, 0),
        ({"content_length": "0"}, 0),
        ({"content_length": "100"}, 100),
        ({"transfer_encoding": "Chunked"}, CHUNKED),
    ],
)
def test_lengths(headers: dict[str, str], length: int) -> None:
    assert body_length(request(**headers), 100) == length


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content_length": "101"}, 413),
        ({"content_length": "1" * 16}, 400),
        ({"content_length": "-1"}, 400),
        ({"content_length": "+1"}, 400),
        ({"content_length": "1, 1"}, 400),
        ({"content_length": "0x1"}, 400),
        ({"content_length": "²"}, 400),
        ({"content_length": ""}, 400),
        ({"content_length": "1", "transfer_encoding": "chunked"}, 400),
        ({"transfer_encoding": "gzip"}, 501),
        ({"transfer_encoding": "gzip, chunked"}, 501),
        ({"transfer_encoding": "chunked, chunked"}, 501),
        ({"transfer_encoding": "chunked;a=b"}, 501),
        ({"transfer_encoding": "identity"}, 501),
        ({"version": "HTTP/1.0", "transfer_encoding": "chunked"}, 400),
    ],
)
def test_refused(headers: dict[str, str], status: int) -> None:
    with pytest.raises(BadRequest) as refused:
        body_length(request(**headers), 100)
    assert refused.value.status == status


def test_expectations() -> None:
    check_expectation(request())
    check_expectation(request(expect="100-Continue"))
    with pytest.raises(BadRequest, match="417"):
        check_expectation(request(expect="more"))
