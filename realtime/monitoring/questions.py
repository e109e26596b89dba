"""Questions to every node of REALTIME["CONTROL"] at once, so that one that is away holds up nobody's page."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastpath.client.control.client import Control
from fastpath.client.control.nodes import label
from realtime.conf import conf
from realtime.nodes import asking
from realtime.nodes.asking import ANSWER_SECONDS

AWAY_SECONDS = 5.0
"""A node that does not even answer hello is not waited for again before that."""

HELLO_SECONDS = 0.5
"""Seconds that a node has to say hello, when it has not answered something else in time."""

ACTIONS = frozenset(("disconnect", "ping", "trace", "untrace"))
"""Verbs that are always tried."""

_silent: dict[str, tuple[float, str]] = {}
"""The addresses that did not answer in time: until when they are passed over (monotonic s), and what was said."""


@dataclass(frozen=True)
class NodeAnswer:
    """The answer of one node; ``error`` is why it gave none, with the node's ``code`` where it was the node that
    refused."""

    index: int
    """The place of the node among REALTIME["CONTROL"], from 0."""
    name: str
    value: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    code: str = ""

    @property
    def refused(self) -> bool:
        """Kind of the answer: True where the node has said no."""
        return bool(self.code)


def node_names() -> list[str]:
    """Return the nodes as people read them, in the order of the settings."""
    return [label(address) for address in conf.controls]


def ask_node(index: int, verb: str, arguments: dict[str, Any], seconds: float = ANSWER_SECONDS) -> NodeAnswer:
    """Ask one node, at most ``seconds``, and then whether it is there at all. Raises IndexError where there is none of
    that number; nothing else."""
    if not 0 <= index < len(conf.controls):
        raise IndexError(index)
    address = conf.controls[index]
    name = label(address)
    until, why = _silent.get(address, (0.0, ""))
    if verb not in ACTIONS and time.monotonic() < until:
        return NodeAnswer(index, name, error=why)
    said = asking.ask(address, lambda control: control.call(verb, arguments), seconds)
    if said.value is None:
        # A verb may take long because of one worker: the node answers others all the same.
        if said.error.startswith("no answer") and asking.ask(address, Control.hello, HELLO_SECONDS).value is None:
            _silent[address] = time.monotonic() + AWAY_SECONDS, said.error
        return NodeAnswer(index, name, error=said.error, code=said.code)
    _silent.pop(address, None)
    return NodeAnswer(index, name, said.value)


def ask_nodes(
    verb: str,
    arguments: dict[str, Any] | Callable[[int], dict[str, Any]],
    seconds: float = ANSWER_SECONDS,
    nodes: Sequence[int] | None = None,
) -> list[NodeAnswer]:
    """Ask all nodes, or those of these numbers, beside each other; one answer a node, in their order.

    ``arguments`` may be a function of the node's number.
    """
    asked = range(len(conf.controls)) if nodes is None else nodes

    def ask(index: int) -> NodeAnswer:
        return ask_node(index, verb, arguments(index) if callable(arguments) else arguments, seconds)

    return asking.beside(asked, ask)
