"""What a publisher has sent and what came of it, without I/O (protocol.md 6.2 to 6.4).

A batch is queued, then on the wire under a number of this connection, then acknowledged. When the connection
is lost, all that is not acknowledged goes back to the queue in its order. Rows answered ``not_ready`` wait
until nothing is on the wire and are then sent again, before what came later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fastpath.core.errors import BadFrame
from fastpath.core.packets import pack

from .errors import RefusedMessage

REFUSED_KEPT_MAX = 1000
"""Refusals that are kept one by one; the others are only counted."""

NOT_READY = "not_ready"

_encode_rows = msgspec.msgpack.Encoder().encode
_decode_rows = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


@dataclass(slots=True, eq=False)
class Batch:
    """Some rows and their indexes; ``alone`` keeps its results out of the totals, for a call that waits for it."""

    rows: bytes
    indexes: Sequence[int]
    alone: bool = False
    number: int = 0
    done: bool = False
    seq: int = 0
    refused: RefusedMessage | None = None


@dataclass(slots=True)
class Results:
    """What came of all that was sent since the last ``flush()``."""

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
    """At most ``size`` batches without acknowledgement."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.results = Results()
        self._number = 0
        self._queued: deque[Batch] = deque()
        self._sent: deque[Batch] = deque()
        self._held: list[Batch] = []

    def submit(self, rows: bytes, count: int, alone: bool = False) -> Batch:
        """Queue rows, a MessagePack array of ``count``."""
        if alone:
            batch = Batch(rows, (0,), alone=True)
        else:
            first = self.results.messages
            batch = Batch(rows, range(first, first + count))
            self.results.messages += count
        self._queued.append(batch)
        return batch

    @property
    def all_sent(self) -> bool:
        """Whether nothing waits for its turn."""
        return not self._queued and not self._held

    @property
    def idle(self) -> bool:
        """Whether everything is acknowledged."""
        return self.all_sent and not self._sent

    @property
    def holds(self) -> bool:
        """Whether rows were answered ``not_ready`` and nothing is on the wire: time to pause, then ``release()``."""
        return bool(self._held) and not self._sent

    def take(self) -> bytes | None:
        """The next frame to send; None when the window is full, nothing is queued, or rows are held back."""
        if self._held or not self._queued or len(self._sent) >= self.size:
            return None
        batch = self._queued.popleft()
        self._number += 1
        batch.number = self._number
        self._sent.append(batch)
        return pack(["batch", batch.number, msgspec.Raw(batch.rows)])

    def acknowledge(self, number: int, epoch: int, results: Sequence[Any]) -> bool:
        """Take in an ``ack``; answers whether any row is settled by it. Raises BadFrame when it fits no batch."""
        if not self._sent or self._sent[0].number != number or len(self._sent[0].indexes) != len(results):
            raise BadFrame(f"an acknowledgement that fits no batch: {number}")
        batch = self._sent.popleft()
        self.results.epoch = epoch
        again = [
            place for place, result in enumerate(results) if not isinstance(result, int) and result[0] == NOT_READY
        ]
        settled = len(results) - len(again)
        if batch.alone:
            self._settle_alone(batch, results[0])
        else:
            self._settle(batch, results)
        if again:
            raw = _decode_rows(batch.rows)
            batch.rows = _encode_rows([raw[place] for place in again])
            batch.indexes = [batch.indexes[place] for place in again]
            self._held.append(batch)
        else:
            batch.done = True
        return settled > 0

    def _settle(self, batch: Batch, results: Sequence[Any]) -> None:
        refused = [place for place, result in enumerate(results) if not isinstance(result, int)]
        self.results.accepted += len(results) - len(refused)
        for place in refused:
            code, reason = results[place]
            if code != NOT_READY:
                self.results.refuse(RefusedMessage(batch.indexes[place], code, reason))

    def _settle_alone(self, batch: Batch, result: Any) -> None:
        if isinstance(result, int):
            batch.seq = result
        elif result[0] != NOT_READY:
            batch.refused = RefusedMessage(0, result[0], result[1])

    def release(self) -> None:
        """What was held back goes to the front of the queue."""
        self._queued.extendleft(reversed(self._held))
        self._held.clear()

    def rewind(self, size: int | None = None) -> None:
        """A new connection: what is not acknowledged is sent again, numbers begin at 1."""
        if size is not None:
            self.size = size
        self._queued.extendleft(reversed(self._sent))
        self._sent.clear()
        self.release()
        self._number = 0

    def collect(self) -> Results:
        """The results so far, and begin anew."""
        results, self.results = self.results, Results()
        return results
