"""One loop's connection to the sidecar: opened when it is needed, and again while somebody waits for a message."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from typing import Any

from fastpath.client.backoff import Jitter
from fastpath.client.control.asynchronous import AsyncControl, connect
from fastpath.client.errors import ClientError, ControlRefused, NodeUnavailable, SidecarUnavailable
from realtime.channel_layer.memberships import Memberships
from realtime.channel_layer.receiving import Receiving

CLIENT = "django/1"

RETRY_SECONDS = 0.1
RETRY_SECONDS_MAX = 2.0
"""Seconds at most between attempts to connect while a receiver waits: the sidecar is on this machine, or next to it."""

Answer = dict[str, Any]

_log = logging.getLogger("realtime.channels")


class LoopConnection:
    """The connection of the loop that runs now; ``seconds`` bounds every answer."""

    def __init__(
        self,
        address: str,
        process: str,
        seconds: float,
        memberships: Memberships,
        left_out: Callable[[str, int, int], None],
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.receiving = Receiving(self._wanted)
        self._address = address
        self._process = process
        self._seconds = seconds
        self._memberships = memberships
        self._left_out = left_out
        self._control: AsyncControl | None = None
        self._opening: asyncio.Task[AsyncControl] | None = None
        self._returning: asyncio.Task[None] | None = None
        self._closer = self._close_with_loop()
        self._guarded = False
        self._ended = False

    async def call(self, verb: str, arguments: Answer) -> Answer:
        """Ask for a verb and wait for its answer; raises ControlRefused, SidecarUnavailable, and ValueError for an
        address that is none."""
        control = self._control
        if control is None or not control.open:
            control = await self._connected()
        try:
            return await control.call(verb, arguments, self._seconds)
        except ControlRefused as error:
            if error.code == "unavailable":
                raise NodeUnavailable(self._address, error.reason) from None
            raise

    def close(self) -> None:
        """End the connection without waiting; who still waits for a message, or asks, has another one opened."""
        if self._control is not None:
            self._control.close()

    def abandon(self) -> None:
        """Let go of the parent's connection in the child of a fork."""
        if self._control is not None:
            self._control.abandon()

    async def _connected(self) -> AsyncControl:
        """Return the connection, which all who ask at the same time open together."""
        if self._opening is None:
            self._opening = self.loop.create_task(self._open())
            self._opening.add_done_callback(self._opened)
        return await asyncio.shield(self._opening)

    async def _open(self) -> AsyncControl:
        control = await connect(self._address, CLIENT, self._seconds, self._pushed, self._lost)
        try:
            told = await control.call("channel_open", {"process": self._process}, self._seconds)
            server = str(told["server"])
            for part in self._memberships.missing(server):
                await control.call("channel_group_add", {"memberships": part}, self._seconds)
            self._memberships.told(server)
        except BaseException:
            control.close()
            raise
        if not self._guarded:
            self._guarded = True
            await anext(self._closer)
        if not control.open:  # it went with its last answer, when nobody was told
            raise SidecarUnavailable(self._address, "the sidecar closed the connection")
        self._control = control
        self.receiving.connected(control)
        return control

    def _opened(self, opening: asyncio.Task[AsyncControl]) -> None:
        self._opening = None
        if not opening.cancelled():
            opening.exception()  # whoever waits for it has it, too

    def _lost(self) -> None:
        if self._control is not None:
            self._control = None
            self.receiving.disconnected()

    def _pushed(self, name: str, content: Answer) -> None:
        if name == "channel_discarded":
            self._memberships.discard(content["group"], content["channel"])
        elif name == "channel_flushed":
            self._memberships.flush(content["prefix"])
        elif name == "channel_left_out":
            self._left_out(content["group"], content["full"], content["of"])
        elif name == "channel_interrupted":
            _log.warning("the way between the nodes was interrupted: messages to groups may be missing at some of them")

    def _wanted(self) -> None:
        if self._returning is None and not self._ended:
            self._returning = self.loop.create_task(self._return())

    async def _return(self) -> None:
        """Connect, and try again for as long as somebody waits for a message."""
        jitter = Jitter(RETRY_SECONDS, RETRY_SECONDS_MAX)
        said = False
        try:
            while self.receiving.waits:
                try:
                    await self._connected()
                    return
                except (ClientError, ValueError) as error:
                    if not said:
                        _log.warning("receivers of the channel layer wait: %s", error)
                    said = True
                    await asyncio.sleep(jitter.next_seconds())
        finally:
            self._returning = None

    async def _close_with_loop(self) -> AsyncGenerator[None, None]:
        """Close the connection when its loop ends: whoever ends a loop has its generators end, after all tasks.

        ``async_to_sync`` makes a loop for each call of a thread that has none.
        """
        try:
            yield
        finally:
            self._ended = True
            self.close()
