"""A process of Django that answers for a hook, played by a thread of the test over the real control socket."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Self

from fastpath.client.control.pushes import Pushes
from fastpath.client.errors import ClientError
from tests.support.edge.wire import WireClient
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

Question = dict[str, Any]
Reply = dict[str, Any] | None


def yes(question: Question, **more: Any) -> Reply:
    """Everything is allowed, for as long as the connection lasts."""
    return {"verdicts": [[True]] * len(question.get("subjects") or [""]), **more}


def no(question: Question, reason: str = "not today", seconds: float | None = None) -> Reply:
    """Nothing is."""
    return {"verdicts": [[False, reason, seconds]] * len(question.get("subjects") or [""])}


def named(question: Question) -> Reply:
    """Everything is allowed, in the name that the token is."""
    return yes(question, user=question["token"]) if question["event"] in ("connect", "token") else yes(question)


def denying(*events: str, seconds: float | None = None) -> Callable[[Question], Reply]:
    """The same, but for these events."""
    return lambda question: no(question, seconds=seconds) if question["event"] in events else named(question)


def enter(custom: Sidecar, token: str = "ann", **keys: Any) -> WireClient:
    """A client that has connected."""
    client = WireClient(custom, **keys)
    client.ask("connect", "connected", token=token)
    return client


class Answering:
    """``with Answering(sidecar.control) as hook:`` answers by ``hook.rule``; None leaves a question open.

    Tests change ``rule`` while it runs; ``asked`` is every question so far.
    """

    verbs = "hooks", "answer"
    """How it says that it is there, and what it answers with."""

    def __init__(self, path: str, rule: Callable[[Question], Reply] = yes) -> None:
        self.rule = rule
        self.asked: list[Question] = []
        self._pushes = Pushes(path)
        try:
            self.settings = self._pushes.ask(self.verbs[0], {})
        except BaseException:
            self._pushes.close()
            raise
        self._over = False
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._thread.join()
        self._pushes.close()

    def answer(self, question: Question, reply: Reply) -> None:
        """Answer a question that was left open."""
        self._pushes.send(self.verbs[1], {"ask": question["ask"], **(reply or {})})

    def about(self, event: str, **facts: Any) -> list[Question]:
        """The questions so far about an event, and a user or what else is known."""
        return [one for one in self.asked if one["event"] == event and facts.items() <= one.items()]

    def wait(self, event: str, count: int = 1, **facts: Any) -> Question:
        """The newest of so many questions about it."""
        return until(lambda: len(self.about(event, **facts)) >= count and self.about(event, **facts)[-1])

    def _run(self) -> None:
        while not self._over:
            try:
                told = self._pushes.read(0.02)
            except ClientError:
                return  # the sidecar is gone
            for name, content in told:
                if name == "ask":
                    rule = self.rule  # before anybody sees the question, who may change it then
                    self.asked.append(content)
                    reply = rule(content) if content["ask"] else None
                    if reply is not None:
                        self.answer(content, reply)


class CheckingPasswords(Answering):
    """The same for passwords: ``rule`` answers with a token, or with why there is none."""

    verbs = "passwords", "checked"
