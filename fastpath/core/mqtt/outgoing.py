"""Records on their way out: each message's packet as this client's subscriptions want it, no more than it takes."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

import msgspec

from ..protocol.subject import is_system
from . import fields
from .empty import NO_ENTRIES
from .groups.shares import TURN_MAX, YIELD_MS, Loan, Turn
from .publications import EXPIRY_SECONDS_MAX
from .reasons import V5
from .records import (
    ASSURED,
    EMPTY,
    GAP,
    LIVE,
    MESSAGE,
    RETAINED,
    SNAPSHOT,
    STANDS,
    Record,
    kind_of,
    origin_of,
    read_message,
    split_records,
)
from .session import IN_FLIGHT_MAX, MqttSession, Options, Place, Subscription
from .topics import name_of, subject_of

ALIASES_MAX = 256
"""Topic aliases that one client is sent, if it does not want fewer."""

_DUP, _QOS = 8, 6

_ID_BYTES_MAX = 3
"""Bytes by which a packet id makes a packet longer: its two, and one more that says how long the packet is."""


class Speaker(Protocol):
    """Says the words of the server: the talk that these messages are of."""

    def say(self, record: bytes) -> bytes:
        """Return the packets of a record that is no message."""

    def missed(self, subject: str) -> None:
        """Note that the client has missed messages of the subject, and nothing else tells it so: it is sent no more."""


class Connection(Protocol):
    """The client's connection."""

    def later(self, ms: int = 0) -> None:
        """Look again at what waits in so long; 0: in the next turn of the loop."""

    def may_read(self, subject: str) -> bool | None:
        """Return whether the client may read it; None while that is not known."""


