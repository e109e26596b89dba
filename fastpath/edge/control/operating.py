"""``POST /api/disconnect`` and ``/api/unsubscribe``: what operators do over HTTP, by verbs of the control socket.

The first worker carries them out. Operators are superusers: whoever may do everything by the mode and its rights. No
rule makes one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from ...core.auth.grants import Principal
from ...core.protocol.codec import Form
from ...core.protocol.errors import InvalidMessage
from ...core.protocol.rest import Disconnection, Unsubscription, read_disconnection, read_unsubscription
from ..node import messages
from ..plain_http.answers import refusal, refused_by
from ..plain_http.call import Call
from ..runtime.component import Offers
from ..runtime.runtime import Runtime
from .actions import ClientActions

ANSWER_SECONDS = 3.0
"""Seconds that the first worker has: twice as long as that waits for the others."""

OPEN_MAX = 64
"""Requests of operators under way in one process."""

_STATUSES = {"unknown": 404, "timeout": 503, "limit": 503}
"""Statuses of refusals of a control verb that mean something else in a request of their own."""

_READ: dict[str, Callable[[bytes, Form], Disconnection | Unsubscription]] = {
    "disconnect": read_disconnection,
    "unsubscribe": read_unsubscription,
}
"""Functions that read the bodies, by the verb."""

_DONE = {"disconnect": "disconnected over HTTP", "unsubscribe": "unsubscribed over HTTP"}

NO_OPERATOR = "operators are superusers"

log = logging.getLogger("fastpath.control")


class OperatorRequests:
    """Takes the requests of operators over HTTP, and has the first worker carry them out."""

    def __init__(self, runtime: Runtime, actions: ClientActions) -> None:
        self._runtime = runtime
        self._actions = actions
        self._open: dict[int, _Caller] = {}
        self._asked = 0
        self.offers = Offers(
            endpoints={f"/api/{verb}": {"POST": partial(self._called, verb)} for verb in _READ},
            messages={messages.Operate: self._operate, messages.Operated: self._operated},
        )

    def _called(self, verb: str, call: Call) -> None:
        """Begin what a request asks for; raise InvalidMessage and Refused."""
        call.check_parameters()
        form = call.body_form
        assert form is not None
        principal = call.principal()
        asked = _READ[verb](call.body, form)
        if not principal.superuser:
            raise InvalidMessage("denied", NO_OPERATOR)
        if len(self._open) >= OPEN_MAX:
            raise InvalidMessage("not_ready", f"{OPEN_MAX} requests of operators are under way; retry")
        arguments = msgspec.to_builtins(asked)
        whom = asked.connection or asked.user
        what = {"subject": asked.subject} if isinstance(asked, Unsubscription) else {}
        log.info(_DONE[verb], extra={"by": principal.user, "address": call.address, "whom": whom, **what})
        self._asked += 1
        number = self._asked
        caller = _Caller(call, principal, lambda: self._over(number))
        self._open[number] = caller
        try:
            if not self._runtime.workers.follows:
                self._actions.operations[verb](caller, arguments)
            elif not self._runtime.workers.to_first(messages.Operate(number, verb, arguments)):
                raise InvalidMessage("not_ready", "the first worker is away; retry")
        except InvalidMessage:
            self._over(number)
            raise
        self._runtime.loop.call_later(ANSWER_SECONDS, self._late, number)

    def _over(self, number: int) -> _Caller | None:
        return self._open.pop(number, None)

    def _late(self, number: int) -> None:
        caller = self._over(number)
        if caller is not None:
            caller.refuse(0, "timeout", "the first worker has not answered; it may be done")

    # Between the workers

    def _operate(self, worker: int, asked: messages.Operate) -> None:
        """Do on the first worker what another one has been asked for."""
        peer = _Worker(self._runtime, worker, asked.number)
        try:
            self._actions.operations[asked.verb](peer, asked.arguments)
        except InvalidMessage as error:
            peer.refuse(0, error.code, error.reason)

    def _operated(self, worker: int, told: messages.Operated) -> None:
        del worker
        caller = self._over(told.number)
        if caller is None:
            return
        if told.refusal is not None:
            caller.refuse(0, *told.refusal)
        else:
            caller.reply(0, told.answer)


class _OperatorPeer:
    """Somebody who asks one thing, as the verbs see it."""

    request = 0

    def __init__(self, principal: Principal | None = None) -> None:
        self.principal = principal
        self.ended: list[Callable[[], None]] = []

    def push(self, name: str, content: dict[str, Any]) -> int:
        """Refuse to push anything, as nothing but the answer is told."""
        raise NotImplementedError(name)

    def waiting(self) -> int:
        """Return 0, as nothing waits."""
        return 0


class _Caller(_OperatorPeer):
    """A call of this process."""

    def __init__(self, call: Call, principal: Principal, over: Callable[[], object]) -> None:
        super().__init__(principal)
        self._call = call
        self._over = over

    def reply(self, number: int, answer: dict[str, Any]) -> None:
        del number
        self._over()
        self._call.answer_with({"away": [], **answer})

    def refuse(self, number: int, code: str, reason: str) -> None:
        del number
        self._over()
        status = _STATUSES.get(code)
        self._call.answer(refused_by(InvalidMessage(code, reason)) if status is None else refusal(status, reason))


class _Worker(_OperatorPeer):
    """Another worker, which has been called."""

    def __init__(self, runtime: Runtime, worker: int, number: int) -> None:
        super().__init__()
        self._runtime = runtime
        self._worker = worker
        self._number = number

    def reply(self, number: int, answer: dict[str, Any]) -> None:
        del number
        self._runtime.workers.to_others(messages.Operated(self._number, answer, None), self._worker)

    def refuse(self, number: int, code: str, reason: str) -> None:
        del number
        self._runtime.workers.to_others(messages.Operated(self._number, {}, (code, reason)), self._worker)
