"""Runs the project's hook: takes the questions of all nodes, and lets no answer keep the others waiting."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections
from django.utils.module_loading import import_string

from fastpath.client.control.nodes import label
from fastpath.client.control.pushes import Pushes
from fastpath.client.errors import ClientError, ControlRefused, SidecarUnavailable
from realtime.conf import conf
from realtime.hooks import EVENTS, Answer, Hook, Request

RETRY_SECONDS = 0.5
_LOOK_SECONDS = 0.5
"""Seconds that the end may go unnoticed."""

FAILED = "the hook failed"
FAILED_SECONDS = 5
"""Seconds that a denial counts that is no decision but a fault of the hook."""

_QUEUES_MAX = 1000

_TOGETHER = 50
"""Subjects about which an ``async`` method is asked at the same time."""

log = logging.getLogger("realtime.hooks")

Reply = dict[str, Any]


def load() -> Hook | None:
    """Return an instance of the class that the settings name, None without one; raise ImproperlyConfigured."""
    path = conf.hook
    if not path:
        return None
    try:
        hook = import_string(path)()
    except (ImportError, TypeError) as error:
        raise ImproperlyConfigured(f'REALTIME["HOOK"]: {path}: {error}') from error
    if not isinstance(hook, Hook):
        raise ImproperlyConfigured(f'REALTIME["HOOK"]: {path} is no subclass of realtime.hooks.Hook.')
    if not hook.events():
        raise ImproperlyConfigured(f'REALTIME["HOOK"]: {path} overrides none of {", ".join(EVENTS)}.')
    return hook


def start(hook: Hook, addresses: Sequence[str], stop: threading.Event) -> list[threading.Thread]:
    """Answer the questions of these nodes until ``stop`` is set; the threads that take them."""
    runner = Runner(hook, stop)
    threads = [
        threading.Thread(target=runner.serve, args=(address,), name=f"hooks {label(address)}", daemon=True)
        for address in addresses
    ]
    for thread in threads:
        thread.start()
    return threads


class Runner:
    """One hook, for any number of nodes."""

    def __init__(self, hook: Hook, stop: threading.Event) -> None:
        self._hook = hook
        self._stop = stop
        self._turns = Turns(max(1, hook.threads // 4))
        self._loop = asyncio.new_event_loop()
        for number in range(max(1, hook.threads)):
            threading.Thread(target=self._work, name=f"hook {number}", daemon=True).start()
        threading.Thread(target=self._run_loop, name="hook loop", daemon=True).start()
        threading.Thread(target=self._end, name="hook end", daemon=True).start()

    def serve(self, address: str) -> None:
        """Take the questions of a node for as long as it is there, and again when it is back."""
        trouble = ""
        while not self._stop.is_set():
            try:
                with Pushes(address, conf.control_seconds, "django/1") as pushes:
                    asked = pushes.ask("hooks", {})
                    log.info("answering %s about %s", label(address), ", ".join(asked["events"]))
                    trouble = ""
                    while not self._stop.is_set():
                        for name, content in pushes.read(_LOOK_SECONDS):
                            self._take(pushes, address, name, content, float(asked["seconds"]))
            except (ClientError, ValueError) as error:
                if isinstance(error, ControlRefused) and error.code == "invalid":
                    error = ClientError("it asks no hook: start it with FASTPATH_MODE=custom or FASTPATH_HOOKS=…")
                if str(error) != trouble and not self._stop.is_set():
                    trouble = str(error)
                    log.warning("the node %s is not served: %s; trying again", label(address), error)
                self._stop.wait(RETRY_SECONDS)

    def _take(self, pushes: Pushes, address: str, name: str, content: dict[str, Any], seconds: float) -> None:
        if name == "error":
            log.error("the node %s refuses an answer: %s", label(address), content.get("reason"))
        if name != "ask":
            return
        question = Question(pushes, address, content, time.monotonic() + seconds)
        self._turns.put(question.request.user or question.request.address, question)

    def _work(self) -> None:
        """Run in a thread: answer what comes next."""
        while (taken := self._turns.take()) is not None:
            turn, question = taken
            done = lambda turn=turn: self._turns.done(turn)
            if time.monotonic() > question.deadline:
                done()
                continue  # nobody waits for it any more
            method = getattr(self._hook, question.request.event)
            if inspect.iscoroutinefunction(method) and not self._overridden_many(question):
                future = asyncio.run_coroutine_threadsafe(self._answer_async(question, method), self._loop)
                future.add_done_callback(lambda _, done=done: done())
                continue
            close_old_connections()
            try:
                self._answer(question, method)
            finally:
                close_old_connections()
                done()

    def _run_loop(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    def _end(self) -> None:
        self._stop.wait()
        self._turns.close()
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _overridden_many(self, question: Question) -> bool:
        many = f"{question.request.event}_many"
        return getattr(type(self._hook), many, None) is not getattr(Hook, many, None)

    def _answer(self, question: Question, method: Callable[..., Any]) -> None:
        """Answer in this thread."""
        request = question.request
        try:
            if request.event == "disconnect":
                method(request, question.code, question.reason)
                return
            if not question.subjects:
                question.reply([method(request)])
            elif self._overridden_many(question):
                answers = getattr(self._hook, f"{request.event}_many")(request, question.subjects)
                if inspect.isawaitable(answers):
                    answers = asyncio.run_coroutine_threadsafe(_wait(answers, question), self._loop).result()
                question.reply(list(answers))
            else:
                question.reply([_guarded(question, method, subject) for subject in question.subjects])
        except Exception as error:
            question.fail(error)

    async def _answer_async(self, question: Question, method: Callable[..., Awaitable[Any]]) -> None:
        """Answer in the loop, for as long as somebody waits for it."""
        request = question.request
        try:
            async with asyncio.timeout(question.deadline - time.monotonic()):
                if request.event == "disconnect":
                    await method(request, question.code, question.reason)
                    return
                if not question.subjects:
                    answers = [await method(request)]
                else:
                    answers = []
                    for at in range(0, len(question.subjects), _TOGETHER):
                        some = question.subjects[at : at + _TOGETHER]
                        answers += await asyncio.gather(*(_guarded_async(question, method, one) for one in some))
            await asyncio.to_thread(question.reply, answers)
        except TimeoutError:
            log.warning("%s of %s took too long", request.event, type(self._hook).__name__)
        except Exception as error:
            await asyncio.to_thread(question.fail, error)


class Turns:
    """Questions in turn: each user or address has his own queue, and at most so many at work at a time."""

    def __init__(self, together_max: int) -> None:
        self._together_max = together_max
        self._changed = threading.Condition()
        self._queues: dict[str, deque[Question]] = {}  # the next one first
        self._working: dict[str, int] = {}
        self._closed = False

    def put(self, turn: str, question: Question) -> None:
        """Add one."""
        with self._changed:
            if len(self._queues) > _QUEUES_MAX:
                self._forget()
            queue = self._queues.setdefault(turn, deque())
            while queue and queue[0].deadline < time.monotonic():
                queue.popleft()
            queue.append(question)
            self._changed.notify()

    def _forget(self) -> None:
        """Drop what nobody waits for any more: the threads are all busy, and do not come to it."""
        moment = time.monotonic()
        for turn, queue in list(self._queues.items()):
            while queue and queue[0].deadline < moment:
                queue.popleft()
            if not queue:
                del self._queues[turn]

    def close(self) -> None:
        """End: nothing more is answered."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def take(self) -> tuple[str, Question] | None:
        """Return the next question of whoever's turn it is; wait for one. ``done`` ends the turn. None after the
        end."""
        with self._changed:
            while (turn := self._next()) is None or self._closed:
                if self._closed:
                    return None
                self._changed.wait()
            queue = self._queues.pop(turn)
            question = queue.popleft()
            if queue:
                self._queues[turn] = queue  # behind all others
            self._working[turn] = self._working.get(turn, 0) + 1
            return turn, question

    def done(self, turn: str) -> None:
        """Note that a question of the user's is answered."""
        with self._changed:
            self._working[turn] -= 1
            if not self._working[turn]:
                del self._working[turn]
            self._changed.notify()

    def _next(self) -> str | None:
        return next((turn for turn in self._queues if self._working.get(turn, 0) < self._together_max), None)


