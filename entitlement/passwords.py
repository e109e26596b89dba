"""Check the passwords of users for the sidecars, whose clients of MQTT come with them (protocol.md 8.21)."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from django.contrib.auth import authenticate, get_user_model
from django.db import close_old_connections
from django.http import HttpRequest

from entitlement import tokens
from fastpath.client.control.nodes import label
from fastpath.client.control.pushes import Pushes
from fastpath.client.errors import ClientError, ControlRefused, SidecarUnavailable

CHECKERS = 2
"""Threads that check passwords, of all nodes together: each is busy with one for a tenth of a second or more, and
Python's other threads run meanwhile."""

WAITING_MAX = 2000
"""Questions that wait for them; the sidecar does not wait for more."""

RETRY_SECONDS = 0.5
UNKNOWN_SECONDS = 5.0
"""Seconds until a node is asked again that has no use for this: another mode or setting, or an older version."""

_LOOK_SECONDS = 0.5
"""Seconds that the end may go unnoticed."""

_log = logging.getLogger("entitlement.agent")


class _Question(NamedTuple):
    pushes: Pushes
    number: int
    user: str
    password: str
    address: str
    deadline: float


class PasswordChecks:
    """Answers the questions of all nodes until ``stop`` is set."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._questions: queue.Queue[_Question] = queue.Queue(WAITING_MAX)

    def start(self, addresses: Sequence[str]) -> None:
        """Start the threads: one for each node, and those that check."""
        threads = [
            threading.Thread(target=self._serve, args=(address,), name=f"passwords {number}", daemon=True)
            for number, address in enumerate(addresses)
        ]
        threads += [threading.Thread(target=self._check_all, name="password", daemon=True) for _ in range(CHECKERS)]
        for thread in threads:
            thread.start()

    def _serve(self, address: str) -> None:
        """Take the questions of a node for as long as it is there, and again when it is back."""
        trouble = ""
        while not self._stop.is_set():
            try:
                with Pushes(address, client="django/1") as pushes:
                    seconds = float(pushes.ask("passwords", {})["seconds"])
                    trouble = ""
                    while not self._stop.is_set():
                        for name, content in pushes.read(_LOOK_SECONDS):
                            if name == "ask":
                                self._take(pushes, content, time.monotonic() + seconds)
            except ControlRefused:
                self._stop.wait(UNKNOWN_SECONDS)
            except SidecarUnavailable:  # the agent says so
                self._stop.wait(RETRY_SECONDS)
            except (ClientError, ValueError) as error:
                if str(error) != trouble:
                    trouble = str(error)
                    _log.warning("no passwords are checked for %s: %s; trying again", label(address), error)
                self._stop.wait(RETRY_SECONDS)

    def _take(self, pushes: Pushes, asked: dict[str, Any], deadline: float) -> None:
        question = _Question(pushes, asked["ask"], asked["user"], asked["password"], asked["address"], deadline)
        try:
            self._questions.put_nowait(question)
        except queue.Full:
            _say(question, failed="too many passwords wait")

    def _check_all(self) -> None:
        """Run in a thread: check one after the other."""
        while not self._stop.is_set():
            try:
                question = self._questions.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                continue
            if time.monotonic() < question.deadline:  # else nobody waits for it any more
                self._check(question)

    def _check(self, question: _Question) -> None:
        close_old_connections()
        try:
            token, failed = check(question.user, question.password, question.address), ""
        except Exception as error:
            _log.error("a password could not be checked: %r", error)
            token, failed = "", "Django failed"
        finally:
            close_old_connections()
        _say(question, **({"failed": failed} if failed else {"token": token}))


def _say(question: _Question, **answer: str) -> None:
    try:
        question.pushes.send("checked", {"ask": question.number, **answer})
    except (SidecarUnavailable, ValueError):
        pass  # it is gone, and its clients come again


class _Attempt(HttpRequest):
    """The CONNECT of a client, for backends and signals that want to know who asks."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.method, self.path = "CONNECT", "/mqtt"
        self.META = {"REMOTE_ADDR": address}


class Unsettled(Exception):
    """The password was changed while it was looked at."""


def check(user: str, password: str, address: str = "") -> str:
    """Return a token of the user if all backends of the project together say that this is the password, else an empty
    text.

    The token's generation is that of a moment when the password was right: a change after it ends the token, as any
    token. Raises Unsettled when the change came between.
    """
    found = authenticate(_Attempt(address), username=user, password=password)
    if found is None or not found.is_active:
        return ""
    try:
        token, _ = tokens.mint(found)
    except tokens.MintError:
        return ""  # deactivated since
    now = get_user_model()._base_manager.filter(pk=found.pk).values_list("password", flat=True).first()
    if now != found.password:
        raise Unsettled("the password has changed meanwhile")
    return token
