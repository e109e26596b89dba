"""One request, as an endpoint sees it: who calls, for what, and the way to answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol
from urllib.parse import parse_qs

from ...core.auth.grants import Principal
from ...core.auth.hook_questions import LATE
from ...core.auth.reasons import NOT_READY, PENDING
from ...core.protocol.codec import Form
from ...core.protocol.errors import FastpathError, InvalidMessage
from ...core.protocol.rest import form_of, wanted_form
from ...core.websocket.handshake import Request
from ...listen_address import Listener
from ..runtime.connection_names import Caller
from ..runtime.runtime import Runtime, now
from .answers import HttpAnswer, answer_of, refusal, refused_by

QUERY_FIELDS_MAX = 500
"""Parameters of one request; its head is bounded."""

log = logging.getLogger("fastpath.http")


class CallExchange(Protocol):
    """The connection of a call (edge/plain_http/exchange.py)."""

    number: int

    @property
    def listener(self) -> Listener:
        """Listener where the request came in."""

    def answered(self, call: Call, answer: HttpAnswer) -> None:
        """Send the answer; only the first one of a call counts."""

    def spend(self, publications: int) -> None:
        """Count what was published: nothing more is read for a while where it was too much at a time."""

    def publishes(self, subjects: Sequence[str]) -> None:
        """Count the same by its subjects, one publication each."""

    def is_waiting_for(self, call: Call) -> bool:
        """Return whether the call is still to be answered."""


class Call:
    """A request with its body, on a connection that waits for its answer."""

    def __init__(self, runtime: Runtime, exchange: CallExchange, request: Request, address: str, body: bytes) -> None:
        self.runtime = runtime
        self.request = request
        self.address = address
        self.body = body
        self._exchange = exchange
        try:
            self._query = parse_qs(
                request.query, keep_blank_values=True, errors="strict", max_num_fields=QUERY_FIELDS_MAX
            )
        except ValueError as error:
            raise InvalidMessage("invalid", f"the query cannot be read: {error}") from None

    @property
    def listener(self) -> Listener:
        """Listener where the request came in."""
        return self._exchange.listener

    # What was asked

    def parameters(self, name: str) -> list[str]:
        """Return all values of a parameter of the query."""
        return self._query.get(name, [])

    def parameter(self, name: str) -> str | None:
        """Return the one value of a parameter; raise InvalidMessage where there are several."""
        values = self.parameters(name)
        if len(values) > 1:
            raise InvalidMessage("invalid", f"{name} may stand in the query once")
        return values[0] if values else None

    def check_parameters(self, *known: str) -> None:
        """Raise InvalidMessage for a parameter that is none of these: it is misspelt, and would be passed over."""
        for name in self._query:
            if name not in known and name != "token":
                raise InvalidMessage("invalid", f"{name[:40]} is none of {', '.join((*known, 'token'))}")

    @property
    def token(self) -> str:
        """The token: ``Authorization: Bearer``, else ``?token=``; empty for anonymous."""
        return bearer_token(self.request) or self.parameter("token") or ""

    @property
    def body_form(self) -> Form | None:
        """The form of the body, by Content-Type."""
        return form_of(self.request.headers.get("content-type", ""))

    @property
    def form(self) -> Form:
        """The form that is wanted of the answer, by Accept."""
        return wanted_form(self.request.headers.get("accept", ""))

    # Who asks, and what that one may

    def principal(self) -> Principal:
        """Return who calls; raise Refused for a bad token, and InvalidMessage while nobody is known yet."""
        self._check_ready()
        return self.runtime.broker.grants.principal(self.token, now())

    def caller(self, principal: Principal) -> Caller:
        """Return who calls, as the source of publications."""
        return Caller(self._exchange.number, self.address, principal)

    def ask_hook(self, action: str, subject: str, then: Callable[[str], None]) -> None:
        """Ask Django's hook, which there is: ``then`` gets the reason why not, empty for yes; raises Refused."""
        asks = self.runtime.asks
        assert asks is not None
        asks.request(
            self.token, action, subject, lambda reason: self.run(then, reason), self.address, self.request.headers
        )

    def decide(self, action: str, subject: str, then: Callable[[str], None]) -> None:
        """Call ``then`` with the reason why the caller may not, empty if it may; raises Refused."""
        self._check_ready()
        reason = self.runtime.decide(
            self.token,
            action,
            subject,
            lambda reason: self.run(then, reason),
            self.address,
            self.request.headers,
        )
        if reason is not None:
            then(reason)

    def _check_ready(self) -> None:
        """Raise InvalidMessage while nobody is known yet."""
        if not self.runtime.broker.grants.ready:
            raise InvalidMessage("not_ready", NOT_READY)

    # The answer

    @property
    def is_over(self) -> bool:
        """True when nobody waits for the answer any more."""
        return not self._exchange.is_waiting_for(self)

    def spend(self, publications: int) -> None:
        """Count publications of this call against the rates."""
        self._exchange.spend(publications)

    def publishes(self, subjects: Sequence[str]) -> None:
        """Count publications of this call against the rates of these subjects, one each."""
        self._exchange.publishes(subjects)

    def run(self, step: Callable[..., None], *arguments: Any) -> None:
        """Take a step towards the answer; what it raises is the answer."""
        try:
            step(*arguments)
        except FastpathError as error:
            self.answer(refused_by(error))
        except Exception:
            log.exception("fault while answering %s", self.request.path)
            self.answer(refusal(500, "A fault of the server; try again."))

    def answer(self, answer: HttpAnswer) -> None:
        """Answer, once; later answers are dropped."""
        self._exchange.answered(self, answer)

    def answer_with(self, value: Any) -> None:
        """Answer with this body, in the form that was asked for."""
        self.answer(answer_of(value, self.form))


def bearer_token(request: Request) -> str:
    """Return the token of ``Authorization: Bearer``; empty without one."""
    kind, _, value = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer":
        return ""
    value = value.strip()
    try:
        return value.encode("latin-1").decode()  # a header's bytes, as they came
    except UnicodeDecodeError:
        return value


def code_of(reason: str) -> str:
    """Return the code of a right that is refused for this reason (protocol.md 4.4)."""
    return "not_ready" if reason in PENDING or reason == LATE else "denied"
