"""The handlers of a client that responds: who answers what, a task for each request, and what each replies."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from fastpath.core.matching.subscribed_patterns import covers
from fastpath.core.protocol import messages as wire
from fastpath.core.protocol.messages import Fields, Value

from ..arguments import check_values
from ..errors import ResponderError, TooLarge
from ..message import Reply, Request

Returned = Value | Reply | None
Handler = Callable[[Request], Returned | Awaitable[Returned]]
"""Function that answers a request with what it returns; raises ResponderError to answer with an error."""

FAILED = "error"
"""The code of an error reply to a request whose handler failed."""

log = logging.getLogger("fastpath.client")


class RequestHandlers:
    """The handlers of one client; ``send`` takes each reply, which goes to the connection on which the request came, if
    it stands."""

    def __init__(self, send: Callable[[wire.GiveReply], None]) -> None:
        self._send = send
        self._handlers: dict[str, Handler] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @property
    def patterns(self) -> list[str]:
        """The patterns that have handlers, in the order of their coming."""
        return list(self._handlers)

    def handler(self, pattern: str) -> Handler | None:
        """Return the handler of a pattern, if it has one."""
        return self._handlers.get(pattern)

    def handle(self, pattern: str, handler: Handler) -> None:
        """Answer requests that the pattern covers with this handler, in the place of one that it had."""
        self._handlers[pattern] = handler

    def drop(self, pattern: str) -> None:
        """Answer no new ones of the pattern."""
        self._handlers.pop(pattern, None)

    def asked(self, asked: wire.Asked) -> None:
        """Have the first handler that covers the request's subject answer the request."""
        handler = next((one for pattern, one in self._handlers.items() if covers(pattern, asked.subject)), None)
        if handler is None:
            self._send(wire.GiveReply(to=asked.to, error="no_handler", reason="this responder has just ended"))
            return
        task = self._tasks[asked.to] = asyncio.create_task(self._answer(handler, asked))
        task.add_done_callback(lambda _: self._tasks.pop(asked.to, None))

    def over(self, to: str | None) -> None:
        """Cancel the handler of a reply that nobody waits for any more; None: of every reply."""
        names = list(self._tasks) if to is None else [to]
        for name in names:
            if name in self._tasks:
                self._tasks.pop(name).cancel()

    async def _answer(self, handler: Handler, asked: wire.Asked) -> None:
        def reply(content: Value, fields: Fields | None = None, *, more: bool = True) -> None:
            check_values(content, fields or {})
            self._send(wire.GiveReply(to=asked.to, content=content, fields=fields or {}, more=more))

        request = Request(
            subject=asked.subject,
            content=asked.content,
            fields=asked.fields,
            user=asked.user,
            timeout_seconds=asked.timeout / 1000,
            replies=asked.replies,
            reply=reply,
        )
        try:
            returned: Any = handler(request)
            if inspect.isawaitable(returned):
                returned = await returned
            last = returned if isinstance(returned, Reply) else Reply("" if returned is None else returned)
            reply(last.content, last.fields, more=False)
        except TooLarge as error:
            self._send(wire.GiveReply(to=asked.to, error=error.code, reason=error.reason))
        except ResponderError as error:
            code, reason = _cut(error.code, 64), _cut(error.reason, 1024)
            self._send(wire.GiveReply(to=asked.to, error=code or FAILED, reason=reason))
        except Exception:
            log.exception("the handler for a request to %s failed", asked.subject)
            self._send(wire.GiveReply(to=asked.to, error=FAILED, reason="the responder failed"))


def _cut(text: object, most: int) -> str:
    """Return the beginning of a reason or code as text, without halves of characters."""
    return str(text)[:most].encode(errors="replace").decode()
