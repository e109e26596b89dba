"""The way to the other nodes as the parts of the first worker share it: each hears the messages of its own types."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

import msgspec

from ...engine.base import Messenger
from .messages import Packet
from .node_messages import BetweenNodes, decode_from_node, encode_for_node

RELEARN_SECONDS = 1.0
"""Seconds that a first worker in the place of another hears its own node's other workers, and Django, before it speaks
of them."""

Lost = Callable[[bool], None]
"""Told that a message was lost; True: it may have arrived all the same."""

Send = Callable[[str, Packet, Lost | None], None]
"""Sends a message to a node, without a name to all others; who sends is told when it was lost."""

log = logging.getLogger("fastpath.roster")


class NodesPart(Protocol):
    """A part of this process that speaks with other nodes, on the first worker."""

    packets: tuple[type[Packet], ...]
    """The types of the messages that it hears."""

    def join(self, node: str, send: Send) -> None:
        """Be the node of that name from now on, and send so."""

    def leave(self) -> None:
        """Say that this node ends."""

    def up(self, nodes: int) -> None:
        """Hear that all that is sent arrives from now on; so many nodes listen, this one among them."""

    def down(self) -> None:
        """Hear that nothing arrives for now, and that what was under way may be lost."""

    def missing(self, node: str) -> None:
        """Hear that this node does not listen."""

    def hear(self, node: str, packet: BetweenNodes) -> None:
        """Take what that node has sent, in its order; raises ValueError for what makes no sense."""


class OtherNodes:
    """The parts that speak with other nodes, and the messenger that they share (engine.base.NodeListener)."""

    def __init__(self, loop: asyncio.AbstractEventLoop, end: Callable[[], None]) -> None:
        self._loop = loop
        self._end = end
        self._parts: list[NodesPart] = []
        self._by_packet: dict[type, NodesPart] = {}
        self._messenger: Messenger | None = None
        self._starting: asyncio.TimerHandle | None = None

    def serve(self, part: NodesPart) -> None:
        """Have a part hear and send, once there is a way."""
        self._parts.append(part)
        self._by_packet.update(dict.fromkeys(part.packets, part))

    def join(self, node: str, messenger: Messenger, *, learns: bool) -> None:
        """Be the node of that name from now on, and begin; ``learns``: this process takes the place of another one, and
        hears first what is told to it again."""
        self._messenger = messenger
        for part in self._parts:
            part.join(node, self._send)
        self._starting = self._loop.call_later(RELEARN_SECONDS * learns, messenger.start)

    async def leave(self) -> None:
        """Say that this node ends."""
        if self._starting is not None:
            self._starting.cancel()
        if self._messenger is not None:
            for part in self._parts:
                part.leave()
            await self._messenger.close()

    def up(self, nodes: int) -> None:
        """NodeListener: tell the parts."""
        for part in self._parts:
            part.up(nodes)
        self._end()

    def down(self) -> None:
        """NodeListener: tell the parts."""
        for part in self._parts:
            part.down()
        self._end()

    def missing(self, node: str) -> None:
        """NodeListener: tell the parts."""
        for part in self._parts:
            part.missing(node)
        self._end()

    def hear(self, node: str, data: bytes) -> None:
        """NodeListener: hand it to the part that hears it."""
        try:
            packet = decode_from_node(data)
            self._by_packet[type(packet)].hear(node, packet)
        except (msgspec.MsgspecError, ValueError) as error:
            log.error("the node %s is not understood: %s", node, error)
        self._end()

    def _send(self, node: str, packet: Packet, lost: Lost | None = None) -> None:
        assert self._messenger is not None
        self._messenger.send(node, encode_for_node(packet), lost)
