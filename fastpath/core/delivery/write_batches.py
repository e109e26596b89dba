"""What groups of listeners with a batching time hold, and until when (features.md A8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from .audience import Held

if TYPE_CHECKING:
    from .audience import Group
    from .wire import Terms


class Batches:
    """The groups that hold something; those on the same terms stand in the order in which they are due."""

    def __init__(self, sliced: Callable[[Group], bool]) -> None:
        self._sliced = sliced
        self.holding: dict[Terms, dict[Group, Held]] = {}
        """The groups that hold something, by their terms; empty while none does."""
        self.begun: Callable[[], int] | None = None
        """Function called when a group begins to hold something; it marks that with a number, for ``released``."""
        self.released: Callable[[int, int], None] | None = None
        """Told of what is written next how the beginning was marked, and how many deliveries that are."""

    def time(self, begun: Callable[[], int], released: Callable[[int, int], None]) -> None:
        """Have these functions told of what is collected from now on."""
        self.begun, self.released = begun, released

    def collect(self, groups: list[Group], now: int) -> list[Group]:
        """Let the groups with a batching time hold what came in this tick; those of ``groups`` that are written now."""
        ready = []
        for group in groups:
            terms = group.terms
            if not terms.batch_ms or not group.pending:
                ready.append(group)
                continue
            held = group.held
            if held is None:
                held = group.held = Held(now + terms.batch_ms, self.begun() if self.begun is not None else 0)
                self.holding.setdefault(terms, {})[group] = held
            held.keep(group.pending)
            group.pending.clear()
            if held.size >= terms.batch_bytes:
                self.release(group)
                ready.append(group)
        return ready

    def due(self, now: int | None) -> list[Group]:
        """Release the groups whose time is over; all that hold something when ``now`` is None."""
        ready: list[Group] = []
        for terms, waiting in self.holding.items():
            for group, held in waiting.items():
                # What is further away than the whole time was noted before the clock was set back.
                if now is not None and now < held.due <= now + terms.batch_ms:
                    break
                ready.append(group)
        for group in ready:
            self.release(group)
        return ready

    def release(self, group: Group) -> None:
        """Release what the group holds, to be written before what is pending."""
        held, group.held = group.held, None
        if held is not None:
            group.pending[:0] = held.frames
            alike = self.holding[group.terms]
            del alike[group]
            if not alike:
                del self.holding[group.terms]
            if self._sliced(group):
                group.uneven().next = held.mark  # told of as it is written
            elif self.released is not None:
                self.released(held.mark, len(held.frames) * len(group))

    def waiting(self) -> Iterator[Group]:
        """Yield the groups that hold something."""
        return chain.from_iterable(self.holding.values())

    def wait_ms(self, now: int) -> int | None:
        """Return the time in ms until the first group is due; None when no group holds anything."""
        waits = [
            min(max(next(iter(waiting.values())).due - now, 0), terms.batch_ms)
            for terms, waiting in self.holding.items()
            if waiting
        ]
        return min(waits, default=None)
