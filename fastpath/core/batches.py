"""What listeners with a batching time collect: which groups wait, until when (FEATURES A8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .interest import Group
    from .wire import Wire


class Held:
    """Frames that a group holds over ticks."""

    __slots__ = ("due", "frames", "size")

    def __init__(self, due: int) -> None:
        self.due = due
        self.frames: list[bytes] = []
        self.size = 0


class Batches:
    """The groups that hold something; those of one wire stand in the order in which they are due."""

    def __init__(self) -> None:
        self._waiting: dict[Wire, dict[Group, Held]] = {}

    def collect(self, groups: list[Group], now: int) -> list[Group]:
        """Let the groups with a batching time hold what came in this tick; those of ``groups`` that are written now."""
        ready = []
        for group in groups:
            wire = group.wire
            if not wire.batch_ms or not group.pending:
                ready.append(group)
                continue
            held = group.held
            if held is None:
                held = group.held = Held(now + wire.batch_ms)
                waiting = self._waiting.setdefault(wire, {})
                waiting.pop(group, None)  # written before its time: its old place is not its new one's
                waiting[group] = held
            held.frames += group.pending
            held.size += sum(map(len, group.pending))
            group.pending = []
            if held.size >= wire.batch_bytes:
                ready.append(group)
        return ready

    def due(self, now: int | None) -> list[Group]:
        """The groups whose time is over; all that hold something when ``now`` is None."""
        ready = []
        for wire, waiting in self._waiting.items():
            while waiting:
                group, held = next(iter(waiting.items()))
                if group.held is held:  # else it was written since, and may hold something newer
                    # Further away than the whole time: the clock was set back.
                    if now is not None and now < held.due <= now + wire.batch_ms:
                        break
                    ready.append(group)
                del waiting[group]
        return ready

    def next_due(self) -> int | None:
        """When the first group is due, in ms; None when nobody holds anything."""
        firsts = [next(iter(waiting.values())).due for waiting in self._waiting.values() if waiting]
        return min(firsts, default=None)
