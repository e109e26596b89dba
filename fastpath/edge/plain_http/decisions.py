"""The verbs ``check`` and ``snapshot``, and ``GET /snapshot``: what somebody may, and a subject's newest message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.auth.rules import PUBLISH, SUBSCRIBE
from ...core.protocol.errors import Close, InvalidMessage, InvalidSubject, Refused
from ...core.protocol.messages import Message
from ...core.protocol.rest import SNAPSHOT, shown
from ...core.protocol.subject import check_subject, is_reported, is_system
from ..runtime.component import Answer, ControlPeer, Offers
from ..runtime.runtime import Runtime
from .call import Call, code_of
from .reading import check_syntax, merged


class Decisions:
    """Asked by Django for the bearer of a token, and by callers for themselves."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.offers = Offers(
            verbs={"snapshot": self._snapshot, "check": self._check},
            endpoints={"/snapshot": {"GET": self._called}},
        )

    def _check(self, peer: ControlPeer, arguments: dict[str, Any]) -> Answer | None:
        """Answer whether the bearer of ``token`` may do ``action`` with ``subject``."""
        action = arguments["action"]
        if action not in (SUBSCRIBE, PUBLISH):
            raise InvalidMessage("invalid", "action is subscribe or publish")
        try:
            check_subject(arguments["subject"])
            if action == PUBLISH and is_system(arguments["subject"]) and not is_reported(arguments["subject"]):
                return _allowed("subjects below /__sys__ belong to the server")
            return self._decide(peer, arguments["subject"], action, arguments.get("token"), _allowed)
        except InvalidSubject as error:
            return _allowed(error.reason)
        except Refused as error:
            return _allowed(f"{error.code.label}: {error.reason}")

    def _snapshot(self, peer: ControlPeer, arguments: dict[str, Any]) -> Answer | None:
        """Answer with the snapshot of ``subject``, or why the bearer of ``token`` gets none."""
        subject = arguments["subject"]
        try:
            check_subject(subject)
            return self._decide(peer, subject, SUBSCRIBE, arguments.get("token"), lambda why: self._told(subject, why))
        except InvalidSubject as error:
            return _nothing("invalid", error.reason)
        except Refused as error:
            return _nothing("not_ready" if error.code is Close.NOT_READY else "bad_token", error.reason)

    def _decide(
        self, peer: ControlPeer, subject: str, action: str, token: str | None, answer: Callable[[str], Answer]
    ) -> Answer | None:
        """Return the answer for the reason why not, empty for yes; None: it follows. Raise Refused for a bad token."""
        number = peer.request
        reason = self._runtime.decide(token or "", action, subject, lambda why: peer.reply(number, answer(why)))
        return None if reason is None else answer(reason)

    def _called(self, call: Call) -> None:
        """Answer ``GET /snapshot?subject=…``."""
        call.check_parameters("subject")
        subject = call.parameter("subject")
        if subject is None:
            raise InvalidMessage("invalid", "no subject: ask for /snapshot?subject=/stocks/us/IBM")
        check_syntax(subject)
        call.decide(
            SUBSCRIBE, subject, lambda why: call.answer_with(shown(self._found(subject, why), SNAPSHOT, call.form))
        )

    def _found(self, subject: str, reason: str) -> Message:
        """Return the subject's snapshot; raise InvalidMessage where there is none, or ``reason`` says why not."""
        if reason:
            raise InvalidMessage(code_of(reason), reason)
        broker = self._runtime.broker
        topic = broker.interest.topics.get(subject)
        message = None if topic is None else merged(topic, broker.snapshot(topic))
        if message is None:
            raise InvalidMessage("none", broker.nothing_of(topic))
        return message

    def _told(self, subject: str, reason: str) -> Answer:
        """Return what Django is told of a subject's snapshot."""
        try:
            found = self._found(subject, reason)
        except InvalidMessage as error:
            return _nothing(error.code, error.reason)
        message = {
            "subject": subject,
            "content": found.content,
            "fields": found.fields or {},
            "epoch": found.epoch,
            "seq": found.seq,
            "time": found.time,
            "as_of": found.as_of,
        }
        return {"status": "found", "reason": "", "message": message}


def _allowed(reason: str) -> Answer:
    return {"allowed": not reason, "reason": reason}


def _nothing(status: str, reason: str) -> Answer:
    return {"status": status, "reason": reason, "message": None}