class Outgoing:
    """The messages of one connection.

    ``receive_maximum`` and ``packet_bytes_max`` (0: any) are the client's; ``in_flight_bytes_max`` bounds what waits
    for its acknowledgements.
    """

    __slots__ = (
        "_again",
        "_aliases",
        "_aliases_max",
        "_asked",
        "_bytes_max",
        "_connection",
        "_in_flight_max",
        "_origin",
        "_over",
        "_packet_bytes_max",
        "_session",
        "_speaker",
    )

    def __init__(
        self,
        session: MqttSession,
        speaker: Speaker,
        connection: Connection,
        receive_maximum: int,
        packet_bytes_max: int,
        aliases_max: int,
        in_flight_bytes_max: int,
    ) -> None:
        self._session = session
        self._speaker = speaker
        self._connection = connection
        self._again = deque(session.in_flight) if session.in_flight else None  # an empty deque takes 760 bytes
        self._origin = -1
        self._in_flight_max = min(receive_maximum, IN_FLIGHT_MAX)
        self._packet_bytes_max = packet_bytes_max
        self._aliases_max = min(aliases_max, ALIASES_MAX)
        self._aliases: dict[int, int] = NO_ENTRIES  # by subject id
        self._bytes_max = in_flight_bytes_max
        self._over = False  # no message leaves any more
        self._asked = False  # the first worker was asked for what is next

    def own(self, publisher: str | None) -> None:
        """Take what this publisher publishes as the client's own."""
        self._origin = origin_of(publisher) if publisher else -1

    @property
    def full(self) -> bool:
        """True if the client has to acknowledge before it gets more of QoS 1."""
        session = self._session
        return (
            bool(self._again)
            or len(session.in_flight) >= self._in_flight_max
            or (bool(session.in_flight) and session.in_flight_bytes >= self._bytes_max)
        )

    @property
    def waits(self) -> bool:
        """True if something of an earlier connection is still to be sent again."""
        return bool(self._again)

    @property
    def plain(self) -> bool:
        """True if this client gets exactly what everybody gets."""
        return not self._packet_bytes_max and not self._aliases_max and self._session.simple

    def take(self, data: bytes | memoryview, now: int) -> tuple[int, bytes]:
        """Return how many bytes of whole records can leave now, and the packets that they become.

        No more is looked at than that: ``take`` is called after each acknowledgement.
        """
        taken, out, view = 0, [], memoryview(data)
        while taken < len(view):
            record = bytes(view[taken : taken + int.from_bytes(view[taken : taken + 4])])
            kind = kind_of(record)
            if kind in (MESSAGE, GAP):
                packet = b"" if self._over else self._message(record, now) if kind == MESSAGE else self._gap(record)
                if packet is None:
                    if self._asked:
                        self._look_ahead(view[taken + len(record) :], now)
                    break
            else:
                packet = self._speaker.say(record)
            taken += len(record)
            if packet:
                out.append(packet)
        return taken, b"".join(out)

    def take_alike(self, messages: Sequence[SharedMessage]) -> bytes | None:
        """Return the packets of live messages that many are sent, as ``take`` would make them; None, and nothing is
        done, if for this client they are anything but what everybody gets, with the QoS that it wants."""
        session = self._session
        if (
            self._again
            or self._over
            or self._packet_bytes_max
            or self._aliases_max
            or not session.direct
            or len(session.in_flight) + len(messages) > self._in_flight_max
            or session.in_flight_bytes + (messages[-1].before if messages else 0) >= self._bytes_max
        ):
            return None
        wanted = []
        for one in messages:
            options = session.options(one.sid, one.topic, one.place.subject, own=one.origin == self._origin)
            if options is not None:
                if options.identifiers or options.as_published:
                    return None
                wanted.append((one, options.qos))
        out = []
        for one, qos in wanted:
            place = one.place
            if qos and one.assured:
                packet_id = session.next_packet_id()
                packet = one.head + packet_id.to_bytes(2) + one.tail
                session.sent(packet_id, packet, place)
                out.append(packet)
            else:
                out.append(one.packet)
            if place.seq and session.lasts:
                session.reached(*place)
        if len(out) == 1:
            return out[0]
        return b"".join(out)

    def again(self) -> bytes:
        """Return what the client has not acknowledged on an earlier connection (4.4), as much as it takes at
        present."""
        session, again, out = self._session, self._again, []
        while again and len(session.in_flight) - len(again) < self._in_flight_max:
            packet = session.in_flight.get(again[0])
            allowed = packet is None or self._connection.may_read(subject_of(_topic_of(packet)))
            if allowed is None:
                break
            packet_id = again.popleft()
            if not allowed:
                session.give_up(packet_id)
            elif packet is not None and self._packet_bytes_max and len(packet) > self._packet_bytes_max:
                session.acknowledged(packet_id)  # 5: 3.1.2.11.4, as if it had been delivered
            elif packet is not None:
                out.append(bytes((packet[0] | _DUP,)) + packet[1:])
        self._again = again or None
        return b"".join(out)

    def _message(self, data: bytes, now: int) -> bytes | None:
        """Return the packet of a record, empty if the client does not want it; None while the client takes no more."""
        session, record = self._session, read_message(data)
        if not record.packet:
            return b""
        topic = _topic(record)
        place = Place(subject_of(topic), record.epoch, record.seq)
        stands = bool(record.flags & (SNAPSHOT | STANDS))
        before = session.under_way_as(place, snapshot=stands) if record.seq else 0
        if before is None:
            return b""
        own = record.origin == self._origin
        options = session.options(record.sid, topic, place.subject, own=own)
        taken: list[Subscription] = []
        if not record.flags & SNAPSHOT and (shared := session.shared(record.sid, topic)):
            if not self._shares(record, place, shared, taken, now):
                return None
            if taken:
                options = session.with_shares(options, taken, place.subject)
        if options is not None and options.qos and record.flags & ASSURED and self.full:
            return None
        loans = tuple(Loan(one.share, place, session.level, data) for one in taken if one.share is not None)
        told = bool(before) and session.was_retained(place)
        if record.seq:
            session.read_again(place)
        packet = b"" if options is None else self._packet(record, options, now, place, loans, before, told)
        for loan in loans:
            loan.share.left(place)
            if not (packet and packet[0] & _QOS):
                loan.share.done(place)
        if record.flags & STANDS and self._owed(record, topic, options) and not (packet and packet[0] & _QOS):
            return self._missed(place.subject)
        if record.flags & STANDS:
            session.stood_for(place.subject)
        if session.lasts and record.seq and not before and (options is not None or session.shared(record.sid, topic)):
            session.reached(*place)
        return packet

    def _gap(self, data: bytes) -> bytes:
        session, record = self._session, read_message(data)
        place = Place(record.packet.decode(), record.epoch, record.seq)
        topic = name_of(place.subject)
        if topic and self._owed(record, topic, session.options(record.sid, topic, place.subject, own=False)):
            return self._missed(place.subject)
        session.stood_for(place.subject)
        if session.lasts:
            session.reached(*place)
        return b""

    def _owed(self, record: Record, topic: str, options: Options | None) -> bool:
        """Return whether the client was to get each message of the topic, also those that are missing: by a
        subscription of its own, or as one of a group of which nobody was there to take them.

        What the server says of itself no log keeps.
        """
        if is_system(topic):
            return False
        if options is not None and options.qos:
            return True
        live, shared = record.flags & LIVE, self._session.shared(record.sid, topic)
        return any(
            one.filter.qos and one.share is not None and (live or one.share.was_deserted(self._session))
            for one in shared
        )

    def _missed(self, subject: str) -> bytes:
        self._over = True
        self._speaker.missed(subject)
        return b""

    def _shares(
        self, record: Record, place: Place, shared: Sequence[Subscription], taken: list[Subscription], now: int
    ) -> bool:
        """Find what of the groups' the client takes; whether that is known of all of them by now."""
        self._asked = False
        borrowed = self._session.borrowed.get(place, ())
        for one in shared:
            share = one.share
            assert share is not None
            if share.name in borrowed:  # it was sent before, and is nobody else's
                share.hold(self._session, place)
                taken.append(one)
                continue
            full = bool(one.filter.qos and record.flags & ASSURED and self.full)
            verdict = share.ask(self._session, place, now, full=full)
            if verdict is Turn.TAKE:
                taken.append(one)
            elif verdict is not Turn.SKIP:
                self._asked = verdict is Turn.ASKED
                if not full and not self._asked:
                    self._connection.later(YIELD_MS if verdict is Turn.YIELD else 0)
                return False
        return True

    def _look_ahead(self, view: memoryview, now: int) -> None:
        """Ask for what comes next of groups' messages as well, as much of it as the client can take: one way to the
        first worker and back for each would be slow."""
        session, at = self._session, 0
        for _ in range(min(TURN_MAX, self._in_flight_max - len(session.in_flight)) - 1):
            if at >= len(view):
                return
            record = bytes(view[at : at + int.from_bytes(view[at : at + 4])])
            at += len(record)
            if kind_of(record) != MESSAGE:
                return
            found = read_message(record)
            if not found.packet or found.flags & (SNAPSHOT | STANDS):
                continue
            topic = _topic(found)
            place = Place(subject_of(topic), found.epoch, found.seq)
            for one in session.shared(found.sid, topic):
                if one.share is not None and one.share.name not in session.borrowed.get(place, ()):
                    one.share.look_ahead(session, place, now)

    def _packet(
        self,
        record: Record,
        options: Options,
        now: int,
        place: Place,
        loans: tuple[Loan, ...],
        before: int,
        told: bool,
    ) -> bytes:
        """Return the packet, empty if the client is to have none; ``before`` is the packet id that it had, if it comes
        again, and ``told`` says whether it had the retain flag then."""
        flags, packet = record.flags, record.packet
        if flags & SNAPSHOT and (flags & EMPTY or not options.wants):
            return b""
        if record.expires:
            if record.expires <= now:
                return b""
            if at := record.expiry_at:
                left = fields.four(min(max(1, (record.expires - now + 999) // 1000), EXPIRY_SECONDS_MAX))
                packet = packet[:at] + left + packet[at + 4 :]
        qos = options.qos if flags & ASSURED else 0
        retain = told or bool(flags & SNAPSHOT) or bool(options.as_published and flags & RETAINED)
        if qos or options.identifiers:
            packet_id = (before or self._session.next_packet_id()) if qos else 0
            packet = self._rewritten(packet, record.topic_end, packet_id, options.identifiers)
        else:
            packet_id = 0
        if retain or qos:
            packet = bytes((0x30 | qos << 1 | retain | (_DUP if qos and before else 0),)) + packet[1:]
        if self._packet_bytes_max and len(packet) > self._packet_bytes_max:
            return b""  # 5: 3.1.2.11.4, as if it had been delivered
        if qos:
            self._session.sent(packet_id, packet, place, loans)
        return self._aliased(packet, record) if self._aliases_max else packet

    def _aliased(self, packet: bytes, record: Record) -> bytes:
        """Return the packet with a topic alias, in place of its topic from the second time on (5: 3.3.2.3.4).

        The topics that come first have one; what is sent again on another connection has none.
        """
        number = self._aliases.get(record.sid)
        known = number is not None
        if number is None:
            number = len(self._aliases) + 1
            if number > self._aliases_max:
                return packet
        at = _body(packet)
        body = fields.Body(packet, at)
        topic = body.binary()
        packet_id = body.take(2) if packet[0] & 6 else b""
        length = body.variable()
        alias = b"\x23" + fields.two(number)
        rest = fields.variable(length + len(alias)) + alias + body.rest()
        head = (b"\0\0" if known else fields.binary(topic)) + packet_id
        aliased = packet[:1] + fields.variable(len(head) + len(rest)) + head + rest
        if self._packet_bytes_max and len(aliased) > self._packet_bytes_max:
            return packet
        self._aliases = self._aliases or {}
        self._aliases[record.sid] = number
        return aliased

    def _rewritten(self, packet: bytes, topic_end: int, packet_id: int, identifiers: tuple[int, ...]) -> bytes:
        """Return the packet with its id, and with the identifiers of subscriptions among its properties."""
        at = _body(packet)
        number = fields.two(packet_id) if packet_id else b""
        rest = packet[topic_end:]
        if identifiers and self._session.level == V5:
            body = fields.Body(rest)
            length = body.variable()
            more = b"".join(b"\x0b" + fields.variable(one) for one in identifiers)
            rest = fields.variable(length + len(more)) + body.take(length) + more + body.rest()
        head = packet[at:topic_end] + number
        return packet[:1] + fields.variable(len(head) + len(rest)) + head + rest


class SharedMessage(msgspec.Struct, gc=False):
    """A live message that many are sent: its packet of QoS 0, and what is in front of and behind the packet id of that
    of QoS 1, if it is ``assured``; ``before`` are the bytes, at most, of those that are sent with it and before it."""

    sid: int
    topic: str
    place: Place
    origin: int
    assured: bool
    packet: bytes
    head: bytes
    tail: bytes
    before: int

    @classmethod
    def of(cls, record: Record, before: int) -> SharedMessage:
        """Return what the record of a message says, which comes behind so many bytes."""
        packet, topic = record.packet, _topic(record)
        at, tail = _body(packet), packet[record.topic_end :]
        topic_bytes = packet[at : record.topic_end]
        head = b"\x32" + fields.variable(len(topic_bytes) + 2 + len(tail)) + topic_bytes
        place = Place(subject_of(topic), record.epoch, record.seq)
        return cls(record.sid, topic, place, record.origin, bool(record.flags & ASSURED), packet, head, tail, before)


class SharedPackets:
    """The packets of what a tick brings to a group, made once for all members that get what everybody gets.

    ``packets`` are None when something else than live messages is among the records, ``messages`` also when what is
    sent depends on the time.
    """

    __slots__ = ("_data", "messages", "packets")

    def __init__(self) -> None:
        self._data = b""
        self.packets: bytes | None = None
        self.messages: list[SharedMessage] | None = None

    def read(self, data: bytes) -> None:
        """Read these whole records, which the answers are about from now on."""
        if data is self._data:
            return
        self._data = data
        self.packets = self.messages = None
        records = split_records(data)
        if not all(kind_of(record) == MESSAGE for record in records):
            return
        found = [read_message(record) for record in records]
        if any(one.flags & (SNAPSHOT | STANDS) for one in found):
            return
        self.packets = b"".join(one.packet for one in found)
        if not any(one.expires for one in found):
            self.messages, before = [], 0
            for one in found:
                if one.packet:
                    self.messages.append(SharedMessage.of(one, before))
                    before += len(one.packet) + _ID_BYTES_MAX


def _body(packet: bytes) -> int:
    """Return where a packet's body begins."""
    at = 1
    while packet[at] & 0x80:
        at += 1
    return at + 1


def _topic_of(packet: bytes) -> str:
    return fields.Body(packet, _body(packet)).binary().decode()


def _topic(record: Record) -> str:
    return record.packet[_body(record.packet) + 2 : record.topic_end].decode()
