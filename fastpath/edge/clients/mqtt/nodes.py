"""Sessions of MQTT clients over nodes: which node has one, how another one gets it, and what all can read of it.

A node *claims* the session of each client that comes to it, where the nodes keep them together. Whoever had it by the
claim of before is told, cuts its client off, and answers with the session as it was at last; where nobody answers, the
session is what was written of it. Whoever writes by a claim that is not the newest learns so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

import msgspec

from ....core.mqtt.groups.shares import Shares
from ....engine.base import Claimed, SessionChange, SessionRow, SharedSessions
from ...node.messages import Packet
from ...node.messenger import Lost, Send
from ...node.node_messages import BetweenNodes, GivenUp, GiveUp, GroupMembers, GroupMoved, GroupWanted
from ...runtime.runtime import Runtime, now
from .connections import Key
from .node_groups import NodeGroups
from .saving import SavedSession, whole_of

ANSWER_SECONDS = 2.0
"""Seconds for which a node that has a session is waited for: it has to cut off a client, perhaps on another worker."""

LOST_SECONDS = 3.0
"""Seconds for which a node that has learnt that a session is another's still waits to be asked for it."""

HELD_SECONDS = 86_400
"""Seconds by which a connected client's session stays longer than it lasts, where nodes keep sessions together: it is
written anew more often. Of one that ends with its connection it is known for so long who has it."""

RENEW_SECONDS = HELD_SECONDS // 4
"""Seconds after which sessions of connected clients are written again, though nothing has changed."""

LOST, INCOMPLETE = 0, 2
"""Answers to a change that is not taken (``SharedSessions.write``)."""

log = logging.getLogger("fastpath.clients")


class FoundSession:
    """A session as it was before this node claimed it: ``saved`` is what another one had, None for nothing; it is
    ``exact`` if that is all. ``local``: this node had it."""

    __slots__ = ("exact", "local", "saved")

    def __init__(self, saved: SavedSession | None, *, exact: bool = True, local: bool = False) -> None:
        self.saved = saved
        self.exact = exact
        self.local = local


class Table(Protocol):
    """The sessions of this node."""

    def give_up(self, key: Key, node: str, number: int, *, fresh: bool) -> None:
        """Leave the session to another node from now on; answer it by ``NodeSessions.gave`` if there is a number."""

    def is_here(self, key: Key) -> bool:
        """Return whether a client is connected, or may come back to its session here."""

    def incomplete(self, key: Key, *, soon: bool) -> None:
        """Have all of the session written, ``soon`` or when there is something to say."""


class _RowHead(msgspec.Struct):
    """A row (saving.py), as far as it says something of itself."""

    class RowState(msgspec.Struct):
        expiry_seconds: int

    state: RowState
    ends: int = 0
    whole: bool = False


_decode = msgspec.msgpack.Decoder(_RowHead | int).decode


class _Claim:
    """A session that this node has: by which claim, and how many bytes of changes are worth less than all of it; when
    it was told that it is lost (s)."""

    __slots__ = ("claim", "credit", "lost_at")

    def __init__(self, claim: str) -> None:
        self.claim = claim
        self.credit = 0
        self.lost_at = 0.0


