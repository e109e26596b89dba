"""Answers the requests of all nodes by the project's responders, in threads."""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from asgiref.sync import async_to_sync
from django.db import close_old_connections

from fastpath.client.control.nodes import label
from fastpath.client.control.pushes import Pushes
from fastpath.client.errors import ClientError, ResponderError, SidecarUnavailable
from fastpath.client.message import Reply, Request
from fastpath.client.requests.responding import FAILED
from fastpath.core.protocol.limits import ERROR_CHARS_MAX, REASON_CHARS_MAX
from realtime.conf import conf
from realtime.requests.responders import Responders

THREADS = 16
"""Requests that are answered at a time, of all nodes together; the others wait, as long as somebody waits for them."""

RETRY_SECONDS = 0.5
_LOOK_SECONDS = 0.5
"""Seconds that the end may go unnoticed."""

log = logging.getLogger("realtime.requests")


def start(
    responders: Responders, addresses: Sequence[str], stop: threading.Event, threads: int = THREADS
) -> list[threading.Thread]:
    """Answer the requests of these nodes until ``stop`` is set; the threads that take them."""
    runner = ResponderRunner(responders, stop, threads)
    listening = [
        threading.Thread(target=runner.serve, args=(address,), name=f"requests {label(address)}", daemon=True)
        for address in addresses
    ]
    for thread in listening:
        thread.start()
    return listening


class ResponderRunner:
    """The responders of a project, for any number of nodes."""

    def __init__(self, responders: Responders, stop: threading.Event, threads: int) -> None:
        self._responders = responders
        self._stop = stop
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="respond")

    def serve(self, address: str) -> None:
        """Take the requests of a node for as long as it is there, and again when it is back."""
        trouble = ""
        while not self._stop.is_set():
            over: set[str] = set()
            try:
                with Pushes(address, conf.control_seconds, "django/1") as pushes:
                    self._begin(pushes, address)
                    trouble = ""
                    while not self._stop.is_set():
                        for name, content in pushes.read(_LOOK_SECONDS):
                            self._take(pushes, name, content, over)
            except (ClientError, ValueError) as error:
                if str(error) != trouble and not self._stop.is_set():
                    trouble = str(error)
                    log.warning("the node %s is not served: %s; trying again", label(address), error)
                self._stop.wait(RETRY_SECONDS)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self, pushes: Pushes, address: str) -> None:
        results = pushes.ask("respond", {"patterns": self._responders.patterns})["results"]
        taken = [pattern for pattern, error, _ in results if not error]
        for pattern, error, reason in results:
            if error:
                log.error("the node %s refuses %s: %s", label(address), pattern, reason)
        log.info("answering %s for %s", ", ".join(taken), label(address))

    def _take(self, pushes: Pushes, name: str, content: dict[str, Any], over: set[str]) -> None:
        if name == "over":
            over.add(content["to"])
        elif name == "error":
            log.error("the node refuses a reply: %s", content.get("reason"))
        elif name == "asked":
            deadline = time.monotonic() + content["timeout"] / 1000
            self._pool.submit(self._answer, pushes, content, deadline, over)

    def _answer(self, pushes: Pushes, asked: dict[str, Any], deadline: float, over: set[str]) -> None:
        """Run in a thread of the pool."""
        to = asked["to"]
        if to in over or time.monotonic() > deadline:
            over.discard(to)
            return  # nobody waits for it any more
        send = _sender(pushes, to)
        close_old_connections()
        try:
            last = self._called(asked, send)
            send(content=last.content, fields=dict(last.fields), more=False)
        except ResponderError as error:
            send(error=error.code[:ERROR_CHARS_MAX] or FAILED, reason=error.reason[:REASON_CHARS_MAX])
        except Exception:
            log.exception("the responder for %s failed", asked["subject"])
            send(error=FAILED, reason="the responder failed")
        finally:
            over.discard(to)
            close_old_connections()

    def _called(self, asked: dict[str, Any], send: Callable[..., None]) -> Reply:
        """Return what the handler returns, as the last reply."""
        handler = self._responders.handler(asked["subject"])
        if handler is None:
            raise ResponderError("no_handler", "no responder of this project covers the subject")

        def reply(content: Any, fields: Any = None) -> None:
            send(content=content, fields=fields or {}, more=True)

        request = Request(
            subject=asked["subject"],
            content=asked["content"],
            fields=asked["fields"],
            user=asked["user"],
            timeout_seconds=asked["timeout"] / 1000,
            replies=asked["replies"],
            reply=reply,
        )
        returned: Any
        if inspect.iscoroutinefunction(handler):
            returned = async_to_sync(handler)(request)
        else:
            returned = handler(request)
        last = returned if isinstance(returned, Reply) else Reply("" if returned is None else returned)
        for value in (last.content, *last.fields.values()):
            if not isinstance(value, str | bytes):
                raise TypeError(f"a responder returns texts or bytes, not {type(value).__name__}")
        return last


def _sender(pushes: Pushes, to: str) -> Callable[..., None]:
    def send(**reply: Any) -> None:
        try:
            pushes.send("reply", {"to": to, **reply})
        except SidecarUnavailable:
            pass  # whoever asked has been told that this responder is gone

    return send
