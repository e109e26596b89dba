"""The exceptions of the core and the close codes of protocol.md 7.

FastpathError
 ├─ InvalidSubject   a subject or pattern that breaks the syntax (protocol.md 2)
 ├─ InvalidMessage   a publication or command that breaks the protocol; the command has no effect
 ├─ InvalidKeys      a set of keys that cannot be used
 ├─ BadFrame         bytes that are no frame of this protocol; the connection is closed
 └─ Refused          a connection that may not go on, with its close code
"""

from __future__ import annotations

from enum import IntEnum


class Close(IntEnum):
    """Close codes: 4000-4499 mean "reconnect", 4500-4999 mean "do not" (protocol.md 7)."""

    NORMAL = 1000
    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002
    INVALID_DATA = 1007
    TOO_BIG = 1009
    DRAIN = 4000
    SLOW_CONSUMER = 4001
    PING_TIMEOUT = 4002
    HANDSHAKE_TIMEOUT = 4003
    INTERNAL_ERROR = 4004
    NOT_READY = 4005
    OVERLOADED = 4006
    TOKEN_EXPIRED = 4007
    BAD_MESSAGE = 4500
    BAD_TOKEN = 4501
    REVOKED = 4502
    DENIED = 4503
    BAD_VERSION = 4504
    TOO_MANY_ERRORS = 4505
    CLOSED_BY_OPERATOR = 4506
    IDLE = 4507

    @property
    def label(self) -> str:
        """The name that the protocol gives the code, such as ``slow_consumer``."""
        return self.name.lower()


class FastpathError(Exception):
    """Base of every error that the core raises on purpose."""


class InvalidSubject(FastpathError, ValueError):
    """A subject or pattern that breaks the syntax; ``reason`` is one of protocol.md 2.1."""

    def __init__(self, reason: str, text: str = "") -> None:
        super().__init__(f"{reason}: {text!r}" if text else reason)
        self.reason = reason


class InvalidMessage(FastpathError):
    """A command or publication without effect; ``code`` is that of protocol.md 4.4 or 4.12."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code
        self.reason = reason


class InvalidKeys(FastpathError, ValueError):
    """A set of keys (RFC 7517) that cannot be used; the text says why."""


class BadFrame(FastpathError):
    """Bytes that are no frame of this protocol."""


class FrameError(FastpathError):
    """The peer broke the framing: close the connection with ``code`` and ``reason`` (RFC 6455 7.1.7)."""

    def __init__(self, code: Close, reason: str) -> None:
        super().__init__(f"{code.value}: {reason}")
        self.code = code
        self.reason = reason


class Refused(FastpathError):
    """A connection that may not go on."""

    def __init__(self, code: Close, reason: str) -> None:
        super().__init__(f"{code.label}: {reason}")
        self.code = code
        self.reason = reason
