"""The outbox of a client: what its socket does not take waits in order, bounded, until it is taken or given up.

A state machine without I/O (features.md C6). The edge writes to the socket, tells the machine what the socket took, and
performs the effects that are the answer. While the socket takes everything there is no queue, and nothing is asked
here: a delivery costs one write.

State    What it is
open     ``client.queue`` is None: the client is in its group's fast lane, frames go straight to the socket
queued   ``client.queue`` has what the socket did not take; frames go behind it
lagging  queued or open, and ``client.lag.behind`` is not empty: numbers stand for some subscriptions
ending   goodbye was said: what waits is written out, and has no bound any more

State    Event                                   Effects                            Next state
open     ``refused``: the socket took less       BLOCKED                            queued
queued   ``refused``, ``offered``: more frames   none, or by the queue's size:      queued
         size > ``lag_bytes``, some may conflate  TURN                              queued, then lagging
         size > ``outbox_bytes_max``, fits shed   TURN; what may conflate is out    queued, then lagging
         size > ``outbox_bytes_max``, does not    OVERFLOW; the begun frame stays   ending
         (to both, what is ``allowed`` is added)
queued   ``drained``: all was taken              UNBLOCKED                          open
lagging  ``drained``                             UNBLOCKED, TURN                    lagging
lagging  ``turn``, the queue is empty            TURN again while some are behind   open, at last
ending   ``drained``                             UNBLOCKED, ENDED                   over
any      ``refused``: the socket is broken       LOST                               over

The bound is on what comes by itself. What a client has asked for, such as a snapshot, may be larger: it is **allowed**
beside the bound until all is taken, and no more is sent of it than the sessions have room for before that
(core/sessions/subscriptions.py). So is a single frame that is larger than the bound, where it comes to a client whose
socket has taken all before it, and begins to take this one.

Effects are bits, to be performed in the order in which ``Effect`` lists them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ..protocol.errors import Close
from . import slow_consumers
from .outgoing_queue import Queue

if TYPE_CHECKING:
    from .audience import Client
    from .backlogs import Recoveries
    from .ports import Deliverer
    from .wire import Wire


class Effect:
    """The bits of what the edge does next for a connection."""

    LOST = 1
    """The connection is broken: let go of it in a later turn."""
    BLOCKED = 2
    """The client has a queue from now on: call ``drained`` when the socket has taken all of it."""
    UNBLOCKED = 4
    """The client has no queue any more: the socket need not be watched."""
    TURN = 8
    """Call ``turn`` between two handlers."""
    OVERFLOW = 16
    """Close the connection as ``overflow`` says."""
    ENDED = 32
    """Bit: what was said goodbye is written."""


class Outboxes:
    """The outboxes of all clients; the state of each is its client's ``queue`` and ``lag``.

    Whoever calls says whether the client is ``bounded``; one that ends, or that is only echoed to, is not.
    """

    def __init__(self, broker: Deliverer, recoveries: Recoveries) -> None:
        self._broker = broker
        self._recoveries = recoveries

    # While frames are written

    def refused(self, client: Client, data: bytes, sent: int, *, bounded: bool) -> int:
        """Keep what the socket did not take, only ``sent`` bytes of whole frames (-1: it is broken); return the
        effects."""
        if sent < 0:
            return Effect.LOST
        if client.queue is not None:
            return self.offered(client, client.queue, data, bounded=bounded)
        client.queue = queue = Queue(data, sent)
        bound = self._broker.limits.outbox_bytes_max
        if bounded and sent > 0 and queue.size > bound + client.allowed and len(data) > bound:
            client.allowed += _larger(data, client.terms.wire, bound)
        for observer in self._broker.observers:
            observer.blocked(client)
        if client.group is not None:
            client.group.refile(client)
        return Effect.BLOCKED | (self._bound(client, queue) if bounded else 0)

    def offered(self, client: Client, queue: Queue, data: bytes, *, bounded: bool) -> int:
        """Queue more whole frames for a client that has a queue; return the effects."""
        queue.push(data)
        return self._bound(client, queue) if bounded else 0

    def _bound(self, client: Client, queue: Queue) -> int:
        """Shed what may be conflated where the queue is over its bound, and what is left of it if that is too much."""
        limits = self._broker.limits
        if queue.size > limits.outbox_bytes_max + client.allowed and not slow_consumers.shed(self._broker, client):
            queue.keep_begun(client.terms.wire)  # so that the close code can still be read
            return Effect.OVERFLOW
        return Effect.TURN if slow_consumers.due(client, limits) else 0

    @property
    def overflow(self) -> tuple[Close, str]:
        """The close code and the reason of a client whose queue has overflown."""
        bound = self._broker.limits.outbox_bytes_max
        return Close.SLOW_CONSUMER, f"{Close.SLOW_CONSUMER.label}: over {bound} bytes waited for this client"

    # When the socket takes bytes again

    def torn(self, client: Client) -> bool:
        """Return whether the client has to fall behind (``turn``) before more of its queue is written.

        What came since makes no sense without what was taken out of the queue.
        """
        return client.lag is not None and bool(client.lag.lost)

    def drained(self, client: Client, *, ending: bool) -> int:
        """Note that the socket took all that waited; return the effects."""
        client.queue = None
        client.allowed = 0
        for observer in self._broker.observers:
            observer.unblocked(client)
        if ending:
            return Effect.UNBLOCKED | Effect.ENDED
        if client.group is not None:
            client.group.refile(client)
        if client.recovering:
            self._recoveries.drained(client)
        return Effect.UNBLOCKED | (Effect.TURN if client.lag is not None and client.lag.behind else 0)

    # Between two handlers

    def turn(self, client: Client) -> bool:
        """Let a client with a long queue fall behind, and pull one with none level, a slice of its subscriptions.

        Whether some are still behind: then this is to be called in the next turn, unless there is a queue again.
        """
        slow_consumers.begin(self._broker, client)
        return client.queue is None and slow_consumers.catch_up(self._broker, client)

    # The end

    def end(self, client: Client, code: int, reason: str) -> bytes:
        """Say goodbye to the client: return what is written to it last, behind the queue if there is one.

        A slow consumer gets no answers any more, only the close frame. From now on the group's writes skip the socket.
        """
        frames, client.out = client.out, None
        self.leave(client, code, reason)
        if code == Close.SLOW_CONSUMER:
            frames = None
        return b"".join([*(frames or ()), client.terms.wire.close(code, reason)])

    def give_up(self, client: Client) -> None:
        """Send nothing of what waits for the client, but for the rest of the frame of which a part has been sent."""
        client.out = None
        if client.queue is not None:
            client.queue.keep_begun(client.terms.wire)

    def leave(self, client: Client, code: int, reason: str) -> None:
        """End the client for this reason: from now on its group's writes skip the socket."""
        client.end = (code, reason)
        client.direct = False
        if client.group is not None:
            client.group.refile(client)

    def drop(self, client: Client) -> None:
        """Drop all that waits, as the connection is over: nothing of it will be written."""
        client.queue = None


@lru_cache(maxsize=1)  # a group's members get the same bytes
def _larger(data: bytes, wire: Wire, bound: int) -> int:
    """Return the bytes of those frames which are larger than the bound themselves."""
    return sum(size for frame, _ in wire.split(data) if (size := len(frame)) > bound)
