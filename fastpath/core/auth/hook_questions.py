"""The questions to a hook in Django, its answers, and whom they are about (protocol.md 8.7)."""

from __future__ import annotations

from typing import Annotated, Any, Protocol

from msgspec import Meta, Struct

from .rules import PUBLISH, SUBSCRIBE

CONNECT, TOKEN, DISCONNECT = "connect", "token", "disconnect"

EVENTS = (CONNECT, SUBSCRIBE, PUBLISH, TOKEN, DISCONNECT)
"""Events that a hook can be asked about, or told of."""

SUBJECTS_MAX = 1000
"""Subjects in one question."""

LATE = "the hook has not answered in time"
"""Reason for giving up a question that was handed to a hook; AWAY if it never was."""

Key = tuple[str, str]
"""An event and a subject, which is empty for connect and token."""


class Verdict(Struct, array_like=True, frozen=True):
    """The hook's answer about one subject; ``seconds`` None: as long as the connection lasts, 0: this once."""

    allow: bool
    reason: Annotated[str, Meta(max_length=1000)] = ""
    seconds: Annotated[float, Meta(ge=0, le=1e9)] | None = None


class HookReply(Struct, frozen=True):
    """The hook's answer to a question: a verdict for each subject, or one.

    ``user`` names whom a connection acts for (mode ``custom``), ``disconnect`` ends it with that reason, ``notices``
    are said to the client; ``failed`` says why there is no answer.
    """

    verdicts: Annotated[list[Verdict], Meta(max_length=SUBJECTS_MAX)] = []
    user: Annotated[str, Meta(max_length=256)] | None = None
    disconnect: Annotated[str, Meta(max_length=1000)] | None = None
    notices: Annotated[list[Annotated[str, Meta(max_length=1000)]], Meta(max_length=8)] = []
    failed: str = ""


class Question(Struct, frozen=True):
    """A question: what is known of the connection, what it is about, and whose turn it takes."""

    number: int
    turn: str
    about: dict[str, Any]


class HookSubject(Protocol):
    """A connection about which the hook is asked."""

    @property
    def waits(self) -> bool:
        """True while something of the party waits for an answer."""

    def facts(self) -> dict[str, Any]:
        """Return what the hook is told with each question: who the connection is."""

    def uses(self, key: Key, *, strictly: bool = False) -> bool:
        """Return whether the connection still wants this right, so that it is asked for again when the answer has
        ended; ``strictly`` for what the connection knows that it follows or waits for."""

    def fail(self) -> None:
        """End the connection, for a fault of ours."""

    def parks(self, command: Any, data: bytes, now: int) -> bool:
        """Return whether a command of the party waits for an answer."""

    def answered(self, event: str, subjects: list[str], reply: HookReply, now: int) -> bool:
        """Take what the hook has answered, which is noted already, or that it does not; return whether nothing waits
        for more."""


def about_party(event: str, facts: dict[str, Any]) -> dict[str, Any]:
    """Return what is said of a party with an event: its token, which may be long, where that is asked about alone."""
    if event not in (CONNECT, TOKEN):
        facts.pop("token", None)
    return {"event": event, **facts}
