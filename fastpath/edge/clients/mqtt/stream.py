"""MQTT between a client's socket and the core: packets in, in turns; records out, as the packets that it takes."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Generator, Sequence
from hashlib import sha256
from time import perf_counter
from typing import TYPE_CHECKING, cast

from ....core.auth.reasons import PENDING
from ....core.auth.rules import SUBSCRIBE
from ....core.auth.tokens import is_token
from ....core.delivery.audience import Client, Topic
from ....core.delivery.link import PauseReason
from ....core.mqtt.decoding import Splitter
from ....core.mqtt.groups.shares import Shares
from ....core.mqtt.outgoing import SharedPackets
from ....core.mqtt.packets import ConnectPacket
from ....core.mqtt.publications import as_retained
from ....core.mqtt.reasons import MqttError, Reason, reason_of_close
from ....core.mqtt.records import sid_of_record, split_records
from ....core.mqtt.session import MqttSession, Subscription
from ....core.mqtt.talk import Talk
from ....core.mqtt.topics import matches, topic_of
from ....core.protocol.errors import Close, Refused
from ....core.websocket.close_frames import close_payload
from ....core.websocket.frames import BINARY, CLOSE, PING, PONG, FrameReader, encode_binary, encode_frame
from ....core.websocket.handshake import Request
from ...runtime.runtime import now
from ...runtime.scheduler import TURN_SECONDS
from ...runtime.socket_writer import write_each
from ..client_stream import ClientStreamLink, SendNow, Stream
from ..handshake import MQTT_PATH, terms_over

if TYPE_CHECKING:
    from ...runtime.runtime import Runtime

REPLIES_BYTES_MAX = 256 << 10
"""Answers that wait because the client does not read them; beyond that it is a slow consumer."""

RESEND_STEP = 200
"""Filters that are held against subjects without a look at the clock: some 0.1 ms."""

log = logging.getLogger("fastpath.clients")

_Running = tuple[list[Topic], dict[Topic, str]]
"""The subjects that run for a client, and which pattern those follow that it did not name."""

_CLOSE_OF = {
    Reason.SUCCESS: Close.NORMAL,
    Reason.PACKET_TOO_LARGE: Close.TOO_BIG,
    Reason.NOT_AUTHORIZED: Close.REVOKED,
    Reason.KEEP_ALIVE_TIMEOUT: Close.PING_TIMEOUT,
    Reason.TAKEN_OVER: Close.NORMAL,
    Reason.SERVER_BUSY: Close.OVERLOADED,
    Reason.UNSUPPORTED_VERSION: Close.BAD_VERSION,
    Reason.QUOTA_EXCEEDED: Close.SLOW_CONSUMER,
    Reason.UNSPECIFIED: Close.NORMAL,
}


class MqttStream(Stream):
    """Speaks MQTT on one connection; implements core.mqtt.talk.Host.

    With a ``reader`` of frames each piece is a WebSocket message, both ways.
    """

    __slots__ = (
        "_faulty",
        "_framed",
        "_heard",
        "_last",
        "_link",
        "_looks",
        "_packets",
        "_reader",
        "_replies",
        "_runtime",
        "_splitter",
        "_writing",
        "_yields",
        "talk",
    )

    hears = True
    lags = True

    def __init__(self, runtime: Runtime, link: ClientStreamLink, reader: FrameReader | None = None) -> None:
        super().__init__()
        bytes_max = runtime.command_bytes_max
        self._runtime = runtime
        self._link = link
        self._reader = reader
        self._framed = reader is not None
        self._splitter = Splitter(bytes_max)
        self._packets: deque[bytes] | None = None  # an empty deque takes 760 bytes
        self._replies = 0  # bytes of answers since the socket has taken all
        self._writing = self._looks = self._yields = False
        self._faulty = False  # what is written to it went wrong: it is about to be ended, and gets nothing more
        self._last: tuple[Reason, str] | None = None
        settings = runtime.settings
        self.talk = Talk(self, bytes_max, settings.outbox_bytes_max, settings.mqtt_keep_alive_seconds)
        self._heard = runtime.awake.time
        if runtime.mqtt is not None:
            runtime.mqtt.came(self)

    # Bytes in

    def received(self, data: bytes) -> None:
        """Handle bytes of MQTT, or frames that have them in them (5: 6)."""
        link, reader = self._link, self._reader
        if reader is None:
            if not link.closing:
                self._take(data)
            return
        for opcode, payload in reader.feed(data):
            if opcode == CLOSE:
                self.ended()
                self._runtime.loop.call_soon(link.lost)
                return
            if link.closing or opcode == PONG:
                continue
            if opcode == PING:
                self._answer(encode_frame(PONG, payload), as_is=True)
            elif opcode == BINARY:
                self._take(payload)
            else:
                link.close(Close.BAD_MESSAGE, "bad_message: MQTT is made of binary frames")
        if reader.error is not None and not link.closing:
            link.close(reader.error.code, f"{reader.error.code.label}: {reader.error.reason}")

    def _take(self, data: bytes) -> None:
        """Take bytes of MQTT: whole packets are handled, unless something holds the client."""
        self._heard = self._runtime.awake.time
        if not self._packets and self._splitter.idle and self._hears and self.talk.acknowledgements(data):
            return
        if packets := self._splitter.feed(data):
            if self._packets:
                self._packets.extend(packets)
            else:
                self._packets = deque(packets)
        self._handle()

    def look(self, awake: float) -> float:
        """Return for how long the client has said nothing, at this time that the process was awake (s), once a second.

        While the client is held nobody hears what it says.
        """
        if self._link.held:
            self._heard = awake
        if self.talk.begun and (self.talk.session.in_groups or self.talk.outgoing.waits):
            self.acknowledged()  # others may have taken what waits because it was full; what may be read may be known
        return awake - self._heard

    @property
    def _hears(self) -> bool:
        """True if what the client says is handled at once."""
        link = self._link
        return not (link.held or link.closing or link.ended)

    @property
    def held_back(self) -> bool:
        """True if packets wait to be handled."""
        return bool(self._packets)

    def go_on(self) -> None:
        """Handle what waits."""
        self._handle()

    def _handle(self) -> None:
        link, packets = self._link, self._packets
        due = perf_counter() + TURN_SECONDS
        moment = now()
        while packets and self._hears:
            try:
                self.talk.received(packets.popleft(), moment)
            except MqttError as error:
                self._failed(error)
                return
            if packets and perf_counter() >= due:
                link.wait_for_turn()
        if not self._packets:
            self._packets = None
        if self._splitter.error is not None and not self._packets and not link.closing and not link.ended:
            self._failed(self._splitter.error)

    def _failed(self, error: MqttError) -> None:
        self.close(error.code, error.text)

    # What the talk asks for

    @property
    def client(self) -> Client | None:
        """The client, from when it has been let in."""
        return self._link.client

    @property
    def publisher(self) -> str | None:
        return self._link.client.publisher if self._link.client is not None else None

    def admit(self, packet: ConnectPacket) -> None:
        """Let a client in: its password is its token, or that of a user, which is checked first."""
        given = (packet.password or b"").decode(errors="replace")
        passwords = self._runtime.passwords
        if passwords is None or not packet.user or not given or is_token(given):
            self._let_in(given, None)
            return
        self._link.hold(PauseReason.ASKED, True)
        passwords.check(packet.user, given, self._link.address, self._password_checked)

    def _password_checked(self, token: str, refused: Refused | None) -> None:
        if not self._link.ended and not self._link.closing:
            self._link.hold(PauseReason.ASKED, False)
            self._let_in(token, refused)

    def _let_in(self, token: str, refused: Refused | None) -> None:
        """Let a client in with this token, unless it is refused already."""
        link, table = self._link, self._runtime.mqtt
        assert table is not None
        refused = link.open(token, terms_over(self.talk.form, link.socket.listener), refused=refused)
        # CONNECT, as those see it who are told of requests.
        request = Request("CONNECT", MQTT_PATH, MQTT_PATH, "", "MQTT", {"user-agent": self.talk.version}, 0)
        link.tell_opened(request, token, refused)
        if link.turn_away(refused):
            return
        assert link.client is not None
        # Where no claims say who it is a hook says so later: until then it is the bearer of its token.
        principal = link.client.principal
        unknown = self._runtime.asks is not None and principal.claims is None
        owner = f"?{sha256(token.encode()).hexdigest()}" if unknown else principal.user
        table.take(self, owner, self._begin)
        if not self.talk.begun and not link.closing:
            link.hold(PauseReason.TAKING, True)  # at most as long as a handshake may take

    def _begin(self, session: MqttSession, present: bool, missed: str) -> None:
        """Begin with the client's session, which is here, maybe by a message of another worker: a fault is this
        client's alone."""
        link = self._link
        if link.closing or link.ended:
            return
        link.hold(PauseReason.TAKING, False)
        link.settle()
        try:
            self.talk.begin(session, present=present, missed=missed)
        except Exception as error:
            link.failed(error)

    @property
    def begun(self) -> bool:
        """True once the client has got its session."""
        return self.talk.begun

    def late(self) -> tuple[int, str] | None:
        if not self.talk.connected:
            return None
        if self._link.held & PauseReason.ASKED:
            return Close.NOT_READY, "not_ready: its password cannot be checked at this moment"
        return Close.OVERLOADED, "overloaded: its session cannot be had at this moment"

    def command(self, data: bytes) -> None:
        if self._writing:  # nothing goes into the core while it writes
            self._runtime.loop.call_soon(self._command_later, data)
        elif (client := self._link.client) is not None:
            self._runtime.sessions.receive(client, data, now())

    def _command_later(self, data: bytes) -> None:
        if not self._link.closing:
            self.command(data)
            self._runtime.end()

    def reply(self, data: bytes) -> None:
        if not self._link.closing or self._writing:
            self._answer(data)

    def _answer(self, data: bytes, *, as_is: bool = False) -> None:
        """Send what the client has asked for, and end one that asks on and on without reading it."""
        self._replies = self._replies + len(data) if self._rest else len(data)
        if self._push(data, as_is=as_is) < 0:
            self._runtime.loop.call_soon(self._link.lost)
        elif min(len(self._rest), self._replies) > REPLIES_BYTES_MAX:
            self._runtime.loop.call_soon(self.close, Reason.QUOTA_EXCEEDED, "what it is answered is not read")

    @property
    def shares(self) -> Shares | None:
        table = self._runtime.mqtt
        return table.shares if table is not None else None

    def ready(self) -> bool:
        return self.talk.opened and not (self._rest or self._link.closing or self.talk.outgoing.full)

    def offer(self, record: bytes) -> bool:
        client, sid = self._link.client, sid_of_record(record)
        if client is None or self._link.closing or all(topic.sid != sid for topic in client.subscriptions):
            return False
        self._runtime.loop.call_soon(self._write_later, record)
        return True

    def _write_later(self, record: bytes) -> None:
        if not self._link.closing and not self._link.ended:
            self._link.write(record)
            self._runtime.end()

    def later(self, ms: int = 0) -> None:
        if ms:
            if not self._yields:
                self._yields = True
                self._runtime.loop.call_later(ms / 1000, self._look_later)
        elif not self._looks:
            self._looks = True
            self._runtime.loop.call_soon(self._look_again)

    def _look_later(self) -> None:
        self._yields = False
        self.later()

    def _look_again(self) -> None:
        self._looks = False
        if not self._link.ended:
            self.acknowledged()
            self._runtime.end()

    def discarded(self, subject: str) -> None:
        if self._runtime.mqtt is not None:
            self._runtime.mqtt.discarded(self, subject)

    def subscribed(self) -> None:
        if self._runtime.mqtt is not None:
            self._runtime.mqtt.subscribed(self)

    def running(self) -> _Running:
        client = self._link.client
        if client is None:
            return [], {}
        return list(client.subscriptions), dict(client.wilds.owners) if client.wilds else {}

    def resend(self, filters: Sequence[Subscription], before: object) -> None:
        running = cast(_Running, before)
        steps = self._resend(filters, running)
        if len(running[0]) * len(filters) <= RESEND_STEP:
            for _ in steps:
                pass
            return
        self._link.hold(PauseReason.SEARCHING, True)
        self._runtime.scheduler.run(steps, self._resent, self._resend_failed)

    def _resend(self, filters: Sequence[Subscription], running: _Running) -> Generator[None, None, None]:
        broker, looked = self._runtime.broker, 0
        begun: set[str | None] = {pattern for one in filters for pattern in one.patterns}
        for topic in running[0]:
            looked += len(filters)
            if looked >= RESEND_STEP:
                looked = 0
                yield
            client = self._link.client
            if client is None or self._link.closing:
                return
            if topic not in client.subscriptions or begun.intersection((topic.subject, running[1].get(topic))):
                continue
            snapshot = broker.snapshot(topic)
            if snapshot is None:
                continue
            levels = topic_of(topic.subject).split("/")
            if any(matches(one.levels, levels) for one in filters):
                found = snapshot.as_message(topic.subject, topic.epoch, topic.seq)
                message = as_retained(found, snapshot.newest)
                if message is not None:
                    frame = broker.frame(message, topic, client.terms.wire, "snapshot")
                    room = self._runtime.sessions.subscriptions.room(client).left > 0
                    (broker.bring if room else broker.send)(client, frame)

    def _resent(self, result: None) -> None:
        del result
        self._link.hold(PauseReason.SEARCHING, False)
        self._runtime.end()

    def _resend_failed(self, error: Exception) -> None:
        log.error("fault while sending what is retained", exc_info=error)
        self._resent(None)

    def acknowledged(self) -> None:
        client = self._link.client
        outgoing = self.talk.outgoing
        again = outgoing.again() if outgoing.waits and self.talk.opened and not self._link.closing else b""
        if again and self._push(again) < 0:
            self._runtime.loop.call_soon(self._link.lost)
        elif client is not None and client.queue is not None and not self._rest:
            self._link.writable()

    def may_read(self, subject: str) -> bool | None:
        client = self._link.client
        if client is None:
            return False
        reason = self._runtime.broker.grants.check(client.principal, SUBSCRIBE, subject, now())
        return None if reason in PENDING else not reason

    def holds(self) -> bool:
        return bool(self._link.held)

    def leave(self, reason: Reason, text: str) -> None:
        self._runtime.end()  # where its subscriptions begin the session is to know, also if SUBACK comes too late
        self._link.leave(_CLOSE_OF.get(reason, Close.NORMAL), text)

    def close(self, reason: Reason, text: str) -> None:
        if self._writing:
            self._runtime.loop.call_soon(self.close, reason, text)
            return
        self._last = self._last or (reason, text)
        code = _CLOSE_OF.get(reason, Close.BAD_MESSAGE)
        self._link.close(code, f"{code.label}: {text}")

    # Bytes out

    def alike(self, shared: SharedPackets) -> bytes | None:
        """Return the packets of what goes to a group, if this client is sent it as all are, or but for the packet ids;
        None: the client goes its own way."""
        link = self._link
        client = link.client
        if (
            not link.socket.direct
            or self._rest
            or self._faulty
            or link.closing
            or client is None
            or client.queue is not None
            or not self.talk.opened
        ):
            return None
        outgoing = self.talk.outgoing
        if outgoing.plain:
            return shared.packets
        try:
            return outgoing.take_alike(shared.messages) if shared.messages is not None else None
        except Exception as error:
            self._fault(error)  # and ``send`` says so
            return None

    @property
    def framed(self) -> bool:
        """True if each piece is a WebSocket message."""
        return self._framed

    def send(self, send_now: SendNow, data: bytes | memoryview) -> int:
        """Take whole records and return how many bytes of them left; -1 when the socket is broken."""
        if self._faulty:
            return -1
        if self._rest and (count := self.flush(send_now)) <= 0:
            return count
        self._writing = True
        try:
            taken, out = self.talk.outgoing.take(data, now())
        except Exception as error:
            self._fault(error)
            return -1  # the others are written to all the same
        finally:
            self._writing = False
        if out and self._push(out) < 0:
            return -1
        return taken

    def _fault(self, error: Exception) -> None:
        """Note that what is written to this client went wrong: what comes next would stand behind what it has not
        got."""
        log.error("fault while writing packets: the connection is ended", exc_info=error)
        self._faulty = True

    def overtake(self, data: bytes, sent: int) -> None:
        """Say past the messages what of these records, which have to wait, are answers."""
        if not self.talk.opened or self._link.closing:
            return
        self._writing = True
        try:
            for record in split_records(data[sent:]):
                self.talk.overtake(record)
        except Exception:
            log.exception("fault while writing answers: the connection is ended")
            self._runtime.loop.call_soon(self._link.lost)
        finally:
            self._writing = False

    def sent(self, rest: bytes) -> None:
        """Note that all was handed to the socket, of which it has left the rest."""
        self._rest = rest

    def farewell(self, code: int, reason: str) -> bytes:
        """Return what a client is told that has not been let in, as it goes over the socket."""
        why = self._last or (reason_of_close(code), reason.partition(": ")[2])
        # Before a CONNECT that could be read it is not known that the peer speaks MQTT at all.
        packet = self.talk.goodbye(*why) if self.talk.asked else b""
        return self._as_sent(packet) + (encode_frame(CLOSE, close_payload(Close.NORMAL)) if self._framed else b"")

    @property
    def parting(self) -> tuple[Reason, str] | None:
        return self._last

    def ended(self) -> None:
        """Say over a WebSocket that the connection ends, when all else has been said."""
        if self._framed:
            self._push(encode_frame(CLOSE, close_payload(Close.NORMAL)), as_is=True)
            self._framed = False

    def gone(self, client: Client | None) -> None:
        if self._runtime.mqtt is not None:
            self._runtime.mqtt.gone(self, client)

    def _as_sent(self, out: bytes) -> bytes:
        return encode_binary(out) if self._framed and out else out

    def _push(self, out: bytes, *, as_is: bool = False) -> int:
        """Hand packets to the socket; what it does not take waits. Return how many bytes it took, -1 when it is
        broken."""
        out = out if as_is else self._as_sent(out)
        if self._rest:
            self._rest = b"".join((self._rest, out))
            return 0
        count = self._link.send_now(out)
        if count >= 0 and count < len(out):
            self._rest = out[count:]
            self._link.await_writable(True)
        return count


