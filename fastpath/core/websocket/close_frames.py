"""What a close frame carries (RFC 6455 5.5.1, 7.4)."""

from __future__ import annotations

from ..protocol.errors import Close, FrameError

NO_STATUS = 1005
"""RFC 6455 7.1.5: what a close frame without a code stands for; it is never on the wire."""

REASON_BYTES_MAX = 123
"""A control frame has 125 bytes, and the code two of them (RFC 6455 5.5)."""


def is_close_code(code: int) -> bool:
    """Return whether ``code`` may be in a close frame (RFC 6455 7.4; 1012 to 1014 are in the IANA registry)."""
    return 3000 <= code <= 4999 or 1000 <= code <= 1003 or 1007 <= code <= 1014


def close_payload(code: int, reason: str = "") -> bytes:
    """Return the payload of a close frame; the reason is cut to 123 bytes, never inside a character (RFC 6455 5.5.1).

    Raises ValueError for a code that may not be sent.
    """
    if not is_close_code(code):
        raise ValueError(f"{code} may not be in a close frame: use 1000 or one of protocol.md 7")
    text = reason.encode("utf-8", "replace")
    if len(text) > REASON_BYTES_MAX:
        text = text[:REASON_BYTES_MAX].decode("utf-8", "ignore").encode()
    return code.to_bytes(2) + text


def parse_close(payload: bytes) -> tuple[int, str]:
    """Return the code and the reason of a CLOSE event; the code is 1005 if the frame had none (RFC 6455 7.1.5)."""
    if not payload:
        return NO_STATUS, ""
    return int.from_bytes(payload[:2]), payload[2:].decode()


def check_close(payload: bytes) -> None:
    """Check that the payload is nothing, or a code that may be sent and a reason in UTF-8; raise FrameError."""
    if not payload:
        return
    if len(payload) == 1:
        raise FrameError(Close.PROTOCOL_ERROR, "a close code has two bytes")
    code = int.from_bytes(payload[:2])
    if not is_close_code(code):
        raise FrameError(Close.PROTOCOL_ERROR, f"{code} may not be in a close frame")
    try:
        payload[2:].decode()
    except UnicodeDecodeError:
        raise FrameError(Close.INVALID_DATA, "the reason of the close frame is not UTF-8") from None
