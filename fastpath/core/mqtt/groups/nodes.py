"""A group whose members are on several nodes: which node takes a message is chosen by the message, and known to all.

Every node reads the same log, and knows which nodes have members, and since when. A message is for one of the nodes
that had members a while before it came, chosen by a hash of its place, so that nobody has to be asked. A node leaves
what is another's to it, and remembers that until it hears that somebody has it for good: what is not taken in time it
asks for, and of a node that is gone it takes it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import islice
from typing import NamedTuple, Protocol
from zlib import crc32

from .shares import TAKEN_MAX, Loan, Member, MessageKey, Share, Turn

SETTLE_MS = 2000
"""A node takes what comes from so long after its first member on: until then all others have heard of it."""

PATIENCE_MS = 1000
"""Milliseconds for which a message is left to another node before that node is asked for it, and asked again."""

WANTS_MAX = 1000
"""Messages of a group that other nodes are asked for in one second."""

AWAY = 1
"""Stands for the time since when a node has members, where none of them is connected."""

_ELSEWHERE = "another node"
"""Stands for whoever has taken the message on another node."""

_GONE = "gone"
"""Stands for whoever has it for good, wherever."""


class GroupNodes(Protocol):
    """The way to the other nodes; ``name`` is a group's."""

    node: str
    """The name of this node."""

    def time_of(self, key: MessageKey) -> int:
        """Return when the message was published (ms), as all nodes know it; 0: before all that is known."""

    def entered(self, name: str, connected: bool | None) -> int:
        """Tell whether members are connected here, None: there are none. Return since when, as the others know it."""

    def nodes(self, name: str) -> dict[str, int]:
        """Return the other nodes that have members, and since when (ms), or AWAY."""

    def done(self, name: str, key: MessageKey) -> None:
        """Tell that a member here has the message for good."""

    def want(self, node: str, name: str, keys: list[MessageKey]) -> None:
        """Ask for messages that were left to that node; it says ``LateMessages``."""

    def record(self, key: MessageKey, level: int) -> bytes | None:
        """Return the message as a record for clients of that level; None if it is in the log no more."""


class LateMessages(NamedTuple):
    """The answer of a node about messages that it is asked for: those that are the asker's from now on, those that
    somebody has for good, and those that it has left to another node itself, with that. Of the others it has some
    member."""

    given: list[MessageKey]
    done: list[MessageKey]
    elsewhere: list[tuple[str, MessageKey]]


