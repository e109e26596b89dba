"""Which plain client sockets can be read or written: one epoll for all of them, which the loop watches."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from time import perf_counter
from typing import Protocol

EVENTS_MAX = 256
"""Sockets served in one turn of the loop, so that its other work has its turn."""

READY_SECONDS = 0.005
"""After so long the others that were ready wait for the next turn, too: what one costs is not always little."""

_IN, _OUT = 1, 4  # as in select.EPOLLIN and EPOLLOUT, which are not everywhere


class Watched(Protocol):
    """A connection whose socket is watched."""

    ended: bool

    def readable(self) -> None:
        """Read from the socket, which has bytes or its end."""

    def writable(self) -> None:
        """The socket takes bytes again."""


class EpollPoller:
    """All sockets in one epoll of ours: a socket costs eight bytes, and an event no handle or context of the loop's.

    ``end`` is called when the sockets that were ready have been served.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, end: Callable[[], None]) -> None:
        self._loop = loop
        self._end = end
        self._watched: list[Watched | None] = []  # by descriptor
        self._left: list[tuple[int, int]] = []  # ready since the last turn
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
        """The socket is about to be closed, by which the kernel forgets it."""
        self._watched[fd] = None

    def stop(self) -> None:
        """Watch nothing any more."""
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def _ready(self) -> None:
        if self._epoll.closed:
            return
        watched = self._watched
        ready, self._left = self._left or self._epoll.poll(0, EVENTS_MAX), []
        due = perf_counter() + READY_SECONDS
        for at, (fd, events) in enumerate(ready):
            if perf_counter() >= due and at:
                # First of all in the next turn: the epoll would begin with the same ones again.
                self._left = ready[at:]
                self._loop.call_soon(self._ready)
                break
            connection = watched[fd]
            if connection is None:
                continue  # closed while another was served
            if events != _IN and events & _OUT:
                connection.writable()
                if connection.ended:
                    continue
            if events != _OUT:
                connection.readable()
        self._end()


class LoopWatch(EpollPoller):
    """A watch without epoll (macOS): each socket is with the loop itself, at a KiB and some time more."""

    def __init__(self, loop: asyncio.AbstractEventLoop, end: Callable[[], None]) -> None:
        self._loop = loop
        self._end = end
        self._connections: dict[int, Watched] = {}

    def add(self, fd: int, connection: Watched) -> None:
        """Watch a socket for bytes to read."""
        self._connections[fd] = connection
        self.change(fd, True, False)

    def change(self, fd: int, reading: bool, writing: bool) -> None:
        """Watch for bytes to read, for room to write, or for both."""
        connection = self._connections[fd]
        if reading:
            self._loop.add_reader(fd, self._serve, connection.readable)
        else:
            self._loop.remove_reader(fd)
        if writing:
            self._loop.add_writer(fd, self._serve, connection.writable)
        else:
            self._loop.remove_writer(fd)

    def forget(self, fd: int) -> None:
        """The socket is about to be closed."""
        self._loop.remove_reader(fd)
        self._loop.remove_writer(fd)
        del self._connections[fd]

    def stop(self) -> None:
        """Watch nothing any more."""
        for fd in list(self._connections):
            self.forget(fd)

    def _serve(self, handler: Callable[[], None]) -> None:
        handler()
        self._end()


def make_watch(loop: asyncio.AbstractEventLoop, end: Callable[[], None]) -> EpollPoller:
    """The best kind that this system has."""
    return (EpollPoller if hasattr(select, "epoll") else LoopWatch)(loop, end)
