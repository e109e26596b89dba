"""The window of a publisher: batches queued, sent and acknowledged, without I/O (protocol.md 6.2 to 6.4).

A batch is queued, then on the wire under a number of this connection, then acknowledged. When it is first sent its
rows get publication numbers, and keep them: a server stores a number once. When the connection is lost, all that is not
acknowledged goes back to the queue in its order. Rows answered ``unavailable`` (they may be stored), ``not_ready`` or
``out_of_order`` (they are not, and get new numbers, unless they were sent before and may be stored since) wait until
nothing is on the wire and are then sent again, before what came later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fastpath.core.protocol.errors import BadFrame
from fastpath.core.protocol.packets import pack

from ..errors import RefusedMessage
from ..message import Position

REFUSED_KEPT_MAX = 1000
"""Refusals that are kept one by one; the others are only counted."""

NOT_READY = "not_ready"
UNAVAILABLE = "unavailable"
OUT_OF_ORDER = "out_of_order"

Settled = Callable[[int, Position | RefusedMessage], None]
"""Function called with a row's index, counted as in RefusedMessage, and what became of the row."""

_INT = {int}

_encode_rows = msgspec.msgpack.Encoder().encode
_decode_rows = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


@dataclass(slots=True, eq=False)
class SentBatch:
    """Some rows and their indexes; ``alone`` keeps its results out of the totals, for a call that waits for it.

    ``number`` is the batch's on the connection, ``first`` the first row's publication number (protocol.md 6.2), 0
    while it has none. In ``doubt`` are rows that were sent before and of which nobody knows what came of that.
    """

    rows: bytes
    indexes: Sequence[int]
    alone: bool = False
    number: int = 0
    first: int = 0
    doubt: bool = False
    done: bool = False
    seq: int = 0
    refused: RefusedMessage | None = None


@dataclass(slots=True)
class Results:
    """The results of all rows since the last ``flush()``: how many were accepted, which were refused."""

    messages: int = 0
    accepted: int = 0
    refused_count: int = 0
    refused: list[RefusedMessage] = field(default_factory=list)
    epoch: int = 0

    def refuse(self, refusal: RefusedMessage) -> None:
        """Count a refusal, and keep it while there is room."""
        self.refused_count += 1
        if len(self.refused) < REFUSED_KEPT_MAX:
            self.refused.append(refusal)


