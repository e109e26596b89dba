"""Hooks: a class of the project that decides who may connect, read and publish (docs/develop/hooks.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from realtime.conf import conf
from realtime.nodes.asking import ask_each

EVENTS = ("connect", "subscribe", "publish", "token", "disconnect")
"""Events about which a hook can be asked, or of which it is told (protocol.md 8.7)."""

NOTICES_MAX = 8
TEXT_CHARS_MAX = 1000
"""Characters of a reason and of a notice at most; a longer text is cut."""

__all__ = ["Answer", "Hook", "Request", "allow", "deny", "disconnect", "recheck"]


@dataclass(frozen=True)
class Answer:
    """The decision of a hook; made by ``allow``, ``deny`` and ``disconnect``."""

    allowed: bool
    reason: str = ""
    seconds: float | None = None
    user: str | None = None
    ends: bool = False


def allow(*, seconds: float | None = None, user: str | None = None) -> Answer:
    """Allow for so many seconds; None: as long as the connection lasts, 0: this once.

    ``user`` says, in mode ``custom`` and for ``connect`` and ``token``, whom the connection acts for.
    """
    return Answer(True, seconds=_checked(seconds), user=user)


def deny(reason: str = "", *, seconds: float | None = None) -> Answer:
    """Deny, with the reason that the client is told; for how long is said as with ``allow``."""
    return Answer(False, reason[:TEXT_CHARS_MAX], _checked(seconds))


def disconnect(reason: str = "") -> Answer:
    """Close the connection with 4506; the client does not come back by itself."""
    return Answer(False, reason[:TEXT_CHARS_MAX], ends=True)


@dataclass(frozen=True)
class Request:
    """The connection and the user that a hook decides about.

    ``event`` is one of EVENTS; ``connection`` names the connection for as long as it lasts; ``kind`` is ``client``,
    ``publisher``, or ``request`` for a snapshot or a check that Django asks for. ``user`` is the name of the user,
    empty for anonymous; ``claims`` are those of his token, None without one; in mode ``custom`` there are none, but the
    ``token`` as it came. ``headers`` are those of the HTTP request, up to 4 KiB, their names in lower case. ``again``
    says that the connection has been let in before, so that only what has changed meanwhile is of interest.
    """

    event: str
    connection: str
    kind: str
    address: str
    user: str
    claims: dict[str, Any] | None
    token: str
    headers: dict[str, str]
    again: bool
    node: str
    """The address of the control socket that asks."""
    notices: list[str] = field(default_factory=list, compare=False)

    def notice(self, text: str) -> None:
        """Tell the client something besides the answer: a notice with code ``hook`` (protocol.md 4.11)."""
        if len(self.notices) < NOTICES_MAX:
            self.notices.append(text[:TEXT_CHARS_MAX])


class Hook:
    """Base of the class that ``REALTIME["HOOK"]`` names. One instance answers for all connections of all nodes.

    Each method may be a plain one, which runs in a thread and may use the database, or ``async def``. What is not
    overridden is denied if it is asked. A method that raises denies; one that takes longer than FASTPATH_HOOK_SECONDS
    is not waited for.
    """

    threads: ClassVar[int] = 16
    """Number of threads in which plain methods run; a quarter of them, at most, for one user or address."""

    def connect(self, request: Request) -> Answer:
        """Decide if the client may connect; asked when the first command has come. In mode ``custom`` say who the
        client is."""
        del request
        return deny("the hook does not decide about connections")

    def subscribe(self, request: Request, subject: str) -> Answer:
        """Decide if the client may read the subject: subscriptions, history, snapshots."""
        del request, subject
        return deny("the hook does not decide about subscriptions")

    def subscribe_many(self, request: Request, subjects: Sequence[str]) -> Sequence[Answer]:
        """Answer ``subscribe`` for several subjects at once; override it where one query can answer for all of them."""
        return [self.subscribe(request, subject) for subject in subjects]

    def publish(self, request: Request, subject: str) -> Answer:
        """Decide if the client may publish to the subject."""
        del request, subject
        return deny("the hook does not decide about publications")

    def publish_many(self, request: Request, subjects: Sequence[str]) -> Sequence[Answer]:
        """Answer ``publish`` for several subjects at once."""
        return [self.publish(request, subject) for subject in subjects]

    def token(self, request: Request) -> Answer:
        """Decide if a live connection may go on with the token that it has sent; all else is asked again after it."""
        del request
        return deny("the hook does not decide about tokens")

    def disconnect(self, request: Request, code: int, reason: str) -> None:
        """Hear that the connection has ended, with a close code and reason (protocol.md 7); told once, not certain to
        arrive."""

    @classmethod
    def events(cls) -> list[str]:
        """Return the events that the class decides about: the methods that it overrides."""
        return [event for event in EVENTS if any(cls._overrides(name) for name in (event, f"{event}_many"))]

    @classmethod
    def _overrides(cls, name: str) -> bool:
        return getattr(cls, name, None) is not getattr(Hook, name, None)


def recheck(user: str | None = None) -> None:
    """Ask the hook again, at once, about all connections of the user, or of everybody.

    Raises ClientError when a node cannot be reached, after all others have been told.
    """
    wanted = {} if user is None else {"user": user}
    for said in ask_each(conf.controls, lambda control: control.call("recheck", wanted), conf.control_seconds):
        if said.failure is not None:
            raise said.failure


def _checked(seconds: float | None) -> float | None:
    if seconds is not None and not 0 <= seconds <= 1e9:
        raise ValueError(f"seconds is 0 or more, or None: {seconds!r}")
    return seconds
