"""Questions to every node of REALTIME["CONTROL"] at once, so that one that is away holds up nobody's page."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from fastpath.client.control.client import Control
from fastpath.client.control.nodes import label
from fastpath.client.errors import ClientError
from realtime.conf import conf

ANSWER_SECONDS = 2.0
"""A node that takes longer to answer is away, unless the question says otherwise."""

AWAY_SECONDS = 5.0
"""A node that does not even answer hello is not waited for again before that."""

HELLO_SECONDS = 0.5
"""How long a node has to say hello, when it has not answered something else in time."""

ACTIONS = frozenset(("disconnect", "ping", "trace", "untrace"))
"""Verbs that are always tried."""

_silent: dict[str, tuple[float, str]] = {}
"""The addresses that did not answer in time: until when they are passed over (monotonic s), and what was said."""


@dataclass(frozen=True)
class Answer:
    """What one node says; ``error`` is why it does not, with the node's ``code`` where it was the node that refused."""

    index: int
    """The place of the node among REALTIME["CONTROL"], from 0."""
    name: str
    value: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    code: str = ""

    @property
    def refused(self) -> bool:
        """Whether the node has answered, with no."""
        return bool(self.code)


def node_names() -> list[str]:
    """The nodes as people read them, in the order of the settings."""
    return [label(address) for address in conf.controls]


def ask_node(index: int, verb: str, arguments: dict[str, Any], seconds: float = ANSWER_SECONDS) -> Answer:
    """Ask one node, at most ``seconds``, and then whether it is there at all. Raises IndexError where there is none of
    that number; nothing else."""
    if not 0 <= index < len(conf.controls):
        raise IndexError(index)
    address = conf.controls[index]
    name = label(address)
    until, why = _silent.get(address, (0.0, ""))
    if verb not in ACTIONS and time.monotonic() < until:
        return Answer(index, name, error=why)
    try:
        # A connection for each question: they are few, and none is left open.
        with Control(address, timeout_seconds=seconds, client="django/1") as control:
            value = control.call(verb, arguments)
    except (ClientError, ValueError) as error:
        code = str(getattr(error, "code", ""))
        why = str(getattr(error, "reason", "") or getattr(error, "why", "") or error)
        # A verb may take long because of one worker: the node answers others all the same.
        if why.startswith("no answer") and not _is_there(address):
            _silent[address] = time.monotonic() + AWAY_SECONDS, why
        return Answer(index, name, error=why, code=code)
    _silent.pop(address, None)
    return Answer(index, name, value)


def _is_there(address: str) -> bool:
    """Whether a node answers what takes it no time."""
    try:
        with Control(address, timeout_seconds=HELLO_SECONDS, client="django/1") as control:
            control.hello()
    except (ClientError, ValueError):
        return False
    return True


def ask_nodes(
    verb: str,
    arguments: dict[str, Any] | Callable[[int], dict[str, Any]],
    seconds: float = ANSWER_SECONDS,
    nodes: Sequence[int] | None = None,
) -> list[Answer]:
    """Ask all nodes, or those of these numbers, beside each other; one answer a node, in their order.

    ``arguments`` may be a function of the node's number.
    """
    asked = range(len(conf.controls)) if nodes is None else nodes

    def ask(index: int) -> Answer:
        return ask_node(index, verb, arguments(index) if callable(arguments) else arguments, seconds)

    if len(asked) < 2:
        return [ask(index) for index in asked]
    with ThreadPoolExecutor(len(asked), thread_name_prefix="questions") as pool:
        return list(pool.map(ask, asked))
