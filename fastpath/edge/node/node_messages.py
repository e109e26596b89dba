"""Every message that the first workers of different nodes send each other, and how it is encoded and decoded.

Those of requests are in ``messages.py``, as workers of one node send them too. Those here are of sessions and groups of
MQTT clients (edge/clients/mqtt/nodes.py), and of channels and groups of Django Channels (edge/channel_layer/nodes.py).
Times are what is left, in ms: each node has its own clock.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .messages import MessagePlace, Packet, RequestingNodes


class GiveUp(Packet, tag="give_up"):
    """The session of an MQTT client, which that node has by this claim, is another node's from now on; the answer has
    this number, 0: none is wanted. ``fresh``: the session is over, as its client begins anew."""

    owner: str
    client_id: str
    claim: str
    number: int
    fresh: bool


class GivenUp(Packet, tag="given_up"):
    """The answer: the session as it was at last. Without it, it is ``over``, or that node does not have it."""

    number: int
    state: bytes
    over: bool


class GroupMembers(Packet, tag="group_members"):
    """The groups of which a node has members, and since when, as a packet of their replication."""

    packet: list[Any]


class GroupWanted(Packet, tag="group_wanted"):
    """Messages of the group of that name, which were left to that node and nobody has taken in time."""

    name: str
    keys: list[MessagePlace]


class GroupMoved(Packet, tag="group_moved"):
    """Messages of the group of that name: those that are left to the node that has asked for them, those that a member
    has for good, and those that are left to another node."""

    name: str
    given: list[MessagePlace]
    done: list[MessagePlace]
    elsewhere: list[tuple[str, MessagePlace]] = []


class NodeChannels(Packet, tag="node_channels"):
    """The processes that are connected to a node, and whether it keeps the named channels, as a packet of their
    replication."""

    packet: list[Any]


class ChannelDone(Packet, tag="channel_done"):
    """The answer to the message of that name; ``code`` is empty, or says why it was not done."""

    name: str
    code: str
    reason: str


class ChannelSend(Packet, tag="channel_send"):
    """A message for a channel that the node keeps; ``ChannelDone`` answers it."""

    name: str
    channel: str
    message: bytes
    capacity: int
    left: int


class ChannelMove(Packet, tag="channel_move"):
    """Messages that were kept at another node, the oldest first, with the time of each; ``ChannelDone`` answers it."""

    name: str
    channel: str
    messages: list[tuple[bytes, int]]


class ChannelWant(Packet, tag="channel_want"):
    """A receiver of that name waits for a message of the channel."""

    name: str
    channel: str


class ChannelUnwant(Packet, tag="channel_unwant"):
    """The receiver of that name is to wait no more: ``ChannelUnwanted`` answers it, or has crossed a message."""

    name: str


class ChannelUnwanted(Packet, tag="channel_unwanted"):
    """The receiver of that name waits no more, and gets no message."""

    name: str


class ChannelGive(Packet, tag="channel_give"):
    """The message for the receiver of that name."""

    name: str
    channel: str
    message: bytes
    left: int


class ChannelReturn(Packet, tag="channel_return"):
    """A message that was given and that nobody has taken: it is the next one of its channel again."""

    channel: str
    message: bytes
    left: int


class GroupAdd(Packet, tag="group_add"):
    """Memberships of channels that the node keeps: group, channel, capacity, time; ``ChannelDone`` answers it."""

    name: str
    memberships: list[tuple[str, str, int, int]]


class GroupDiscard(Packet, tag="group_discard"):
    """The channel is in the group no more, for all nodes; ``ChannelDone`` answers it."""

    name: str
    group: str
    channel: str


class GroupSend(Packet, tag="group_send"):
    """A message of a process for all channels in the group, for all nodes."""

    process: str
    group: str
    message: bytes
    left: int


class GroupLeftOut(Packet, tag="group_left_out"):
    """The word that of so many channels in the group at a node ``full`` have not got a message of the process."""

    process: str
    group: str
    full: int
    of: int


class ChannelAsk(Packet, tag="channel_ask"):
    """A node is to say which processes are connected there, as far as it has not yet; ``ChannelDone`` answers it."""

    name: str


class ChannelFlush(Packet, tag="channel_flush"):
    """All channels and groups whose names begin so are emptied, for all nodes; ``ChannelDone`` answers it."""

    name: str
    prefix: str


ChannelLayer = (
    NodeChannels
    | ChannelDone
    | ChannelSend
    | ChannelMove
    | ChannelWant
    | ChannelUnwant
    | ChannelUnwanted
    | ChannelGive
    | ChannelReturn
    | GroupAdd
    | GroupDiscard
    | GroupSend
    | GroupLeftOut
    | ChannelAsk
    | ChannelFlush
)
OF_CHANNELS: tuple[type[Packet], ...] = (
    NodeChannels,
    ChannelDone,
    ChannelSend,
    ChannelMove,
    ChannelWant,
    ChannelUnwant,
    ChannelUnwanted,
    ChannelGive,
    ChannelReturn,
    GroupAdd,
    GroupDiscard,
    GroupSend,
    GroupLeftOut,
    ChannelAsk,
    ChannelFlush,
)
SharingSessions = GiveUp | GivenUp | GroupMembers | GroupWanted | GroupMoved
BetweenNodes = RequestingNodes | ChannelLayer | SharingSessions

_decode = msgspec.msgpack.Decoder(BetweenNodes).decode


def encode_for_node(packet: Packet) -> bytes:
    """Return the message as it goes to another node."""
    return msgspec.msgpack.encode(packet)


def decode_from_node(data: bytes) -> BetweenNodes:
    """Return what another node has sent; raise msgspec.DecodeError."""
    packet: BetweenNodes = _decode(data)
    return packet
