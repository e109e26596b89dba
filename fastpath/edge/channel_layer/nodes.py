"""Channels and groups over the nodes that share an engine: who keeps which, and what they hand each other.

Every channel is kept by one node, its home: a process' own channels by the node that it is connected to, all others by
one node, which the nodes agree on. Messages wait at the home, within the channel's capacity, and a group's channels are
at theirs. While a home is not known what is sent waits here, and is moved there as soon as it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from ...core.channel_layer.channels import FULL, Channels
from ...core.channel_layer.groups import GONE_MS, Groups, Membership
from ...core.channel_layer.homes import CONNECTED, LEFT, NAMED, Homes, place_of, place_of_process, process_at
from ...core.protocol.errors import InvalidMessage
from ..node import node_messages
from ..node.messages import Packet
from ..node.messenger import Lost, Send
from ..node.node_messages import BetweenNodes
from ..node.replication import ReplicatedTable
from ..runtime.runtime import Runtime, now
from ..runtime.scheduler import Scheduler
from .inbox import Inboxes
from .processes import Processes
from .questions import UNANSWERED, UNREACHED, Done, Questions
from .receivers import Receivers
from .sending import STEP_CHANNELS, SentEach, all_at_once, send_each

UNAVAILABLE = "unavailable"
"""The code of what another node should have done, and may not have."""

SETTLED_MS = 5000
"""A process without a connection is said to be one only then: where each call opens one, it is soon back."""

HELD_BYTES_MAX = 8 << 20
"""Messages to groups and the like that wait while the others cannot be reached."""

HELD_OVERHEAD_BYTES = 500
"""Counted of each beside its message."""

MOVE_BYTES = 64 << 10
"""Bytes of a channel's messages that are moved to another node at a time."""

MEMBERSHIPS = 500
"""Memberships in one message to another node."""

MORE = "more waits to be told to other nodes than there is room for"


def full_reason(capacity: int) -> str:
    """Return why a channel that holds so many messages takes no more."""
    return f"the channel holds {capacity} messages, or all channels together too much"


