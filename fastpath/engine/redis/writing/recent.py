"""What was acknowledged a moment ago, so that it can be stored once more should a primary come back without it.

With ``appendfsync everysec`` Redis answers before a write is in the file when the disk is busy, for up to two seconds.
A primary that crashes then and is back before the Sentinels act has lost that, and its replicas follow it. Whoever
acknowledged it still has it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from redis.exceptions import ResponseError

from ..connection import RedisLink
from ..entries import log_key
from .publication_queue import StoreBatch

KEPT_SECONDS = 4.0
KEPT_BYTES_MAX = 64 << 20
CHECK_SECONDS = 1.0


class Recent:
    """The batches of the last seconds, as they were sent."""

    def __init__(self, prefix: str, clock: Callable[[], float]) -> None:
        self._prefix = prefix
        self._clock = clock
        self._kept: deque[tuple[float, StoreBatch]] = deque()
        self._bytes = 0

    def add(self, batch: StoreBatch) -> None:
        """Add a publication that has just been acknowledged; makes older ones forgotten."""
        now = self._clock()
        # Neither the messages nor who waits for them is needed any more.
        kept = StoreBatch([], [], batch.since, batch.packed, epoch=batch.epoch, ends=batch.ends)
        self._kept.append((now, kept))
        self._bytes += _size(kept)
        while self._kept[0][0] < now - KEPT_SECONDS or self._bytes > KEPT_BYTES_MAX:
            self._bytes -= _size(self._kept.popleft()[1])

    async def lost(self, link: RedisLink, epoch: int) -> list[StoreBatch]:
        """Take out all recent batches if the primary, in a newer epoch, lacks any; raises one of ``AWAY``."""
        ends = {group: (batch.epoch, n) for _, batch in self._kept for group, n in batch.ends.items()}
        if not ends or all(of == epoch for of, _ in ends.values()):
            return []
        asked = [(log_key(self._prefix, group), f"{of}-{n}") for group, (of, n) in ends.items()]
        answers = await link.ask(*(("XRANGE", key, place, place) for key, place in asked), seconds=CHECK_SECONDS)
        for answer in answers:
            if isinstance(answer, ResponseError):
                raise answer
        if all(answers):  # a log loses its end only, so what comes before is there too
            return []
        lost = [batch for _, batch in self._kept]
        self._kept.clear()
        self._bytes = 0
        return lost


def _size(batch: StoreBatch) -> int:
    return sum(map(len, batch.packed))
