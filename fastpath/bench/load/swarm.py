"""Thousands of simulated subscribers in one process: every delivery is counted, a sample is read in full."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable, Sequence

from fastpath.core.websocket.frames import PONG

from . import payload
from .dialects import Dialect
from .peer_dialects import masked
from .sockets import BenchError, Sockets
from .tracks import FrameTrack, Tally, Track

READ_BYTES = 64 << 10
EVENTS_MAX = 2048

OPENING_MAX = 256
"""Connections that are being opened at the same time."""

STALLED_SECONDS = 20
"""Seconds without a further connection that came up after which that is an error."""

LIFE_SECONDS = 20
"""Each connection says this often that it lives, as answers to the server's pings do."""

Handler = Callable[[int], int]
"""Function that is called when a descriptor is ready, and answers how many deliveries came."""


class Swarm:
    """``plan`` has the subjects of each connection, ``numbers`` begin at ``first`` (over several processes).

    Every ``sample_every``-th connection is read in full, and so are those in ``tracked`` (by index). Others are
    counted by the payloads' marker. ``special`` holds what is not simply counted: connections that are opening, those
    read in full, one whose marker was cut by a read, and whoever else shares the loop. Up to ``retries`` connections
    that do not come up are opened again: a worker that is full closes its port, and what waited there is refused.
    """

    def __init__(
        self,
        dialect: Dialect,
        sockets: Sockets,
        plan: Sequence[Sequence[int]],
        *,
        first: int = 0,
        sample_every: int = 20,
        tracked: Iterable[int] = (),
        retries: int = 0,
    ) -> None:
        self.dialect = dialect
        self.sockets = sockets
        self.plan = plan
        self.first = first
        self.epoll = _epoll()
        self.special: dict[int, Handler] = {}
        self.tally = Tally()
        self.delivered = 0
        self.bytes = 0
        self.active = 0
        self.closed = 0
        self.faults: list[str] = []
        self.fds: dict[int, int] = {}
        self.retries = retries
        self._again: list[int] = []
        self.sampled = set(range(0, len(plan), sample_every)) | set(tracked)
        self.tracks: dict[int, Track] = {}
        self._prepared: list[bytes] = []
        self._index: dict[int, int] = {}
        self._opening: dict[int, bytes] = {}
        self._carried: dict[int, int] = {}
        self._paused: set[int] = set()
        self._life = masked(PONG, b"") if dialect.name == "fastpath" else b""
        self._life_at = 0

    # Connecting

    def prepare(self) -> None:
        """Make what each connection says beforehand, tokens and all, so that connecting waits for the server alone."""
        names = [self.dialect.subject(s) for s in range(1 + max(max(subjects) for subjects in self.plan))]
        self._prepared = [
            self.dialect.preamble(self.first + index, [names[s] for s in subjects])
            for index, subjects in enumerate(self.plan)
        ]

    def connect(self, per_second: float = 0, progress: Callable[[Swarm], None] | None = None) -> None:
        """Open all, at most ``per_second`` (0: as fast as they come up); raises BenchError if one does not come up."""
        begin = moment = time.monotonic()
        up, last, life_at = self.active, begin, begin + 1
        opened = 0
        while opened < len(self.plan) or self._opening or self._again:
            while self._again and len(self._opening) < OPENING_MAX:
                self.open(self._again.pop())
            allowed = int((moment - begin) * per_second) + 1 if per_second else len(self.plan)
            while opened < min(allowed, len(self.plan)) and len(self._opening) < OPENING_MAX:
                self.open(opened)
                opened += 1
            self.poll(0.01 if per_second else 0.2)
            moment = time.monotonic()
            if moment >= life_at:
                life_at += 1
                self.show_life()
            if self.active != up:
                up, last = self.active, moment
            elif moment - last > STALLED_SECONDS:
                up_to = f"{self.active} of {len(self.plan)} connections came up"
                raise BenchError(f"{up_to}, then none for {STALLED_SECONDS} s")
            if self.closed:
                raise BenchError(
                    f"the server closed {self.closed} of {self.active} connections while others were opened"
                )
            if self.faults:
                raise BenchError(f"connection {self.active + 1} of {len(self.plan)}: {self.faults[0]}")
            if progress is not None:
                progress(self)

    def open(self, index: int, preamble: bytes | None = None) -> None:
        """Begin to open one connection; ``preamble`` is what it says instead of what its plan has."""
        fd = self.sockets.open(self.first + index)
        self.fds[index] = fd
        self._index[fd] = index
        if preamble is None and self._prepared:
            preamble = self._prepared[index]
        elif preamble is None:
            preamble = self.dialect.preamble(self.first + index, [self.dialect.subject(s) for s in self.plan[index]])
        self._opening[fd] = preamble
        self.special[fd] = self._connected
        self.epoll.register(fd, select.EPOLLOUT)

    def _connected(self, fd: int) -> int:
        fault = self.sockets.fault(fd)
        try:
            if fault or not self.sockets.shaken(fd):
                if fault:
                    self.refuse(fd, fault)
                else:
                    self.epoll.modify(fd, select.EPOLLIN)
                return 0
        except BenchError as error:
            self.refuse(fd, str(error))
            return 0
        self.epoll.modify(fd, select.EPOLLIN)
        names = [self.dialect.subject(s) for s in self.plan[self._index[fd]]]
        opening = self.dialect.opening(names, "")
        if opening:
            self.sockets.write_all(fd, opening)
        if self.dialect.upgrades:
            self.special[fd] = _AwaitedInput(self._upgraded, b"\r\n\r\n", self)
        elif self.dialect.greeting:
            self.special[fd] = _AwaitedInput(self._introduce, self.dialect.greeting, self)
        else:
            self._introduce(fd, b"")
        return 0

    def _upgraded(self, fd: int, data: bytes) -> int:
        head, _, rest = data.partition(b"\r\n\r\n")
        if b" 101 " not in head[:16]:
            self.refuse(fd, f"the server answered {head[:80].decode(errors='replace')!r}")
            return 0
        return self._introduce(fd, rest)

    def _introduce(self, fd: int, rest: bytes) -> int:
        preamble = self._opening[fd]
        if preamble:
            self.dialect.say(self.sockets, fd, preamble, rest)
        index = self._index[fd]
        if index in self.sampled and index not in self.tracks:
            self.tracks[index] = self.dialect.track(self.tally)
        if self.dialect.settled:
            self.special[fd] = answer = _AwaitedInput(self._settled, self.dialect.settled, self)
            return answer.more(fd, rest)
        return self._settled(fd, rest)

    def _settled(self, fd: int, data: bytes) -> int:
        """Note that the connection's subscriptions are in force; what came with the answer counts."""
        del self._opening[fd]
        if self.dialect.refused and self.dialect.refused in data:
            self.refuse(fd, f"a subscription was refused: {data[:300].decode(errors='replace')}")
            return 0
        self.active += 1
        track = self.tracks.get(self._index[fd])
        if track is not None:
            self.special[fd] = self._tracked
            return track.feed(data, time.monotonic_ns())
        del self.special[fd]
        return self._counted(fd, data)

    def refuse(self, fd: int, why: str) -> None:
        """Note that a connection did not come up."""
        if self.retries:
            self.retries -= 1
            self._again.append(self._index[fd])
        else:
            self.faults.append(why)
        self._opening.pop(fd, None)
        self._forget(fd)

    # Deliveries

    def poll(self, timeout: float) -> int:
        """Wait up to ``timeout`` s for input and take it; return how many deliveries came."""
        special, read, marker = self.special, self.sockets.read, payload.MARKER
        total = size = 0
        for fd, _ in self.epoll.poll(timeout, EVENTS_MAX):
            handler = special.get(fd)
            if handler is not None:
                total += handler(fd)
                continue
            try:
                data = read(fd, READ_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            size += len(data)
            count = data.count(marker)
            if count == 0 or data.endswith(b"~"):
                count = self._counted(fd, data) if data else self._end(fd)
            total += count
        self.delivered += total
        self.bytes += size
        return total

    def receive(self, fd: int) -> bytes | None:
        """Return what a special descriptor has to read: None for nothing yet, empty at its end."""
        try:
            data = self.sockets.read(fd, READ_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            return b""
        self.bytes += len(data)
        return data

    def _counted(self, fd: int, data: bytes) -> int:
        """Count what came of a connection that is only counted, where a marker may be cut or there may be none."""
        count, carried = payload.count_after(self._carried.pop(fd, 0), data)
        if carried:
            self._carried[fd] = carried
            self.special[fd] = self._cut
        return count

    def _cut(self, fd: int) -> int:
        data = self.receive(fd)
        if data is None:
            return 0
        self.special.pop(fd, None)
        if not data:
            return self._end(fd)
        return self._counted(fd, data)

    def _tracked(self, fd: int) -> int:
        data = self.receive(fd)
        if data is None:
            return 0
        if not data:
            return self._end(fd)
        track = self.tracks[self._index[fd]]
        count = track.feed(data, time.monotonic_ns())
        if track.close_code:
            self._end(fd)  # a client that reads its close code goes
        return count

    def _end(self, fd: int) -> int:
        self.closed += 1
        self.active -= 1
        self._forget(fd)
        return 0

    def _forget(self, fd: int) -> None:
        self.special.pop(fd, None)
        self._carried.pop(fd, None)
        index = self._index.pop(fd)
        del self.fds[index]
        if index not in self._paused:
            self.epoll.unregister(fd)
        self._paused.discard(index)
        self.sockets.close(fd)

    # What clients do besides reading

    def pause(self, indexes: Iterable[int]) -> None:
        """Let these connections stop reading."""
        for index in indexes:
            self._paused.add(index)
            self.epoll.unregister(self.fds[index])

    def resume(self, indexes: Iterable[int]) -> None:
        """Let these connections read again."""
        for index in indexes:
            self._paused.discard(index)
            self.epoll.register(self.fds[index], select.EPOLLIN)

    def drop(self, indexes: Iterable[int]) -> None:
        """Drop these connections at once, as when a network breaks."""
        for index in indexes:
            fd = self.fds.get(index)
            if fd is not None and fd not in self._opening:
                self.active -= 1
                self._forget(fd)

    def come_back(self, indexes: Iterable[int]) -> None:
        """Open dropped or closed connections again, with their positions where they were read in full."""
        for index in indexes:
            track = self.tracks.get(index)
            if isinstance(track, FrameTrack):
                names = [self.dialect.subject(s) for s in self.plan[index]]
                since = track.positions
                track.reopened()
                self.open(index, self.dialect.preamble(self.first + index, names, since))  # type: ignore[call-arg]
            else:
                self.open(index)

    @property
    def sampled_count(self) -> int:
        """Connections that are read in full."""
        return len(self.tracks)

    def show_life(self) -> None:
        """Have every connection show within LIFE_SECONDS that it lives (protocol.md 3.6); this is called about once a
        second."""
        if not self._life:
            return
        self._life_at = (self._life_at + 1) % LIFE_SECONDS
        for index, fd in self.fds.items():
            if index % LIFE_SECONDS == self._life_at and fd not in self._opening and index not in self._paused:
                try:
                    self.sockets.write(fd, self._life)
                except OSError:
                    continue

    def close(self) -> None:
        """Close every connection."""
        for index in list(self.fds):
            fd = self.fds[index]
            self._opening.pop(fd, None)
            self._forget(fd)
        self.epoll.close()


class _AwaitedInput:
    """Collects input until something has come, then hands all of it on."""

    def __init__(self, then: Callable[[int, bytes], int], wanted: bytes, swarm: Swarm) -> None:
        self._then = then
        self._wanted = wanted
        self._swarm = swarm
        self._data = b""

    def __call__(self, fd: int) -> int:
        data = self._swarm.receive(fd)
        if data is None:
            return 0
        if not data:
            self._swarm.refuse(fd, f"closed before it answered: {self._data[-200:].decode(errors='replace')}")
            return 0
        return self.more(fd, data)

    def more(self, fd: int, data: bytes) -> int:
        """Take further input."""
        self._data += data
        return self._then(fd, self._data) if self._wanted in self._data else 0


def _epoll() -> select.epoll:
    if not hasattr(select, "epoll"):
        raise BenchError("the load generator needs Linux: it waits with epoll")
    return select.epoll()
