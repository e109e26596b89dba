"""What becomes of a message that was published: its position, or an error that says whether to try again."""

from __future__ import annotations

from typing import Any, NamedTuple

from fastpath.client.errors import ClientError

_TRANSIENT = frozenset({"failed", "unavailable", "not_ready", "stale", "out_of_order"})
"""The results after which the same message may be stored when it is sent again."""


class Position(NamedTuple):
    """Where a message stands in its subject; ``seq`` is 0 for one of standard quality."""

    epoch: int
    seq: int


class _NotPublished(ClientError):
    """A message to ``subject`` got no position: ``code`` and ``reason`` are the node's."""

    def __init__(self, code: str, reason: str, subject: str) -> None:
        super().__init__(code, reason, subject)
        self.code = code
        self.reason = reason
        self.subject = subject


class PublishRefused(_NotPublished, ValueError):
    """The message was not published and would not be if sent again; ``code`` is one of protocol.md 4.4."""

    def __str__(self) -> str:
        return f"the message to {self.subject} was not published, {self.code}: {self.reason}"


class PublishFailed(_NotPublished):
    """No node could store the message; sending it again may work.

    ``code`` ``failed``: it was not stored. ``unavailable``: the cluster could not store it safely in time; it may come
    all the same.
    """

    def __str__(self) -> str:
        fate = "may or may not come" if self.code == "unavailable" else "was not published"
        return f"the message to {self.subject} {fate}, {self.code}: {self.reason}"


Outcome = Position | ClientError


def outcome(result: Any, epoch: int, subject: str) -> Outcome:
    """What the result of one row says (protocol.md 6.3); ``epoch`` is that of the whole answer."""
    match result:
        case int(seq):
            return Position(epoch, seq)
        case [int(own), int(seq)]:
            return Position(own, seq)
        case [str(code), str(reason)]:
            return (PublishFailed if code in _TRANSIENT else PublishRefused)(code, reason, subject)
    return PublishFailed("failed", f"the node answers {result!r}", subject)
