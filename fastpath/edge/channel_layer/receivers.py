"""Receivers of named channels that another node keeps, and those of other nodes that wait here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from ...core.channel_layer.channels import RECEIVERS_MAX, Channels, Deliver
from ...core.protocol.errors import InvalidMessage
from ..node import node_messages
from ..node.messenger import Send
from ..runtime.runtime import now
from .processes import Receiver

AGAIN = "again"
"""The code of a receiver that is to ask again: its message did not fit on the way, and waits."""


@dataclass(slots=True)
class _WaitsElsewhere:
    """The node at which a receiver waits that is not here, and its name there."""

    node: str
    name: str
    cancelled: bool = False


class Receivers:
    """The receivers of named channels. ``home`` says which node keeps them, empty for this one; ``name`` makes names;
    ``unsettled`` is told that some wait elsewhere than where they should; ``lost`` counts a message that is."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        channels: Channels,
        send: Send,
        home: Callable[[], str],
        name: Callable[[], str],
        unsettled: Callable[[], None],
        lost: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._channels = channels
        self._send = send
        self._home = home
        self._name = name
        self._unsettled = unsettled
        self._lost = lost
        self._own: dict[Receiver, _WaitsElsewhere | None] = {}
        self._by_name: dict[str, Receiver] = {}
        self._theirs: dict[tuple[str, str], tuple[str, Deliver]] = {}
        self._unsent: list[tuple[str, bytes, int]] = []

    # Those of this node

    def wait(self, receiver: Receiver) -> None:
        """Have a receiver get a message, from whichever node keeps the channel; raises InvalidMessage ``limit``."""
        self._own[receiver] = None
        try:
            self._place(receiver)
        except InvalidMessage:
            self.over(receiver)
            raise

    def cancel(self, receiver: Receiver) -> bool:
        """Answer the receiver, now or later, unless a message has come first; False: it is not one of these."""
        if receiver not in self._own:
            return False
        away = self._own[receiver]
        if away is None:
            if self._channels.cancel(receiver.channel, receiver.deliver):
                receiver.withdraw()
        elif not away.cancelled:
            away.cancelled = True
            self._send(away.node, node_messages.ChannelUnwant(away.name), lambda maybe: self._bring_back(away.name))
        return True

    def leave(self, receiver: Receiver) -> None:
        """Let go of a receiver whose connection is gone."""
        away = self._own.get(receiver)
        if away is None:
            self._channels.cancel(receiver.channel, receiver.deliver)
        else:
            self._send(away.node, node_messages.ChannelUnwant(away.name), None)
        receiver.drop()

    def over(self, receiver: Receiver) -> None:
        """Note that a receiver has its answer."""
        away = self._own.pop(receiver, None)
        if away is not None:
            self._by_name.pop(away.name, None)

    def settle(self) -> None:
        """Have all wait where their channels are kept."""
        node = self._home()
        for receiver, away in list(self._own.items()):
            if receiver not in self._own or node == (away.node if away is not None else ""):
                continue
            if away is None:
                if self._channels.cancel(receiver.channel, receiver.deliver):
                    self._place(receiver)
            elif not away.cancelled:
                self._send(away.node, node_messages.ChannelUnwant(away.name), None)
                self._bring_back(away.name)

    def ended(self, node: str) -> None:
        """Note that a node is gone: its receivers here, and those that waited there."""
        for key, (channel, deliver) in list(self._theirs.items()):
            if key[0] == node:
                del self._theirs[key]
                self._channels.cancel(channel, deliver)
        for away in [one for one in self._own.values() if one is not None and one.node == node]:
            self._bring_back(away.name)

    def _place(self, receiver: Receiver) -> None:
        node = self._home()
        if not node:
            self._channels.receive(receiver.channel, receiver.deliver, now())
            return
        if len(self._by_name) >= RECEIVERS_MAX:
            raise InvalidMessage("limit", f"over {RECEIVERS_MAX} receivers wait on channels of other nodes")
        name = self._name()
        self._own[receiver] = _WaitsElsewhere(node, name)
        self._by_name[name] = receiver
        packet = node_messages.ChannelWant(name, receiver.channel)
        self._send(node, packet, lambda maybe: self._bring_back(name))

    def _bring_back(self, name: str) -> None:
        """Have a receiver wait here that waited elsewhere, until it is settled where it should."""
        receiver = self._by_name.pop(name, None)
        if receiver is None:
            return
        away = self._own[receiver]
        self._own[receiver] = None
        self._unsettled()
        if away is not None and away.cancelled:
            receiver.withdraw()
            return
        try:
            self._channels.receive(receiver.channel, receiver.deliver, now())
        except InvalidMessage as error:
            receiver.refuse(error.code, error.reason)

    def given(self, node: str, packet: node_messages.ChannelGive) -> None:
        """Hand a message to the receiver for which it was given, or back."""
        receiver = self._by_name.get(packet.name)
        if receiver is not None:
            receiver.deliver(packet.message, now() + packet.left)
            return
        back = node_messages.ChannelReturn(packet.channel, packet.message, packet.left)
        self._send(node, back, lambda maybe: self._lost())

    def unwanted(self, name: str) -> None:
        """Note that a node has let go of a receiver."""
        receiver = self._by_name.get(name)
        if receiver is not None:
            receiver.withdraw()

    def refused(self, name: str, code: str, reason: str) -> bool:
        """Note that a node gives a receiver no message; False: it is no receiver's name."""
        receiver = self._by_name.get(name)
        if receiver is None:
            return False
        if code == AGAIN:
            self._bring_back(name)
        else:
            receiver.refuse(code, reason)
        return True

    # Those of other nodes

    def want(self, node: str, packet: node_messages.ChannelWant) -> None:
        """Have a receiver of another node get the next message."""
        name, channel = packet.name, packet.channel

        def deliver(message: bytes, until: int) -> None:
            self._theirs.pop((node, name), None)
            give = node_messages.ChannelGive(name, channel, message, max(1, until - now()))
            self._send(node, give, lambda maybe: self._not_given(node, name, (channel, message, until), maybe))

        self._theirs[node, name] = channel, deliver
        try:
            self._channels.receive(channel, deliver, now())
        except InvalidMessage as error:
            del self._theirs[node, name]
            self._send(node, node_messages.ChannelDone(name, error.code, error.reason), None)

    def unwant(self, node: str, name: str) -> None:
        """Let go of a receiver of another node, and say so; it is not said where a message is on its way."""
        found = self._theirs.pop((node, name), None)
        if found is not None and self._channels.cancel(*found):
            self._send(node, node_messages.ChannelUnwanted(name), None)

    def _not_given(self, node: str, name: str, message: tuple[str, bytes, int], maybe: bool) -> None:
        if maybe:
            self._lost()
            return
        if not self._unsent:
            self._loop.call_soon(self._give_back)
        self._unsent.append(message)
        self._send(node, node_messages.ChannelDone(name, AGAIN, ""), None)

    def _give_back(self) -> None:
        """Put what could not be given at the head of its channel again, in its order."""
        unsent, self._unsent = self._unsent, []
        for channel, message, until in reversed(unsent):
            self._channels.give_back(channel, message, until, now())
