"""What the broker asks of others: who numbers and keeps messages, who holds the same, who measures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

from ..cache.deduplication import Deduplicator
from ..delivery.audience import Topic
from ..protocol.columns import ColumnBatch
from ..protocol.messages import Message
from ..protocol.options import OptionRow
from ..protocol.packets import Refusal
from .admission import Done, Outcome


class Timely(Protocol):
    """The clock of what happens at its time, before anything is said at that time."""

    due: int
    """The time (ms) at which there is something to do next, or earlier."""

    def pass_time(self, now: int) -> None:
        """Do what is due, as the time is ``now`` (ms)."""


class Never:
    """Timely: nothing is ever due."""

    due = 1 << 62

    def pass_time(self, now: int) -> None:
        """Do nothing, as nothing is due ever."""


class Numbering(Protocol):
    """An engine's part that gives messages their positions at once, in one atomic step."""

    epoch: int
    deduplicator: Deduplicator
    """Deduplicator that knows which publications have been stored."""

    def append(self, messages: Sequence[Message], now: int) -> list[Outcome] | None:
        """Give the messages their time and position and keep them, in one atomic step.

        None says that all are new. Else there is an outcome for each: those with a plain number are to be delivered, of
        the others nothing has changed.
        """

    def stored(self, publisher: str) -> int:
        """Return the publisher's last number: up to there its publications need not be stored again."""

    def append_runs(self, runs: Sequence[ColumnBatch], publisher: str, last: int, now: int) -> list[int] | Refusal:
        """Number the rows of the runs, new publications of which the last one is the publisher's ``last``: all in one
        step, or none. The position of each run's first row, 0 for a run of standard quality; or why not."""

    def resume(self, subject: str, seq: int) -> None:
        """Number the subject's next message after ``seq``."""

    def begin_after(self, epoch: int) -> None:
        """Number from now on in an epoch that is later than this one."""


class EnginePort(ABC):
    """Numbers and keeps messages, as the broker sees it; fastpath/engine/base.py adds its life.

    What is not overridden is right for an engine that keeps nothing beyond its process.
    """

    name: ClassVar[str]
    """Name that the control socket has for the engine."""
    shared: ClassVar[bool] = False
    """True if other nodes deliver the same messages."""
    judges: ClassVar[bool] = True
    """True if it is judged here what publications would make of snapshots, and not where they are handed on to."""
    folder: str = ""
    """Folder on a disk where the engine keeps messages; empty: on none."""
    epoch: int

    @property
    def numbering(self) -> Numbering | None:
        """The numbering of this process, which answers at once; None if messages are numbered elsewhere."""
        return None

    @property
    def trouble(self) -> str:
        """The reason why nothing can be stored at this moment; empty if something can."""
        return ""

    @abstractmethod
    def attach(self, broker: Any) -> None:
        """Deliver through the broker (core/broker/broker.py) from now on."""

    @abstractmethod
    def submit(self, messages: Sequence[Message], now: int, done: Done | None) -> None:
        """Have accepted publications numbered and stored, at ``now`` (ms since 1970), and delivered in that order.

        ``done`` is called once, with one outcome a message: before this returns or later, always in the order of the
        submissions, and not before the messages that were stored have their position.
        """

    def acknowledging(self, done: Done) -> Done:
        """Return ``done``, to be called when publications have been numbered: it waits until these are safe."""
        return done

    def unheard(self) -> bool:
        """Return whether something that was numbered elsewhere waits unread."""
        return False

    def when_safe(self, told: Callable[[], None]) -> None:
        """Call ``told`` when all that was stored before is as safe as this engine makes it, or ``trouble`` says why
        not."""
        told()

    def keep_options(self, rows: Sequence[OptionRow]) -> None:
        """Keep these options of subjects, which count from now on and are all that there are."""
        del rows

    def tick(self, now: int) -> None:
        """Do what is to be done each second; the time is in ms since 1970."""
        del now


class Replicas(Protocol):
    """Followers of this broker, which hold what it holds."""

    def note(self, messages: Sequence[Message]) -> None:
        """Note messages that are delivered next."""

    def restarted(self, topic: Topic) -> None:
        """Hear that the subject stands elsewhere than what was delivered of it leads to."""

    def flush(self) -> None:
        """Send what answers tell of, as those leave next."""


class Stopwatch(Protocol):
    """A clock that measures how long messages take; ``since`` is 0 while no publication has been accepted that waits to
    be written."""

    since: int

    def accept(self) -> None:
        """Note that publications are about to be numbered here."""

    def begin(self) -> int:
        """Return a mark for ``release``, as a listener begins to collect."""

    def release(self, began: int, deliveries: int) -> None:
        """Count deliveries that were collected since the mark and leave now."""
