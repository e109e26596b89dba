"""Groups of MQTT clients over nodes: which nodes have members, and what has become of what was left to another one."""

from __future__ import annotations

from collections.abc import Callable

from ....core.mqtt.groups.nodes import AWAY, LateMessages, NodeShare
from ....core.mqtt.groups.shares import MessageKey, Share, Shares
from ....core.mqtt.records import MARK_BITS
from ....core.presence.replication import PresenceReceiver, PresenceSender
from ...node.messages import Packet
from ...node.node_messages import GroupMembers, GroupMoved, GroupWanted
from ...runtime.runtime import Runtime, now
from .guest_groups import record_of

SILENCE_MS = 4000
"""Another node that is silent for so long is gone; each says something once a second."""

TURN_SECONDS = 0.005
"""Seconds within which what groups say of their members is told together."""

DONE_SECONDS = 0.1
"""Seconds within which it is told together which messages members have for good."""

DONE_MAX = 2000
"""Messages of which this is told at once."""

PACKETS = 5
"""Packets about members in one turn."""


class _Members:
    """Times since when nodes have members of each group, by version of what each node has told (replication.py)."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._changed = changed
        self._told: dict[str, dict[str, int]] = {}

    def set(self, member: str, key: str, count: int, now: int) -> None:
        """Replica: the node has members since then."""
        del now
        known = self._told.setdefault(member, {})
        if count:
            known[key] = count
        else:
            known.pop(key, None)
        self._changed(key)

    def drop(self, member: str) -> None:
        """Replica: what the node has told is void, or was told anew."""
        for key in self._told.pop(member, {}):
            self._changed(key)

    def of(self, group: str) -> dict[str, int]:
        """Return the nodes that have members of the group, and since when."""
        found: dict[str, int] = {}
        for version, groups in self._told.items():
            since = groups.get(group)
            if since is not None:
                node = version.partition(" ")[0]
                found[node] = max(since, found.get(node, 0))
        return found


class NodeGroups:
    """All groups of this node's clients, on its first worker; implements core.mqtt.groups.nodes.GroupNodes.

    ``send`` sends to a node, without a name to all.
    """

    def __init__(self, runtime: Runtime, node: str, shares: Shares, send: Callable[[str, Packet], None]) -> None:
        self.node = node
        self._runtime = runtime
        self._shares = shares
        self._send = send
        self._members = _Members(self._note_changed)
        self._speaker = PresenceSender(node, runtime.broker.server)
        self._receiver = PresenceReceiver(self._members, SILENCE_MS, self._ask)
        self._changed: dict[str, None] = {}
        self._done: dict[str, dict[str, list[MessageKey]]] = {}  # by node and group
        self._up = self._scheduled = self._telling = False

    def make(self, name: str) -> Share:
        """Make a group."""
        return NodeShare(name, self)

    # What groups ask for

    def time_of(self, key: MessageKey) -> int:
        subject, epoch, seq = key
        if not seq:
            return epoch >> MARK_BITS
        topic = self._runtime.broker.interest.topics.get(subject)
        ring = topic.ring if topic is not None else None
        at = seq - ring[0].seq if ring else -1
        return ring[at].time if ring and 0 <= at < len(ring) else 0

    def entered(self, name: str, connected: bool | None) -> int:
        since = 0 if connected is None else now() if connected else AWAY
        if not since:
            self._tell()  # before it is said that nobody is here
        self._speaker.set(name, since)
        self._wake()
        return since

    def nodes(self, name: str) -> dict[str, int]:
        return self._members.of(name)

    def done(self, name: str, key: MessageKey) -> None:
        for node in self._members.of(name):
            keys = self._done.setdefault(node, {}).setdefault(name, [])
            keys.append(key)
            if len(keys) >= DONE_MAX:
                self._tell()
                return
            if not self._telling:
                self._telling = True
                self._runtime.loop.call_later(DONE_SECONDS, self._tell_later)

    def want(self, node: str, name: str, keys: list[MessageKey]) -> None:
        self._send(node, GroupWanted(name, keys))

    def record(self, key: MessageKey, level: int) -> bytes | None:
        return record_of(self._runtime, key, level)

    def _tell_later(self) -> None:
        self._telling = False
        self._tell()

    def _tell(self) -> None:
        done, self._done = self._done, {}
        for node, groups in done.items():
            for name, keys in groups.items():
                self._send(node, GroupMoved(name, [], keys, []))

    # What other nodes say

    def up(self) -> None:
        """Tell all, and ask all, as what is sent arrives from now on."""
        self._up = True
        self._receiver.rest(self._awake())
        self._speaker.ask()
        self._send("", GroupMembers(["?", "*"]))
        self._wake()

    def down(self) -> None:
        """Note that nothing arrives: what was known of others stays for as long as that lasts."""
        self._up = False

    def leave(self) -> None:
        """Say that this node ends."""
        self._tell()
        self._send("", GroupMembers(self._speaker.bye()))

    def hear(self, node: str, packet: Packet) -> None:
        """Take what a node says of groups; raise ValueError."""
        match packet:
            case GroupMembers(["?", asked]):
                if asked in ("*", self.node):
                    self._speaker.ask()
                    self._wake()
            case GroupMembers([member, *_]) if member == node:
                self._receiver.hear(packet.packet, self._awake())
            case GroupWanted():
                share = self._share(packet.name)
                answer = (
                    share.wanted(node, packet.keys, now()) if share is not None else LateMessages(packet.keys, [], [])
                )
                if any(answer):
                    self._send(node, GroupMoved(packet.name, *answer))
            case GroupMoved():
                share = self._share(packet.name)
                if share is not None:
                    share.was_done(packet.done)
                    share.given(node, packet.given)
                    share.elsewhere(node, packet.elsewhere)
            case _:
                raise ValueError("it is nothing of groups")
        self._settle()

    def second(self) -> None:
        """Show, once a second, that this node is there, let go of those that are not, ask for what nobody takes."""
        if self._up:
            self._send("", GroupMembers(self._speaker.beat()))
            self._receiver.expire(self._awake())
        self._settle()
        moment = now()
        for share in self._shares:
            if isinstance(share, NodeShare):
                share.look(moment)

    def _share(self, name: str) -> NodeShare | None:
        share = self._shares.get(name)
        return share if isinstance(share, NodeShare) else None

    def _note_changed(self, name: str) -> None:
        self._changed[name] = None

    def _settle(self) -> None:
        changed, self._changed = self._changed, {}
        for name in changed:
            share = self._share(name)
            if share is not None:
                share.changed(now())

    def _ask(self, node: str) -> None:
        self._send("", GroupMembers(["?", node]))

    def _wake(self) -> None:
        if not self._scheduled and self._up and self._speaker.busy:
            self._scheduled = True
            self._runtime.loop.call_later(TURN_SECONDS, self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        for _ in range(PACKETS):
            packet = self._speaker.next()
            if packet is not None:
                self._send("", GroupMembers(packet))
        self._wake()

    def _awake(self) -> int:
        """Return ms while this loop runs: what others said while it stood still waits unread, and ends nobody here."""
        return int(self._runtime.awake.time * 1000)
