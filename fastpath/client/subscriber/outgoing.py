"""The publications that are not answered yet: bounded, in order, sent again until they are; pure (features.md C5, H1).

One of guaranteed quality gets its number when it is first sent, and keeps it until it is known not to be stored: so a
server stores it once, however often it comes.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, field

from fastpath.core.protocol.messages import GUARANTEED, Fields, Value

from ..arguments import check_text, check_values
from ..errors import QueueFull, Unavailable, Unknown, refusal
from ..message import Position

HOLD_SECONDS = 0.5
"""Seconds for which nothing is sent, and until all on the wire is answered, after a server could not store."""


@dataclass(slots=True, eq=False)
class OutgoingPublication:
    """A publication of the program's; ``told`` when the program gave the closure and hears of the outcome."""

    subject: str
    content: Value
    fields: Fields = field(default_factory=dict)
    retained: bool = True
    qos: str = GUARANTEED
    reply_to: str = ""
    closure: str = ""
    told: bool = False
    until: float = 0
    order: int = 0
    size: int = 0
    number: int = 0
    """Number of the publication (protocol.md 3.4); 0 while it has none."""
    id: int = 0
    """Number of the command that is on the wire; 0 when there is none."""
    sent: bool = False
    """True if the publication was sent and may have been stored."""
    not_ready: bool = False
    """True if ``not_ready`` was the last answer to the publication."""
    doubt: bool = False
    """True if the publication was sent before and nobody knows what came of that."""
    replace: bool = False
    """True if no earlier field stays in the snapshot."""
    removed: bool = False
    """True if the publication removes the subject."""
    traceparent: str = ""


@dataclass(slots=True, frozen=True)
class Settled:
    """The outcome of a publication: a status of protocol.md 4.4, or ``unknown``, with its position if it is ``ok``."""

    publication: OutgoingPublication
    status: str
    reason: str = ""
    epoch: int = 0
    seq: int = 0
    answered: bool = True

    def outcome(self) -> Position | Exception:
        """Return the position, or the exception to raise, for the caller that waits for the publication."""
        if self.status == "ok":
            return Position(self.epoch, self.seq)
        if self.status == "unknown":
            return Unknown(f"the publication to {self.publication.subject} may or may not be stored: {self.reason}")
        if self.status == "failed" and not self.answered:
            return Unavailable(f"the publication to {self.publication.subject} was never sent: {self.reason}")
        return QueueFull(self.reason) if self.status == "queue_full" else refusal(self.status, self.reason)


