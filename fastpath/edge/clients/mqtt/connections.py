"""The connections of a process that speak MQTT: which there are, and which of them were silent for too long."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from typing import Generic, TypeVar

from ....core.delivery.audience import Client
from ....core.mqtt.reasons import Reason
from ....core.mqtt.session import MqttSession
from ....core.wires.mqtt_backfill import missed
from ...runtime.runtime import GRID_SECONDS, Runtime, now
from .stream import MqttStream
from .wills import LeftWill

STEP = 50
"""Sessions or clients that are looked at before others may have a turn: some 0.1 ms."""

KEEP_ALIVE_SHARE = 1.5
"""A client may be silent for so many of its keep alives (3.1.2.10)."""

T = TypeVar("T")
K = TypeVar("K")

Key = tuple[str, str]
"""The owner, as a rule a user, and the client id: nobody can take another's session."""

Given = Callable[[MqttSession, bool, str], None]
"""Gets the session of a client that is let in, and whether it was there before; where it was, and is no more for
messages that cannot be had any more, a subject of these."""

log = logging.getLogger("fastpath.clients")


class MqttConnections(Generic[K]):
    """The part that the first worker (sessions.py) and the others (guests.py) have in common; ``K`` is what finds a
    session."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._streams: dict[MqttStream, K | None] = {}
        self._sweeping = False
        self._discarded = 0

    def came(self, stream: MqttStream) -> None:
        """Note a connection that speaks MQTT."""
        self._streams[stream] = None

    def discarded(self, stream: MqttStream, subject: str) -> None:
        """Note that a session is over, because its client has missed messages of the subject that cannot be had any
        more."""
        self._discarded += 1
        log.warning("session of MQTT client %r discarded: messages of %s are missing", stream.talk.client_id, subject)

    def _missed(self, stream: MqttStream, session: MqttSession) -> str:
        """Return a subject of which the client that comes back to its session has missed messages for good; empty if
        there is none, as far as is known by now."""
        client = stream.client
        subject = missed(self._runtime.broker, client.principal, session, now()) if client is not None else ""
        if subject:
            self.discarded(stream, subject)
        return subject

    def figures(self) -> dict[str, float]:
        """Return how many sessions have ended for what was missed."""
        return {"mqtt_sessions_discarded": self._discarded}

    def _left(self, stream: MqttStream, client: Client | None = None) -> LeftWill | None:
        """Return the will of a connection that is over."""
        will = stream.talk.take_will()
        client = client or stream.client
        if will is None or client is None or not stream.talk.opened:
            return None
        return LeftWill.of(client, will)

    def _sweep_soon(self, moment: int) -> None:
        """Look at all once a second, in steps, as there may be very many."""
        if not self._sweeping:
            self._sweeping = True
            self._runtime.scheduler.run(self._sweep(moment), self._swept, self._failed)

    def _sweep(self, moment: int) -> Generator[None, None, None]:
        del moment
        for stream in in_steps(list(self._streams)):
            if stream is None:
                yield
            elif stream in self._streams:
                limit = stream.talk.keep_alive * KEEP_ALIVE_SHARE
                if stream.look(self._runtime.awake.time) > limit + GRID_SECONDS > GRID_SECONDS:
                    stream.close(Reason.KEEP_ALIVE_TIMEOUT, "nothing came within the keep alive")

    def _swept(self, result: None) -> None:
        del result
        self._sweeping = False
        self._runtime.end()

    def _failed(self, error: Exception) -> None:
        log.error("fault while looking at the clients of MQTT", exc_info=error)
        self._swept(None)


def in_steps(items: list[T]) -> Iterator[T | None]:
    """Yield the items, and None where others may have a turn."""
    for number, item in enumerate(items, 1):
        yield item
        if number % STEP == 0:
            yield None
