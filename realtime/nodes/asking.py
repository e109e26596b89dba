"""How nodes are asked: all beside each other, each with its own time, so that one that hangs holds up no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from fastpath.client.control.client import Control
from fastpath.client.errors import ClientError

ANSWER_SECONDS = 2.0
"""A node that takes longer to answer is away, unless the question says otherwise."""

CLIENT = "django/1"
"""Name by which Django calls itself to a node."""

T = TypeVar("T")
Question = Callable[[Control], T]
"""Asks one node; may raise ClientError and ValueError."""


@dataclass(frozen=True)
class Said(Generic[T]):
    """The answer of one node: ``value``; or ``error``, with the node's ``code`` where it was the node that refused."""

    value: T | None = None
    error: str = ""
    code: str = ""
    failure: ClientError | ValueError | None = field(default=None, compare=False)
    """Error that was raised, for callers who say it in the client's own words."""


def ask(address: str, question: Question[T], seconds: float = ANSWER_SECONDS) -> Said[T]:
    """Ask one node, at most ``seconds`` for each answer; raises nothing that is the node's fault."""
    try:
        # A connection for each question: they are few, and none is left open.
        with Control(address, timeout_seconds=seconds, client=CLIENT) as control:
            return Said(question(control))
    except (ClientError, ValueError) as error:
        return _failed(error)


def ask_each(addresses: Sequence[str], question: Question[T], seconds: float = ANSWER_SECONDS) -> list[Said[T]]:
    """Ask these nodes beside each other; what each has said, in their order."""
    return beside(addresses, lambda address: ask(address, question, seconds))


class Background:
    """Asks some nodes while the caller goes on; a node is asked one thing after the other by who wants it so.

    With ``kept`` for a name of the client each node has one connection, which stays open until ``close``.
    """

    def __init__(self, addresses: Sequence[str], kept: str = "") -> None:
        self._kept = {address: Control(address, ANSWER_SECONDS, kept) for address in addresses} if kept else {}
        self._pool = ThreadPoolExecutor(len(addresses), thread_name_prefix="nodes")

    def ask(self, address: str, question: Question[T]) -> Future[Said[T]]:
        """Begin to ask one of the nodes; what is returned raises nothing that is the node's fault."""
        return self._pool.submit(self._ask, address, question)

    def close(self) -> None:
        """End the connections, and the threads when they are done."""
        for control in self._kept.values():
            control.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, address: str, question: Question[T]) -> Said[T]:
        if address not in self._kept:
            return ask(address, question)
        try:
            return Said(question(self._kept[address]))
        except (ClientError, ValueError) as error:
            return _failed(error)


A = TypeVar("A")


def beside(those: Sequence[A], work: Callable[[A], T]) -> list[T]:
    """Do the work for each of those in a thread of its own; the results in their order."""
    if len(those) < 2:
        return [work(one) for one in those]
    with ThreadPoolExecutor(len(those), thread_name_prefix="nodes") as pool:
        return list(pool.map(work, those))


def _failed(error: ClientError | ValueError) -> Said[T]:
    why = getattr(error, "reason", "") or getattr(error, "why", "") or error
    return Said(error=str(why), code=str(getattr(error, "code", "")), failure=error)
