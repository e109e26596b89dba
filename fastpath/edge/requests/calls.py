"""``POST /api/request``: a request by plain HTTP, answered with its replies."""

from __future__ import annotations

from typing import Any

from ...core.auth.rules import PUBLISH
from ...core.protocol.codec import JSON, Form
from ...core.protocol.errors import InvalidMessage
from ...core.protocol.limits import REPLIES_MAX
from ...core.protocol.messages import Message
from ...core.protocol.rest import WAIT_SECONDS_MAX, encode_body, problem, read_request, shown_reply
from ...core.requests.open_requests import GivenReply
from ...core.sessions.deferred_commands import is_askable
from ..plain_http.answers import PROBLEM_TYPE, RETRY_SECONDS, HttpAnswer, phrase
from ..plain_http.call import Call, code_of
from ..runtime.component import Offers
from ..runtime.runtime import Runtime
from .clients import question
from .requests import Requests, inbox

REPLIES_BYTES_MAX = 4 << 20
"""Contents and fields of all replies in one answer; what comes beyond it ends the request with ``too_large``."""

RESPONDER_STATUS = 422
"""Status for the responder's own errors: the request came to somebody, who could do nothing with it."""

STATUS = {
    "no_responders": 503,
    "busy": 503,
    "unavailable": 503,
    "not_ready": 503,
    "timeout": 504,
    "responder_gone": 502,
    "denied": 403,
    "too_large": 413,
    "limit": 429,
    "invalid": 400,
}
"""Statuses by the codes of protocol.md 4.19 that are the server's own."""


class HttpRequests:
    """The requests of callers."""

    def __init__(self, runtime: Runtime, requests: Requests) -> None:
        self._runtime = runtime
        self._requests = requests
        self._open: set[_Asking] = set()
        self.offers = Offers(endpoints={"/api/request": {"POST": self._request}}, on_second=self._on_second)

    def _request(self, call: Call) -> None:
        call.check_parameters()
        form = call.body_form
        assert form is not None
        principal = call.principal()
        asked = read_request(call.body, form)
        call.spend(1)
        if not 0 < asked.timeout <= WAIT_SECONDS_MAX * 1000:
            raise InvalidMessage("invalid", f"timeout is 1 to {WAIT_SECONDS_MAX * 1000} ms")
        if not 0 < asked.replies <= REPLIES_MAX:
            raise InvalidMessage("invalid", f"replies is 1 to {REPLIES_MAX}")
        if not self._runtime.access.may_publish(call.address):
            raise InvalidMessage("denied", f"publishing is not allowed from {call.address}")
        if self._runtime.congested:
            raise InvalidMessage("not_ready", "the server does not keep up at this moment; try again")

        def begin(by_hook: bool) -> None:
            asking = _Asking(call, self._open)
            name = self._requests.name(asking.inbox)
            refusal = self._requests.ask(
                asking,
                question(asked.subject, asked.content, asked.fields, name),
                None if by_hook else principal,
                call.caller(principal),
                timeout=asked.timeout,
                replies=asked.replies,
            )
            if refusal is not None:
                asking.answered(name, GivenReply(error=refusal[0], reason=str(refusal[1]), own=True))

        def decided(reason: str) -> None:
            if reason:
                raise InvalidMessage(code_of(reason), reason)
            if not call.is_over:
                begin(True)

        if self._runtime.asks is not None and is_askable(asked.subject):
            call.ask_hook(PUBLISH, asked.subject, decided)
        else:
            begin(False)

    def _on_second(self, moment: int) -> None:
        """Abandon requests whose caller is gone: whoever answers need not go on."""
        del moment
        for asking in [one for one in self._open if one.call.is_over]:
            self._open.discard(asking)
            self._requests.abandon(asking)


class _Asking:
    """A call that waits for replies; it is in ``waiting`` meanwhile."""

    def __init__(self, call: Call, waiting: set[_Asking]) -> None:
        self.call = call
        self.inbox = inbox()
        self._replies: list[GivenReply] = []
        self._size = 0
        self._over = False
        self._waiting = waiting
        waiting.add(self)

    def answered(self, name: str, answer: GivenReply) -> None:
        """Take a reply; the last one is answered with all."""
        del name
        if self._over:
            return
        if not answer.error:
            message = Message("", answer.content, answer.fields or None)
            self._size += message.weigh()
            if self._size > REPLIES_BYTES_MAX:
                answer = GivenReply(error="too_large", reason=f"the replies pass {REPLIES_BYTES_MAX} bytes", own=True)
            else:
                self._replies.append(answer)
        if answer.error:
            self._end()
            self.call.answer(self._problem(answer))
        elif not answer.more:
            self._end()
            self.call.answer_with({"replies": self._shown(self.call.form)})

    def _end(self) -> None:
        self._over = True
        self._waiting.discard(self)

    def _shown(self, form: Form) -> list[dict[str, Any]]:
        return [shown_reply(reply.content, reply.fields, form) for reply in self._replies]

    def _problem(self, answer: GivenReply) -> HttpAnswer:
        """Return an error, with the replies that came before it."""
        status = STATUS.get(answer.error, 503) if answer.own else RESPONDER_STATUS
        body = problem(status, phrase(status), answer.reason or answer.error)
        body |= {"code": answer.error, "own": answer.own, "replies": self._shown(JSON)}
        headers = (("Retry-After", str(RETRY_SECONDS)),) if status == 503 else ()
        return HttpAnswer(status, encode_body(body, JSON), PROBLEM_TYPE, headers)
