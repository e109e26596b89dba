"""Every bound of the core: unit last in the name, default, and why it is there."""

from __future__ import annotations

from dataclasses import dataclass

SUBJECT_BYTES_MAX = 512
"""A subject is a key of many maps; half a KiB is longer than any real one."""

SUBJECT_SEGMENTS_MAX = 32
"""Bounds the depth of a walk through the rules."""

FIELDS_MAX = 256
"""Fields of one message: a snapshot keeps every name that ever came."""

FIELD_NAME_BYTES_MAX = 256
"""The length of a field's name."""

SNAPSHOT_FIELDS_MAX = 1024
"""Fields that one subject's snapshot may gather; a publication that would pass it is refused."""

SINCE_CHECKS_MAX = 100_000
"""Positions times patterns in one subscribe: each pattern looks for its own among them."""

SUBJECTS_PER_COMMAND_MAX = 1000
"""Subjects in one subscribe or unsubscribe: bounds the work of one tick."""

ERRORS_MAX = 100
"""Commands that cannot be read on one connection before it is closed with 4505."""

CLOSURE_BYTES_MAX = 256
"""A closure or publication id comes back with the answer; it is an id, not a payload."""

CONFLATION_GRID_MS = 100
"""Conflation intervals are floored to a multiple of this (features.md A7)."""

CONFLATION_MS_MAX = 3_600_000
"""The longest conflation interval: an hour."""


REQUEST_MS = 5000
"""Milliseconds for which a request that says nothing of it waits for its replies (protocol.md 3.12)."""

REQUEST_MS_MAX = 300_000
"""The longest that a request may wait for its replies (protocol.md 3.12)."""

REPLIES_MAX = 1000
"""Replies to one request."""

REQUESTS_PER_CONNECTION_MAX = 1000
"""Requests of one connection that wait for replies at a time, and those that one responder has not answered."""

REQUESTS_MAX = 100_000
"""Requests of one process that wait for replies at a time, at about 1 KiB each, and those asked of its responders."""

RESPONDER_PATTERNS_MAX = 100
"""Patterns of one responder: each time that it is asked its place in all of their rings changes."""

ERROR_CHARS_MAX = 64
"""The code of a responder's error."""

REASON_CHARS_MAX = 1024
"""The reason of a responder's error."""

COMMAND_BYTES_LEAST = 64 << 10
"""Bytes that every server takes as one frame of a client's, whatever it is set to."""


def command_bytes_max(message_bytes_max: int) -> int:
    """Return the bytes that a client may send at once: a message of that size whose text needs escapes, and what is
    said around it."""
    return message_bytes_max * 2 + COMMAND_BYTES_LEAST


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds that an operator may set; see settings.py for their units and reasons."""

    message_bytes_max: int = 1 << 20
    subscriptions_max: int = 10_000
    patterns_max: int = 100
    subjects_max: int = 1_000_000
    outbox_bytes_max: int = 4 << 20
    snapshot_bytes_max: int = 8 << 20
    snapshot_ms: int = 0
    cache_messages: int = 1000
    cache_ms: int = 180_000
    cache_bytes: int = 256 << 20
    retry_ms: int = 500

    @property
    def subscriptions_reason(self) -> str:
        """The reason why a subscription is refused that would be one too many."""
        return f"over {self.subscriptions_max} subscriptions on one connection"

    @property
    def lag_bytes(self) -> int:
        """Queued bytes from which on a client lags: late enough for what a burst blocks, early enough that what may not
        be conflated keeps most of the queue (protocol.md 4.13)."""
        return self.outbox_bytes_max // 4

    @property
    def pending_bytes(self) -> int:
        """Bytes that may wait for a group that is being written before those who publish are held: with what is being
        written little of a client's queue, so that a client which reads is not taken for a slow one."""
        return self.outbox_bytes_max // 16
