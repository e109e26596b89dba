"""A connection has a socket and is none: those of a port share one object, and each is read and written by its own."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fastpath.edge.clients.client_socket import ClientSocket
from fastpath.edge.clients.connection import ClientConnection
from fastpath.edge.clients.plain_transport import PlainConnection, PlainSockets
from fastpath.edge.clients.poll_connection import PollAnswers
from fastpath.edge.runtime.epoll import Watched
from fastpath.listen_address import Listener

LISTENER = cast(Listener, SimpleNamespace(purposes=frozenset({"clients"})))


class Noting:
    """Notes what is to be watched."""

    def __init__(self) -> None:
        self.notes: list[tuple[Any, ...]] = []

    def add(self, fd: int, connection: Watched) -> None:
        self.notes.append(("add", fd))

    def change(self, fd: int, reading: bool, writing: bool) -> None:
        self.notes.append((fd, reading, writing))

    def forget(self, fd: int) -> None:
        self.notes.append(("forget", fd))


class Plain:
    """A connection that keeps what it is told."""

    def __init__(self, fd: int, answers: bool = False) -> None:
        self.fd, self.held, self.writing, self.ended = fd, 0, False, False
        self.told: list[bytes | str] = []
        self.answers = answers

    def received(self, data: bytes) -> None:
        self.told.append(data)

    def still_answers(self) -> bool:
        return self.answers

    def lost(self) -> None:
        self.told.append("lost")

    @property
    def socket(self) -> ClientSocket[Any]:
        raise AssertionError("nobody watches it")

    def writable(self) -> None: ...


@pytest.fixture
def peers() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def test_a_connection_is_one_class_and_no_kind_of_socket() -> None:
    assert ClientConnection.__mro__ == (ClientConnection, object), "one class, of no chain"
    below = [kind for kind in ClientConnection.__subclasses__() if kind.__module__.startswith("fastpath.")]
    assert below == []
    assert issubclass(PollAnswers, ClientSocket), "who polls has a socket as everybody has"


def test_one_object_is_the_socket_of_all_of_a_port(peers: tuple[socket.socket, socket.socket]) -> None:
    watch = Noting()
    sockets = PlainSockets(watch, LISTENER)
    ours, theirs = peers
    here, there = Plain(ours.fileno()), Plain(theirs.fileno())
    for one in (here, there):
        sockets.begin(cast(PlainConnection, one))
    assert watch.notes == [("add", ours.fileno()), ("add", theirs.fileno())]
    assert (sockets.send(here, b"to there"), sockets.send(there, b"to here")) == (8, 7)
    for one in (here, there):
        sockets.receive(one)
    assert (here.told, there.told) == ([b"to here"], [b"to there"])
    assert sockets.listener is LISTENER


def test_a_full_socket_takes_none_and_a_broken_one_says_so(peers: tuple[socket.socket, socket.socket]) -> None:
    watch = Noting()
    sockets = PlainSockets(watch, LISTENER)
    ours, theirs = peers
    here = Plain(ours.fileno())
    while sockets.send(here, b"x" * 100_000):
        pass
    sockets.await_writable(here, True)
    sockets.await_writable(here, True)
    here.held = 1
    sockets.await_readable(here, False)
    assert watch.notes == [(here.fd, True, True), (here.fd, False, True)]
    theirs.close()
    assert sockets.send(here, b"x") == -1
    here.ended = True
    sockets.await_writable(here, False)
    assert (sockets.send(here, b"x"), len(watch.notes)) == (-1, 2)


@pytest.mark.parametrize("answers", [False, True])
def test_who_says_nothing_more_is_lost_unless_it_is_answered(
    peers: tuple[socket.socket, socket.socket], answers: bool
) -> None:
    sockets = PlainSockets(Noting(), LISTENER)
    ours, theirs = peers
    here = Plain(ours.fileno(), answers)
    sockets.receive(here)
    assert here.told == []
    theirs.shutdown(socket.SHUT_WR)
    select.select([ours], [], [], 1)
    sockets.receive(here)
    assert here.told == ([] if answers else ["lost"])
    sockets.finish(here)
    assert theirs.recv(10) == b""