class Question:
    """A question of a node; answered once."""

    def __init__(self, pushes: Pushes, node: str, content: dict[str, Any], deadline: float) -> None:
        self._pushes = pushes
        self._number = int(content["ask"])
        self.deadline = deadline
        self.subjects: list[str] = list(content.get("subjects") or ())
        self.code = int(content.get("code") or 0)
        self.reason = str(content.get("reason") or "")
        self.request = Request(
            event=content["event"],
            connection=content["connection"],
            kind=content["kind"],
            address=content["address"],
            user=content["user"],
            claims=content.get("claims"),
            token=content.get("token") or "",
            headers=content["headers"],
            again=content["again"],
            node=node,
        )

    def reply(self, answers: Sequence[Any]) -> None:
        """Say what the hook has decided; raises TypeError when that is no answer."""
        for answer in answers:
            if not isinstance(answer, Answer):
                raise TypeError(f"{self.request.event} answers allow(…), deny(…) or disconnect(…), not {answer!r}")
        if len(answers) != len(self.subjects or ("",)):
            raise TypeError(f"{self.request.event}_many has {len(answers)} answers for {len(self.subjects)} subjects")
        reply: Reply = {"verdicts": [[one.allowed, one.reason, one.seconds] for one in answers]}
        if self.request.notices:
            reply["notices"] = self.request.notices
        for answer in answers:
            if answer.user is not None:
                reply["user"] = answer.user
            if answer.ends:
                reply["disconnect"] = answer.reason
        self._send(reply)

    def fail(self, error: Exception) -> None:
        """Deny for now, as the hook has raised; a connection is told to come again."""
        log.error("%s failed for %s", self.request.event, self.request.connection, exc_info=error)
        if self.subjects:
            self._send({"verdicts": [[False, FAILED, FAILED_SECONDS]] * len(self.subjects)})
        elif self._number:
            self._send({"failed": FAILED})

    def _send(self, reply: Reply) -> None:
        try:
            self._pushes.send("answer", {"ask": self._number, **reply})
        except SidecarUnavailable:
            pass  # it will ask again


def _guarded(question: Question, method: Callable[..., Any], subject: str) -> Any:
    """Return what the hook says about one subject of several; deny that one where the hook raises."""
    try:
        return method(question.request, subject)
    except Exception as error:
        return _failed(question, subject, error)


async def _guarded_async(question: Question, method: Callable[..., Awaitable[Any]], subject: str) -> Any:
    try:
        return await method(question.request, subject)
    except Exception as error:
        return _failed(question, subject, error)


def _failed(question: Question, subject: str, error: Exception) -> Answer:
    request = question.request
    log.error("%s failed for %s %r", request.event, request.connection, subject, exc_info=error)
    return Answer(False, FAILED, FAILED_SECONDS)


async def _wait(answers: Awaitable[Any], question: Question) -> Any:
    async with asyncio.timeout(question.deadline - time.monotonic()):
        return await answers
