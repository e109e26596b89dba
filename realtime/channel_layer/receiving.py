"""The receivers of one loop: each channel asks the sidecar for one message at a time, and hands it to who waits."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from fastpath.client.control.asynchronous import AsyncControl
from fastpath.client.errors import ClientError, SidecarUnavailable

_log = logging.getLogger("realtime.channels")

Answer = dict[str, Any]
Received = tuple[bytes, int]
"""A message, and until when it may wait (ms of the sidecar's clock)."""


class _Channel:
    """The receivers that wait for a message of one channel, and the request for it that is under way."""

    __slots__ = ("asked", "cancelled", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[asyncio.Future[Received]] = deque()
        self.asked = 0
        """The request's number; 0: none is under way."""
        self.cancelled = False


class Receiving:
    """All receivers of a loop. ``wanted`` is called when somebody waits and there is no connection."""

    def __init__(self, wanted: Callable[[], None]) -> None:
        self._wanted = wanted
        self._channels: dict[str, _Channel] = {}
        self._control: AsyncControl | None = None

    @property
    def waits(self) -> bool:
        """State of the receivers: True while one waits for a message."""
        return any(channel.waiting for channel in self._channels.values())

    def connected(self, control: AsyncControl) -> None:
        """Go on with a new connection: ask there for every receiver that waits."""
        self._control = control
        for name in list(self._channels):
            self._ask(name, self._channels[name])

    def disconnected(self) -> None:
        """Note that the connection is lost; want another if a receiver waits."""
        self._control = None
        if self.waits:
            self._wanted()

    async def receive(self, name: str) -> bytes:
        """Return the next message of the channel; raise ControlRefused where the sidecar has no room for a receiver."""
        channel = self._channels.setdefault(name, _Channel())
        future: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
        channel.waiting.append(future)
        self._ask(name, channel)
        try:
            return (await future)[0]
        except asyncio.CancelledError:
            if future in channel.waiting:
                channel.waiting.remove(future)
                self._settle(name, channel)
            elif future.done() and not future.cancelled() and future.exception() is None:
                # It came, and is not taken any more.
                self._hand(name, self._channels.setdefault(name, channel), future.result())
            raise

    def _ask(self, name: str, channel: _Channel) -> None:
        """Ask for a message if somebody waits for one."""
        if not channel.waiting or channel.asked:
            return
        if self._control is None:
            self._wanted()
            return
        if not self._control.open:  # which ``disconnected`` tells in a moment
            return
        channel.cancelled = False
        channel.asked = self._control.ask(
            "channel_receive", {"channel": name}, lambda answer, error: self._answered(name, channel, answer, error)
        )

    def _settle(self, name: str, channel: _Channel) -> None:
        """Withdraw the request of a channel for which nobody waits any more: the message is better kept for others."""
        if channel.waiting:
            return
        if not channel.asked:
            if self._channels.get(name) is channel:
                del self._channels[name]
        elif not channel.cancelled and self._control is not None:
            channel.cancelled = True
            self._control.ask("channel_cancel", {"request": channel.asked}, _nothing)

    def _answered(self, name: str, channel: _Channel, answer: Answer | None, error: ClientError | None) -> None:
        channel.asked = 0
        if answer is not None:
            self._hand(name, channel, (answer["message"], answer["until"]))
            return
        if not channel.cancelled and not isinstance(error, SidecarUnavailable):
            refused, channel.waiting = channel.waiting, deque()
            for future in refused:
                if not future.done():
                    future.set_exception(error or SidecarUnavailable(name, "no answer"))
        elif not isinstance(error, SidecarUnavailable):
            self._ask(name, channel)
        self._settle(name, channel)

    def _hand(self, name: str, channel: _Channel, received: Received) -> None:
        """Give a message to who waits longest, or back to the sidecar."""
        while channel.waiting:
            future = channel.waiting.popleft()
            if not future.done():
                future.set_result(received)
                break
        else:
            message, until = received
            if self._control is not None and self._control.open:
                arguments = {"channel": name, "message": message, "until": until}
                self._control.ask("channel_return", arguments, _nothing)
            else:
                _log.warning("a message of the channel %s is lost: its receiver went with the connection", name)
        self._ask(name, channel)
        self._settle(name, channel)


def _nothing(answer: Answer | None, error: ClientError | None) -> None:
    """Do nothing: the answer does not matter."""
