"""Write the bytes of groups to all their sockets: one plain write each, nothing allocated for a client that keeps up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import repeat

from ..core.client import Client
from ..core.interest import Group

_BLOCKED, _BROKEN = 0, -1


def write_groups(batches: list[tuple[Group, bytes]]) -> None:
    """Send whole frames to every member of each group; who does not take them all gets a queue of its own.

    Groups of one are gathered into a single pass: where no two clients want the same, what a group costs is what a
    client costs.
    """
    clients: list[Client] = []
    fds: list[int] = []
    frames: list[bytes] = []
    for group, data in batches:
        if len(group.fds) == 1 and not group.singles:
            clients.append(group.ready[0])
            fds.append(group.fds[0])
            frames.append(data)
        else:
            _write_group(group, data)
    if fds:
        written = _write(map(os.write, fds, frames))
        if written != list(map(len, frames)):
            for client, data, count in zip(clients, frames, written, strict=True):
                if count != len(data):
                    client.link.lag(data, count)


def _write_group(group: Group, data: bytes) -> None:
    # Taken first: who blocks below joins them, with these bytes in its queue already.
    singles = list(group.singles) if group.singles else ()
    if group.fds:
        written = _write(map(os.write, group.fds, repeat(data)))
        size = len(data)
        if written.count(size) != len(written):
            # Collected before anyone is refiled, which moves the others' places.
            late = [(client, count) for client, count in zip(group.ready, written, strict=True) if count != size]
            for client, count in late:
                client.link.lag(data, count)
    for client in singles:
        client.link.write(data)


def _write(writes: Iterator[int]) -> list[int]:
    """How much each write took.

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
