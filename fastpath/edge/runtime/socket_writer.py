"""Write the bytes of groups to all their sockets: one plain write each, nothing allocated where a client keeps up."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from time import perf_counter

from ...core.delivery.audience import Client, Group
from ...core.delivery.ports import Writer
from ...core.protocol.codec import Form

TURN_SECONDS = 0.005
"""Seconds after which the rest of what large groups have pending waits for the next turn of the loop."""

_BLOCKED, _BROKEN = 0, -1


class SocketWriter(Writer):
    """Plain writes to descriptors, the clients' slot keys; who does not take all bytes gets a queue of its own.

    ``by_form`` writes the same events or records to members of one group whose form has a writer of its own
    (edge/clients/event_stream.py, mqtt/stream.py).
    """

    def __init__(self, by_form: Mapping[Form, Callable[[list[Client], bytes], None]] | None = None) -> None:
        self._until = 0.0
        self._by_form = by_form or {}

    def write_group(self, group: Group, data: bytes) -> None:
        """Write the same bytes to every member."""
        # Taken first: who blocks below joins them, with these bytes in its queue already.
        singles = group.singles.copy() if group.singles else None
        if group.keys:
            self.write_some(group.ready, group.keys, data)
        if singles:
            self.write_singles(singles, data)

    def write_singles(self, clients: list[Client], data: bytes) -> None:
        """Write the same bytes to these members, which may read events, speak MQTT, be blocked, or behind TLS."""
        write = self._by_form.get(clients[0].form)
        if write is not None:
            write(clients, data)
        else:
            super().write_singles(clients, data)

    def write_some(self, clients: list[Client], keys: list[int], data: bytes) -> None:
        """Write the same bytes to these members."""
        written = write_each(map(os.write, keys, repeat(data)))
        size = len(data)
        if written.count(size) != len(written):
            # Collected before anyone is refiled, which moves the others' places.
            late = [(client, count) for client, count in zip(clients, written, strict=True) if count != size]
            for client, count in late:
                client.link.lag(data, count)

    def write_ones(self, groups: list[Group], keys: list[int], frames: list[bytes]) -> None:
        """Write to each client its own bytes."""
        written = write_each(map(os.write, keys, frames))
        if written != list(map(len, frames)):
            for group, data, count in zip(groups, frames, written, strict=True):
                if count != len(data):
                    group.ready[0].link.lag(data, count)

    def begin(self) -> None:
        """Begin a turn."""
        self._until = perf_counter() + TURN_SECONDS

    def over(self) -> bool:
        """Return whether writing has taken as long as a turn may."""
        return perf_counter() >= self._until


def write_each(writes: Iterator[int]) -> list[int]:
    """Write to all sockets and return how much each write took.

    The loop runs inside ``map`` and ``list.extend``, which keep what they got when a write raises, so that a blocked
    socket costs one exception and the others nothing.
    """
    written: list[int] = []
    while True:
        try:
            written.extend(writes)
            return written
        except BlockingIOError:
            written.append(_BLOCKED)
        except OSError:
            written.append(_BROKEN)
