"""Channels in which messages wait for a receiver, and receivers for a message (protocol.md 8.22)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice

from ..protocol.errors import InvalidMessage

CHANNEL_NAME_CHARS_MAX = 256
"""Names of channels and groups; Channels' own have less than 100 characters, before the prefix of a project."""

WAITING_BYTES_MAX = 64 << 20
"""Bytes of the messages in all channels together, beside what each channel may hold."""

WAITING_MAX = 1_000_000
"""Messages in all channels together: small ones cost more than their bytes, some 100 each."""

CHANNELS_MAX = 200_000
"""Channels in which messages wait: each costs about 800 bytes, however little waits in it."""

RECEIVERS_MAX = 200_000
"""Number of receivers that wait at a time, on all channels together."""

SWEEP_MAX = 10_000
"""Channels that are looked through in one turn for what is over."""

SWEEP_MESSAGES_MAX = 50_000
"""Messages that are looked at there, and those of one channel beyond it: some 3 ms."""

MESSAGE_OVERHEAD_BYTES = 16
"""Bytes of a message beside its content, on its way to another node."""

FULL = "channel_full"

Deliver = Callable[[bytes, int], None]
"""Takes a message and until when it may wait (ms); called once."""


class Channels:
    """All channels of a node; times are in ms, of one clock. A channel has messages, or receivers, or is not there."""

    def __init__(
        self,
        waiting_bytes_max: int = WAITING_BYTES_MAX,
        receivers_max: int = RECEIVERS_MAX,
        waiting_max: int = WAITING_MAX,
        channels_max: int = CHANNELS_MAX,
    ) -> None:
        self._bytes_max = waiting_bytes_max
        self._waiting_max = waiting_max
        self._channels_max = channels_max
        self._receivers_max = receivers_max
        self._messages: dict[str, deque[tuple[bytes, int]]] = {}
        self._soonest: dict[str, int] = {}  # of channels that were found full: none of their messages is over before
        self._receivers: dict[str, deque[Deliver]] = {}
        self.waiting = 0
        """Messages that wait."""
        self.waiting_bytes = 0
        self.receiving = 0
        """Receivers that wait."""
        self.sent = self.full = self.expired = 0
        """Messages that were taken for one channel, that found theirs full, and that nobody took in time."""

    def __len__(self) -> int:
        return len(self._messages) + len(self._receivers)

    def send(self, channel: str, message: bytes, capacity: int, until: int, now: int) -> bool:
        """Deliver to the receiver that waits longest, or keep until then; False, and counted: the channel is full."""
        receivers = self._receivers.get(channel)
        if receivers:
            self.sent += 1
            self._next(channel, receivers)(message, until)
            return True
        messages = self._messages.get(channel)
        if messages is not None and len(messages) >= capacity and self._soonest.get(channel, now) <= now:
            # The messages of a channel may be kept for different times: any of them may be over.
            messages = self._without_expired(channel, messages, now)
            if messages:
                self._soonest[channel] = min(until for _, until in messages)
        if (len(messages) if messages else 0) >= capacity or self._is_full(message, new=not messages):
            self.full += 1
            return False
        self.sent += 1
        self._keep(channel, message, until, first=False)
        return True

    def _is_full(self, message: bytes, *, new: bool) -> bool:
        """Return whether all channels together have no room for the message; ``new``: nothing waits in its channel."""
        return (
            self.waiting_bytes + len(message) > self._bytes_max
            or self.waiting >= self._waiting_max
            or (new and len(self._messages) >= self._channels_max)
        )

    def receive(self, channel: str, deliver: Deliver, now: int) -> None:
        """Have the oldest message delivered, at once or when one comes; raises InvalidMessage ``limit``."""
        messages = self._messages.get(channel)
        while messages:
            message, until = messages.popleft()
            self._gone(message)
            if not messages:
                self._empty(channel)
            if until > now:
                deliver(message, until)
                return
            self.expired += 1
        if self.receiving >= self._receivers_max:
            raise InvalidMessage("limit", f"over {self._receivers_max} receivers wait on all channels")
        self.receiving += 1
        self._receivers.setdefault(channel, deque()).append(deliver)

    def cancel(self, channel: str, deliver: Deliver) -> bool:
        """Let the receiver wait no more; return False if it has its message already."""
        receivers = self._receivers.get(channel, ())
        if deliver not in receivers:
            return False
        assert isinstance(receivers, deque)
        receivers.remove(deliver)
        self.receiving -= 1
        if not receivers:
            del self._receivers[channel]
        return True

    def give_back(self, channel: str, message: bytes, until: int, now: int) -> None:
        """Keep as the next one again what was delivered and nobody has taken, whatever the capacity, until its time."""
        receivers = self._receivers.get(channel)
        if until <= now:
            self.expired += 1
        elif receivers:
            self._next(channel, receivers)(message, until)
        else:
            self._keep(channel, message, until, first=True)

    def take(self, channel: str, bytes_max: int, now: int) -> list[tuple[bytes, int]]:
        """Take the oldest messages, at least one and not many more bytes than that, each with until when it may wait;
        they are kept elsewhere."""
        taken: list[tuple[bytes, int]] = []
        messages, size = self._messages.get(channel), 0
        while messages and size < bytes_max:
            message, until = messages.popleft()
            self._gone(message)
            if not messages:
                self._empty(channel)
            if until > now:
                taken.append((message, until))
                size += len(message) + MESSAGE_OVERHEAD_BYTES
            else:
                self.expired += 1
        return taken

    def keep(self, channel: str, message: bytes, until: int, now: int) -> bool:
        """Deliver or keep, as the last one, what was taken elsewhere, whatever the capacity; False, and counted: all
        channels together have no room."""
        receivers = self._receivers.get(channel)
        if until <= now:
            self.expired += 1
        elif receivers:
            self._next(channel, receivers)(message, until)
        elif self._is_full(message, new=channel not in self._messages):
            self.full += 1
            return False
        else:
            self._keep(channel, message, until, first=False)
        return True

    def names(self) -> list[str]:
        """Return the channels in which messages wait."""
        return list(self._messages)

    def flush(self, prefix: str) -> None:
        """Drop what waits in all channels whose names begin so; receivers go on waiting."""
        for channel in [channel for channel in self._messages if channel.startswith(prefix)]:
            for message, _ in self._messages[channel]:
                self._gone(message)
            self._empty(channel)

    def sweep(self, now: int) -> None:
        """Drop, in a part of the channels, what nobody took in time."""
        looked = 0
        for channel in list(islice(self._messages, SWEEP_MAX)):
            looked += len(self._messages[channel])
            messages = self._without_expired(channel, self._messages.pop(channel), now)
            if messages:
                self._messages[channel] = messages  # behind those that were not looked through
            else:
                self._soonest.pop(channel, None)
            if looked >= SWEEP_MESSAGES_MAX:
                break

    def _without_expired(self, channel: str, messages: deque[tuple[bytes, int]], now: int) -> deque[tuple[bytes, int]]:
        left: deque[tuple[bytes, int]] = deque()
        for message, until in messages:
            if until > now:
                left.append((message, until))
            else:
                self._gone(message)
                self.expired += 1
        if channel in self._messages:
            if left:
                self._messages[channel] = left
            else:
                self._empty(channel)
        return left

    def _keep(self, channel: str, message: bytes, until: int, *, first: bool) -> None:
        messages = self._messages.setdefault(channel, deque())
        self.waiting += 1
        self.waiting_bytes += len(message)
        if channel in self._soonest:
            self._soonest[channel] = min(self._soonest[channel], until)
        if first:
            messages.appendleft((message, until))
        else:
            messages.append((message, until))

    def _empty(self, channel: str) -> None:
        """Let go of the channel's queue, in which nothing waits any more."""
        del self._messages[channel]
        self._soonest.pop(channel, None)

    def _gone(self, message: bytes) -> None:
        self.waiting -= 1
        self.waiting_bytes -= len(message)

    def _next(self, channel: str, receivers: deque[Deliver]) -> Deliver:
        deliver = receivers.popleft()
        self.receiving -= 1
        if not receivers:
            del self._receivers[channel]
        return deliver
