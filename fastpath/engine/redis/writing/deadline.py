"""The time after which Redis refuses a batch: what was given up must not be stored when the network comes back.

A command that was sent lies in the buffers of kernels and of networks while its connection is cut, and Redis executes
it when the cut heals, even if the node has closed that connection long before. Its publishers were told meanwhile that
it was not stored, and have gone on through other nodes: stored now, it would stand behind what came after it. Each
batch therefore names a time on the clock of the Redis that is asked, and no batch is given up before its time is over.
"""

from __future__ import annotations

from collections.abc import Callable


class BatchDeadline:
    """The deadline of batches that Redis was sent and has not answered, on its own clock and on the node's.

    ``now`` is the clock of the node, in seconds. The clock of Redis is reckoned from the times that it tells with its
    answers, on the early side: what an answer was under way counts as time gone by. A clock that was set forward costs
    one refusal, which tells the new time.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._ahead: float | None = None  # ms since 1970 on the clock of Redis, less ms of the node's clock
        self._sent = 0.0  # when the batch that waits for its answer is over
        self._unanswered = 0.0  # when all those that got no answer are over

    @property
    def left(self) -> float:
        """Seconds until Redis refuses whatever it was sent and has not executed yet; 0 if it does."""
        return max(0.0, self._sent - self._now(), self._unanswered - self._now())

    def forget(self) -> None:
        """Forget the clock: another server may be asked from now on."""
        self._ahead = None

    def set(self, seconds: float) -> int:
        """Return the time on the clock of Redis in so many seconds, in ms since 1970; 0 if the clock is not known."""
        self._unanswered = max(self._unanswered, self._sent)
        self._sent = self._now() + seconds
        return 0 if self._ahead is None else int(self._ahead + self._sent * 1000)

    def answered(self, time: int) -> None:
        """Note an answer to what was sent last; ``time`` is what Redis told of its clock (ms since 1970), or 0."""
        self._sent = 0.0
        if time:
            self._ahead = time - self._now() * 1000
