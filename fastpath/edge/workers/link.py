"""One end of the link between two workers: packets in order over a unix socket, and a copy that is given in slices."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from ...awake import AwakeClock
from ...core.broker.state_transfer import Copy, rights_in_chunks
from ...core.protocol.packets import Log, Unpacker
from ..node.messages import Packet, Parts, RightsBegin, RightsChunk, RightsCommit, decode, encode
from ..runtime import kernel_stats
from ..runtime.runtime import Runtime

LINK_BYTES_MAX = 64 << 20
"""Bytes that may wait unsent for a worker that does not read, beside its largest packet; above them the link is cut."""

HOLD_BYTES = 8 << 20
"""Bytes that may wait for a worker that reads before nothing is taken from those who publish; at half of them they go
on."""

STUCK_SECONDS = 1.0
"""A worker that has neither taken nor said anything for so long holds nobody back: it is on its way to being cut."""

COPY_BYTES = HOLD_BYTES // 4 * 3
"""A copy goes on while no more waits: so it gets its share also beside a log that never ends."""

RIGHTS_BYTES = 2 * HOLD_BYTES
"""Rights go on while no more waits: never behind a log, but a set that is larger than a link holds does not fill it."""

PACKET_BYTES_MAX = 1 << 30
"""No packet comes near it: it is there to notice a stream that is not one of packets."""

SLICE_BYTES = 128 << 10
"""Bytes of a copy that are sent in one turn of the loop, about a millisecond's work."""

SHARE = 0.5
"""More slices follow in the same turn, for so much of the time for which the turn was waited for: where a turn is long,
because who publishes at full speed has filled it, the copy still has a third of this worker's time."""

READ_BYTES_MAX = 256 << 10
BUFFER_BYTES = 1 << 20
"""Bytes that the kernel may hold of a link, as far as it lets us."""

log = logging.getLogger("fastpath.links")