class MqttStreams:
    """Writes to groups of clients that speak MQTT."""

    def __init__(self) -> None:
        self._shared = SharedPackets()
        self._framed = b""  # what all get alike, as a WebSocket message, while a group is written to

    def write(self, clients: list[Client], data: bytes) -> None:
        """Write the same records to members of one group: those that want them as everybody does, or as everybody but
        for the packet ids, are written to together; the others go their own way."""
        shared = self._shared
        try:
            shared.read(data)
        except Exception:
            log.exception("fault while reading what goes to a group: each client is written to alone")
        links: list[ClientStreamLink] = []
        packets: list[bytes] = []
        try:
            for client in clients:
                link = cast(ClientStreamLink, client.link)
                alike = self._alike(link.stream)
                if alike is None:
                    link.write(data)
                elif alike:
                    links.append(link)
                    packets.append(alike)
        finally:
            self._framed = b""
            self._write_all(links, packets)  # their sessions know of it as sent

    def _alike(self, stream: MqttStream | None) -> bytes | None:
        """Return what of the group's is sent to that client's socket; None if the client goes its own way."""
        shared = self._shared
        alike = stream.alike(shared) if stream is not None and shared.packets is not None else None
        if not alike or stream is None or not stream.framed:
            return alike
        if alike is not shared.packets:
            return encode_binary(alike)
        self._framed = self._framed or encode_binary(alike)
        return self._framed

    def _write_all(self, links: list[ClientStreamLink], packets: list[bytes]) -> None:
        written = write_each(map(os.write, [link.fd for link in links], packets))
        for link, data, count in zip(links, packets, written, strict=True):
            if count == len(data):
                continue
            if count < 0:
                link.lag(b"", -1)
            elif link.stream is not None:
                link.stream.sent(data[count:])
                link.await_writable(True)
