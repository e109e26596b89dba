"""The two sides of requests in one process: those of its requesters, and what its responders were asked."""

from __future__ import annotations

from typing import Generic, NamedTuple, Protocol, TypeVar

from ..protocol.limits import REQUESTS_MAX, REQUESTS_PER_CONNECTION_MAX
from ..protocol.messages import Fields, Value
from .timed import Timed

BACKSTOP_MS = 1000
"""Milliseconds that a requester's side waits longer than its responder's, which tells the end: in between is what is on
its way; beyond it the way was lost."""

NO_RESPONDERS = "no_responders"
BUSY = "busy"
TIMEOUT = "timeout"
GONE = "responder_gone"
UNAVAILABLE = "unavailable"
NOT_READY = "not_ready"

REASONS = {
    NO_RESPONDERS: "nobody answers requests to this subject",
    BUSY: "all who answer requests to this subject have too much to do; try again",
    TIMEOUT: "no reply in time",
    GONE: "the responder's connection has ended, perhaps after it had done what was asked",
    UNAVAILABLE: "the request could not be handed on; try again",
    NOT_READY: "the right of those who answer is not known yet; try again",
}
"""Reasons of the errors that are the server's own (protocol.md 4.19), by code."""


class GivenReply(NamedTuple):
    """A reply on its way to the requester; with an ``error``, or without ``more``, the last one.

    ``own``: the error is the server's own, and no responder's.
    """

    content: Value = ""
    fields: Fields = {}
    more: bool = False
    error: str = ""
    reason: str = ""
    own: bool = False


def failed(code: str) -> GivenReply:
    """Return the error of the server's own with that code."""
    return GivenReply(error=code, reason=REASONS[code], own=True)


class Requester(Protocol):
    """The one who has asked; told every reply, and nothing after the last."""

    def answered(self, name: str, answer: GivenReply) -> None:
        """Take a reply to the request of that name."""


class Open:
    """A request that waits for ``left`` more replies."""

    __slots__ = ("left", "requester")

    def __init__(self, requester: Requester, left: int) -> None:
        self.requester = requester
        self.left = left


class OpenRequests:
    """The requests of this process' requesters. Times are ms."""

    def __init__(self) -> None:
        self._open: Timed[Open] = Timed()
        self._by_requester: dict[Requester, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def limit(self, requester: Requester) -> str:
        """Return why the requester may not ask one thing more; empty if it may."""
        if len(self._by_requester.get(requester, ())) >= REQUESTS_PER_CONNECTION_MAX:
            return f"over {REQUESTS_PER_CONNECTION_MAX} requests without their replies on one connection"
        if len(self._open) >= REQUESTS_MAX:
            return f"over {REQUESTS_MAX} requests without their replies in one process"
        return ""

    def begin(self, name: str, requester: Requester, replies: int, until: int) -> None:
        """Have the request of that name wait for so many replies, until the responder's time is over."""
        self._open.put(name, Open(requester, replies), until + BACKSTOP_MS)
        self._by_requester.setdefault(requester, {})[name] = None

    def answered(self, name: str, answer: GivenReply) -> bool:
        """Hand a reply to whoever asked; whether anybody waited for it."""
        request = self._open.get(name)
        if request is None:
            return False
        request.left -= 1
        more = answer.more and not answer.error and request.left > 0
        if not more:
            self._open.take(name)
            self._forget(name, request)
        request.requester.answered(name, answer if answer.more == more else answer._replace(more=more))
        return True

    def leave(self, requester: Requester) -> list[str]:
        """Forget a requester that is gone; return the names of the requests that nobody waits for any more."""
        names = list(self._by_requester.pop(requester, ()))
        for name in names:
            self._open.take(name)
        return names

    def expire(self, now: int) -> int:
        """Tell the requesters whose time is over; return how many requests that were."""
        due = self._open.due(now)
        for name, request in due:
            self._forget(name, request)
            request.requester.answered(name, failed(TIMEOUT))
        return len(due)

    def _forget(self, name: str, request: Open) -> None:
        names = self._by_requester[request.requester]
        del names[name]
        if not names:
            del self._by_requester[request.requester]


O = TypeVar("O")  # noqa: E741 - where a request came from
R = TypeVar("R")


class TakenRequest(Generic[R, O]):
    """A request that a responder was asked, where it came from, and how many replies are ``left``."""

    __slots__ = ("left", "origin", "responder", "subject")

    def __init__(self, responder: R, origin: O, subject: str, left: int) -> None:
        self.responder = responder
        self.origin = origin
        self.subject = subject
        self.left = left


class TakenRequests(Generic[R, O]):
    """The requests that the responders of this process were asked and have not answered to the end. Times are ms."""

    def __init__(self) -> None:
        self._taken: Timed[TakenRequest[R, O]] = Timed()
        self._by_responder: dict[R, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._taken)

    def full(self, responder: R) -> bool:
        """Return whether the responder is to be asked nothing more until it has answered something."""
        return (
            len(self._by_responder.get(responder, ())) >= REQUESTS_PER_CONNECTION_MAX
            or len(self._taken) >= REQUESTS_MAX
        )

    def take(self, name: str, taken: TakenRequest[R, O], until: int) -> None:
        """Note that a responder is asked."""
        self._taken.put(name, taken, until)
        self._by_responder.setdefault(taken.responder, {})[name] = None

    def reply(self, name: str, responder: R, more: bool) -> tuple[O, bool] | None:
        """Take a reply of the responder; return where it goes, and whether more replies are waited for.

        None: nobody waits for this one, or another responder was asked.
        """
        taken = self._taken.get(name)
        if taken is None or taken.responder != responder:
            return None
        taken.left -= 1
        more = more and taken.left > 0
        if not more:
            self.end(name)
        return taken.origin, more

    def end(self, name: str) -> TakenRequest[R, O] | None:
        """End the request; return what it was, if it was not over before."""
        taken = self._taken.take(name)
        if taken is not None:
            self._forget(name, taken)
        return taken

    def leave(self, responder: R) -> list[tuple[str, TakenRequest[R, O]]]:
        """End what the responder, which is gone, has not answered to the end; return that."""
        names = list(self._by_responder.get(responder, ()))
        return [(name, taken) for name in names if (taken := self.end(name)) is not None]

    def due(self, now: int) -> list[tuple[str, TakenRequest[R, O]]]:
        """Take what was not answered to the end in time."""
        due = self._taken.due(now)
        for name, taken in due:
            self._forget(name, taken)
        return due

    def those(self) -> list[tuple[str, TakenRequest[R, O]]]:
        """Return all that waits for replies."""
        return self._taken.items()

    def _forget(self, name: str, taken: TakenRequest[R, O]) -> None:
        names = self._by_responder[taken.responder]
        del names[name]
        if not names:
            del self._by_responder[taken.responder]
