"""The channel layer of Django Channels on the sidecar: ``CHANNEL_LAYERS`` names ``FastpathChannelLayer``.

docs/develop/channels.md explains it.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Mapping
from re import Pattern
from typing import Any

import msgspec
from channels.exceptions import ChannelFull
from channels.layers import BaseChannelLayer
from django.core.exceptions import ImproperlyConfigured

from fastpath.client.errors import ControlRefused
from realtime.channel_layer.process import ChannelProcess
from realtime.conf import conf
from realtime.publishing.contents import plain

EXPIRY_SECONDS = 60
GROUP_EXPIRY_SECONDS = 86_400
CAPACITY = 100
CAPACITY_MAX = 1_000_000
PREFIX = "asgi"
PREFIX_CHARS_MAX = 100

WARN_SECONDS = 1.0
"""Seconds between two lines about channels that are full."""

Message = dict[str, Any]

_log = logging.getLogger("realtime.channels")


class FastpathChannelLayer(BaseChannelLayer):  # type: ignore[misc, unused-ignore]
    """A channel layer on the sidecar of this node, and over all nodes that share its Redis.

    ``expiry`` is how many seconds a message waits for a receiver, ``group_expiry`` how many a channel stays in a group,
    ``capacity`` how many messages wait in a channel, ``channel_capacity`` that of channels by pattern
    (``{"http.request": 200, "jobs.*": 1000}``). Projects that share a sidecar have each their own ``prefix``.
    ``control`` is the address of its control socket; without it the first of ``REALTIME["CONTROL"]``.

    Whatever sends raises SidecarUnavailable at once while the sidecar is away; ``receive`` waits for it.
    """

    extensions = ["groups", "flush"]

    def __init__(
        self,
        expiry: float = EXPIRY_SECONDS,
        group_expiry: float = GROUP_EXPIRY_SECONDS,
        capacity: int = CAPACITY,
        channel_capacity: Mapping[str | Pattern[str], int] | None = None,
        prefix: str = PREFIX,
        control: str = "",
    ) -> None:
        """Read the options; raise ImproperlyConfigured for a value that makes no sense."""
        for name, seconds in ("expiry", expiry), ("group_expiry", group_expiry):
            if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds <= 0:
                raise ImproperlyConfigured(f"CHANNEL_LAYERS: {name} is a number of seconds above 0, not {seconds!r}.")
        for name, most in [("capacity", capacity), *(channel_capacity or {}).items()]:
            if type(most) is not int or not 1 <= most <= CAPACITY_MAX:
                raise ImproperlyConfigured(
                    f"CHANNEL_LAYERS: the capacity ({name}) is a whole number from 1 to {CAPACITY_MAX}, not {most!r}."
                )
        if not isinstance(prefix, str) or len(prefix) > PREFIX_CHARS_MAX or "!" in prefix:
            raise ImproperlyConfigured(
                f"CHANNEL_LAYERS: prefix is a text of at most {PREFIX_CHARS_MAX} characters without !, not {prefix!r}."
            )
        super().__init__(expiry=expiry, capacity=capacity)
        self.channel_capacity = self.compile_capacities(channel_capacity or {})
        self.group_expiry = group_expiry
        self.prefix = prefix
        self._address = control
        self._left_out = 0
        self._warn_at = 0.0
        self._processes: dict[int, ChannelProcess] = {}

    async def send(self, channel: str, message: Message) -> None:
        """Send to a channel. Raises ChannelFull; TypeError for a name or message that is none; SidecarUnavailable."""
        self.require_valid_channel_name(channel)
        arguments = {
            "channel": self._key(channel),
            "message": _encoded(message),
            "capacity": self.get_capacity(channel),
            "seconds": self.expiry,
        }
        try:
            await self._process().connection().call("channel_send", arguments)
        except ControlRefused as error:
            if error.code == "channel_full":
                raise ChannelFull(f"{channel}: {error.reason}") from None
            raise

    async def receive(self, channel: str) -> Message:
        """Return the next message of the channel: the one that was sent first of those that nobody has received.

        A process-local channel is received from by the process that made it. While the sidecar is away this waits.
        """
        self.require_valid_channel_name(channel)
        process = self._process()
        if "!" in channel:
            local = self.non_local_name(channel)
            if not local.endswith(f".{process.name}!"):
                # As channels_redis says it.
                raise AssertionError(f"{channel} is a channel of another process, which alone receives from it")
        message: Message = msgspec.msgpack.decode(await process.connection().receiving.receive(self._key(channel)))
        return message

    async def new_channel(self, prefix: str = "specific") -> str:
        """Return the name of a new channel that only this process receives from."""
        return f"{prefix}.{self._process().name}!{secrets.token_hex(16)}"

    async def group_add(self, group: str, channel: str) -> None:
        """Put a channel into a group, or renew that. Raises TypeError for a name that is none; SidecarUnavailable."""
        self.require_valid_group_name(group)
        self.require_valid_channel_name(channel)
        process, capacity = self._process(), self.get_capacity(channel)
        keys = self._key(group), self._key(channel)
        memberships = [[*keys, capacity, self.group_expiry]]
        await process.connection().call("channel_group_add", {"memberships": memberships})
        process.memberships.add(*keys, capacity, self.group_expiry)

    async def group_discard(self, group: str, channel: str) -> None:
        """Take a channel out of a group. Raises as group_add; what is raised for a sidecar that is away changes nothing
        about it: the channel is not in the group when the sidecar is back."""
        self.require_valid_group_name(group)
        self.require_valid_channel_name(channel)
        process, group, channel = self._process(), self._key(group), self._key(channel)
        process.memberships.discard(group, channel)
        await process.connection().call("channel_group_discard", {"group": group, "channel": channel})

    async def group_send(self, group: str, message: Message) -> None:
        """Send to all channels in a group. Those that are full are left out, counted, and logged.

        Raises TypeError for a name or message that is none; SidecarUnavailable.
        """
        self.require_valid_group_name(group)
        arguments = {"group": self._key(group), "message": _encoded(message), "seconds": self.expiry}
        told = await self._process().connection().call("channel_group_send", arguments)
        if told["full"]:
            self._warn(group, told["full"], told["full"] + told["sent"])

    async def flush(self) -> None:
        """Drop all that waits in the channels of this layer, and empty its groups, for all processes."""
        process, prefix = self._process(), self._key("")
        process.memberships.flush(prefix)
        await process.connection().call("channel_flush", {"prefix": prefix})

    async def close(self) -> None:
        """End the connection of this loop; whoever uses the layer again opens another one."""
        self._process().connection().close()

    def _process(self) -> ChannelProcess:
        number = os.getpid()
        found = self._processes.get(number)
        if found is None:
            for parent in list(self._processes.values()):
                parent.abandon()
            address = self._address or conf.controls[0]
            made = ChannelProcess(address, conf.control_seconds, self._left_out_elsewhere)
            found = self._processes.setdefault(number, made)  # threads may come here at the same time
        return found

    def _left_out_elsewhere(self, group: str, full: int, of: int) -> None:
        """Log what another node says of its channels in the group, whose name has the prefix."""
        self._warn(group[len(self._key("")) :], full, of)

    def _warn(self, group: str, full: int, of: int) -> None:
        """Log that a message was left out, at most once a second."""
        self._left_out += full
        now = time.monotonic()
        if now >= self._warn_at:
            _log.warning(
                "%d of %d channels in the group %s are full and have not got a message; %d were left out since the "
                "last such line",
                full,
                of,
                group,
                self._left_out,
            )
            self._left_out, self._warn_at = 0, now + WARN_SECONDS

    def _key(self, name: str) -> str:
        return f"{self.prefix}:{name}"


def _text(value: Any) -> Any:
    """Return what MessagePack does not know by itself in a form that it knows: lazy texts and those of a subclass are
    texts."""
    known = plain(value)
    if known is not value:
        return known
    raise TypeError(f"a {type(value).__name__} cannot be sent: use str(…), list(…) or a dict of it")


_encode = msgspec.msgpack.Encoder(enc_hook=_text).encode


def _encoded(message: Message) -> bytes:
    if not isinstance(message, dict):
        raise TypeError(f"a message is a dict with a type, not a {type(message).__name__}")
    try:
        return _encode(message)
    except OverflowError as error:
        raise TypeError(f"a message's whole numbers have at most 64 bits: {error}") from None
    except RecursionError:
        raise TypeError("a message is nested too deep") from None
