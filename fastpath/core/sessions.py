"""What clients ask for: commands in, answers and changes of membership out (protocol.md 3 and 4)."""

from __future__ import annotations

import msgspec

from . import lagging
from .broker import Broker
from .client import BEHIND, NO_ROOM, Client, Link, Waiting
from .codec import command_id, decode_command
from .conflation import floor_interval, phase_of
from .errors import BadFrame, Close, InvalidMessage, InvalidSubject, Refused
from .frames import PING, encode_frame
from .grants import NOT_READY, Principal
from .interest import Feed, Topic
from .limits import ERRORS_MAX, SUBJECTS_PER_COMMAND_MAX
from .messages import (
    AnyCommand,
    Connect,
    Connected,
    Error,
    Expiring,
    Notice,
    Ping,
    Pong,
    Publish,
    Renewed,
    Result,
    Subscribe,
    Subscribed,
    Token,
    Unsubscribe,
    Unsubscribed,
)
from .publications import name_publisher, publish
from .rights import Rights
from .rules import SUBSCRIBE
from .stored import Stored, collect
from .subject import check_subject
from .wire import Wire

BEHIND_MS = 1000
"""How long a client that has read further than this process waits for it to catch up, before that counts as a gap."""

EXPIRY_NOTICE_MS = 60_000
"""How long before its token ends a client is told (protocol.md 4.10)."""

_PING_FRAME = encode_frame(PING, b"")