class LayerNodes:
    """The other nodes' part in the channel layer of this one, on its first worker."""

    packets: tuple[type[Packet], ...] = node_messages.OF_CHANNELS

    def __init__(self, runtime: Runtime, channels: Channels, groups: Groups, processes: Processes) -> None:
        self._runtime = runtime
        self._channels = channels
        self._groups = groups
        self._processes = processes
        self._way: Send | None = None
        self._homes = Homes()
        self._own: dict[str, int] = {}  # places of this node, and what it says of them
        self._table = ReplicatedTable(
            runtime.loop,
            runtime.awake,
            runtime.broker.server,
            self._homes,
            lambda packet: self._send("", node_messages.NodeChannels(packet)),
            self._ended,
        )
        self._questions = Questions(self._send, self._time)
        self.receivers = Receivers(
            runtime.loop,
            channels,
            self._send,
            lambda: self.home_of(NAMED),
            self._questions.name,
            lambda: self._unsettled.add(NAMED),
            self._lose,
        )
        self._inboxes = Inboxes(self._handle)
        self._turns = Scheduler(runtime.loop)
        self._left: dict[str, int] = {}  # processes without a connection, and since when (ms)
        self._unsettled: set[str] = set()  # places whose channels may be kept elsewhere than where they should
        self._copied: dict[str, str] = {}  # by place: the node that has been told its memberships
        self._moving: set[str] = set()
        self._held: deque[tuple[Packet, int]] = deque()
        self._held_bytes = 0
        self._reaching = False  # all others hear what is said to all
        self._leaving = False
        self._counts = dict.fromkeys(("channel_messages_to_nodes", "channel_messages_lost"), 0)

    # The way

    def join(self, node: str, send: Send) -> None:
        """NodesPart: take part."""
        self._way = send
        self._table.join(node)

    def leave(self) -> None:
        """NodesPart: say that this node ends."""
        self._leaving = True
        self._table.leave()

    def up(self, nodes: int) -> None:
        """NodesPart: say what is kept here, and ask the others."""
        self._table.begin(nodes)

    def down(self) -> None:
        """NodesPart: what was under way is over, and what others say to groups is missed."""
        if self._table.members and not self._leaving:
            self._processes.tell("channel_interrupted", {})
        self._reaching = False
        self._table.interrupt()
        self._settle()

    def missing(self, node: str) -> None:
        """NodesPart: what was under way there is over."""
        self._table.missing(node)
        self._settle()

    def figures(self) -> dict[str, float]:
        """Return the figures of this part."""
        return {
            **self._counts,
            "channel_nodes": len(self._table.members),
            "channel_messages_held": len(self._held),
        }

    def on_grid(self) -> None:
        """Do, ten times a second, what is due."""
        self._questions.expire()
        if self._way is not None:
            self._go_on()

    def on_second(self, moment: int) -> None:
        """Show that this node is there, and let go of processes that have not come back."""
        self._table.beat()
        for process, since in list(self._left.items()):
            place = place_of_process(process)
            if moment - since >= GONE_MS:
                del self._left[process]
                self._say(place, 0)
            elif moment - since >= SETTLED_MS and self._own[place] != LEFT:
                self._say(place, LEFT)

    def _go_on(self) -> None:
        """Do what follows from what is known of the others."""
        if self._table.up and not self._table.learning:
            self._table.settled()
            self._reaching = True
            self._tell_held()
        self._elect()
        self._settle()

    # Who keeps what

    def came(self, process: str) -> None:
        """Note that the process is connected here."""
        self._left.pop(process, None)
        self._say(place_of_process(process), CONNECTED)

    def gone(self, process: str, moment: int) -> None:
        """Note that the process has no connection here any more."""
        self._left[process] = moment

    def home(self, channel: str) -> str:
        """Return the node that keeps the channel; empty for this one, also while that is not known."""
        return self.home_of(place_of(channel)) if self._homes else ""

    def home_of(self, place: str) -> str:
        """Return the node that has the place; empty for this one, also while that is not known."""
        found = self._homes.find(place)
        return found[0] if found is not None and found[1] > self._own.get(place, 0) else ""

    def here(self, members: list[tuple[str, int]]) -> list[tuple[str, int]]:
        """Return those members of a group that this node keeps: each of the others sends to its own."""
        return [member for member in members if not self.home(member[0])] if self._homes else members

    def _say(self, place: str, count: int) -> None:
        if self._own.get(place, 0) != count:
            if count:
                self._own[place] = count
            else:
                del self._own[place]
            self._table.set(place, count)
            self._unsettled.add(place)

    def _elect(self) -> None:
        """Keep the named channels if nobody does. Who keeps them goes on when others come; of two, whose ways were
        apart, the one whose name comes first."""
        found, node = self._homes.find(NAMED), self._table.node
        if NAMED in self._own:
            if found is not None and found[0] < node:
                self._say(NAMED, 0)
        elif found is None and self._table.up and not self._table.learning and self._is_first():
            self._say(NAMED, 1)

    def _is_first(self) -> bool:
        return self._table.node <= min(self._table.members, default=self._table.node)

    # What processes of this node ask

    def send(self, channel: str, message: bytes, capacity: int, until: int, done: Done) -> bool:
        """Send to a channel of another node, whose answer ``done`` gets; False: the channel is kept here."""
        node = self.home(channel)
        if not node or channel in self._moving:
            return False
        at_once = True

        def answered(code: str, reason: str) -> None:
            if code == UNREACHED and at_once:
                done(FULL, MORE)
            elif code == UNREACHED:  # the node is gone, or the way to it: until another home is known it waits here
                self._unsettled.add(place_of(channel))
                kept = self._channels.send(channel, message, capacity, until, now())
                done("" if kept else FULL, "no room for it here")
            elif code == UNANSWERED:
                self._lose()
                done(UNAVAILABLE, f"the node {node} keeps the channel and has not answered: it may have the message")
            else:
                done(code, reason)

        self._counts["channel_messages_to_nodes"] += 1
        left = max(1, until - now())
        self._questions.ask(
            node, lambda name: node_messages.ChannelSend(name, channel, message, capacity, left), answered
        )
        at_once = False
        return True

    def give_back(self, channel: str, message: bytes, until: int) -> None:
        """Put a message that nobody has taken at the head of its channel again."""
        node, moment = self.home(channel), now()
        if node and channel not in self._moving and until > moment:
            packet = node_messages.ChannelReturn(channel, message, until - moment)
            self._send(node, packet, lambda maybe: self._lose())
        else:
            self._channels.give_back(channel, message, until, moment)

    def seek(self, channels: Iterable[str], then: Callable[[], None]) -> bool:
        """Ask the others where the processes of channels are connected that are connected nowhere, as far as is known,
        and call ``then``; False, and nothing is called: all are known, or nobody can be asked. What a process was told
        elsewhere after it had connected there holds here by then, so that its channels have one home."""
        if not (self._reaching and self._table.members):
            return False
        places = {place_of(channel) for channel in channels} - {NAMED} - self._own.keys()
        if all(self.home_of(place) for place in places):
            return False
        self._questions.ask_all(self._table.members, node_messages.ChannelAsk, lambda code, reason: then())
        return True

    def add(self, memberships: Sequence[Membership], done: Done) -> bool:
        """Have channels that other nodes keep put into groups; False, and ``done`` is not called: all are kept here."""

        def found() -> None:
            if not self._add(memberships, done):
                done("", "")

        return self.seek((row[1] for row in memberships), found) or self._add(memberships, done)

    def _add(self, memberships: Sequence[Membership], done: Done) -> bool:
        by_node: dict[str, list[Membership]] = {}
        for membership in memberships:
            node = self.home(membership[1])
            if node:
                by_node.setdefault(node, []).append(membership)
        waiting = len(by_node)

        def answered(code: str, reason: str) -> None:
            nonlocal waiting
            if not waiting:
                return  # it has failed
            waiting -= 1
            if code == UNREACHED:  # told again when it is known who keeps them
                code = ""
                self._copy_again(row[1] for row in memberships)
            elif code == UNANSWERED:
                code, reason = UNAVAILABLE, "the node that keeps the channel has not answered: it may be in the group"
            if code or not waiting:
                done(code, reason)
                waiting = 0

        for node, rows in by_node.items():
            self._add_at(node, rows, answered)
        return bool(by_node)

    def group_send(self, process: str, group: str, message: bytes, until: int) -> bool:
        """Send to the channels in the group that other nodes keep, now or when they can be reached; False: there is no
        room."""
        if self._way is None:
            return True
        left = max(1, until - now())
        return self._tell_all(node_messages.GroupSend(process, group, message, left), until)

    def discard(self, group: str, channel: str, done: Done) -> bool:
        """Have a channel taken out of a group wherever that is known; False, and ``done`` is not called: only here."""
        place = place_of(channel)
        alone = self._way is None or (self._own.get(place) == CONNECTED and place != NAMED)
        if alone and not self._groups.is_shared(group, channel):
            return False
        self._ask_all(lambda name: node_messages.GroupDiscard(name, group, channel), done)
        return True

    def flush(self, prefix: str, done: Done) -> bool:
        """Have all nodes empty what begins so; False, and ``done`` is not called: there are no others."""
        held, self._held, self._held_bytes = self._held, deque(), 0
        for packet, until in held:
            if not isinstance(packet, node_messages.GroupSend) or not packet.group.startswith(prefix):
                self._hold(packet, until)
        if self._way is None:
            return False
        self._ask_all(lambda name: node_messages.ChannelFlush(name, prefix), done)
        return True

    # What all others are told

    def _ask_all(self, make: Callable[[str], Packet], done: Done) -> None:
        """Ask all others, now or when they can be reached."""

        def answered(code: str, reason: str) -> None:
            del reason
            held = code != UNREACHED or self._hold(make(""), 0)
            done("" if held else UNAVAILABLE, "" if held else MORE)

        if self._reaching:
            self._questions.ask_all(self._table.members, make, answered)
        else:
            answered(UNREACHED, "")

    def _tell_all(self, packet: node_messages.GroupSend, until: int) -> bool:
        if not self._reaching:
            return self._hold(packet, until)
        told = at_once = True

        def lost(maybe: bool) -> None:
            nonlocal told
            if at_once:
                told = False
            elif maybe or not self._hold(packet, until):
                self._lose()
                self._processes.tell("channel_interrupted", {}, packet.process)

        self._send("", packet, lost)
        at_once = False
        return told

    def _hold(self, packet: Packet, until: int) -> bool:
        """Keep what all others are to be told until they can be; 0: however long that takes."""
        size = HELD_OVERHEAD_BYTES + (len(packet.message) if isinstance(packet, node_messages.GroupSend) else 0)
        if self._held_bytes + size > HELD_BYTES_MAX:
            return False
        self._held.append((packet, until))
        self._held_bytes += size
        return True

    def _tell_held(self) -> None:
        moment = now()
        held, self._held, self._held_bytes = self._held, deque(), 0
        for packet, until in held:
            if isinstance(packet, node_messages.GroupSend):
                if until > moment:
                    again = node_messages.GroupSend(packet.process, packet.group, packet.message, until - moment)
                    if self._held or not self._tell_all(again, until):
                        self._hold(again, until)
            elif self._held:
                self._hold(packet, until)
            else:
                self._send("", packet, None)

    # Moving to where it should be

    def _settle(self) -> None:
        """Bring what is kept here to the nodes that should keep it."""
        self._unsettled |= self._homes.take_changed()
        if not self._unsettled or self._way is None:
            return
        places, self._unsettled = self._unsettled, set()
        away: dict[str, str] = {}
        for place in places:
            node, process = self.home_of(place), process_at(place)
            if node:
                away[place] = node
                self._groups.came(process)
                self._copy(place, node)
            else:
                self._copied.pop(place, None)
                if process and place not in self._own:
                    self._groups.gone(process, now())
        if NAMED in places:
            self.receivers.settle()
        for channel in self._channels.names() if away else ():
            node = away.get(place_of(channel), "")
            if node and channel not in self._moving:
                self._moving.add(channel)
                self._move(channel)

    def _copy(self, place: str, node: str) -> None:
        """Tell a node the memberships, known here, of channels that it keeps from now on."""
        if self._copied.get(place) == node:
            return
        self._copied[place] = node
        rows = self._groups.of(process_at(place))

        def answered(code: str, reason: str) -> None:
            del reason
            if code == UNREACHED and rows:
                self._copy_again([rows[0][1]])

        for at in range(0, len(rows), MEMBERSHIPS):
            self._add_at(node, rows[at : at + MEMBERSHIPS], answered)

    def _copy_again(self, channels: Iterable[str]) -> None:
        for place in {place_of(channel) for channel in channels}:
            self._copied.pop(place, None)
            self._unsettled.add(place)

    def _add_at(self, node: str, memberships: Sequence[Membership], done: Done) -> None:
        moment = now()
        rows = [(*row[:3], row[3] - moment) for row in memberships if row[3] > moment]
        self._questions.ask(node, lambda name: node_messages.GroupAdd(name, rows), done)

    def _move(self, channel: str) -> None:
        """Move the messages of a channel that another node keeps, a part at a time; what is sent meanwhile comes behind
        them."""
        node, moment = self.home(channel), now()
        taken = self._channels.take(channel, MOVE_BYTES, moment) if node else []
        if not taken:
            self._moving.discard(channel)
            return

        def answered(code: str, reason: str) -> None:
            del reason
            if code == UNREACHED:
                for message, until in reversed(taken):
                    self._channels.give_back(channel, message, until, now())
                self._moving.discard(channel)
                self._unsettled.add(place_of(channel))
                return
            if code:
                self._lose(len(taken))
            self._move(channel)

        rows = [(message, until - moment) for message, until in taken]
        self._questions.ask(node, lambda name: node_messages.ChannelMove(name, channel, rows), answered)

    # What other nodes say

    def hear(self, node: str, packet: BetweenNodes) -> None:
        """NodesPart: take it, in order."""
        if isinstance(packet, node_messages.NodeChannels):
            self._table.hear(node, packet.packet)
            self._go_on()
        elif isinstance(packet, node_messages.GroupSend) and self._inboxes.full(node):
            members = self.here(self._groups.members(packet.group, now()))
            self._lose(len(members))
            self._left_out(node, packet, SentEach(0, len(members)))
        elif isinstance(packet, node_messages.ChannelSend) and self._inboxes.full(node):
            self._send(node, node_messages.ChannelDone(packet.name, FULL, MORE), None)
        else:
            self._inboxes.put(node, packet)

    def _handle(self, node: str, packet: BetweenNodes) -> bool:
        """Act on what a node has sent; False: that takes some turns, after which its next message comes."""
        match packet:
            case node_messages.GroupSend():
                return self._sent_to_group(node, packet)
            case node_messages.ChannelSend():
                moment = now()
                full = not self._channels.send(
                    packet.channel, packet.message, packet.capacity, moment + packet.left, moment
                )
                self._done(node, packet.name, *((FULL, full_reason(packet.capacity)) if full else ()))
                self._came_for(packet.channel)
            case node_messages.ChannelDone():
                if not self.receivers.refused(packet.name, packet.code, packet.reason):
                    self._questions.answered(node, packet.name, packet.code, packet.reason)
            case node_messages.ChannelMove():
                moment = now()
                for message, left in packet.messages:
                    self._channels.keep(packet.channel, message, moment + left, moment)
                self._done(node, packet.name)
                self._came_for(packet.channel)
            case node_messages.ChannelReturn():
                self._channels.give_back(packet.channel, packet.message, now() + packet.left, now())
                self._came_for(packet.channel)
            case node_messages.ChannelWant():
                self.receivers.want(node, packet)
            case node_messages.ChannelAsk():
                self._table.say_all()
                self._done(node, packet.name)
            case node_messages.ChannelUnwant():
                self.receivers.unwant(node, packet.name)
            case node_messages.ChannelUnwanted():
                self.receivers.unwanted(packet.name)
            case node_messages.ChannelGive():
                self.receivers.given(node, packet)
            case _:
                self._handle_groups(node, packet)
        return True

    def _handle_groups(self, node: str, packet: BetweenNodes) -> None:
        match packet:
            case node_messages.GroupAdd():
                code = reason = ""
                try:
                    for group, channel, capacity, left in packet.memberships:
                        self._groups.add(group, channel, capacity, now() + left, shared=True)
                except InvalidMessage as error:
                    code, reason = error.code, error.reason
                self._done(node, packet.name, code, reason)
            case node_messages.GroupDiscard():
                self._groups.discard(packet.group, packet.channel)
                content = {"group": packet.group, "channel": packet.channel}
                self._processes.tell("channel_discarded", content, process_at(place_of(packet.channel)))
                self._done(node, packet.name)
            case node_messages.ChannelFlush():
                self._channels.flush(packet.prefix)
                self._groups.flush(packet.prefix)
                self._processes.tell("channel_flushed", {"prefix": packet.prefix})
                self._done(node, packet.name)
            case node_messages.GroupLeftOut():
                time = self._runtime.loop.time()
                self._processes.tell_left_out(packet.process, packet.group, packet.full, packet.of, time)

    def _sent_to_group(self, node: str, packet: node_messages.GroupSend) -> bool:
        moment = now()
        members = self.here(self._groups.members(packet.group, moment))
        steps = send_each(self._channels, members, packet.message, moment + packet.left)
        if len(members) <= STEP_CHANNELS:
            self._left_out(node, packet, all_at_once(steps))
            return True

        def done(told: SentEach) -> None:
            self._left_out(node, packet, told)
            self._inboxes.go_on(node)

        self._turns.run(steps, done, lambda error: done(SentEach(0, len(members))))
        return False

    def _left_out(self, node: str, packet: node_messages.GroupSend, told: SentEach) -> None:
        if told.full:
            of = told.full + told.sent
            self._send(node, node_messages.GroupLeftOut(packet.process, packet.group, told.full, of), None)

    def _ended(self, node: str) -> None:
        """End what was under way to a node and from it: the node is gone, or that is lost."""
        self._questions.ended(node)
        self.receivers.ended(node)
        for place in [place for place, told in self._copied.items() if told == node]:
            del self._copied[place]
            self._unsettled.add(place)

    def _came_for(self, channel: str) -> None:
        """Note that something came for a channel, which another node may keep by now."""
        place = place_of(channel)
        if self.home_of(place):
            self._unsettled.add(place)

    def _done(self, node: str, name: str, code: str = "", reason: str = "") -> None:
        if name:  # of what was held nobody waits for the answer
            self._send(node, node_messages.ChannelDone(name, code, reason), None)

    def _send(self, node: str, packet: Packet, lost: Lost | None = None) -> None:
        if self._way is not None:
            self._way(node, packet, lost)

    def _lose(self, count: int = 1) -> None:
        self._counts["channel_messages_lost"] += count

    def _time(self) -> int:
        """Return the loop's clock in ms."""
        return int(self._runtime.loop.time() * 1000)
