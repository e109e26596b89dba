"""A group of thousands of sockets is written over several turns, and everybody else has theirs between."""

from __future__ import annotations

import socket
from contextlib import ExitStack

from fastpath.core.protocol.messages import Message, Subscribe
from fastpath.edge.runtime.socket_writer import SocketWriter
from tests.support.core.stage import Stage

MEMBERS = 5000


def test_a_large_group_is_written_over_several_turns() -> None:
    """Real sockets: after one turn some have nothing yet, a small group has its own, and in the end all have it."""
    stage = Stage()
    with ExitStack() as stack:
        far: list[socket.socket] = []
        for number in range(MEMBERS + 1):
            ours, theirs = (stack.enter_context(one) for one in socket.socketpair())
            ours.setblocking(False)
            theirs.setblocking(False)
            far.append(theirs)
            actor = stage.enter(f"client {number}")
            actor.client.slot_key = ours.fileno()
            subject = "/s/large" if number < MEMBERS else "/s/small"
            actor.say(Subscribe(id=1, subjects=[subject]))
        stage.broker.writer = SocketWriter()
        stage.broker.publish(None, [Message("/s/large", "x" * 100), Message("/s/small", "y")], stage.now)
        stage.broker.flush()
        assert read(far[-1]), "the small group waits for nobody"
        assert 0 < sum(map(bool, map(read, far[:-1]))) < MEMBERS
        assert stage.broker.counters.messages_out < MEMBERS
        turns = 1
        while stage.broker.writing.behind:
            stage.broker.flush()
            turns += 1
        assert turns > 1
        assert stage.broker.counters.messages_out == MEMBERS + 1


def read(sock: socket.socket) -> bytes:
    """What has come."""
    try:
        return sock.recv(4096)
    except BlockingIOError:
        return b""
