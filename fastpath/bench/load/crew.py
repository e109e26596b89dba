"""A swarm spread over several processes: each has its part of the connections and counts what comes."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..machine.processes import open_files_most
from .dialects import Dialect
from .sockets import BenchError, Sockets
from .swarm import Swarm
from .team import GOING, MEASURING, STOP, Post, Team

ACTIVE, DELIVERED, CLOSED, FAILED, SLOTS = range(5)

STALLED_SECONDS = 60
FILES_LEFT = 600
"""Number of a process's open files that are not for connections."""


class Stopped(Exception):
    """The end came while connections were opened."""


def processes_for(connections: int) -> int:
    """Return how many processes so many connections take."""
    return -(-connections // (open_files_most() - FILES_LEFT))


class Crew(Swarm):
    """Drives like a swarm. Its own loop has only the publishers; ``poll`` adds up what the others have counted."""

    def __init__(
        self,
        dialect: Dialect,
        sockets: Sockets,
        plan: Sequence[Sequence[int]],
        *,
        processes: int,
        sample_every: int = 20,
        retries: int = 0,
    ) -> None:
        super().__init__(dialect, sockets, plan, sample_every=sample_every)
        self.team = Team(max(1, min(processes, len(plan))), SLOTS)
        self._sample_every = sample_every
        self._retries_each = retries
        self._seen = 0
        self._sampled = 0

    @property
    def sampled_count(self) -> int:
        return self._sampled

    def connect(self, per_second: float = 0, progress: Callable[[Swarm], None] | None = None) -> None:
        """Start the processes and wait until all of their connections are up; raises BenchError with what one says."""
        self.team.start(lambda post: self._work(post, per_second / self.team.count))
        last, up = time.monotonic(), 0
        while self.active < len(self.plan):
            self.epoll.poll(0.05)
            self._gather()
            if self.active != up:
                last, up = time.monotonic(), self.active
            elif time.monotonic() - last > STALLED_SECONDS:
                raise BenchError(f"{up} of {len(self.plan)} connections came up, then none for {STALLED_SECONDS} s")
            if progress is not None:
                progress(self)

    def poll(self, timeout: float) -> int:
        """Wait for the publishers' input, at most ``timeout`` s; return how many deliveries came meanwhile."""
        self.team.want(MEASURING if self.tally.measuring else GOING)
        before = self.delivered
        for fd, _ in self.epoll.poll(min(timeout, 0.02)):
            self.special[fd](fd)
        self._gather()
        return self.delivered - before

    def show_life(self) -> None:
        """Do nothing: the processes show it."""

    def collect(self) -> None:
        """End the processes and add up what they have found in the connections that they read in full."""
        for found in self.team.collect():
            self.tally.merge(found["tally"])
            self._sampled += found["sampled"]

    def close(self) -> None:
        self.team.close()
        self.epoll.close()

    def _gather(self) -> None:
        team = self.team
        self.active, self.closed = team.total(ACTIVE), team.total(CLOSED)
        total = team.total(DELIVERED)
        self.delivered += total - self._seen
        self._seen = total
        if team.total(FAILED):
            team.collect()

    def _work(self, post: Post, per_second: float) -> dict[str, Any]:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when it ends
        count, all_ = self.team.count, len(self.plan)
        part = range(post.number * all_ // count, (post.number + 1) * all_ // count)
        swarm = Swarm(
            self.dialect,
            self.sockets,
            self.plan[part.start : part.stop],
            first=part.start,
            sample_every=self._sample_every,
            retries=self._retries_each,
        )
        try:
            swarm.connect(per_second, lambda swarm: _connecting(swarm, post))
        except Stopped:
            return {"tally": swarm.tally.as_json(), "sampled": swarm.sampled_count}
        except BenchError:
            post.tell(FAILED, 1)
            raise
        second = time.monotonic()
        while (wanted := post.wanted) != STOP:
            if (wanted == MEASURING) != swarm.tally.measuring:
                swarm.tally.measuring = not swarm.tally.measuring
                if swarm.tally.measuring:
                    swarm.tally.latency.clear()
            swarm.poll(0.02)
            _tell(swarm, post)
            if time.monotonic() >= second:
                second += 1
                swarm.show_life()
        return {"tally": swarm.tally.as_json(), "sampled": swarm.sampled_count}


def _connecting(swarm: Swarm, post: Post) -> None:
    _tell(swarm, post)
    if post.wanted == STOP:
        raise Stopped


def _tell(swarm: Swarm, post: Post) -> None:
    post.tell(ACTIVE, swarm.active)
    post.tell(DELIVERED, swarm.delivered)
    post.tell(CLOSED, swarm.closed)
