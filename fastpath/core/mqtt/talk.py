"""One connection of MQTT: packets become commands of protocol.md 3, and answers of protocol.md 4 become packets.

State       What it is
silent      nothing came yet: the first packet is CONNECT, and there is no other (3.1)
opening     the client is let in as any client is; what it says waits behind that
open        CONNACK has been sent, and what a session had under way
over        goodbye was said, or the client has said it
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from zlib import crc32

import msgspec

from ..protocol import messages
from ..protocol.codec import MQTT, MQTT5, MSGPACK, Form, decode_server, encode
from ..protocol.limits import SINCE_CHECKS_MAX, SUBJECTS_PER_COMMAND_MAX
from ..protocol.messages import AnyAnswer, Connected, Epoch, Error, Published, Result, Revoked, Subscribed, Unsubscribed
from ..protocol.subject import is_wildcard
from . import packets
from .decoding import decode
from .empty import NO_ENTRIES
from .encoding import PINGRESP, encode_ack
from .encoding import encode as encode_packet
from .groups.shares import Member, Share, Shares
from .outgoing import Outgoing
from .packets import (
    Ack,
    Connack,
    ConnectPacket,
    Disconnect,
    Filter,
    PublishPacket,
    Suback,
    SubscribePacket,
    Type,
    Unsuback,
    UnsubscribePacket,
)
from .publications import publish_command
from .reasons import (
    V3,
    V5,
    MqttError,
    Reason,
    allowed_reason,
    reason_of_close,
    reason_of_refusal,
    reason_of_subscription,
    return_code,
)
from .records import ANSWER, GOODBYE, kind_of, payload_of_record
from .session import FOR_EVER, GROUPS_MAX, POSITIONS_MAX, RECEIVE_MAX, MqttSession, Subscription
from .topics import check_filter, is_wild, patterns_of, share_of, subject_of, topic_of

ALIASES_MAX = 32
"""Topic aliases that a client may have (5: 3.2.2.3.8)."""

CLIENT_ID_CHARS_MAX = 256
"""A client id is a key of the table of sessions."""

REASON_CHARS_MAX = 200
"""Characters that a client is told at most in words."""


_PUBACK = bytes((Type.PUBACK << 4,))


class Host(Protocol):
    """The connection that the talk is about, as the edge has it (edge/clients/mqtt)."""

    @property
    def publisher(self) -> str | None:
        """The key of whom the client's publications count for."""

    def admit(self, packet: ConnectPacket) -> None:
        """Let the client in, with its session, by ``Talk.begin``; or refuse it by ``Talk.refuse``."""

    @property
    def parting(self) -> tuple[Reason, str] | None:
        """The reason why the connection ends, if that is told by a packet of this protocol."""

    def command(self, data: bytes) -> None:
        """Have a command done, in MessagePack."""

    def reply(self, data: bytes) -> None:
        """Send packets past whatever messages wait."""

    def resend(self, filters: Sequence[Subscription], before: object) -> None:
        """Send the snapshots of subjects that ran ``before``, which these filters match and no command began anew; at
        once, or, if that takes long, in turns, while nothing more of what the client says is handled."""

    @property
    def shares(self) -> Shares | None:
        """The groups that share subscriptions; None where there are none."""

    def ready(self) -> bool:
        """Return whether the client can take a message now."""

    def offer(self, record: bytes) -> bool:
        """Send a record that another member of a group has had, if the client may read it; whether it may."""

    def later(self, ms: int = 0) -> None:
        """Look again at what waits in so long; 0: in the next turn of the loop."""

    def discarded(self, subject: str) -> None:
        """End the client's session with the connection, as it has missed messages of the subject for good."""

    def subscribed(self) -> None:
        """Note that the client's subscriptions have changed: this is to be known elsewhere before the client is
        told."""

    def running(self) -> object:
        """Return what runs now, for ``resend``."""

    def acknowledged(self) -> None:
        """Note that the client takes messages again."""

    def may_read(self, subject: str) -> bool | None:
        """Return whether the client may read it; None while that is not known."""

    def holds(self) -> bool:
        """Return whether what the client says has to wait, as for a hook that is asked who it is."""

    def leave(self, reason: Reason, text: str) -> None:
        """End the connection for what the peer did; nothing more is said."""

    def close(self, reason: Reason, text: str) -> None:
        """Say goodbye by ``Talk.goodbye``, and end."""


