"""Requests of Django and its responders: the verbs ``request``, ``respond`` and ``reply`` (protocol.md 8.20)."""

from __future__ import annotations

from typing import Any

from ...core.protocol.codec import MSGPACK, check_fields, check_value
from ...core.protocol.errors import InvalidMessage
from ...core.protocol.limits import REQUEST_MS
from ...core.protocol.messages import STANDARD, Asked, Fields, Message, Value
from ...core.requests.open_requests import GivenReply
from ..runtime.component import ControlPeer, Offers
from ..runtime.runtime import Runtime
from .clients import PATTERNS_PER_COMMAND_MAX, check_bounds, check_error, question
from .requests import Requests, inbox

UNSENT_BYTES_MAX = 4 << 20
"""Bytes that wait for a responder's connection above which it is asked nothing."""

REPLIES_BYTES_MAX = 8 << 20
"""Contents and fields of all replies in one answer, which is one frame (protocol.md 8); what comes beyond it ends the
request with ``too_large``."""

Arguments = dict[str, Any]


class ControlRequests:
    """The requests and answers of Django; its rights are not asked."""

    def __init__(self, runtime: Runtime, requests: Requests) -> None:
        self._runtime = runtime
        self._requests = requests
        self._requesters: dict[ControlPeer, _ControlRequester] = {}
        self._responders: dict[ControlPeer, _ControlResponder] = {}
        self.offers = Offers(verbs={"request": self._request, "respond": self._respond, "reply": self._reply})

    def _request(self, peer: ControlPeer, arguments: Arguments) -> None:
        timeout, replies = arguments.get("timeout", REQUEST_MS), arguments.get("replies", 1)
        if type(timeout) is not int or type(replies) is not int:
            raise InvalidMessage("invalid", "timeout and replies are whole numbers")
        check_bounds(timeout, replies)
        subject, content, fields = _parts(arguments["subject"], arguments)
        requester = self._requesters.get(peer)
        if requester is None:
            requester = self._requesters[peer] = _ControlRequester(self._runtime, peer)
            peer.ended.append(lambda: self._ended(peer))
        name = self._requests.name(requester.inbox)
        requester.expect(name, peer.request)
        asked = question(subject, content, fields, name)
        refusal = self._requests.ask(requester, asked, None, None, timeout=timeout, replies=replies)
        if refusal is not None:
            requester.answered(name, GivenReply(error=refusal[0], reason=str(refusal[1]), own=True))

    def _respond(self, peer: ControlPeer, arguments: Arguments) -> None:
        patterns, number = arguments["patterns"], peer.request
        if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
            raise InvalidMessage("invalid", "patterns is a list of texts")
        if len(patterns) > PATTERNS_PER_COMMAND_MAX:
            raise InvalidMessage("limit", f"over {PATTERNS_PER_COMMAND_MAX} patterns in one command")
        responder = self._responders.get(peer)
        if responder is None:
            responder = self._responders[peer] = _ControlResponder(peer)
            peer.ended.append(lambda: self._ended(peer))
        told: Arguments = {}

        def noted() -> None:
            self._runtime.loop.call_soon(peer.reply, number, told)

        offers = self._requests.respond(responder, patterns, noted)
        told["results"] = [[offer.pattern, offer.error, offer.reason] for offer in offers]

    def _reply(self, peer: ControlPeer, arguments: Arguments) -> Arguments:
        error, reason, more = (arguments.get(name, default) for name, default in _REPLY_DEFAULTS)
        if not isinstance(error, str) or not isinstance(reason, str) or not isinstance(more, bool):
            raise InvalidMessage("invalid", "error and reason are texts, more is true or false")
        check_error(error, reason)
        to, content, fields = _parts(arguments["to"], {"content": ""} | arguments)
        message = Message(to, content, fields or None, retained=False, qos=STANDARD)
        responder = self._responders.get(peer) or _ControlResponder(peer)
        answer = GivenReply(content, fields, more, error, reason)
        status, why = self._requests.reply(responder, message, answer, None) or ("ok", "")
        return {"status": status, "reason": why}

    def _ended(self, peer: ControlPeer) -> None:
        responder = self._responders.pop(peer, None)
        if responder is not None:
            self._requests.leave(responder)
        requester = self._requesters.pop(peer, None)
        if requester is not None:
            self._requests.abandon(requester)
        self._runtime.end()


_REPLY_DEFAULTS = (("error", ""), ("reason", ""), ("more", False))


def _parts(subject: Any, arguments: Arguments) -> tuple[str, Value, Fields]:
    """Subject, content and fields of a request or reply; raises InvalidMessage."""
    if not isinstance(subject, str):
        raise InvalidMessage("invalid", "a subject is a text")
    return subject, check_value(arguments["content"], MSGPACK), check_fields(arguments.get("fields"), MSGPACK)


class _ControlRequester:
    """A control connection that asks."""

    def __init__(self, runtime: Runtime, peer: ControlPeer) -> None:
        self.inbox = inbox()
        self._runtime = runtime
        self._peer = peer
        self._numbers: dict[str, int] = {}
        self._replies: dict[str, list[Any]] = {}
        self._room: dict[str, int] = {}

    def expect(self, name: str, number: int) -> None:
        """Expect replies to the request of that name, which answer the request of this number."""
        self._numbers[name] = number
        self._replies[name] = []
        self._room[name] = REPLIES_BYTES_MAX

    def answered(self, name: str, answer: GivenReply) -> None:
        """Keep a reply, and answer with all of them behind the last."""
        replies = self._replies.get(name)
        if replies is None:
            return  # what came before had no room
        if not answer.error:
            self._room[name] -= Message("", answer.content, answer.fields or None).weigh()
            if self._room[name] < 0 and replies:  # one alone is bounded as every message is
                answer = GivenReply(error="too_large", reason=f"the replies pass {REPLIES_BYTES_MAX} bytes", own=True)
            else:
                replies.append([answer.content, answer.fields])
        if answer.more and not answer.error:
            return
        number = self._numbers.pop(name)
        del self._replies[name], self._room[name]
        told: Arguments = {"replies": replies}
        if answer.error:
            told |= {"error": answer.error, "reason": answer.reason, "own": answer.own}
        self._peer.reply(number, told)


class _ControlResponder:
    """A control connection that responds (edge/requests/requests.py Responder)."""

    principal = None

    def __init__(self, peer: ControlPeer) -> None:
        self._peer = peer

    @property
    def full(self) -> bool:
        """True while so much waits for it that it is asked nothing."""
        return self._peer.waiting() > UNSENT_BYTES_MAX

    def ask(self, asked: Asked) -> None:
        """Hand it a request."""
        self._peer.push(
            "asked",
            {
                "to": asked.to,
                "subject": asked.subject,
                "content": asked.content,
                "fields": asked.fields,
                "timeout": asked.timeout,
                "replies": asked.replies,
                "user": asked.user,
            },
        )

    def tell_over(self, name: str, reason: str) -> None:
        """Tell it that nobody waits any more."""
        self._peer.push("over", {"to": name, "reason": reason})
