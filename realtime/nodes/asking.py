"""How nodes are asked: over a connection for each question, all nodes beside each other, each with its own time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from fastpath.client.control.client import Control
from fastpath.client.errors import ClientError

ANSWER_SECONDS = 2.0
"""A node that takes longer to answer is away, unless the question says otherwise."""

CLIENT = "django/1"
"""What Django calls itself to a node."""

T = TypeVar("T")
Question = Callable[[Control], T]
"""Asks one node; may raise ClientError and ValueError."""


@dataclass(frozen=True)
class Said(Generic[T]):
    """What one node has said: ``value``; or ``error``, with the node's ``code`` where it was the node that refused."""

    value: T | None = None
    error: str = ""
    code: str = ""


def ask(address: str, question: Question[T], seconds: float = ANSWER_SECONDS) -> Said[T]:
    """Ask one node, at most ``seconds`` for each answer; raises nothing that is the node's fault."""
    try:
        # A connection for each question: they are few, and none is left open.
        with Control(address, timeout_seconds=seconds, client=CLIENT) as control:
            return Said(question(control))
    except (ClientError, ValueError) as error:
        why = getattr(error, "reason", "") or getattr(error, "why", "") or error
        return Said(error=str(why), code=str(getattr(error, "code", "")))


def ask_each(addresses: Sequence[str], question: Question[T], seconds: float = ANSWER_SECONDS) -> list[Said[T]]:
    """Ask these nodes beside each other; what each has said, in their order."""
    return beside(addresses, lambda address: ask(address, question, seconds))


A = TypeVar("A")


def beside(those: Sequence[A], work: Callable[[A], T]) -> list[T]:
    """Do the work for each of those in a thread of its own; the results in their order."""
    if len(those) < 2:
        return [work(one) for one in those]
    with ThreadPoolExecutor(len(those), thread_name_prefix="nodes") as pool:
        return list(pool.map(work, those))
