"""The exceptions that the Python clients raise.

ClientError
 ├─ Unavailable          no server could be reached in time; the client may go on trying
 ├─ ConnectionRejected   the server closed with a code that says "do not reconnect" (protocol.md 7)
 ├─ Disconnected         the connection was lost before an answer came: its outcome is not known
 │   └─ Unknown          a publication may or may not have been stored
 ├─ QueueFull            too many publications wait for their answer
 ├─ Denied, TooLarge, Invalid, Limited, Failed, NotReady, BadToken    a command was refused (protocol.md 4.2, 4.4, 4.12)
 ├─ RequestFailed        a request got no reply, or an error
 │   ├─ NoResponders     nobody answers requests to its subject
 │   ├─ RequestTimeout   no reply came in time
 │   ├─ ResponderGone    the connection of whoever was asked has ended
 │   └─ ResponderError   the responder's own error; a handler raises it to answer with one
 ├─ RefusedMessage       one message of a batch on the publisher port was refused
 ├─ StagingFailed        rows could not be staged or committed, and trying again would not help
 ├─ PublishTimeout       a batch stayed without acknowledgement for the whole retry time
 ├─ SidecarUnavailable   nothing answers at the control socket
 │   ├─ SidecarSilent    it was asked and did not answer in time
 │   ├─ SidecarBusy      calls before this one took the time that it had
 │   └─ NodeUnavailable  another node, which the sidecar needs for it, does not answer
 └─ ControlRefused       the sidecar refused what was asked over the control socket

Every error can be pickled, so that it travels from a Spark executor to its driver.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import Any

from fastpath.core.protocol.errors import Close, FastpathError


class ClientError(FastpathError):
    """Base of every error of the clients."""


class Unavailable(ClientError, ConnectionError):
    """No server could be reached in time."""


class ConnectionRejected(ClientError, ConnectionError):
    """The server closed the connection and reconnecting would not help; ``code`` is that of protocol.md 7."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason

    def __str__(self) -> str:
        return f"the server refused the connection with {self.code} {close_label(self.code)}: {self.reason}"


class Disconnected(ClientError, ConnectionError):
    """The connection was lost while an answer was due: the command may or may not have had its effect."""


class Unknown(Disconnected):
    """No answer to a publication came in all the time that it was tried: it may or may not have been stored."""


class QueueFull(ClientError):
    """The client's queue of publications without an answer is full; this publication was not taken."""


class CommandRefused(ClientError):
    """The server refused a command; ``code`` and ``reason`` are its words (protocol.md 4.2, 4.4, 4.12)."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.code}: {self.reason}"


class Denied(CommandRefused):
    """The rights do not allow it."""


class TooLarge(CommandRefused):
    """The message passes a bound of the server."""


class Invalid(CommandRefused):
    """The command or message breaks the protocol."""


class Limited(CommandRefused):
    """A limit of the server is reached, such as that of subscriptions on one connection."""


class Failed(CommandRefused):
    """The server could not store the message."""


class NotReady(CommandRefused):
    """The rights have not arrived at the server yet; the same command may work in a moment."""


class BadToken(CommandRefused):
    """The token was not accepted."""


class RequestFailed(CommandRefused):
    """A request has no reply, or none further; ``replies`` are those that came before (protocol.md 4.19)."""

    def __init__(self, code: str, reason: str, replies: Sequence[Any] = ()) -> None:
        super().__init__(code, reason)
        self.replies = list(replies)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.reason, self.replies)


class NoResponders(RequestFailed):
    """Nobody answers requests to this subject at this moment."""


class RequestTimeout(RequestFailed, TimeoutError):
    """No reply came in time: the request may have been done or not."""


class ResponderGone(RequestFailed):
    """The connection of whoever was asked has ended: the request may have been done or not."""


class ResponderError(RequestFailed):
    """The responder's own error. A handler raises it to answer a request so: ``code`` has at most 64 characters."""

    def __init__(self, code: str, reason: str = "", replies: Sequence[Any] = ()) -> None:
        super().__init__(code, reason, replies)


_OF_REQUESTS: dict[str, type[RequestFailed]] = {
    "no_responders": NoResponders,
    "timeout": RequestTimeout,
    "responder_gone": ResponderGone,
}


def request_failure(code: str, reason: str, replies: Sequence[Any], *, own: bool) -> CommandRefused:
    """Return the exception for the error of a request; ``own``: the error is the server's own, and no responder's."""
    if not own:
        return ResponderError(code, reason, replies)
    if code in _BY_CODE:
        return refusal(code, reason)
    return _OF_REQUESTS.get(code, RequestFailed)(code, reason, replies)


_BY_CODE: dict[str, type[CommandRefused]] = {
    "denied": Denied,
    "too_large": TooLarge,
    "invalid": Invalid,
    "limit": Limited,
    "failed": Failed,
    "not_ready": NotReady,
    "bad_token": BadToken,
}


def refusal(code: str, reason: str) -> CommandRefused:
    """Return the exception that stands for a code of the protocol."""
    return _BY_CODE.get(code, CommandRefused)(code, reason)


class RefusedMessage(ClientError):
    """The server refused a message; the others of its batch are not affected.

    ``index`` counts the messages from 0 since the last ``flush()``; ``code`` is one of protocol.md 4.4.
    """

    def __init__(self, index: int, code: str, reason: str) -> None:
        super().__init__(index, code, reason)
        self.index = index
        self.code = code
        self.reason = reason

    def __str__(self) -> str:
        return f"message {self.index} was refused, {self.code}: {self.reason}"


class StagingFailed(ClientError):
    """Rows could not be staged or committed, and the same again would not help; ``code`` is one of protocol.md 6.6."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.code}: {self.reason}"


class PublishTimeout(ClientError, TimeoutError):
    """Messages stayed without acknowledgement for the whole retry time; they are kept, ``flush()`` tries again."""


class SidecarUnavailable(ClientError, ConnectionError):
    """Nothing answers at the control socket."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path = path
        self.why = why

    def __str__(self) -> str:
        mend = "start it with `python manage.py runrealtime`"
        if self.why == os.strerror(errno.EACCES):
            mend = "it is another user's: run this as the user who runs the sidecar"
        return f"the sidecar does not answer at its control socket {self.path} ({self.why}); {mend}"


class SidecarSilent(SidecarUnavailable):
    """The sidecar did not answer a request in time, as one that hangs; whether the request took effect is not known."""


class SidecarBusy(SidecarUnavailable):
    """Other threads' calls took the time that this one had to wait; when it was not sent, ``why`` says so."""


class NodeUnavailable(SidecarUnavailable):
    """The sidecar needs another node for what it was asked, and has no answer of it; ``why`` says what may be done."""

    def __str__(self) -> str:
        return f"another node does not answer the sidecar at {self.path}: {self.why}"


class ControlRefused(ClientError):
    """The sidecar refused what was asked over the control socket (protocol.md 8.1)."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.code}: {self.reason}"


def close_label(code: int) -> str:
    """Return the name that protocol.md 7 gives a close code; empty for a code that it does not list."""
    try:
        return Close(code).label
    except ValueError:
        return ""


_RETRY_STANDARD = frozenset({1000, 1001, 1005, 1006, 1011, 1012, 1013, 1014})


def may_reconnect(code: int) -> bool:
    """Return True if a client reconnects after this close code: 4000-4499, and those of RFC 6455 that do not blame
    it."""
    return 4000 <= code <= 4499 or code in _RETRY_STANDARD
