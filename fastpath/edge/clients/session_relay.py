"""Requests for sessions over HTTP that another worker has: handed on to that one, and its answers back."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import NamedTuple

from ..node import messages
from ..runtime.component import Offers
from ..runtime.runtime import Runtime, now
from .handshake import POLL_MS
from .posted_frames import BUSY, ENDED

OPEN_MAX = 20_000
"""Requests that one process has handed on and that are not answered yet."""

UNSENT_BYTES_MAX = 4 << 20
"""Bytes for another worker up to which requests are sent there: the link also carries what is published."""

ANSWER_MS = POLL_MS + 15_000
"""Milliseconds for which an answer is waited for: longer than a poll is held."""

Answered = Callable[[int, bytes], None]
"""Gets a status of HTTP, and the lines of the answer."""

Serve = Callable[[str, str, int, bytes, Answered], None]
"""Answers a request for a session of this process: what is wanted, the session, the place in it, the body."""


class _RelayedRequest(NamedTuple):
    worker: int
    until: int
    done: Answered


class SessionRelay:
    """One process' part. Between two workers the first one hands on; whatever it cannot hand on is answered BUSY, and
    asked again by the client, which loses nothing by that (posted_frames.py, poll_connection.py)."""

    def __init__(self, runtime: Runtime, serve: Serve) -> None:
        self._runtime = runtime
        self._serve = serve
        self._others: set[int] = set()
        self._open: dict[int, _RelayedRequest] = {}
        self._number = secrets.randbelow(1 << 53)  # an answer to a process that was here before is for nobody
        self.offers = Offers(
            messages={
                messages.Relay: lambda worker, packet: self._pass(packet),
                messages.Relayed: lambda worker, packet: self._pass(packet),
                messages.RelayOver: lambda worker, packet: self._end(packet.worker, ENDED),
            },
            linked=self._linked,
            parted=self._parted,
            on_second=self._on_second,
        )

    def ask(self, worker: int, kind: str, session: str, place: int, body: bytes, done: Answered) -> None:
        """Hand a request on to that worker; ``done`` is called once, now or later."""
        own = self._runtime.workers.number
        if len(self._open) >= OPEN_MAX:
            done(BUSY, b"")
            return
        self._number += 1
        number = self._number
        self._open[number] = _RelayedRequest(worker, now() + ANSWER_MS, done)
        self._send(messages.Relay(worker, own, number, kind, session, place, body))

    # Packets: for this process, or on their way

    def _pass(self, packet: messages.Relay | messages.Relayed) -> None:
        if packet.to != self._runtime.workers.number:
            self._send(packet)
        elif isinstance(packet, messages.Relayed):
            asked = self._open.pop(packet.number, None)
            if asked is not None:
                asked.done(packet.status, packet.body)
        else:
            origin, number = packet.origin, packet.number

            def answered(status: int, body: bytes) -> None:
                self._send(messages.Relayed(origin, number, status, body))

            self._serve(packet.kind, packet.session, packet.place, packet.body, answered)

    def _send(self, packet: messages.Relay | messages.Relayed) -> None:
        """Send a packet one step on its way; a request that cannot go is answered, an answer goes without its body."""
        status = self._step(packet)
        if status and isinstance(packet, messages.Relay):
            self._refuse(packet, status)
        elif status == BUSY:
            empty = messages.Relayed(packet.to, packet.number, BUSY, b"")
            if not self._runtime.workers.to_first(empty):
                self._runtime.workers.to_others(empty, packet.to)

    def _step(self, packet: messages.Relay | messages.Relayed) -> int:
        """Send a packet, or the status that says why it cannot go."""
        workers = self._runtime.workers
        if workers.follows:
            room = workers.unsent() <= UNSENT_BYTES_MAX
            return 0 if room and workers.to_first(packet) else BUSY
        if packet.to not in self._others:
            return ENDED
        if workers.unsent_to(packet.to) > UNSENT_BYTES_MAX:
            return BUSY
        workers.to_others(packet, packet.to)
        return 0

    def _refuse(self, packet: messages.Relay, status: int) -> None:
        answer = messages.Relayed(packet.origin, packet.number, status, b"")
        if packet.origin == self._runtime.workers.number:
            self._runtime.loop.call_soon(self._pass, answer)
        else:
            self._send(answer)

    # Those who will not answer any more

    def _linked(self, worker: int) -> None:
        if self._runtime.workers.follows:
            self._end(None, BUSY)  # the first worker is another one than that which was asked
        else:
            self._others.add(worker)

    def _parted(self, worker: int) -> None:
        self._others.discard(worker)
        self._end(worker, ENDED)
        self._runtime.workers.to_others(messages.RelayOver(worker))

    def _on_second(self, moment: int) -> None:
        late = [number for number, asked in self._open.items() if asked.until <= moment]
        for number in late:
            self._open.pop(number).done(BUSY, b"")

    def _end(self, worker: int | None, status: int) -> None:
        ended = [number for number, asked in self._open.items() if worker in (None, asked.worker)]
        for number in ended:
            self._open.pop(number).done(status, b"")
