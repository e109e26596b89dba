"""Who listens to the audit over the control socket, and how other workers' events come there (protocol.md 8.6)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ...core.protocol.errors import InvalidMessage
from ..node import messages
from ..runtime.component import ControlPeer, Offers
from ..runtime.runtime import Runtime
from .events import KINDS, Event

WAITING_BYTES_MAX = 8 << 20
"""Bytes that may wait unsent for a listener; what comes beyond is dropped and counted."""

WINDOW = 10_000
"""Events that another worker may have on their way to the first one."""

KIND = "kind"

log = logging.getLogger("fastpath.audit")


class AuditListener:
    """One connection that listens; ``kinds`` is what to."""

    __slots__ = ("dropped", "kinds", "peer")

    def __init__(self, peer: ControlPeer, kinds: frozenset[str]) -> None:
        self.peer = peer
        self.kinds = kinds
        self.dropped = 0

    def push(self, events: Sequence[Any]) -> None:
        """Send what it listens to, unless it does not read."""
        if self.peer.waiting() > WAITING_BYTES_MAX:
            self.dropped += len(events)
            return
        try:
            self.peer.push("events", {"events": events, "dropped": self.dropped})
        except Exception:
            sent = sendable(events)
            self.dropped += len(events) - len(sent)
            self.peer.push("events", {"events": sent, "dropped": self.dropped})
        self.dropped = 0


def sendable(events: Sequence[Any]) -> list[Any]:
    """Return the events that can be sent: one that cannot takes none of the others with it."""
    sent = []
    for event in events:
        try:
            msgspec.msgpack.encode(event)
        except Exception as error:
            log.error("an event of the audit cannot be told and is dropped: %s: %s", event.kind, error)
        else:
            sent.append(event)
    return sent


class AuditListeners:
    """All that listen to this process, and on another worker than the first: that one. ``changed`` is called when other
    kinds are ``wanted``."""

    def __init__(self, runtime: Runtime, changed: Callable[[], None]) -> None:
        self._runtime = runtime
        self._changed = changed
        self._listening: dict[ControlPeer, AuditListener] = {}
        self._first: frozenset[str] = frozenset()  # what the first worker wants to be told
        self._sent = self._taken = 0  # events on their way there
        self._lost = 0
        self.offers = Offers(
            verbs={"listen": self._listen},
            messages={
                messages.Listen: self._wanted_by_first,
                messages.Events: self._from_worker,
                messages.EventsTaken: self._taken_by_first,
            },
            linked=self._linked,
        )

    @property
    def wanted(self) -> frozenset[str]:
        """The kinds of events that somebody listens to."""
        return self._first.union(*(listening.kinds for listening in self._listening.values()))

    def offer(self, events: Sequence[Event], lost: int) -> None:
        """Offer events of this process, at most a slice, and tell how many there were before that nobody can be
        told."""
        for listening in self._listening.values():
            listening.dropped += lost
            chosen = [event for event in events if event.kind in listening.kinds]
            if chosen:
                listening.push(chosen)
        self._lost += lost
        chosen = [event for event in events if event.kind in self._first]
        workers = self._runtime.workers
        if not chosen or not workers.follows:
            return
        if self._sent - self._taken <= WINDOW:
            try:
                told = workers.to_first(messages.Events(self._lost, chosen))
            except Exception:
                sent = sendable(chosen)
                self._lost += len(chosen) - len(sent)
                chosen = sent
                told = workers.to_first(messages.Events(self._lost, chosen))
        else:
            told = False
        if told:
            self._sent += len(chosen)
            self._lost = 0
        else:
            self._lost += len(chosen)

    def _listen(self, peer: ControlPeer, arguments: dict[str, Any]) -> dict[str, Any]:
        kinds = frozenset(arguments["kinds"])
        if not kinds <= set(KINDS):
            raise InvalidMessage("invalid", f"kinds is a list of {', '.join(KINDS)}")
        if peer not in self._listening:
            peer.ended.append(lambda: self._forget(peer))
        self._listening[peer] = AuditListener(peer, kinds)
        self._renew()
        return {"kinds": sorted(kinds)}

    def _forget(self, peer: ControlPeer) -> None:
        del self._listening[peer]
        self._renew()

    def _renew(self) -> None:
        self._runtime.workers.to_others(messages.Listen(sorted(self.wanted)))
        self._changed()

    def _linked(self, worker: int) -> None:
        """Tell a new worker, on the first one, what to send; on the others, begin to count anew."""
        if worker:
            self._runtime.workers.to_others(messages.Listen(sorted(self.wanted)), worker)
        else:
            self._sent = self._taken = 0

    def _wanted_by_first(self, worker: int, wanted: messages.Listen) -> None:
        del worker
        self._first = frozenset(wanted.kinds)
        self._changed()

    def _from_worker(self, worker: int, told: messages.Events) -> None:
        for listening in self._listening.values():
            listening.dropped += told.lost
            chosen = [event for event in told.events if event[KIND] in listening.kinds]
            if chosen:
                listening.push(chosen)
        self._runtime.workers.to_others(messages.EventsTaken(len(told.events)), worker)

    def _taken_by_first(self, worker: int, taken: messages.EventsTaken) -> None:
        del worker
        self._taken += taken.count
