"""Which plain client sockets can be read or written: one epoll for all of them, which the loop watches."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol

EVENTS_MAX = 256
"""Sockets served in one round of the loop, so that its other work has its turn."""

READY_SECONDS = 0.005
"""Seconds after which the others that were ready wait for the next round, too: what one costs is not always little."""

_IN, _OUT = 1, 4  # as in select.EPOLLIN and EPOLLOUT, which are not everywhere


class Reader(Protocol):
    """Reads for connections; one for many of them."""

    def receive(self, connection: Any) -> None:
        """Read from the connection's socket, which has bytes or its end."""


class Watched(Protocol):
    """A connection whose socket is watched; its ``socket`` reads for it."""

    ended: bool

    @property
    def socket(self) -> Reader:
        """Reader of the socket."""

    def writable(self) -> None:
        """Go on writing, as the socket takes bytes again."""


class EpollPoller:
    """All sockets in one epoll of ours: a socket costs eight bytes, and an event no handle or context of the loop's.

    ``end`` is called when the sockets that were ready have been served, ``clock`` tells seconds.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, end: Callable[[], None], clock: Callable[[], float] = perf_counter
    ) -> None:
        self._loop = loop
        self._end = end
        self._clock = clock
        self._watched: list[Watched | None] = []  # by descriptor
        self._left: list[tuple[int, int]] = []  # ready since the last round
        self._epoll = select.epoll()
        loop.add_reader(self._epoll.fileno(), self._ready)

    def add(self, fd: int, connection: Watched) -> None:
        """Watch a socket for bytes to read."""
        watched = self._watched
        if fd >= len(watched):
            watched.extend([None] * (fd + 1 - len(watched)))
        watched[fd] = connection
        self._epoll.register(fd, _IN)

    def change(self, fd: int, reading: bool, writing: bool) -> None:
        """Watch for bytes to read, for room to write, or for both; neither leaves only the end to be seen."""
        self._epoll.modify(fd, (_IN if reading else 0) | (_OUT if writing else 0))

    def forget(self, fd: int) -> None:
        """Forget a socket that is about to be closed, by which the kernel forgets it."""
        self._watched[fd] = None

    def stop(self) -> None:
        """Watch nothing any more."""
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def _ready(self) -> None:
        if self._epoll.closed:
            return
        watched, clock = self._watched, self._clock
        ready, self._left = self._left or self._epoll.poll(0, EVENTS_MAX), []
        due = clock() + READY_SECONDS
        for at, (fd, events) in enumerate(ready):
            if at and clock() >= due:
                # First of all in the next round: the epoll would begin with the same ones again. The loop comes by
                # itself, as the epoll is ready while one of its sockets is; called once more, this would be served
                # twice a round, and what is left by both would add to that from round to round.
                self._left = ready[at:]
                break
            connection = watched[fd]
            if connection is None:
                continue  # closed while another was served
            if events == _IN:  # as nearly always
                connection.socket.receive(connection)
                continue
            if events & _OUT:
                connection.writable()
                if connection.ended:
                    continue
            if events != _OUT:
                connection.socket.receive(connection)
        self._end()


class LoopWatch(EpollPoller):
    """A watch without epoll (macOS): each socket is with the loop itself, at a KiB and some time more.

    The loop calls for each socket by itself, and a round is what it does between two calls of ``_round``.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, end: Callable[[], None], clock: Callable[[], float] = perf_counter
    ) -> None:
        self._loop = loop
        self._end = end
        self._clock = clock
        self._connections: dict[int, Watched] = {}
        self._wanted: dict[int, int] = {}
        self._due: float | None = None  # None: nothing was served in this round
        self._room = 0  # how many more this round may serve
        self._served: set[tuple[int, int]] = set()  # since a round began with nobody left
        self._late: dict[tuple[int, int], None] = {}  # ready, and left for the next round

    def add(self, fd: int, connection: Watched) -> None:
        """Watch a socket for bytes to read."""
        self._connections[fd] = connection
        self.change(fd, True, False)

    def change(self, fd: int, reading: bool, writing: bool) -> None:
        """Watch for bytes to read, for room to write, or for both."""
        self._wanted[fd] = (_IN if reading else 0) | (_OUT if writing else 0)
        if reading:
            self._loop.add_reader(fd, self._ready_for, fd, _IN)
        else:
            self._loop.remove_reader(fd)
        if writing:
            self._loop.add_writer(fd, self._ready_for, fd, _OUT)
        else:
            self._loop.remove_writer(fd)

    def forget(self, fd: int) -> None:
        """Forget a socket that is about to be closed."""
        self._loop.remove_reader(fd)
        self._loop.remove_writer(fd)
        del self._connections[fd], self._wanted[fd]

    def stop(self) -> None:
        """Watch nothing any more."""
        for fd in list(self._connections):
            self.forget(fd)

    def _ready_for(self, fd: int, event: int) -> None:
        """Serve it, but not again before those who are left; what is not served is ready in the next round as well."""
        if not self._wanted.get(fd, 0) & event or (fd, event) in self._served:
            return
        if self._due is None:
            self._due, self._room = self._clock() + READY_SECONDS, EVENTS_MAX
            self._loop.call_soon(self._round)
        elif not self._room or self._clock() >= self._due:
            self._late[fd, event] = None
            return
        self._room -= 1
        self._served.add((fd, event))
        connection = self._connections[fd]
        if event == _OUT:
            connection.writable()
        else:
            connection.socket.receive(connection)
        self._end()

    def _round(self) -> None:
        """Begin a round, with those that the last one had no time for: the loop may call for the same ones first."""
        late = [(fd, event) for fd, event in self._late if self._wanted.get(fd, 0) & event]
        self._late, self._due = {}, None
        if not late:
            self._served.clear()
        for fd, event in late:
            self._ready_for(fd, event)


def make_watch(loop: asyncio.AbstractEventLoop, end: Callable[[], None]) -> EpollPoller:
    """Make the best kind that this system has."""
    return (EpollPoller if hasattr(select, "epoll") else LoopWatch)(loop, end)
