"""Write one group's bytes to all its sockets: one plain write each, nothing allocated for a client that keeps up."""

from __future__ import annotations

import os
from itertools import repeat

from ..core.interest import Group

_BLOCKED, _BROKEN = 0, -1


def write_group(group: Group, data: bytes) -> None:
    """Send whole frames to every member; who does not take them all gets a queue of its own.

    The loop runs inside ``map`` and ``list.extend``, which keep what they got when a write raises, so that a blocked
    socket costs one exception and the others nothing.
    """
    # Taken first: who blocks below joins them, with these bytes in its queue already.
    singles = list(group.singles) if group.singles else ()
    if group.fds:
        written: list[int] = []
        writes = map(os.write, group.fds, repeat(data))
        while True:
            try:
                written.extend(writes)
                break
            except BlockingIOError:
                written.append(_BLOCKED)
            except OSError:
                written.append(_BROKEN)
        size = len(data)
        if written.count(size) != len(written):
            # Collected before anyone is refiled, which moves the others' places.
            late = [(client, count) for client, count in zip(group.ready, written, strict=True) if count != size]
            for client, count in late:
                client.link.lag(data, count)
    for client in singles:
        client.link.write(data)
