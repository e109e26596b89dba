"""What becomes of a message that was published: its position, or an error that says whether to try again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fastpath.client.errors import ClientError

_TRANSIENT = frozenset({"failed", "unavailable", "not_ready", "stale", "out_of_order"})
"""The results after which the same message may be stored when it is sent again."""


class Position(NamedTuple):
    """The place of a message in its subject; ``seq`` is 0 for one of standard quality."""

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


class MessageTooLarge(PublishRefused):
    """The message has more bytes, or more fields, than the sidecar takes; ``code`` is ``too_large``."""


class NotEncodable(PublishRefused, TypeError):
    """A value has neither text nor bytes nor JSON; ``code`` is ``not_encodable``."""

    def __init__(self, reason: str, subject: str) -> None:
        super().__init__("not_encodable", reason, subject)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reason, self.subject)


class PublishFailed(_NotPublished):
    """No node could store the message; sending it again may work.

    ``code`` ``failed``: it was not stored. ``unavailable``: the cluster could not store it safely in time; it may come
    all the same.
    """

    def __str__(self) -> str:
        fate = "may or may not come" if self.code == "unavailable" else "was not published"
        return f"the message to {self.subject} {fate}, {self.code}: {self.reason}"


class ShuttingDown(PublishFailed):
    """The process or its event loop ends, and nothing was sent; ``code`` is ``shutdown``."""

    def __init__(self, reason: str, subject: str) -> None:
        super().__init__("shutdown", reason, subject)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reason, self.subject)


class OutboxFull(PublishFailed):
    """The outbox holds as many rows as it may, and nothing was written; ``code`` is ``outbox_full``."""

    def __init__(self, reason: str, subject: str) -> None:
        super().__init__("outbox_full", reason, subject)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reason, self.subject)


class PublishManyFailed(ClientError):
    """Some of several messages were not published: ``outcomes`` has a Position or an error for each, in their order."""

    def __init__(self, outcomes: Sequence[Position | ClientError]) -> None:
        super().__init__(outcomes)
        self.outcomes = list(outcomes)

    def __str__(self) -> str:
        errors = [one for one in self.outcomes if isinstance(one, ClientError)]
        return f"{len(errors)} of {len(self.outcomes)} messages were not published; the first: {errors[0]}"


Outcome = Position | ClientError


def outcome(result: Any, epoch: int, subject: str) -> Outcome:
    """Return what the result of one row says (protocol.md 6.3); ``epoch`` is that of the whole answer."""
    match result:
        case int(seq):
            return Position(epoch, seq)
        case [int(own), int(seq)]:
            return Position(own, seq)
        case [str(code), str(reason)]:
            return PublishFailed(code, reason, subject) if code in _TRANSIENT else refused(code, reason, subject)
    return PublishFailed("failed", f"the node answers {result!r}", subject)


def refused(code: str, reason: str, subject: str) -> PublishRefused:
    """Return the error for a message that no sidecar takes."""
    return (MessageTooLarge if code == "too_large" else PublishRefused)(code, reason, subject)