class NodeShare(Share):
    """``_left`` are messages that are another node's, with that node and since when (ms); ``_open`` those that a member
    here was given and has not for good yet."""

    __slots__ = ("_choice", "_entered", "_left", "_nodes", "_open", "_others")

    def __init__(self, name: str, nodes: GroupNodes) -> None:
        super().__init__(name)
        self._nodes = nodes
        self._others = nodes.nodes(name)
        self._entered = 0
        self._choice: tuple[dict[str, int], list[str], int] | None = None  # nodes, and when all have settled
        self._left: dict[MessageKey, tuple[str, int]] = {}
        self._open: dict[MessageKey, None] = {}

    # Members

    def join(self, session: Hashable, member: Member) -> None:
        super().join(session, member)
        self._enter()

    def keep(self, session: Hashable) -> None:
        super().keep(session)
        if self._attended:
            self._away[session] = self._deserted  # others have taken what came
        self._enter()

    def leave(self, session: Hashable) -> None:
        super().leave(session)
        self._enter()

    def _went(self, session: Hashable, member: Member) -> None:
        super()._went(session, member)
        if not self._here and self._attended:
            self._deserted -= 1
        self._enter()

    def _enter(self) -> None:
        """Tell the others what has become of this node's members."""
        connected = True if self._here else None if self.empty else False
        if (self._entered > AWAY) != bool(self._here) or not self._entered or self.empty:
            self._entered, self._choice = self._nodes.entered(self.name, connected), None

    @property
    def _attended(self) -> bool:
        """True if members are connected on another node."""
        return any(since > AWAY for since in self._others.values())

    # Whose a message is

    def _chosen(self, key: MessageKey) -> str:
        """Return the node that the message is for."""
        since, settled, all_settled = self._choice or self._choose()
        if not since:
            return self._nodes.node
        time = self._nodes.time_of(key)
        if time < all_settled:
            settled = [node for node in settled if since[node] + SETTLE_MS <= time]
        if not settled:
            return min((at, node) for node, at in since.items())[1]
        subject, epoch, seq = key
        return settled[crc32(f"{subject} {epoch} {seq}".encode()) % len(settled)]

    def _choose(self) -> tuple[dict[str, int], list[str], int]:
        since = {node: at for node, at in self._others.items() if at > AWAY}
        if self._entered > AWAY:
            since[self._nodes.node] = self._entered
        self._choice = since, sorted(since), max(since.values(), default=0) + SETTLE_MS
        return self._choice

    def ask(self, session: Hashable, key: MessageKey, now: int, *, full: bool) -> Turn:
        if self._others and key not in self._taken and key not in self._offered:
            node = self._chosen(key)
            if node != self._nodes.node:
                self._leave_to(node, key, now)
                return Turn.SKIP
        return super().ask(session, key, now, full=full)

    def _leave_to(self, node: str, key: MessageKey, now: int) -> None:
        self._note(_ELSEWHERE, key)
        if key[2]:  # else it is in no log, and was promised to nobody
            self._left[key] = node, now
            if len(self._left) > TAKEN_MAX:
                del self._left[next(iter(self._left))]

    def _grant(self, session: Hashable, key: MessageKey, now: int) -> Turn:
        self._hold_open(key)
        return super()._grant(session, key, now)

    def hold(self, session: Hashable, key: MessageKey) -> None:
        super().hold(session, key)
        self._left.pop(key, None)
        self._hold_open(key)

    def _hold_open(self, key: MessageKey) -> None:
        if key[2]:
            self._open[key] = None
            if len(self._open) > TAKEN_MAX:
                del self._open[next(iter(self._open))]

    def done(self, key: MessageKey) -> None:
        self._open.pop(key, None)
        if key[2]:
            self._nodes.done(self.name, key)

    def give_back(self, loan: Loan) -> None:
        self._open.pop(loan.key, None)
        super().give_back(loan)

    # What other nodes say

    def was_done(self, keys: Iterable[MessageKey]) -> None:
        """Note that a member of another node has these for good."""
        for key in keys:
            self._left.pop(key, None)
            self._open.pop(key, None)
            self._drop_returned(key)
            self._note(_GONE, key)

    def wanted(self, node: str, keys: Iterable[MessageKey], now: int) -> LateMessages:
        """Say what becomes of messages that this node has left to that one, which asks for them."""
        answer = LateMessages([], [], [])
        for key in keys:
            taker = self._taken.get(key)
            if key in self._open or key in self._offered:
                continue
            if taker == _GONE:
                answer.done.append(key)
            elif taker is None:
                self._drop_returned(key)
                self._leave_to(node, key, now)
                answer.given.append(key)
            elif taker == _ELSEWHERE and key in self._left:
                answer.elsewhere.append((self._left[key][0], key))
        return answer

    def elsewhere(self, node: str, left: Iterable[tuple[str, MessageKey]]) -> None:
        """Ask others next, to whom that node has left these messages itself, each to one. Where that is this one
        nobody of all of them has it, and it is for the one that is chosen now."""
        for to, key in left:
            before, since = self._left.get(key, ("", 0))
            if before != node:
                continue
            if to != self._nodes.node and to in self._others:
                self._left[key] = to, since
            else:
                self._choose_anew(key, since)

    def _choose_anew(self, key: MessageKey, since: int) -> None:
        chosen = self._chosen(key)
        if chosen == self._nodes.node:
            self._take(key)
        else:
            self._left[key] = chosen, since

    def given(self, node: str, keys: Iterable[MessageKey]) -> None:
        """Take over these messages, which that node has not taken, and leaves to this one."""
        for key in keys:
            left, _ = self._left.get(key, ("", 0))
            if left == node:
                self._take(key)

    def changed(self, now: int) -> None:
        """Note that other nodes have members than before. What was left to one that has none any more is for those that
        are there."""
        attended = self._attended
        self._others, self._choice = self._nodes.nodes(self.name), None
        if attended and not self._attended and not self._here:
            self._deserted += 1
        for key, (node, _) in list(self._left.items()):
            if node in self._others:
                if self._others[node] <= AWAY:
                    self._left[key] = node, now - PATIENCE_MS
                continue
            self._choose_anew(key, now)

    def look(self, now: int) -> None:
        """Ask for what other nodes have not taken in time; once a second."""
        wants: dict[str, list[MessageKey]] = {}
        late = [key for key, (_, since) in self._left.items() if now - since >= PATIENCE_MS]
        for key in islice(late, WANTS_MAX):
            node, _ = self._left.pop(key)
            self._left[key] = node, now  # others come before it next time
            wants.setdefault(node, []).append(key)
        for node, keys in wants.items():
            self._nodes.want(node, self.name, keys)

    def _take(self, key: MessageKey) -> None:
        """Offer the message, which is this node's, to the members here."""
        self._left.pop(key, None)
        self._taken.pop(key, None)
        levels = dict.fromkeys(one.level for one in self._members.values() if one is not None)
        loan: Loan | None = None
        for level in levels:
            record = self._nodes.record(key, level)
            if record is None:
                self._note(_GONE, key)
                return
            if loan is not None:
                self._drop_returned(key)
            loan = Loan(self, key, level, record)
            self._offer(loan)
            if key in self._offered:
                return

    def _drop_returned(self, key: MessageKey) -> None:
        if self.returned:
            for loan in [one for one in self.returned if one.key == key]:
                self.returned.remove(loan)
                self._bytes -= len(loan.record)