class Sessions:
    """All clients of the client ports."""

    def __init__(self, broker: Broker, ping_seconds: int) -> None:
        self.broker = broker
        self.ping_seconds = ping_seconds
        self.clients: dict[Client, None] = {}
        self.notice: Notice | None = None
        """What everybody who comes is told first, such as that nothing new arrives at the moment."""
        # A client is looked at every ping_seconds, when its slot comes; slots spread the work over the seconds.
        self._slots: list[dict[Client, None]] = [{} for _ in range(ping_seconds)]
        self._beat = 0
        self._expiring: dict[Client, None] = {}
        self.held: dict[Client, None] | None = None
        """While the server is congested: the clients that have published meanwhile, from whom nothing more is read."""
        self.rights = Rights(self)

    def open(self, link: Link, fd: int, direct: bool, wire: Wire, token: str, address: str, now: int) -> Client:
        """A WebSocket opened; raises Refused when the token that came with it is not good."""
        client = Client(link, fd, direct, self.broker.grants.principal(token, now), address, wire)
        self.clients[client] = None
        self._slots[fd % self.ping_seconds][client] = None
        self._watch_expiry(client, now)
        self.broker.counters.connects += 1
        return client

    def close(self, client: Client) -> None:
        """The connection is gone."""
        if client in self.clients:
            del self.clients[client]
            (self.held or {}).pop(client, None)
            self._slots[client.fd % self.ping_seconds].pop(client, None)
            self._expiring.pop(client, None)
            self.broker.counters.disconnects += 1
            self.broker.drop(client)

    def receive(self, client: Client, data: bytes, now: int) -> None:
        """One WebSocket message of the client; a fault in it is the client's alone."""
        try:
            command = decode_command(data, client.form)
            if not client.greeted:
                self._greet(client, command)
            if type(command) is Publish:
                publish(self, client, command, now)
            else:
                self._do(client, command, now)
        except InvalidMessage as error:
            self._refuse(client, command_id(data, client.form), error.code, error.reason)
        except BadFrame as error:
            client.link.close(Close.BAD_MESSAGE, f"{Close.BAD_MESSAGE.label}: {error}")
        except Refused as error:
            client.link.close(error.code, f"{error.code.label}: {error.reason}")

    def beat(self, now: int) -> None:
        """Called once a second: ping a share of the clients, close those without a sign of life, end tokens."""
        self._beat = (self._beat + 1) % self.ping_seconds
        for client in list(self._slots[self._beat]):
            if not client.alive:
                client.link.close(Close.PING_TIMEOUT, "ping_timeout: no sign of life")
                continue
            client.alive = False
            self.broker.send(client, _PING_FRAME)
            self._watch_expiry(client, now)
        for client in list(self._expiring):
            expires = client.principal.expires
            if expires is None or expires > now + EXPIRY_NOTICE_MS + self.ping_seconds * 1000:
                del self._expiring[client]
            elif expires <= now:
                client.link.close(Close.TOKEN_EXPIRED, "token_expired: get a new token, then reconnect")
            elif not client.warned and expires <= now + EXPIRY_NOTICE_MS:
                client.warned = True
                self.broker.send(client, Expiring(expires=expires))

    def start(self, client: Client, subject: str, request: Subscribe, now: int) -> tuple[Result, Stored, Feed | None]:
        """Begin a subscription whose right is known: the result, what is sent first, and the feed to join."""
        broker = self.broker
        topics = broker.interest.topics
        if subject not in topics and len(topics) >= broker.limits.subjects_max:
            reason = f"the server already holds {broker.limits.subjects_max} subjects"
            return Result(subject=subject, error="limit", reason=reason), Stored(), None
        topic = broker.interest.topic(subject, broker.engine.epoch)
        stored = collect(broker, client, topic, request)
        interval = floor_interval(request.conflation)
        result = Result(
            subject=subject,
            sid=topic.sid,
            epoch=topic.epoch,
            seq=topic.seq,
            recovery=stored.recovery,
            messages=len(stored.frames),
            conflation=interval,
        )
        broker.counters.recoveries += stored.recovery == "recovered"
        broker.counters.resynchronisations += stored.recovery == "resynchronised"
        feed = self._join(client, topic, interval, now)
        lagging.allow(client, topic, request.slow)
        return result, stored, feed

    def _join(self, client: Client, topic: Topic, interval: int, now: int) -> Feed | None:
        """Note the subscription; the feed that the client is to join now, None if it joins when an interval ends."""
        broker = self.broker
        feed = (
            broker.interest.live_feed(topic)
            if not interval
            else broker.grid.feed(topic, interval, phase_of(now, interval))
        )
        old = client.subscriptions.get(topic)
        if old is not None and client.lag is not None and topic in client.lag.behind:
            self.leave(client, topic)
            old = None
        if old is feed:
            if topic.live is not None and interval and topic.live.number > feed.sent:
                # What came in this interval was in the stored messages just sent: it must not come again at its end.
                joined = client not in feed.joining
                feed.joining[client] = topic.live.number
                broker.move(client, [], [feed] if joined else [])
            return None
        if old is not None:
            self.leave(client, topic)
        client.subscriptions[topic] = feed
        broker.counters.subscriptions += 1
        if topic.live is not None and interval and topic.live.number > feed.sent:
            feed.joining[client] = topic.live.number
            return None
        return feed

    def leave(self, client: Client, topic: Topic) -> None:
        """End one running subscription."""
        self.leave_all(client, [topic])

    def leave_all(self, client: Client, topics: list[Topic]) -> None:
        """End running subscriptions, with one move for all."""
        remove = []
        for topic in topics:
            feed = client.subscriptions.pop(topic)
            if lagging.leave(self.broker, client, topic):
                continue
            if feed.joining.pop(client, None) is None:
                remove.append(feed)
            else:
                self.broker.release(feed)
        self.broker.counters.subscriptions -= len(topics)
        self.broker.move(client, [], remove)

    def _greet(self, client: Client, command: AnyCommand) -> None:
        client.greeted = True
        if not isinstance(command, Connect):
            self.broker.tell_base(client)
            self._tell_notice(client)

    def _tell_notice(self, client: Client) -> None:
        if self.notice is not None:
            self.broker.send(client, self.notice)

    def _do(self, client: Client, command: AnyCommand, now: int) -> None:
        match command:
            case Subscribe():
                self._subscribe(client, command, now)
            case Unsubscribe():
                self._unsubscribe(client, command)
            case Ping():
                self.broker.send(client, Pong(id=command.id, time=now))
            case Connect():
                self._connect(client, command, now)
            case Token():
                self._renew(client, command, now)

    def _connect(self, client: Client, command: Connect, now: int) -> None:
        if command.token:
            self._adopt(client, self.broker.grants.principal(command.token, now), now)
        name_publisher(client, command.publisher)
        broker = self.broker
        client.base = broker.base
        answer = Connected(
            id=command.id,
            server=broker.server,
            epoch=broker.engine.epoch,
            user=client.principal.user,
            time=now,
            base=client.base,
            ping_ms=self.ping_seconds * 1000,
        )
        if client.principal.expires is not None:
            answer.expires = client.principal.expires
        broker.send(client, answer)
        self._tell_notice(client)

    def _renew(self, client: Client, command: Token, now: int) -> None:
        try:
            principal = self.broker.grants.principal(command.token, now)
        except Refused as error:
            raise InvalidMessage("bad_token", error.reason) from None
        old, new = client.principal.claims, principal.claims
        if old is not None and (new is None or (old.uid or old.user) != (new.uid or new.user)):
            raise InvalidMessage("bad_token", "the token is another user's")
        self._adopt(client, principal, now)
        answer = Renewed(id=command.id, user=principal.user)
        if principal.expires is not None:
            answer.expires = principal.expires
        self.broker.send(client, answer)

    def _adopt(self, client: Client, principal: Principal, now: int) -> None:
        client.principal = principal
        client.warned = False
        self._watch_expiry(client, now)
        if client.subscriptions or client.waiting:
            self.rights.recheck(client, now)

    def _watch_expiry(self, client: Client, now: int) -> None:
        expires = client.principal.expires
        if expires is not None and expires <= now + EXPIRY_NOTICE_MS + 2000 * self.ping_seconds:
            self._expiring[client] = None

    def _subscribe(self, client: Client, command: Subscribe, now: int) -> None:
        if len(command.subjects) > SUBJECTS_PER_COMMAND_MAX:
            raise InvalidMessage("limit", f"over {SUBJECTS_PER_COMMAND_MAX} subjects in one command")
        if command.slow not in lagging.POLICIES:
            raise InvalidMessage("invalid", 'slow is "close" or "conflate"')
        if command.history < 0 or command.conflation < 0:
            raise InvalidMessage("invalid", "history and conflation are not negative")
        broker = self.broker
        broker.settle(client.group)
        results, stored, join = [], [], []
        room = self.room(client)
        for subject in dict.fromkeys(command.subjects):
            result, frames, feed = self._subscribe_one(client, subject, command, now, room)
            results.append(result)
            stored += frames.frames
            room -= sum(map(len, frames.frames))
            if feed is not None:
                join.append(feed)
        if stored:
            broker.tell_base(client)
        broker.send(client, Subscribed(id=command.id, results=results), *stored)
        broker.counters.messages_out += len(stored)
        broker.move(client, join, [])

    def _subscribe_one(
        self, client: Client, subject: str, command: Subscribe, now: int, room: int
    ) -> tuple[Result, Stored, Feed | None]:
        try:
            check_subject(subject)
        except InvalidSubject as error:
            return Result(subject=subject, error="invalid", reason=error.reason), Stored(), None
        topic = self.broker.interest.topics.get(subject)
        known = topic is not None and topic in client.subscriptions
        waiting = client.waiting
        if not known and not (waiting and subject in waiting) and client.count >= self.broker.limits.subscriptions_max:
            reason = f"over {self.broker.limits.subscriptions_max} subscriptions on one connection"
            return Result(subject=subject, error="limit", reason=reason), Stored(), None
        reason = self.broker.grants.check(client.principal, SUBSCRIBE, subject, now)
        if not reason and room <= 0:
            reason = NO_ROOM
            self.rights.later(client)
        if not reason and subject in command.since and self.broker.ahead(subject, *command.since[subject]):
            reason = BEHIND
            self.rights.later(client)
        if reason:
            if topic is not None and known:
                self.leave(client, topic)
            return self.wait(client, subject, command, reason, now), Stored(), None
        if waiting and waiting.pop(subject, None):
            self.broker.counters.waiting -= 1
        return self.start(client, subject, command, now)

    def room(self, client: Client) -> int:
        """How many bytes of stored messages may be put before the client at once."""
        taken = (client.queue.size if client.queue else 0) + sum(map(len, client.out or ()))
        return self.broker.limits.outbox_bytes_max // 2 - taken

    def wait(self, client: Client, subject: str, request: Subscribe, reason: str, now: int) -> Result:
        """Keep a subscription until its right comes, or room, or what it has read elsewhere (protocol.md 4.2)."""
        if client.waiting is None:
            client.waiting = {}
        if subject not in client.waiting:
            self.broker.counters.waiting += 1
        since = {subject: request.since[subject]} if subject in request.since else {}
        kept = msgspec.structs.replace(request, id=0, subjects=[], since=since)
        not_ready = reason in (NOT_READY, NO_ROOM, BEHIND)
        error = "not_ready" if not_ready else "denied"
        client.waiting[subject] = Waiting(kept, error, now + BEHIND_MS)
        retry_ms = self.broker.limits.retry_ms if not_ready else 0
        return Result(subject=subject, error=error, reason=reason, retry_ms=retry_ms)

    def _unsubscribe(self, client: Client, command: Unsubscribe) -> None:
        if len(command.subjects) > SUBJECTS_PER_COMMAND_MAX:
            raise InvalidMessage("limit", f"over {SUBJECTS_PER_COMMAND_MAX} subjects in one command")
        ended, topics = [], []
        for subject in dict.fromkeys(command.subjects):
            topic = self.broker.interest.topics.get(subject)
            if topic is not None and topic in client.subscriptions:
                topics.append(topic)
                ended.append(subject)
            elif client.waiting and client.waiting.pop(subject, None):
                self.broker.counters.waiting -= 1
                ended.append(subject)
        self.leave_all(client, topics)
        self.broker.send(client, Unsubscribed(id=command.id, subjects=ended))

    def _refuse(self, client: Client, number: int | None, code: str, reason: str) -> None:
        """Answer a command without effect; too many of them end the connection."""
        client.errors += 1
        if client.errors > ERRORS_MAX:
            client.link.close(Close.TOO_MANY_ERRORS, f"too_many_errors: over {ERRORS_MAX} refused commands")
            return
        answer = Error(id=msgspec.UNSET if number is None else number, code=code, reason=reason)
        self.broker.send(client, answer)
