"""What one node asks others about channels: each answer comes once, or that there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...core.requests.timed import Timed
from ..node.messages import Packet
from ..node.messenger import Send

ASK_MS = 2000
"""Milliseconds that an answer of another node is waited for: less than processes of Django wait for theirs."""

UNREACHED = "unreached"
"""The node has not got the question."""

UNANSWERED = "unanswered"
"""The node may have got it."""

Done = Callable[[str, str], None]
"""Takes a code, empty where all is well, and the reason."""


@dataclass(slots=True)
class _AskedNodes:
    nodes: set[str]
    of_all: bool
    done: Done


class Questions:
    """The questions that wait for answers; ``time`` is a clock in ms that does not go back."""

    def __init__(self, send: Send, time: Callable[[], int]) -> None:
        self._send = send
        self._time = time
        self._asked: Timed[_AskedNodes] = Timed()
        self._made = 0

    def name(self) -> str:
        """Return a name that nothing else of this node has."""
        self._made += 1
        return str(self._made)

    def ask(self, node: str, make: Callable[[str], Packet], done: Done) -> None:
        """Send a node what ``make`` returns for a name; ``done`` gets its answer, UNREACHED or UNANSWERED."""
        self._ask(node, {node}, make, done)

    def ask_all(self, nodes: Iterable[str], make: Callable[[str], Packet], done: Done) -> None:
        """Send it to all others; ``done`` is called when these have answered, or are gone, or take too long; with
        UNREACHED where it may have reached none."""
        self._ask("", set(nodes), make, done)

    def _ask(self, to: str, nodes: set[str], make: Callable[[str], Packet], done: Done) -> None:
        name = self.name()
        self._asked.put(name, _AskedNodes(nodes, not to, done), self._time() + ASK_MS)

        def lost(maybe: bool) -> None:
            asked = self._asked.take(name)
            if asked is not None:
                asked.done(UNANSWERED if maybe and to else UNREACHED, "")

        self._send(to, make(name), lost)
        if not nodes and self._asked.take(name) is not None:
            done("", "")

    def answered(self, node: str, name: str, code: str, reason: str) -> None:
        """Take the answer of a node."""
        asked = self._asked.get(name)
        if asked is None or node not in asked.nodes:
            return
        asked.nodes.discard(node)
        if not asked.nodes:
            self._asked.take(name)
            asked.done("" if asked.of_all else code, reason)

    def ended(self, node: str) -> None:
        """Note that a node answers nothing any more."""
        for name, asked in self._asked.items():
            if node in asked.nodes:
                asked.nodes.discard(node)
                if not asked.nodes:
                    self._asked.take(name)
                    asked.done("" if asked.of_all else UNANSWERED, "")

    def expire(self) -> None:
        """End those whose time is over."""
        for _, asked in self._asked.due(self._time()):
            asked.done("" if asked.of_all else UNANSWERED, "")