class _Asked(msgspec.Struct, gc=False):
    """A command that waits for its answer: what it is of (a type of packet), the packet's id, and its filters."""

    kind: int
    packet_id: int = 0
    filters: Sequence[tuple[Filter, list[str], int]] = ()


class Talk:
    """The talk with one client, from its first packet on.

    ``keep_alive`` is in seconds, 0 for never, at most ``keep_alive_max`` where the client can be told that; the client
    wants its session to outlast the connection by ``expiry_seconds``; ``will`` is what is published when it is lost.
    """

    __slots__ = (
        "_aliases",
        "_asked",
        "_behind",
        "_bytes_max",
        "_connect_packet",
        "_explains",
        "_host",
        "_in_flight_bytes_max",
        "_keep_alive_max",
        "_missed",
        "_number",
        "_packet_bytes_max",
        "_present",
        "_resumes",
        "_undecided",
        "asked",
        "begun",
        "clean",
        "client_id",
        "connected",
        "expiry_seconds",
        "keep_alive",
        "level",
        "opened",
        "outgoing",
        "session",
        "will",
    )

    session: MqttSession
    outgoing: Outgoing

    def __init__(self, host: Host, packet_bytes_max: int, in_flight_bytes_max: int, keep_alive_max: int = 0) -> None:
        self._host = host
        self._packet_bytes_max = packet_bytes_max
        self._in_flight_bytes_max = in_flight_bytes_max
        self._keep_alive_max = keep_alive_max
        self._aliases: dict[int, str] = NO_ENTRIES
        self._asked: dict[int, _Asked] = NO_ENTRIES
        # A hook is asked, or rights are on their way.
        self._undecided: list[tuple[_Asked, dict[str, Result]]] | None = None
        self._number = 0
        self._present = self._resumes = False
        self._missed = ""  # a subject, of a session that is present no more for what was missed
        self.level = V3
        self.clean = True
        self.client_id = ""
        self.keep_alive = 0
        self.expiry_seconds = 0
        self._explains = True
        self._behind = b""  # answers that wait for CONNACK
        self._bytes_max = 0  # of a packet that the client takes; 0: any
        self._connect_packet: ConnectPacket | None = None  # until it is answered
        self.connected = self.asked = self.begun = self.opened = False
        self.will: packets.Will | None = None

    def assign(self, client_id: str) -> None:
        """Give a client that has none an id."""
        self.client_id = client_id

    @property
    def version(self) -> str:
        """The version of MQTT that the client speaks, for people."""
        return "MQTT 5" if self.level == V5 else "MQTT 3.1.1"

    @property
    def form(self) -> Form:
        """The form of what waits for the client."""
        return MQTT5 if self.level == V5 else MQTT

    # What the client says

    def received(self, data: bytes, now: int) -> None:
        """Take one whole packet; raise MqttError, which ends the connection."""
        kind = data[0] >> 4
        if not self.connected:
            if kind != Type.CONNECT:
                raise MqttError(Reason.PROTOCOL_ERROR, "the first packet is CONNECT")
            self._connect(data)
            return
        if kind == Type.CONNECT:
            raise MqttError(Reason.PROTOCOL_ERROR, "CONNECT comes once")
        packet = decode(data, self.level)
        match packet:
            case PublishPacket():
                self._publish(packet, now)
            case Ack():
                self._ack(packet)
            case SubscribePacket():
                self._subscribe(packet)
            case UnsubscribePacket():
                self._unsubscribe(packet)
            case packets.Pingreq():
                self._reply(PINGRESP)
            case Disconnect():
                self._disconnect(packet)
            case _:
                raise MqttError(Reason.PROTOCOL_ERROR, "a client does not send that packet")

    def acknowledgements(self, data: bytes) -> bool:
        """Handle bytes that are nothing but PUBACKs without a reason, which are most of what a subscriber says; return
        whether they are: if not, nothing is done."""
        count = len(data) // 4
        if not self.opened or len(data) % 4 or data[::4] != _PUBACK * count or data[1::4] != b"\2" * count:
            return False
        numbers = [data[at] << 8 | data[at + 1] for at in range(2, len(data), 4)]
        if 0 in numbers:
            return False
        if sum(map(self.session.acknowledged, numbers)):
            self._host.acknowledged()
        return True

    def _connect(self, data: bytes) -> None:
        at = 1
        while data[at] & 0x80:
            at += 1
        if data[at + 7 : at + 8] == b"\5":
            self.level = V5  # so that a refusal has the form of its version
        self.asked = True
        packet = decode(data, V5)
        assert isinstance(packet, ConnectPacket)
        properties = packet.properties
        self.level, self.client_id, self.keep_alive = packet.level, packet.client_id, packet.keep_alive
        self.clean, self.will = packet.clean, packet.will
        self._bytes_max = properties.get("maximum_packet_size", 0)
        if self.level == V5 and self._keep_alive_max:
            self.keep_alive = min(self.keep_alive or self._keep_alive_max, self._keep_alive_max)
        if "authentication_method" in properties:
            raise MqttError(Reason.BAD_AUTHENTICATION_METHOD, "there is no enhanced authentication here")
        if len(packet.client_id) > CLIENT_ID_CHARS_MAX:
            raise MqttError(Reason.CLIENT_ID_NOT_VALID, f"a client id has at most {CLIENT_ID_CHARS_MAX} characters")
        if not packet.client_id and packet.level == V3 and not packet.clean:
            raise MqttError(Reason.CLIENT_ID_NOT_VALID, "a session that lasts needs a client id")
        if packet.will is not None:
            subject_of(packet.will.topic)
        self.expiry_seconds = self._expiry_of(packet)
        self._explains = bool(properties.get("request_problem_information", 1))
        self.connected, self._connect_packet = True, packet
        self._host.admit(packet)

    def take_will(self) -> packets.Will | None:
        """Take out the will, which is nobody's any more."""
        will, self.will = self.will, None
        return will

    def _expiry_of(self, packet: ConnectPacket) -> int:
        if self.level == V5:
            return int(packet.properties.get("session_expiry", 0))
        return 0 if self.clean else FOR_EVER

    def begin(self, session: MqttSession, *, present: bool, missed: str = "") -> None:
        """Let the client in with this session, which was ``present`` before; the one that the client had is not, where
        messages of the subject ``missed`` cannot be had any more."""
        assert self._connect_packet is not None
        self.session, self._present, self._missed = session, present, missed
        properties = self._connect_packet.properties
        self.outgoing = Outgoing(
            session,
            self,
            self._host,
            properties.get("receive_maximum", 65_535),
            self._bytes_max,
            properties.get("topic_alias_maximum", 0),
            self._in_flight_bytes_max,
        )
        self._host.command(
            encode(messages.Connect(id=0, client=f"{self.version} {self.client_id}", publisher=session.name), MSGPACK)
        )
        self.begun = True
        for one in session.subscriptions.values():
            if one.share is not None:
                self._join(one.share)
        self._resumes = self._host.holds()  # one command at most may wait
        if not self._resumes:
            self._resume()

    def _share(self, one: Filter, groups: set[str]) -> tuple[Share | None, Reason]:
        """Return the group that the filter names, or why there is none; ``groups`` are those of the client."""
        if self._host.shares is None:
            return None, Reason.SHARED_NOT_SUPPORTED
        if one.text not in groups and len(groups) >= GROUPS_MAX:
            return None, Reason.QUOTA_EXCEEDED
        groups.add(one.text)
        return self._host.shares.find(one.text), Reason.QUOTA_EXCEEDED

    def _join(self, share: Share) -> None:
        host = self._host
        share.join(self.session, Member(self.level, host.ready, lambda loan: host.offer(loan.record), wake=host.later))

    def parted(self) -> None:
        """Let the groups of the session go on without it, as the connection is over."""
        for one in self.session.subscriptions.values() if self.begun else ():
            if one.share is not None:
                one.share.part(self.session)

    def _leave_share(self, subscription: Subscription | None) -> None:
        shares = self._host.shares
        if subscription is not None and subscription.share is not None and shares is not None:
            shares.leave(subscription.share, self.session)

    def _publish(self, packet: PublishPacket, now: int) -> None:
        alias = packet.properties.pop("topic_alias", None)
        if alias is not None:
            if not 0 < alias <= ALIASES_MAX:
                raise MqttError(Reason.TOPIC_ALIAS_INVALID, f"topic aliases go from 1 to {ALIASES_MAX}")
            if packet.topic:
                self._aliases = self._aliases or {}
                self._aliases[alias] = packet.topic
            elif alias in self._aliases:
                packet.topic = self._aliases[alias]
            else:
                raise MqttError(Reason.PROTOCOL_ERROR, f"the topic alias {alias} stands for nothing")
        if "subscription_identifier" in packet.properties:
            raise MqttError(Reason.PROTOCOL_ERROR, "a client sends no subscription identifiers")
        session, number = self.session, 0
        if packet.qos:
            stored = session.received.get(packet.packet_id) if packet.qos == 2 else None
            if stored is not None:  # it comes again (4.3.3)
                if stored:
                    self._reply(encode_ack(Type.PUBREC, packet.packet_id, self.level))
                if stored or packet.packet_id in self._waiting():
                    return
            elif self.level == V5 and len(session.received.keys() | self._waiting()) >= RECEIVE_MAX:
                raise MqttError(Reason.RECEIVE_MAXIMUM_EXCEEDED, f"over {RECEIVE_MAX} publications under way")
            # Of one that was not stored before its connection ended nobody knows what became of it.
            digest = crc32(packet.payload, crc32(packet.topic.encode()))
            number = session.number(packet.packet_id, digest, again=packet.dup or stored is not None)
        kind = (Type.PINGREQ, Type.PUBACK, Type.PUBREC)[packet.qos]
        try:
            command = publish_command(packet, self._next(), number, now)
        except MqttError as error:
            if packet.topic.startswith("$") and self.level != V5:
                self._discarded(packet)
                return
            if self.level != V5 or not packet.qos:
                raise
            # Of the server's own topics the code says it all.
            self._refused(kind, packet.packet_id, error.code, "" if packet.topic.startswith("$") else error.text)
            return
        if packet.qos == 2:
            session.receive(packet.packet_id, stored=False)
        self._ask(command, _Asked(kind, packet.packet_id))

    def _waiting(self) -> set[int]:
        """Return the packet ids of publications whose outcome is not known yet."""
        return {one.packet_id for one in self._asked.values() if one.kind in (Type.PUBACK, Type.PUBREC)}

    def _discarded(self, packet: PublishPacket) -> None:
        """Acknowledge and drop a publication to the server's own topics: nobody can subscribe to these, and MQTT 3.1.1
        has no way to say so (3.3.5)."""
        if packet.qos:
            kind = Type.PUBACK if packet.qos == 1 else Type.PUBREC
            if packet.qos == 2:
                self.session.receive(packet.packet_id, stored=True)
            self._reply(encode_ack(kind, packet.packet_id, self.level))

    def _ack(self, packet: Ack) -> None:
        session = self.session
        if packet.type == Type.PUBACK:
            if session.acknowledged(packet.packet_id):
                self._host.acknowledged()
        elif packet.type == Type.PUBREL:
            known = session.received.pop(packet.packet_id, None) is not None
            code = Reason.SUCCESS if known or self.level != V5 else Reason.PACKET_ID_NOT_FOUND
            self._reply(encode_ack(Type.PUBCOMP, packet.packet_id, self.level, code))
        else:
            raise MqttError(Reason.PROTOCOL_ERROR, "nothing was sent with QoS 2")

    def _subscribe(self, packet: SubscribePacket) -> None:
        """Subscribe to all patterns of the filters with one command; its answer is theirs."""
        session = self.session
        identifier = packet.properties.get("subscription_identifier", 0)
        new: list[Subscription] = []
        asked: list[tuple[Filter, list[str], int]] = []
        # All of them are looked at before anything is begun: a group that is found has a member then.
        read = [_read_filter(one) for one in packet.filters]
        groups = {text for text, one in session.subscriptions.items() if one.share is not None}
        for one, (levels, shared) in zip(packet.filters, read, strict=True):
            share: Share | None = None
            try:
                patterns = patterns_of(shared or levels)
            except MqttError:
                asked.append((one, [], Reason.FILTER_INVALID))
                continue
            if shared:
                levels, share, code = shared, *self._share(one, groups)
                if share is None:
                    asked.append((one, [], code))
                    continue
            one.qos = min(one.qos, 1)
            # What is retained is not for a group (4.8.2).
            wants = one.handling == 0 or (one.handling == 1 and one.text not in session.subscriptions)
            wants = wants and share is None
            if not patterns and share is None:  # nothing will ever come: it is granted, and not kept
                asked.append((one, patterns, one.qos))
                continue
            new.append(Subscription(one, patterns, identifier, wants, share))
            asked.append((one, patterns, one.qos))
        wanted = [one for one in new if one.wants]
        before = self._host.running() if session.subscriptions and wanted else None
        for subscription in new:
            session.subscribe(subscription)
            if subscription.share is not None:
                self._join(subscription.share)
        subjects = list(dict.fromkeys(pattern for _, patterns, _ in asked for pattern in patterns))
        waiting = _Asked(Type.SUBACK, packet.packet_id, asked)
        if not subjects:
            self._suback(waiting, {}, Reason.SUCCESS)
            return
        conflation, history = (_number_of(packet, name) for name in ("conflation", "history"))
        if any(one.share is not None for one in new):
            conflation = history = 0  # a group has each message, from now on
        command = messages.Subscribe(id=self._next(), subjects=subjects, conflation=conflation, history=history)
        self._ask(command, waiting)
        if before is not None:
            self._host.resend(wanted, before)

    def _unsubscribe(self, packet: UnsubscribePacket) -> None:
        session = self.session
        asked: list[tuple[Filter, list[str], int]] = []
        ended: list[str] = []
        for text in packet.filters:
            check_filter(text)
            subscription = session.unsubscribe(text)
            self._leave_share(subscription)
            code = Reason.SUCCESS if subscription is not None else Reason.NO_SUBSCRIPTION_EXISTED
            asked.append((Filter(text=text), [], code))
            ended += subscription.patterns if subscription is not None else ()
        waiting = _Asked(Type.UNSUBACK, packet.packet_id, asked)
        subjects = session.unused(ended)
        while len(subjects) > SUBJECTS_PER_COMMAND_MAX:
            some, subjects = subjects[:SUBJECTS_PER_COMMAND_MAX], subjects[SUBJECTS_PER_COMMAND_MAX:]
            self._ask(messages.Unsubscribe(id=self._next(), subjects=some), _Asked(Type.CONNACK))
        if subjects:
            self._ask(messages.Unsubscribe(id=self._next(), subjects=subjects), waiting)
        else:
            self._unsuback(waiting)

    def _disconnect(self, packet: Disconnect) -> None:
        if "session_expiry" in packet.properties:
            seconds = packet.properties["session_expiry"]
            if seconds and not self.session.lasts:
                raise MqttError(Reason.PROTOCOL_ERROR, "a session that was to end cannot be kept")
            self.session.keep_for(seconds)
        if packet.code != Reason.DISCONNECT_WITH_WILL:
            self.will = None
        self._host.leave(Reason.SUCCESS, "closed by the client")

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _ask(self, command: messages.AnyCommand, waiting: _Asked) -> None:
        self._asked = self._asked or {}
        self._asked[self._number] = waiting
        self._host.command(encode(command, MSGPACK))

    # What the server says

    def say(self, record: bytes) -> bytes:
        """Return the packets of a record that is no message."""
        payload = payload_of_record(record)
        if kind_of(record) == GOODBYE:
            text = payload[2:].decode(errors="replace").partition(": ")[2]
            return self.goodbye(*(self._host.parting or (reason_of_close(int.from_bytes(payload[:2])), text)))
        answer = decode_server(payload, MSGPACK)
        return b"" if isinstance(answer, messages.Data) else self._answer(answer)

    def overtake(self, record: bytes) -> None:
        """Say a record now that has to wait behind messages, if it is an answer, as only messages wait until the client
        acknowledges others (5: 4.9).

        The record is nothing any more when its turn comes.
        """
        if kind_of(record) == ANSWER:
            answer = decode_server(payload_of_record(record), MSGPACK)
            if isinstance(answer, Subscribed):
                self._reached(answer.results, overtakes=True)
                self._subscribed(answer)
            elif isinstance(answer, Unsubscribed | Published | Error | Revoked):
                self._answer(answer)

    def _subscribed(self, answer: Subscribed) -> None:
        self._decided({one.subject: one for one in answer.results})
        waiting = self._answered(answer.id)
        if waiting is not None and waiting.kind == Type.SUBACK:
            self._undecided = self._undecided or []
            self._undecided.append((waiting, {one.subject: one for one in answer.results}))
            self._decided({})

    def _answer(self, answer: AnyAnswer) -> bytes:
        match answer:
            case Connected():
                return self._opened()
            case Subscribed():
                self._reached(answer.results)
                self._subscribed(answer)
            case Unsubscribed():
                waiting = self._answered(answer.id)
                if waiting is not None and waiting.kind == Type.UNSUBACK:
                    self._unsuback(waiting)
            case Published():
                waiting = self._answered(answer.id)
                if waiting is not None:
                    self._published(waiting, answer.status, answer.reason)
            case Error():
                waiting = self._answered(answer.id)
                if waiting is not None:
                    self._failed(waiting, answer)
            case Revoked():
                self._host.close(Reason.NOT_AUTHORIZED, f"the right to {answer.subjects[0]} has ended")
            case Epoch():
                pass  # what comes next says its epoch
        return b""

    def _answered(self, number: object) -> _Asked | None:
        """Return what the answer with that number is for; nothing waits for the answer any more."""
        waiting = self._asked.pop(number, None) if isinstance(number, int) else None
        self._asked = self._asked or NO_ENTRIES  # a dict that was used keeps its table when it is empty
        return waiting

    def _opened(self) -> bytes:
        """Return CONNACK, what was under way, and the subscriptions of a session that goes on (3.2.2.2, 4.4)."""
        connect, self._connect_packet = self._connect_packet, None
        assert connect is not None
        session = self.session
        properties: packets.Properties = {}
        if self.level == V5:
            properties = {
                "receive_maximum": RECEIVE_MAX,
                "topic_alias_maximum": ALIASES_MAX,
                "maximum_packet_size": self._packet_bytes_max,
            }
            if self._host.shares is None:
                properties["shared_available"] = 0
            if not connect.client_id:
                properties["assigned_client_id"] = self.client_id
            if self.keep_alive != connect.keep_alive:
                properties["server_keep_alive"] = self.keep_alive
            if session.expiry_seconds != self.expiry_seconds:
                properties["session_expiry"] = session.expiry_seconds
        data = self._connack(properties)
        if self._bytes_max and len(data) > self._bytes_max:
            self._host.close(Reason.PACKET_TOO_LARGE, "the answer is larger than the client takes")
            return b""
        self.opened = True
        self.outgoing.own(self._host.publisher)
        behind, self._behind = self._behind, b""
        self._host.reply(data + behind)
        if self._resumes:
            self._resume()
        return self.outgoing.again()

    def _connack(self, properties: packets.Properties) -> bytes:
        """Return CONNACK, with the reason why a session is not present any more, if the client takes so much (5:
        3.2.2.3.9)."""
        if self._missed and self._explains and self.level == V5:
            properties["reason_string"] = _missing(self._missed)
        return self._encoded(Connack(code=0, session_present=self._present, properties=properties))

    def _encoded(self, packet: Connack | Suback | Unsuback | Disconnect | Ack) -> bytes:
        """Return the packet, without its words where these make it larger than the client takes (5: 3.1.2.11.4)."""
        data = encode_packet(packet, self.level)
        if self._bytes_max and len(data) > self._bytes_max and packet.properties.pop("reason_string", ""):
            return encode_packet(packet, self.level)
        return data

    def _reply(self, data: bytes) -> None:
        """Send an answer, behind CONNACK if that has not been sent yet (3.2), or end the connection if it is larger
        than the client takes: without it the client would wait for ever."""
        if self._bytes_max and len(data) > self._bytes_max:
            self._host.close(Reason.PACKET_TOO_LARGE, "the answer is larger than the client takes")
        elif self.opened:
            self._host.reply(data)
        else:
            self._behind += data

    def missed(self, subject: str) -> None:
        """End the client's session, so that it subscribes anew: messages that it was to get cannot be had any more, and
        MQTT has no packet that says so."""
        self.session.keep_for(0)
        self._host.discarded(subject)
        self._host.close(Reason.UNSPECIFIED, _missing(subject))

    def _resume(self) -> None:
        """Subscribe again to what the session has, and go on from its positions. Those of subjects that it names go
        with these; a pattern, which may cover any other, gets all others."""
        session = self.session
        crowded = len(session.positions) >= POSITIONS_MAX  # of some nobody knows where the client stands
        texts = list(dict.fromkeys(text for one in session.subscriptions.values() for text in one.patterns))
        positions = session.since()
        patterns = [text for text in texts if is_wildcard(text)]
        named = [text for text in texts if not is_wildcard(text)]
        for at in range(0, len(named), SUBJECTS_PER_COMMAND_MAX):
            some = named[at : at + SUBJECTS_PER_COMMAND_MAX]
            places = {text: positions.pop(text, (0, 0) if crowded else None) for text in some}
            self._begin_again(some, {text: place for text, place in places.items() if place is not None})
        size = min(SUBJECTS_PER_COMMAND_MAX, max(1, SINCE_CHECKS_MAX // (len(positions) + 1) - 1))
        for at in range(0, len(patterns), size):
            some = patterns[at : at + size]
            self._begin_again(some, {**dict.fromkeys(some, (0, 0)), **positions})

    def _begin_again(self, subjects: list[str], since: dict[str, tuple[int, int]]) -> None:
        self._ask(messages.Subscribe(id=self._next(), subjects=subjects, since=since), _Asked(Type.CONNACK))

    def _reached(self, results: Sequence[Result], *, overtakes: bool = False) -> None:
        """Note where the subscriptions begin: from there on what is missed is sent again.

        What comes first may have to wait for acknowledgements, and the connection end before: until it is sent, a
        subscription that begins stands in front of it, and one that goes on where it was. Where the answer
        ``overtakes`` what waits, that of subjects which are known stands in front of it.
        """
        session = self.session
        if session.lasts:
            for one in results:
                if not isinstance(one.seq, int) or not isinstance(one.epoch, int) or one.recovery == "recovered":
                    continue
                if one.recovery == "resynchronised" and one.messages:
                    continue
                seq = max(0, one.seq - one.messages)
                if not one.recovery:
                    session.begins(one.subject, one.epoch, seq)
                if not overtakes or one.subject not in session.positions:
                    session.reached(one.subject, one.epoch, seq)

    def _decided(self, results: dict[str, Result]) -> None:
        """Answer each SUBSCRIBE of which it is known for all subjects whether they may be read, in the order of these
        packets."""
        for entry in list(self._undecided or ()):
            waiting, known = entry
            known.update((subject, result) for subject, result in results.items() if subject in known)
            if not any(one.error == "not_ready" and not is_wildcard(one.subject) for one in known.values()):
                assert self._undecided is not None
                self._undecided.remove(entry)
                self._suback(waiting, known, Reason.SUCCESS)
        self._undecided = self._undecided or None

    def _suback(self, waiting: _Asked, results: dict[str, Result], failed: Reason) -> None:
        codes, ended, denied = [], [], []
        for one, patterns, code in waiting.filters:
            errors = [results[text].error for text in patterns if text in results and results[text].error]
            ended += [text for text in patterns if text in results and results[text].error == "denied"]
            hard = [error for error in errors if error != "not_ready"]
            if failed and code <= 1:
                code = failed
            elif hard and (len(hard) == len(patterns) or not is_wild(check_filter(one.text)) or "limit" in hard):
                code = reason_of_subscription(hard[0])
                denied += [one.text] if hard[0] == "denied" else []
            if code > 1:
                self._leave_share(self.session.unsubscribe(one.text))
            codes.append(code if self.level == V5 or code < 0x80 else 0x80)
        if ended:
            self._ask(messages.Unsubscribe(id=self._next(), subjects=ended), _Asked(Type.CONNACK))
        self._host.subscribed()
        packet = Suback(packet_id=waiting.packet_id, codes=codes)
        if denied and self.level == V5 and self._explains:
            packet.properties["reason_string"] = f"not authorized: {', '.join(denied)}"[:REASON_CHARS_MAX]
        self._reply(self._encoded(packet))

    def _unsuback(self, waiting: _Asked) -> None:
        codes = [code for _, _, code in waiting.filters]
        self._host.subscribed()
        self._reply(self._encoded(Unsuback(packet_id=waiting.packet_id, codes=codes)))

    def _published(self, waiting: _Asked, status: str, reason: str) -> None:
        if status == "ok":
            if waiting.packet_id in self.session.received:
                self.session.receive(waiting.packet_id, stored=True)
            if waiting.packet_id:
                self._reply(encode_ack(waiting.kind, waiting.packet_id, self.level))
        else:
            self._refused(waiting.kind, waiting.packet_id, reason_of_refusal(status), reason)

    def _failed(self, waiting: _Asked, answer: Error) -> None:
        if waiting.kind == Type.SUBACK:
            limit = answer.code == "limit"
            self._suback(waiting, {}, Reason.QUOTA_EXCEEDED if limit else Reason.UNSPECIFIED)
        elif waiting.kind == Type.UNSUBACK:
            self._unsuback(waiting)
        else:
            self._refused(waiting.kind, waiting.packet_id, reason_of_refusal(answer.code), answer.reason)

    def _refused(self, kind: int, packet_id: int, code: Reason, text: str) -> None:
        """Refuse a publication, which was not taken. MQTT 3.1.1 has no way to say so but to end the connection
        (3.3.5)."""
        if not packet_id:
            return
        self.session.refused(packet_id)
        if self.level == V5:
            properties = {"reason_string": text[:REASON_CHARS_MAX]} if text and self._explains else {}
            told = Ack(type=kind, packet_id=packet_id, code=allowed_reason(kind, code), properties=properties)
            self._reply(self._encoded(told))
        else:
            self._host.close(code, text)

    def goodbye(self, reason: Reason, text: str, server: str = "") -> bytes:
        """Return the last packet of the server: CONNACK if there was none, else DISCONNECT, which MQTT 3.1.1 has
        not."""
        properties: packets.Properties = {"reason_string": text[:REASON_CHARS_MAX]} if text else {}
        if server:
            properties["server_reference"] = server
        if not self.opened:
            code = allowed_reason(Type.CONNACK, reason) if self.level == V5 else return_code(reason)
            if not code and self.level != V5:
                return b""
            data = self._encoded(Connack(code=code or 0x80, properties=properties))
        elif self.level == V5:
            data = self._encoded(Disconnect(code=allowed_reason(Type.DISCONNECT, reason), properties=properties))
        else:
            return b""
        return data if not self._bytes_max or len(data) <= self._bytes_max else b""


def _missing(subject: str) -> str:
    return f"messages are missing, first of {topic_of(subject)}: the session is over"[:REASON_CHARS_MAX]


def _read_filter(one: Filter) -> tuple[list[str], list[str]]:
    """Return the levels of a filter, and those that a group shares; raise MqttError."""
    levels = check_filter(one.text)
    shared = share_of(levels)
    if shared and one.no_local:
        raise MqttError(Reason.PROTOCOL_ERROR, "a shared subscription has no No Local")
    return levels, shared


def _number_of(packet: SubscribePacket, name: str) -> int:
    """Return a whole number among the user properties of a SUBSCRIBE; 0 if there is none."""
    text = dict(packet.properties.get("user_property", ())).get(name, "")
    return int(text) if text.isdecimal() and len(text) < 10 else 0
