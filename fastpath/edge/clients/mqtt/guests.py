"""The sessions of MQTT clients on a worker that is not the first: it asks the first one for them, and returns them."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Generator
from typing import NamedTuple

from ....core.delivery.audience import Client
from ....core.mqtt.groups.shares import Shares
from ....core.mqtt.reasons import Reason
from ....core.mqtt.session import MqttSession
from ....core.mqtt.session_state import decode_state, encode_state
from ....engine.base import SessionStore
from ...node.messages import (
    AskSession,
    ChangeSessions,
    GiveSession,
    GroupAnswers,
    HoldSession,
    OfferGroup,
    Packet,
    ReturnSession,
    TakeSession,
)
from ...runtime.component import Offers
from ...runtime.runtime import Runtime
from .asking_groups import AskingGroups
from .connections import Given, Key, MqttConnections, in_steps
from .stream import MqttStream
from .wills import LeftWill, encode_will

UNSENT_BYTES_MAX = 4 << 20
"""Bytes for the first worker up to which it is told of sessions that go on: the link also carries publications."""

CHANGES_BYTES = 64 << 10
"""About as much is told of sessions in one message."""

CHANGES_BYTES_MAX = 2 << 20
"""About as much is told of them in one second; the others are told of in the next one."""

AT_ONCE_MAX = 100
"""Filters of a client of which the first worker is told at once, with all others of it; of more once a second."""

UNRETURNED_MAX = 10_000
"""Sessions whose clients have gone while there was no first worker that could be told; beyond it the oldest are lost
with what has changed in the last second."""


class _Newcomer(NamedTuple):
    """A client that is let in; it begins anew where messages of the subject ``missed`` cannot be had any more."""

    stream: MqttStream
    key: Key
    given: Given
    missed: str = ""


class _Guest(NamedTuple):
    """A session that is here, and the connection that it has."""

    session: MqttSession
    stream: MqttStream
    key: Key


class GuestSessions(MqttConnections[int]):
    """A session is here for as long as its client is; ``K`` is the number by which this worker has asked for it."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self._number = secrets.randbelow(1 << 53)  # none of those of the process that was this worker before
        self._asked: dict[int, _Newcomer] = {}
        self._guests: dict[int, _Guest] = {}
        self._groups = AskingGroups(runtime)
        self._unreturned: deque[tuple[HoldSession, ReturnSession]] = deque(maxlen=UNRETURNED_MAX)
        self.offers = Offers(
            mqtt=self,
            on_second=self._sweep_soon,
            linked=self._linked,
            stop=self._stop,
            figures=self.figures,
            messages={
                GiveSession: lambda worker, packet: self._given(packet),
                TakeSession: lambda worker, packet: self._taken(packet.number),
                GroupAnswers: lambda worker, packet: self._groups.answered(packet),
                OfferGroup: lambda worker, packet: self._groups.offered(packet),
            },
        )

    @property
    def shares(self) -> Shares:
        """The groups of this worker's clients; the first one decides who takes what."""
        return self._groups.shares

    def keep(self, store: SessionStore) -> None:
        """Keep nothing, as the first worker keeps all sessions."""
        del store

    def take(self, stream: MqttStream, owner: str, given: Given) -> None:
        """Ask for the session of a client that is let in."""
        talk = stream.talk
        if not talk.client_id:
            talk.assign(f"fastpath-{secrets.token_hex(8)}")
        self._want(_Newcomer(stream, (owner, talk.client_id), given))

    def _want(self, asked: _Newcomer) -> None:
        self._number += 1
        self._asked[self._number] = asked
        self._streams[asked.stream] = self._number
        self._ask(self._number, asked)

    def _ask(self, number: int, asked: _Newcomer) -> None:
        """Ask the first worker for a session; without one it is asked when there is one again (``_linked``)."""
        talk = asked.stream.talk
        worker = self._runtime.workers.number
        will = self._standing(asked.stream)
        clean = talk.clean or bool(asked.missed)
        self._send(AskSession(worker, number, *asked.key, talk.level, clean, talk.expiry_seconds, will))

    def _standing(self, stream: MqttStream) -> bytes:
        """Return the will of a client that is connected: what the first worker publishes if this one dies."""
        will, client = stream.talk.will, stream.client
        return encode_will(LeftWill.of(client, will).saved(self._runtime)) if will and client else b""

    def _given(self, packet: GiveSession) -> None:
        state = decode_state(packet.state)
        session = MqttSession(state.name, state.level, state.expiry_seconds, packet.number)
        session.adopt(state)
        session.change()  # what the first worker knows is no news to it
        present = packet.present
        asked = self._asked.pop(packet.number, None)
        if asked is None:  # the client has gone meanwhile
            self._send(ReturnSession(packet.number, encode_state(session.change()), b""))
            return
        if not self._groups.begin(session, packet.deserted):
            session, present = MqttSession(state.name, state.level, state.expiry_seconds, packet.number), False
        if present and (lacks := self._missed(asked.stream, session)):
            session.keep_for(0)  # it ends as it is returned
            self._groups.end(session)
            self._send(ReturnSession(packet.number, encode_state(session.change()), b""))
            self._want(asked._replace(missed=lacks))
            return
        self._guests[packet.number] = _Guest(session, asked.stream, asked.key)
        asked.given(session, present, asked.missed)

    def _taken(self, number: int) -> None:
        """Let go of a client that has another connection now, on whichever worker (3.1.4)."""
        guest, asked = self._guests.get(number), self._asked.pop(number, None)
        if asked is not None:
            asked.stream.close(Reason.SERVER_BUSY, "its session cannot be had at this moment")
        elif guest is not None:
            self._streams[guest.stream] = None
            self._return(number, None)
            guest.stream.close(Reason.TAKEN_OVER, "another connection has this client's session")

    def subscribed(self, stream: MqttStream) -> None:
        """Tell the first worker of a subscription before the client knows of it, unless these are very many."""
        number = self._streams.get(stream)
        guest = self._guests.get(number) if number is not None else None
        if number is None or guest is None or not guest.session.lasts or not guest.session.changed:
            return
        if len(guest.session.subscriptions) <= AT_ONCE_MAX and self._runtime.workers.unsent() <= UNSENT_BYTES_MAX:
            self._send(ChangeSessions([(number, encode_state(guest.session.change()))]))

    def gone(self, stream: MqttStream, client: Client | None) -> None:
        """Return the session of a connection that is over; ``client`` is who it was."""
        number = self._streams.pop(stream, None)
        if number is not None and self._asked.pop(number, None) is None:
            self._return(number, client)

    def _return(self, number: int, client: Client | None) -> None:
        """Give the session back, with the will that is to wait; one that does not wait is published now."""
        guest = self._guests.pop(number, None)
        if guest is None:
            return
        guest.stream.talk.parted()
        self._groups.flush()
        session, will = guest.session, self._left(guest.stream, client)
        data = b""
        if will is not None:
            if min(will.delay_seconds, session.expiry_seconds):
                data = encode_will(will.saved(self._runtime))
            else:
                will.publish(self._runtime)
        back = ReturnSession(number, encode_state(session.change()), data)
        if not self._send(back):
            self._unreturned.append((self._held(number, guest), back))
        self._groups.end(session)

    def _held(self, number: int, guest: _Guest) -> HoldSession:
        state = encode_state(guest.session.whole())
        return HoldSession(self._runtime.workers.number, number, *guest.key, state, self._standing(guest.stream))

    def _send(self, packet: Packet) -> bool:
        return self._runtime.workers.to_first(packet)

    def _linked(self, worker: int) -> None:
        """Tell a first worker which sessions are here, those that could not be returned, and who waits."""
        del worker
        for number, guest in self._guests.items():
            self._send(self._held(number, guest))
            guest.session.change()
        while self._unreturned:
            for packet in self._unreturned.popleft():
                self._send(packet)
        for number, asked in self._asked.items():
            self._ask(number, asked)
        self._groups.tell_again()

    def _sweep(self, moment: int) -> Generator[None, None, None]:
        yield from super()._sweep(moment)
        changes: list[tuple[int, bytes]] = []
        size = total = 0
        for number in in_steps(list(self._guests)):
            if number is None:
                yield
                continue
            if self._runtime.workers.unsent() > UNSENT_BYTES_MAX or total > CHANGES_BYTES_MAX:
                break
            guest = self._guests.get(number)
            if guest is None or not guest.session.lasts or not guest.session.changed:
                continue
            self._guests[number] = self._guests.pop(number)  # the others have their turn before
            data = encode_state(guest.session.change())
            changes.append((number, data))
            size, total = size + len(data), total + len(data)
            if size > CHANGES_BYTES:
                self._send(ChangeSessions(changes))
                changes, size = [], 0
        if changes:
            self._send(ChangeSessions(changes))

    def _stop(self) -> None:
        """Hand what is left to the first worker, as this one stops."""
        for number in list(self._guests):
            self._return(number, None)