class NodeSessions:
    """A store of sessions (engine.base.SessionStore) that nodes have together, and what they say of them to each other
    (edge/node/messenger.py, NodesPart); one for each node, on its first worker."""

    packets: tuple[type[Packet], ...] = (GiveUp, GivenUp, GroupMembers, GroupWanted, GroupMoved)
    in_order = True
    wants_base = False
    size_bytes = 0

    def __init__(
        self, runtime: Runtime, table: Table, node: str, shared: SharedSessions, shares: Shares, seconds_max: int
    ) -> None:
        self._runtime = runtime
        self._table = table
        self._node = node
        self._shared = shared
        self._seconds_max = seconds_max
        self._way: Send | None = None
        self._own = f"{node} {runtime.broker.server}"
        self._claims: dict[Key, _Claim] = {}
        self._count = self._asked = 0
        self._waiting: dict[int, Callable[[GivenUp | None], None]] = {}
        self._lost: dict[Key, None] = {}
        self._pending: set[Key] = set()  # claims that are not answered yet
        self._counts = dict.fromkeys(("mqtt_sessions_from_nodes", "mqtt_sessions_to_nodes"), 0)
        self.busy = False
        self.groups = NodeGroups(runtime, node, shares, self._send)

    async def finish(self) -> None:
        """Say what waits, and leave."""
        self.groups.leave()
        await self._shared.close()

    def figures(self) -> dict[str, float]:
        """Return how many sessions have come from other nodes, and gone there."""
        return dict(self._counts)

    # Who has a session

    def claim(self, key: Key, *, fresh: bool, seconds: int, done: Callable[[FoundSession | None], None]) -> None:
        """Have the session from now on. ``done`` gets what it was before, at once or later; None if nobody can say,
        and this node goes on with what it has."""
        self._count += 1
        claim = f"{self._own} {self._count}"
        self._pending.add(key)

        def claimed(found: Claimed | None) -> None:
            self._pending.discard(key)
            if found is None:
                self._claims.setdefault(key, _Claim(claim))
                done(None)
                return
            held = self._claims.get(key)
            local = held is not None and held.claim == found.before
            self._claims[key] = _Claim(claim)
            self._lost.pop(key, None)
            if local or not found.before:
                done(FoundSession(None, local=True))
            else:
                self._look(key, found, fresh, done)

        seconds = min(seconds, self._seconds_max) + HELD_SECONDS
        self._shared.claim(*key, claim, fresh=fresh, seconds=seconds, done=claimed)

    def _look(self, key: Key, found: Claimed, fresh: bool, done: Callable[[FoundSession | None], None]) -> None:
        """Find out what the session was that this process had not by the claim of before."""
        node, _, _ = found.before.partition(" ")
        if node == self._node and self._table.is_here(key):
            done(FoundSession(None, local=True))  # another worker has it, since before this one was the first
            return
        saved = self._read(key, found.rows)
        if fresh or found.at_rest or node == self._node:
            if node != self._node:
                self._send(node, GiveUp(*key, found.before, 0, fresh))
            self._came(FoundSession(saved, exact=found.at_rest), done)
            return

        def answered(answer: GivenUp | None) -> None:
            if answer is not None and answer.state:
                self._came(FoundSession(self._read(key, [answer.state])), done)
            elif answer is not None and answer.over:
                done(FoundSession(None))
            else:
                self._came(FoundSession(saved, exact=False), done)

        self._asked += 1
        self._ask(node, GiveUp(*key, found.before, self._asked, fresh), answered)

    def _read(self, key: Key, rows: list[bytes]) -> SavedSession | None:
        try:
            return whole_of(rows)
        except msgspec.DecodeError as error:
            log.error("the session of MQTT client %r cannot be read: %s; it is over", key[1], error)
            return None

    def _came(self, found: FoundSession, done: Callable[[FoundSession | None], None]) -> None:
        self._counts["mqtt_sessions_from_nodes"] += found.saved is not None
        done(found)

    def _ask(self, node: str, packet: GiveUp, answered: Callable[[GivenUp | None], None]) -> None:
        number = packet.number
        self._waiting[number] = answered

        def over() -> None:
            self._answered(number, None)
            self._runtime.end()

        timer = self._runtime.loop.call_later(ANSWER_SECONDS, over)

        def lost(maybe: bool) -> None:
            del maybe
            timer.cancel()
            self._runtime.loop.call_soon(over)

        self._send(node, packet, lost)

    def _answered(self, number: int, answer: GivenUp | None) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is not None:
            waiting(answer)

    def gave(self, node: str, number: int, state: bytes, *, over: bool) -> None:
        """Answer a node that has a session now; what is ``over`` has no state."""
        self._counts["mqtt_sessions_to_nodes"] += bool(state)
        if number:
            self._send(node, GivenUp(number, state, over))

    def _send(self, node: str, packet: Packet, lost: Lost = lambda maybe: None) -> None:
        if self._way is None:
            lost(False)
        else:
            self._way(node, packet, lost)

    # Other nodes: implements edge.node.messenger.NodesPart

    def join(self, node: str, send: Send) -> None:
        """NodesPart: speak to the others from now on."""
        del node
        self._way = send

    def leave(self) -> None:
        """NodesPart: nothing, as each session that was here is written as one that anybody may have."""

    def up(self, nodes: int) -> None:
        """NodesPart: tell the others of groups; who asks for a session is answered."""
        self.groups.up()

    def down(self) -> None:
        """NodesPart: give up what was asked, which is not answered any more."""
        self.groups.down()
        for number in list(self._waiting):
            self._answered(number, None)

    def missing(self, node: str) -> None:
        """NodesPart: nothing, as who has asked that node is told by ``lost``."""

    def hear(self, node: str, packet: BetweenNodes) -> None:
        """NodesPart: take that a node has a session from now on, gives one up, or says something of groups."""
        if isinstance(packet, GivenUp):
            self._answered(packet.number, packet)
        elif isinstance(packet, GiveUp):
            self._give_up(node, packet)
        else:
            self.groups.hear(node, packet)

    def _give_up(self, node: str, packet: GiveUp) -> None:
        key = packet.owner, packet.client_id
        held = self._claims.get(key)
        if held is None or held.claim != packet.claim:
            over = packet.claim.rpartition(" ")[0] == self._own and key not in self._pending
            self.gave(node, packet.number, b"", over=over)
            return
        self.drop(key)
        self._table.give_up(key, node, packet.number, fresh=packet.fresh)

    def drop(self, key: Key) -> None:
        """Write nothing more of the session, which is another node's."""
        self._claims.pop(key, None)
        self._lost.pop(key, None)

    # What is written: implements engine.base.SessionStore

    def knows(self, owner: str, client_id: str) -> bool:
        """SessionStore: whether this node has it."""
        return (owner, client_id) in self._claims

    def read(self, row: Callable[[str, str, bytes], None]) -> bool:
        """SessionStore: nothing, as each is asked for when its client comes."""
        del row
        return True

    def begin_base(self) -> bool:
        """SessionStore: each session is one of its own."""
        return False

    def write(
        self, rows: list[SessionRow], base: list[SessionRow], *, ends_base: bool, done: Callable[[str], None]
    ) -> None:
        """SessionStore: write them where all nodes find them."""
        del base, ends_base
        changes = [change for change in map(self._change, rows) if change is not None]
        if not changes:
            self._runtime.loop.call_soon(done, "")
            return
        self.busy = True

        def written(answers: list[int | None]) -> None:
            self.busy = False
            for change, answer in zip(changes, answers, strict=True):
                self._note(change, answer)
            done("Redis does not take them" if None in answers else "")

        self._shared.write(changes, written)

    def close(self, rows: list[SessionRow]) -> None:
        """SessionStore: write the last rows; ``leave`` waits for that."""
        if rows:
            self.write(rows, [], ends_base=False, done=lambda error: None)

    def _change(self, row: SessionRow) -> SessionChange | None:
        """Return what is said of a session; None if it is not this node's."""
        owner, client_id, data = row
        key = owner, client_id
        held = self._claims.get(key)
        if held is None:
            return None
        said = _decode(data)
        if isinstance(said, int):
            held.credit = 0
            action = "empty" if self._table.is_here(key) else "over"
            return SessionChange(owner, client_id, held.claim, action, b"", HELD_SECONDS, at_rest=False)
        if said.whole:
            held.credit = len(data)
        else:
            held.credit -= len(data)
            if held.credit < 0:
                self._table.incomplete(key, soon=False)
        seconds = min(said.state.expiry_seconds, self._seconds_max) + HELD_SECONDS
        if said.ends:
            seconds = max(1, (said.ends - now()) // 1000 + 1)
        action = "whole" if said.whole else "change"
        return SessionChange(owner, client_id, held.claim, action, data, seconds, at_rest=bool(said.ends))

    def _note(self, change: SessionChange, answer: int | None) -> None:
        key = change.owner, change.client_id
        held = self._claims.get(key)
        if held is None or held.claim != change.claim:
            return
        if change.action == "over" and answer is not None and not self._table.is_here(key):
            self.drop(key)
        elif answer == LOST:
            if not held.lost_at:
                held.lost_at = self._runtime.loop.time()
                self._lost[key] = None
        elif answer == INCOMPLETE:
            self._table.incomplete(key, soon=True)

    def second(self) -> None:
        """Give up sessions that are another node's, which has not asked for them, once a second."""
        self.groups.second()
        late = self._runtime.loop.time() - LOST_SECONDS
        for key in list(self._lost):
            held = self._claims.get(key)
            if held is None:
                self._lost.pop(key, None)
            elif held.lost_at <= late:
                log.warning("session of MQTT client %r: another node has it", key[1])
                self.drop(key)
                self._table.give_up(key, "", 0, fresh=False)