class LinkSocket:
    """A connected unix socket; ``lost`` is called once, in a later turn of the loop, when it is over.

    ``taken`` is called when the other side has taken something that waited, and when ``holds`` changes: whether so much
    waits that those who publish have to. One that ``follows`` reads a log, and waits for the first worker for as long
    as that lasts: without it nothing can be published.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        received: Callable[[Packet | Log], None],
        lost: Callable[[str], None],
        taken: Callable[[], None] = lambda: None,
        *,
        follows: bool = False,
        clock: AwakeClock | None = None,
    ) -> None:
        self._loop = loop
        self._clock = clock or AwakeClock(0, 0)  # who follows judges nobody
        self._sock = sock
        self._received = received
        self._lost = lost
        self._taken = taken
        self._patient = follows
        self._unpacker = Unpacker(PACKET_BYTES_MAX, decode)
        self._out: deque[bytes] = deque()
        self._sent = 0  # of the first in ``_out``
        self._blocked = self._broken = False
        self._looking = self._stuck = False
        self._reading = True
        self._taken_at = 0.0
        self._largest = 0  # bytes of the largest packet since nothing waited
        self.waiting = 0
        self.holds = False
        self.closed = False
        sock.setblocking(False)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
        loop.add_reader(sock.fileno(), self._readable)

    def send(self, packet: Packet) -> None:
        """Queue a packet for the next ``flush``."""
        self.push(encode(packet))

    def push(self, data: bytes) -> None:
        """Queue whole packets, whose bytes may be shared with other links."""
        if not self.closed and not self._broken:
            self._out.append(data)
            self.waiting += len(data)
            self._largest = max(self._largest, len(data))

    def flush(self) -> None:
        """Write what is queued, as far as the socket takes it; the rest follows by itself. Over the bound it is cut."""
        if self.closed:
            return
        if not self._blocked:
            self._write()
        if self.waiting > LINK_BYTES_MAX + self._largest:
            self.close(f"over {LINK_BYTES_MAX} bytes wait for it")
        elif self.waiting > HOLD_BYTES and not self.holds and not self._stuck and not self.closed:
            self._taken_at = self._clock.time
            self._hold(True)
            if not self._looking:
                self._look()

    def read(self, wanted: bool) -> None:
        """Read from the other side, or stop reading: what it hands in waits there."""
        if wanted != self._reading and not self.closed:
            self._reading = wanted
            if wanted:
                self._loop.add_reader(self._sock.fileno(), self._readable)
            else:
                self._loop.remove_reader(self._sock.fileno())

    def unread(self) -> bool:
        """Return whether the other side has said something that was not read yet."""
        return not self.closed and kernel_stats.unread(self._sock.fileno())

    def close(self, why: str) -> None:
        """Cut the link."""
        if self.closed:
            return
        self.closed = True
        self._loop.remove_reader(self._sock.fileno())
        if self._blocked:
            self._loop.remove_writer(self._sock.fileno())
        self._sock.close()
        self._drop()
        self.holds = False
        self._loop.call_soon(self._lost, why)

    def _drop(self) -> None:
        """Drop what waits: nobody takes it any more."""
        self._out.clear()
        self._sent = self.waiting = self._largest = 0

    def _hold(self, holds: bool) -> None:
        self.holds = holds
        self._taken()

    def _look(self) -> None:
        """Check whether the other side still takes what it is to hold others for."""
        self._looking = self.holds and not self._patient
        if not self._looking:
            return
        left = self._taken_at + STUCK_SECONDS - self._clock.time
        if left <= 0 and not self._reading:
            self._readable()  # what it has said meanwhile, though nothing of it is taken for now
            left = self._taken_at + STUCK_SECONDS - self._clock.time
        if self.closed:
            self._looking = False
        elif left > 0:
            self._loop.call_later(left, self._look)
        else:
            self._looking = False
            self._stuck = True
            self._hold(False)

    def _write(self) -> None:
        out = self._out
        try:
            while out:
                if len(out) > 1 and not self._sent and len(out[0]) < SLICE_BYTES:
                    joined = b"".join(out)
                    out.clear()
                    out.append(joined)
                head = out[0]
                count = self._sock.send(memoryview(head)[self._sent :] if self._sent else head)
                self.waiting -= count
                self._sent += count
                if self._sent < len(head):
                    continue
                out.popleft()
                self._sent = 0
        except BlockingIOError:
            pass
        except OSError:
            # The other side is gone. What it wrote before is still to be read: reading finds the end.
            self._broken = True
            self._drop()
            self.read(True)
        self._stuck = False
        if not out:
            self._largest = 0
        if self.holds:
            self._taken_at = self._clock.time
            if self.waiting <= HOLD_BYTES // 2:
                self._hold(False)
        if bool(out) != self._blocked:
            self._blocked = bool(out)
            if self._blocked:
                self._loop.add_writer(self._sock.fileno(), self._writable)
            else:
                self._loop.remove_writer(self._sock.fileno())

    def _writable(self) -> None:
        self._write()
        if not self.closed:
            self._taken()

    def _readable(self) -> None:
        try:
            data = self._sock.recv(READ_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError as error:
            self.close(str(error.strerror))
            return
        if not data:
            self.close("the other side is gone")
            return
        self._taken_at = self._clock.time
        for packet in self._unpacker.feed(data):
            if self.closed:
                return
            try:
                self._received(packet)
            except Exception:  # what follows would be taken for an answer to something else
                log.exception("fault while handling a packet of a link")
                self.close("a fault of ours")
                return
        if self._unpacker.error is not None:
            self.close(str(self._unpacker.error))


class StateSender:
    """Gives what one link still has to get: the rights, then the subjects, in slices, while the log runs.

    It is a slice a turn, and more in one for which it had to wait long.
    """

    def __init__(
        self,
        runtime: Runtime,
        link: LinkSocket,
        before: Callable[[], None],
        complete: Callable[[], None],
        *,
        subjects: bool = True,
    ) -> None:
        self._runtime = runtime
        self._link = link
        self._before = before
        self._complete = complete
        self._rights: Iterator[Any] | None = None
        self._scheduled = False
        self._waits_since = 0.0
        self.copy: Copy | None = Copy(runtime.broker) if subjects else None
        self._complete_due = True
        self.renew_rights()

    @property
    def has_rights(self) -> bool:
        """True once all rights in force have been given, so that a difference may follow them."""
        return self._rights is None

    def renew_rights(self) -> None:
        """Give the whole set, from the beginning."""
        broker = self._runtime.broker
        self._rights = None
        rights = self._runtime.sessions.rights
        if rights.generation is not None:
            self._rights = rights_in_chunks(broker.grants, broker.interest.options.rows, rights.left_out)
            self._link.send(RightsBegin())
        self.wake()

    def wake(self) -> None:
        """Go on in the next turn of the loop, or when the link takes more."""
        if not self._scheduled and (self._rights is not None or self._complete_due):
            self._scheduled = True
            self._waits_since = time.monotonic()
            self._runtime.loop.call_soon(self._step)

    def _step(self) -> None:
        began = time.monotonic()
        end = began + SHARE * (began - self._waits_since)
        self._link.flush()
        while self._give():
            if time.monotonic() >= end:
                self._scheduled = False
                self.wake()
                return
        self._scheduled = False  # the link wakes us when it has taken of what it was given

    def _give(self) -> bool:
        """Give the next slice; False when there is none, or the link does not take it now."""
        link = self._link
        if link.closed or link.waiting > (COPY_BYTES if self._rights is None else RIGHTS_BYTES):
            return False
        if self._rights is not None:
            chunk = next(self._rights, None)
            if chunk is not None:
                link.send(RightsChunk(*chunk))
            else:
                self._rights = None
                link.send(RightsCommit(self._runtime.sessions.rights.generation or 0))
        elif self._complete_due:
            if self.copy is not None:
                self._before()  # what was published is in the log or in the copy, not in both
                parts = self.copy.slice(SLICE_BYTES)
                if parts:
                    link.send(Parts(parts))
            if self.copy is None or not self.copy.pending:
                self.copy = None
                self._complete_due = False
                self._complete()
        link.flush()
        return self._rights is not None or self._complete_due


def is_own(sock: socket.socket) -> bool:
    """Return whether the other end of a unix socket is a process of the same user."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # the folder's mode alone keeps others away
    _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return bool(uid == os.getuid())