class Window:
    """Batches queued, sent and not yet acknowledged, of which at most ``size`` are on the wire.

    Publications are numbered from ``first`` on. ``alone``: nobody else has used these numbers, so that what was stored
    too late for its number may have another.
    """

    def __init__(self, size: int, first: int = 1, on_settled: Settled | None = None, alone: bool = True) -> None:
        self.size = size
        self.results = Results()
        self.why_held = ""
        self._on_settled = on_settled
        self._again = {NOT_READY, UNAVAILABLE, OUT_OF_ORDER} if alone else {NOT_READY, UNAVAILABLE}
        self._next = first
        self._number = 0
        self._queued: deque[SentBatch] = deque()
        self._sent: deque[SentBatch] = deque()
        self._held: list[SentBatch] = []

    def submit(self, rows: bytes, count: int, alone: bool = False) -> SentBatch:
        """Queue rows, a MessagePack array of ``count``."""
        if alone:
            batch = SentBatch(rows, (0,), alone=True)
        else:
            first = self.results.messages
            batch = SentBatch(rows, range(first, first + count))
            self.results.messages += count
        self._queued.append(batch)
        return batch

    @property
    def all_sent(self) -> bool:
        """True when no batch is queued or held back."""
        return not self._queued and not self._held

    @property
    def idle(self) -> bool:
        """True when every batch is acknowledged."""
        return self.all_sent and not self._sent

    @property
    def holds(self) -> bool:
        """True when rows are held back and nothing is on the wire: time to pause, then ``release()``."""
        return bool(self._held) and not self._sent

    @property
    def unavailable(self) -> bool:
        """True when rows are held back that another server may be able to store."""
        return any(batch.first for batch in self._held)

    def take(self) -> bytes | None:
        """Return the next frame to send; None when the window is full, nothing is queued, or rows are held back."""
        if self._held or not self._queued or len(self._sent) >= self.size:
            return None
        batch = self._queued.popleft()
        self._number += 1
        batch.number = self._number
        if not batch.first:
            batch.first = self._next
            self._next += len(batch.indexes)
        self._sent.append(batch)
        return pack(["batch", batch.number, msgspec.Raw(batch.rows), batch.first])

    def acknowledge(self, number: int, epoch: int, results: Sequence[Any]) -> bool:
        """Take in an ``ack``; answers whether any row is settled by it. Raises BadFrame when it fits no batch."""
        if not self._sent or self._sent[0].number != number or len(self._sent[0].indexes) != len(results):
            raise BadFrame(f"an acknowledgement that fits no batch: {number}")
        batch = self._sent.popleft()
        self.results.epoch = epoch
        # The common case is that all are accepted, at positions of this epoch.
        if self._on_settled is None and not batch.alone and set(map(type, results)) <= _INT:
            self.results.accepted += len(results)
            batch.done = True
            return True
        held = [place for place, result in enumerate(results) if _code(result) in self._again]
        for place, result in enumerate(results):
            self._settle(batch, place, epoch, result)
        if held:
            self._hold(batch, held, results)
        else:
            batch.done = True
        return len(held) < len(results)

    def _settle(self, batch: SentBatch, place: int, epoch: int, result: Any) -> None:
        code = _code(result)
        if code in self._again:
            return
        outcome: Position | RefusedMessage
        if code:
            outcome = RefusedMessage(batch.indexes[place], code, result[1])
        elif isinstance(result, int):
            outcome = Position(epoch if result else 0, result)
        else:
            outcome = Position(*result)
        if batch.alone:
            if isinstance(outcome, Position):
                batch.seq = outcome.seq
            else:
                batch.refused = outcome
            return
        if isinstance(outcome, Position):
            self.results.accepted += 1
        else:
            self.results.refuse(outcome)
        if self._on_settled is not None:
            self._on_settled(batch.indexes[place], outcome)

    def _hold(self, batch: SentBatch, held: Sequence[int], results: Sequence[Any]) -> None:
        """Keep the rows at these places: those that may be stored in runs of their numbers, the others without one."""
        raw = _decode_rows(batch.rows)
        self.why_held = str(results[held[0]][1])
        runs: list[list[int]] = []
        new: list[int] = []
        for place in held:
            code = _code(results[place])
            # A server that is not ready has not looked whether a row is stored already.
            if code == OUT_OF_ORDER or (code == NOT_READY and not batch.doubt):
                new.append(place)
            elif runs and runs[-1][-1] == place - 1:
                runs[-1].append(place)
            else:
                runs.append([place])
        indexes, first = batch.indexes, batch.first
        for places, number in [*((run, first + run[0]) for run in runs), *([(new, 0)] if new else [])]:
            # A call that waits for a batch has one row, and waits for this very object.
            part = batch if batch.alone else SentBatch(b"", ())
            part.rows = _encode_rows([raw[place] for place in places])
            part.indexes = [indexes[place] for place in places]
            part.first, part.doubt = number, number > 0
            self._held.append(part)

    def release(self) -> None:
        """Put the batches that were held back at the front of the queue."""
        self._return(self._held)
        self._held.clear()

    def rewind(self, size: int | None = None) -> None:
        """Begin on a new connection: what is not acknowledged is sent again, batches are counted from 1."""
        if size is not None:
            self.size = size
        for batch in self._sent:
            batch.doubt = True
        self._return([*self._sent, *self._held])
        self._sent.clear()
        self._held.clear()
        self._number = 0

    def _return(self, batches: Iterable[SentBatch]) -> None:
        """Put batches at the front of the queue: first those with numbers, which must rise, then those that get new
        ones."""
        waiting = [*batches, *self._queued]
        numbered = sorted((batch for batch in waiting if batch.first), key=lambda batch: batch.first)
        self._queued = deque([*numbered, *(batch for batch in waiting if not batch.first)])

    def collect(self) -> Results:
        """Return the results so far, and begin anew."""
        results, self.results = self.results, Results()
        return results


def _code(result: Any) -> str:
    """Return the code of a refusal; empty where the row was accepted."""
    return "" if isinstance(result, int) or isinstance(result[0], int) else str(result[0])
