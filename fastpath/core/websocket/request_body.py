"""How long the body of a request is, and every ambiguity about it refused (RFC 9112 6)."""

from __future__ import annotations

from .handshake import BadRequest, Request, has_token

CHUNKED = -1
"""The length of a body that says by chunks how long it is."""

_DIGITS_MAX = 15


def body_length(request: Request, bytes_max: int) -> int:
    """Return the bytes of the request's body, 0 for none, or CHUNKED; raise BadRequest.

    What two readers of the same bytes could take for bodies of different length is refused, also where the RFC lets one
    of the two headers win: a proxy in front might be the other reader.
    """
    headers = request.headers
    length, coding = headers.get("content-length"), headers.get("transfer-encoding")
    if coding is not None:
        if length is not None:
            raise BadRequest(400, "A body has Content-Length or Transfer-Encoding, not both.")
        if request.version == "HTTP/1.0":
            raise BadRequest(400, "HTTP/1.0 has no Transfer-Encoding: send Content-Length.")
        if coding.lower() != "chunked":
            raise BadRequest(501, "Bodies are sent as they are or chunked, in no other coding.")
        return CHUNKED
    if length is None:
        return 0
    if not (length.isascii() and length.isdigit() and len(length) <= _DIGITS_MAX):
        raise BadRequest(400, "Content-Length is the number of the body's bytes.")
    if int(length) > bytes_max:
        raise too_large(bytes_max)
    return int(length)


def too_large(bytes_max: int) -> BadRequest:
    """Return the refusal of a body over the limit."""
    return BadRequest(413, f"The body is too large: at most {bytes_max} bytes are read.")


def check_expectation(request: Request) -> None:
    """Check an Expect; raise BadRequest for one that is not understood (RFC 9110 10.1.1)."""
    expected = request.headers.get("expect")
    if expected is not None and not has_token(expected, "100-continue"):
        raise BadRequest(417, "Of Expect only 100-continue is understood.")