class OutgoingPublications:
    """The publications of one client: ``put()``, then ``take()`` what may be sent; ``answered()`` and ``expire()`` tell
    what is settled."""

    def __init__(self, messages_max: int = 1000, bytes_max: int = 1 << 20, seconds: float = 60) -> None:
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._seconds = seconds
        self._all: dict[OutgoingPublication, None] = {}
        self._bytes = 0
        self._order = 0
        self._number = 0
        self._again: list[OutgoingPublication] = []  # by number
        self._rest: list[OutgoingPublication] = []  # in the program's order
        self._wire: dict[int, OutgoingPublication] = {}
        self._held_until: float | None = None

    def __len__(self) -> int:
        return len(self._all)

    def put(self, publication: OutgoingPublication, now: float) -> Settled | None:
        """Take one in, unless the queue is full. Raises Invalid for half a character, and TypeError."""
        size = _size(publication)
        if len(self._all) >= self._messages_max or self._bytes + size > self._bytes_max:
            return Settled(
                publication,
                "queue_full",
                f"{len(self._all)} publications with {self._bytes} bytes wait for their answer, this one has {size}; "
                f"at most {self._messages_max} with {self._bytes_max} bytes are taken",
            )
        self._order += 1
        publication.order, publication.size, publication.until = self._order, size, now + self._seconds
        self._all[publication] = None
        self._bytes += size
        self._rest.append(publication)
        return None

    def take(self, now: float) -> Iterator[OutgoingPublication]:
        """Yield the publications to be sent now, in order, numbered; ``on_wire`` must be called for each."""
        if self._held_until is not None and (now < self._held_until or self._wire):
            return
        self._held_until = None
        while self._again or self._rest:
            publication = (self._again or self._rest).pop(0)
            if not publication.number and publication.qos == GUARANTEED:
                self._number += 1
                publication.number = self._number
            yield publication

    def on_wire(self, publication: OutgoingPublication, command: int) -> None:
        """Note that the publication was sent with the command of this id."""
        publication.id, publication.sent, publication.not_ready = command, True, False
        self._wire[command] = publication

    def answered(self, command: int, status: str, now: float) -> OutgoingPublication | None:
        """Take an answer; return the publication if that settles it. Else it is sent again, in its time."""
        publication = self._wire.pop(command, None)
        if publication is None:
            return None
        publication.id = 0
        if status not in ("unavailable", "not_ready", "out_of_order"):
            self._forget(publication)
            return publication
        publication.doubt = status == "unavailable" or (publication.doubt and status == "not_ready")
        if not publication.doubt:
            # It is not stored: it may come again, under a number that is new. A server that is not ready has only not
            # looked whether it is.
            publication.number, publication.sent = 0, False
            publication.not_ready = status == "not_ready"
        self._later(publication)
        if status != "out_of_order":
            self._held_until = now + HOLD_SECONDS
        return None

    def waits_for(self, command: int) -> bool:
        """Return True when the command of this id is a publication whose answer is due."""
        return command in self._wire

    def refuse(self, publication: OutgoingPublication, code: str, reason: str) -> Settled:
        """Settle a publication that ``take()`` yielded and that cannot be sent on this connection."""
        self._forget(publication)
        if publication.sent:
            return Settled(publication, "unknown", reason)
        return Settled(publication, code, reason, answered=False)

    def lose(self, too_big: bool = False) -> list[Settled]:
        """Prepare what was on the wire for the next connection; settle what no number protects.

        ``too_big``: the server refused a frame for its size (1009). The largest on the wire passes its bound.
        """
        settled = []
        wire, self._wire, self._held_until = list(self._wire.values()), {}, None
        if too_big and wire:
            largest = max(wire, key=lambda publication: publication.size)
            wire.remove(largest)
            self._forget(largest)
            settled.append(Settled(largest, "too_large", f"{largest.size} bytes pass the server's bound"))
        for publication in wire:
            publication.id = 0
            publication.doubt = True
            if publication.number:
                self._later(publication)
            else:
                self._forget(publication)
                settled.append(Settled(publication, "unknown", "the connection was lost before the answer"))
        return settled

    def expire(self, now: float) -> list[Settled]:
        """Let those go whose time is over."""
        settled = []
        for publication in list(self._all):
            if publication.until > now:
                break
            settled.append(self._give_up(publication, f"not answered within {self._seconds:g} s"))
        return settled

    def end(self, reason: str) -> list[Settled]:
        """Give all publications up: nothing is sent any more."""
        return [self._give_up(publication, reason) for publication in list(self._all)]

    def due(self) -> float | None:
        """Return when ``expire()``, then ``take()``, are to be called."""
        times = [publication.until for publication, _ in zip(self._all, "1", strict=False)]
        if self._held_until is not None and not self._wire and (self._again or self._rest):
            times.append(self._held_until)
        return min(times, default=None)

    def _later(self, publication: OutgoingPublication) -> None:
        if publication.number:
            insort(self._again, publication, key=lambda other: other.number)
        else:
            insort(self._rest, publication, key=lambda other: other.order)

    def _give_up(self, publication: OutgoingPublication, reason: str) -> Settled:
        if publication.id:
            del self._wire[publication.id]
        else:
            (self._again if publication in self._again else self._rest).remove(publication)
        self._forget(publication)
        if publication.sent:
            return Settled(publication, "unknown", reason)
        return Settled(publication, "not_ready" if publication.not_ready else "failed", reason, answered=False)

    def _forget(self, publication: OutgoingPublication) -> None:
        del self._all[publication]
        self._bytes -= publication.size


def _size(publication: OutgoingPublication) -> int:
    """Return the size of content and fields in bytes.

    Raises Invalid, which names the part, for half a character anywhere, and TypeError for what is neither text nor
    bytes: it could not be sent later.
    """
    check_text("the subject", publication.subject)
    check_text("reply_to", publication.reply_to)
    check_text("closure", publication.closure)
    check_values(publication.content, publication.fields)
    values = (publication.content, *publication.fields, *publication.fields.values())
    return sum(len(value) if isinstance(value, bytes) else len(value.encode()) for value in values)
