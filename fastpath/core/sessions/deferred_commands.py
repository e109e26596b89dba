"""Clients about which a hook is asked: what they said last waits for its answer, and what they say later behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ..auth.grants import Principal
from ..auth.hook_decisions import HookDecisions, HookState
from ..auth.hook_questions import CONNECT, TOKEN, HookReply, Key
from ..auth.reasons import ASKED
from ..auth.rules import PUBLISH, SUBSCRIBE
from ..delivery.audience import Client
from ..delivery.link import PauseReason
from ..protocol.codec import command_id
from ..protocol.errors import Close, InvalidMessage, InvalidSubject, Refused
from ..protocol.messages import AnyCommand, Connect, MakeRequest, Notice, Presence, Publish, Token
from ..protocol.subject import PRESENCE, check_subject, is_system

if TYPE_CHECKING:
    from .sessions import Sessions

Facts = dict[str, Any]

_TOLD = ("user", "expires", "uid", "groups", "superuser", "generation", "session", "permissions", "token_id")
"""Names of a token's claims that the hook is told: not the key, which may be the secret of all tokens."""


class DeferredCommands:
    """A client as the party of its questions; ``facts`` is what the hook is told of it besides who it is."""

    __slots__ = (
        "_subject",
        "_bearer",
        "_client",
        "_facts",
        "_passing",
        "_refusal",
        "_sessions",
        "_token",
        "_waits",
        "asked",
        "let_in",
    )

    def __init__(self, sessions: Sessions, asking: HookDecisions, client: Client, token: str, facts: Facts) -> None:
        self._sessions = sessions
        self._client = client
        self._facts = facts
        self._waits: tuple[bytes, str] | None = None  # a command, and the event that is asked about
        self._passing = ""  # the event whose answer lets a command pass just now
        self._refusal: tuple[str, str] | None = None  # of a token
        self._subject = ""  # of a publication, or a question who is there, that waits
        self._token = token
        self._bearer: tuple[Principal, str] | None = None  # of a token that is being asked about
        self.let_in = CONNECT not in asking.events
        """True once the client may be here."""
        self.asked = client.principal.asked = HookState(asking, self)

    @property
    def waits(self) -> bool:
        """True while a command waits for an answer."""
        return self._waits is not None

    def facts(self) -> Facts:
        """Return the facts about the client that the hook is told with each question."""
        principal, token = self._bearer or (self._client.principal, self._token)
        facts = self._facts | facts_of(principal, token, self._sessions.broker.grants.mode) | {"again": self.let_in}
        if self.asked.user is not None:
            facts["user"] = self.asked.user
        return facts

    def uses(self, key: Key, *, strictly: bool = False) -> bool:
        """Return whether the client still wants the right."""
        event, subject = key
        if event == PUBLISH:
            return strictly and subject == self._subject
        if event != SUBSCRIBE:
            return event == CONNECT and self.let_in
        if subject == self._subject and self._waits is not None and self._waits[1] == SUBSCRIBE:
            return True
        client = self._client
        topic = self._sessions.broker.interest.topics.get(subject)
        if topic in client.subscriptions or subject in (client.waiting or ()):
            return True
        return (bool(client.wilds) or client.responds) and not strictly

    def fail(self) -> None:
        """End the connection for a fault of ours."""
        self._end(Close.INTERNAL_ERROR, "a fault of the server; reconnect")

    # Commands that wait

    def parks(self, command: AnyCommand, data: bytes, now: int) -> bool:
        """Return whether the command waits, with all that comes after it; raises Refused for a bad token."""
        event = self._wanted(command, now)
        if not event:
            return False
        self._waits = data, event
        self._client.link.hold(PauseReason.ASKED, True)
        return True

    def _wanted(self, command: AnyCommand, now: int) -> str:
        """Return the questions to be asked before the command is done, perhaps none; raises InvalidMessage."""
        grants, asked = self._sessions.broker.grants, self.asked
        events = asked.asking.events
        if CONNECT in events and self._passing != CONNECT:
            token = command.token if isinstance(command, Connect) else ""
            if token:
                self._bearer = grants.principal(token, now), token
            if token or not self.let_in:
                asked.want((CONNECT, ""))
                return CONNECT
        if isinstance(command, Publish | MakeRequest) and PUBLISH in events and is_askable(command.subject):
            if grants.check(self._client.principal, PUBLISH, command.subject, now) is ASKED:
                self._subject = command.subject
                return PUBLISH
        elif type(command) is Presence and SUBSCRIBE in events and self._passing != SUBSCRIBE:
            subject = PRESENCE + command.subject
            if (not command.subject or is_askable(command.subject)) and grants.check(
                self._client.principal, SUBSCRIBE, subject, now
            ) is ASKED:
                self._subject = subject
                return SUBSCRIBE
        elif type(command) is Token and TOKEN not in events and grants.mode == "custom":
            raise InvalidMessage("denied", "the hook is not asked about token")
        elif type(command) is Token and TOKEN in events and self._passing != TOKEN:
            try:
                self._bearer = grants.principal(command.token, now), command.token
            except Refused:
                return ""  # it is answered as without a hook
            asked.want((TOKEN, ""))
            return TOKEN
        return ""

    def _go_on(self, now: int) -> None:
        """Do what has waited, then what came behind it."""
        assert self._waits is not None
        (data, event), self._waits = self._waits, None
        client = self._client
        refusal, self._refusal = self._refusal, None
        bearer, self._bearer = self._bearer, None
        if bearer is not None and refusal is None:
            self._token = bearer[1]
        if refusal is not None:
            self._sessions.refuse(client, command_id(data, client.form), *refusal)
        else:
            self._passing = event
            self._sessions.resume(client, data, now)
            self._passing = ""
        if self._waits is None:
            client.link.hold(PauseReason.ASKED, False)

    # Answers

    def answered(self, event: str, subjects: list[str], reply: HookReply, now: int) -> bool:
        """Do what the hook says, and go on with what waited for it."""
        client = self._client
        welcomes = event == CONNECT and not self.let_in and reply.disconnect is None and not refused_by(reply)
        if not welcomes:
            self._tell(reply.notices)
        if reply.disconnect is not None:
            self._end(Close.CLOSED_BY_OPERATOR, reply.disconnect)
        elif event == CONNECT:
            self._connected(reply, now)
        elif event == TOKEN:
            self._renewed(reply, now)
        elif event == SUBSCRIBE:
            self._sessions.rights.answered(client, subjects, now)
        waits = self._waits
        if waits is not None and waits[1] == event and (event != SUBSCRIBE or self._subject in subjects):
            self._go_on(now)
        if welcomes:
            self._tell(reply.notices)  # after the answer to its connect
        return self._waits is None

    def _tell(self, notices: list[str]) -> None:
        for text in notices:
            self._sessions.broker.send(self._client, Notice(code="hook", text=text))

    def _connected(self, reply: HookReply, now: int) -> None:
        reason = refused_by(reply)
        if not reason:
            self.let_in = True
            self._name(reply.user, now)
        elif not reply.failed:
            self._end(Close.DENIED, reason)
        elif self._waits is not None:  # else it is here, and stays while nobody can be asked
            self._end(Close.NOT_READY, reason)

    def _renewed(self, reply: HookReply, now: int) -> None:
        reason = refused_by(reply)
        if reason:
            self._refusal = "denied", reason
        elif self.asked.user and reply.user is not None and reply.user != self.asked.user:
            self._refusal = "bad_token", "the token is another user's"
        else:
            self._name(reply.user, now)

    def _name(self, user: str | None, now: int) -> None:
        """Take the name of whom the client acts for, where the hook says it."""
        if user is None or self._sessions.broker.grants.mode != "custom":
            return
        principal = self._client.principal
        before, principal.user = principal.user, user
        self.asked.user = user
        if before != user:
            self.asked.renew(another=True)
            for observer in self._sessions.broker.observers:
                observer.renewed(self._client, before)
            self._sessions.follow(self._client, now)

    def _end(self, code: Close, reason: str) -> None:
        self._waits = None
        self._client.link.close(code, f"{code.label}: {reason}")


def facts_of(principal: Principal, token: str, mode: str) -> Facts:
    """Return what the hook is told of a token's bearer: its claims, or in mode ``custom`` the token itself."""
    if mode == "custom":
        return {"user": principal.user, "token": token}
    claims = principal.claims
    told = None if claims is None else {name: msgspec.to_builtins(getattr(claims, name)) for name in _TOLD}
    return {"user": principal.user, "claims": told}


def refused_by(reply: HookReply) -> str:
    """Return why the answer to a question about one thing is no; empty if it is yes."""
    if reply.failed:
        return reply.failed
    verdict = reply.verdicts[0]
    return "" if verdict.allow else verdict.reason or "the hook denies it"


def is_askable(subject: str) -> bool:
    """Return whether the hook is asked about publishing there: what is refused in any case it does not see."""
    try:
        check_subject(subject)
    except InvalidSubject:
        return False
    return not is_system(subject)
