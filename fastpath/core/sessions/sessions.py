"""What clients ask for: commands in, answers and changes of membership out (protocol.md 3 and 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import msgspec

from ..auth.grants import Principal
from ..broker.admission import MEMORY_FULL
from ..broker.broker import Broker
from ..broker.observers import CommandListener
from ..broker.token_ends import TokenEnds
from ..delivery.audience import Client
from ..delivery.link import LOST, Link
from ..delivery.outbox import Outboxes
from ..delivery.wire import Terms
from ..protocol.codec import COMMANDS, UNDECODED, command_id, decode_command
from ..protocol.errors import BadFrame, Close, InvalidMessage, Refused
from ..protocol.limits import ERRORS_MAX, command_bytes_max
from ..protocol.messages import (
    AnyCommand,
    Connect,
    Connected,
    Error,
    Expiring,
    GiveReply,
    MakeRequest,
    Notice,
    Ping,
    Pong,
    Publish,
    Renewed,
    Subscribe,
    Token,
    Unsubscribe,
)
from .client_limits import ClientLimits
from .membership import drop
from .pattern_subscriptions import PatternSubscriber
from .publications import Publications, name_publisher
from .rate_limits import RateLimits, SubjectRates
from .revocation import Revocation
from .subscribe_commands import CommandsInSteps, end_subscriptions, subscribe, unsubscribe
from .subscriptions import Subscriptions

PROGRAM_CHARS_MAX = 100
"""Characters that are kept of what a client's program calls itself."""

PROGRAMS_MAX = 256
"""Number of names of programs that are kept once for all clients; one more is kept by each client of that name."""

PUBLISHING = (Publish, MakeRequest, GiveReply)
"""Commands that count as publications in the rates."""

Handler = Callable[[Client, Any, int], None]
"""Function that answers a command: called with client, command and time (ms); raises InvalidMessage."""


class Sessions:
    """All clients of the client ports.

    ``guard`` keeps the limits on what one client says over time; None while there are none. ``moved`` tells whether a
    client that was not heard gives another sign of life: something of it waits to be read, or it has taken any of what
    waits for it since ``moved`` was asked last.
    """

    def __init__(
        self,
        broker: Broker,
        ping_seconds: int,
        guard: ClientLimits | None = None,
        moved: Callable[[Client], bool] = lambda client: False,
    ) -> None:
        self.broker = broker
        self.ping_seconds = ping_seconds
        self.clients: dict[Client, None] = {}
        self.notice: Notice | None = None
        """Notice that everybody who comes is told first, such as that nothing new arrives at the moment."""
        # A client is looked at every ping_seconds, when its slot comes; slots spread the work over the seconds.
        self._slots: list[dict[Client, None]] = [{} for _ in range(ping_seconds)]
        self._judged = [float("-inf")] * ping_seconds  # by slot: the server's time when it was asked who lives
        self._moved = moved
        self._beat = 0
        self._opened = 0
        self._moment = 0
        self._programs: dict[str, str] = {}
        self._ends = TokenEnds(self._slots, 2000 * ping_seconds, self._end_token, self._tell_end)
        broker.keep_time(self._ends)
        rates = guard.rates if guard is not None else RateLimits[object](0, 0)
        self.publish_rates = SubjectRates(broker.interest, rates, broker.counters)
        self.publications = Publications(broker, self.publish_rates)
        self.subscriptions = Subscriptions(broker)
        self.wildcards = PatternSubscriber(self.subscriptions)
        self.rights = Revocation(self.wildcards, self.clients)
        self.rights.options.watch(self.publish_rates.renew)
        self.long_commands = CommandsInSteps(self.receive)
        self.recoveries = self.subscriptions.recoveries
        self.recoveries.follow(self.wildcards.again)
        self.outboxes = Outboxes(broker, self.recoveries)
        self.guard = guard
        if guard is not None:
            guard.spare(self.long_commands.busy.__contains__)
        self._handlers: dict[type, Handler] = {}
        self.witness: CommandListener | None = None
        """Told what clients say, while somebody wants to know."""

    def answer(self, handlers: Mapping[type, Handler]) -> None:
        """Answer more commands than those of subscribers and publishers, by their types."""
        self._handlers.update(handlers)

    def show(self, witness: CommandListener | None) -> None:
        """Let a witness see what clients say from now on; None: nobody wants to know any more."""
        self.witness = witness

    def announce(self, notice: Notice, *, lasts: bool) -> None:
        """Tell all clients, and while the notice lasts everybody who comes."""
        self.notice = notice if lasts else None
        for client in self.clients:
            if client.greeted:
                self.broker.send(client, notice)

    def open(self, link: Link, slot_key: int, direct: bool, terms: Terms, token: str, address: str, now: int) -> Client:
        """Let a client in; raise Refused when the token that came with it is not good."""
        if self.broker.admission.full:
            self.broker.counters.limit("memory")
            raise Refused(Close.OVERLOADED, MEMORY_FULL)
        client = Client(link, slot_key, direct, self.broker.grants.principal(token, now), terms, address)
        self._opened += 1
        client.number = self._opened
        if now // 100 != self._moment // 100:
            self._moment = now
        client.since = self._moment  # one number for all of them: there may be a million
        self.clients[client] = None
        self._slots[slot_key % self.ping_seconds][client] = None
        self._ends.watch(client, now)
        self.broker.counters.connects += 1
        for observer in self.broker.observers:
            observer.connected(client)
        return client

    def batches(self) -> Iterator[list[Client]]:
        """Yield all clients, some at a time and in no order; of those who come or go meanwhile some may be missing."""
        for slot in self._slots:
            yield list(slot)

    def close(self, client: Client) -> None:
        """Forget a client whose connection is gone."""
        if client in self.clients:
            del self.clients[client]
            self.publications.forget(client)
            self.long_commands.forget(client)
            if self.guard is not None:
                self.guard.forget(client)
            self.publish_rates.forget(client)
            self._slots[client.slot_key % self.ping_seconds].pop(client, None)
            self._ends.forget(client)
            self.broker.counters.disconnects += 1
            with ExitStack() as stack:  # each is called, the last one first, though another raises
                stack.callback(drop, self.broker, client)
                for observer in reversed(self.broker.observers):
                    stack.callback(observer.disconnected, client)

    def end_subscriptions(self, client: Client, subjects: Sequence[str], reason: str, now: int) -> int:
        """End subscriptions of a client, which is told why; how many there were. It may subscribe again."""
        return 0 if client.closed else end_subscriptions(self.wildcards, client, subjects, reason, now)

    def receive(self, client: Client, data: bytes, now: int) -> None:
        """Handle one command of the client; a fault in it is the client's alone."""
        if now >= self._ends.due:
            self._ends.pass_time(now)
        if client.end is not LOST:
            return  # its token has ended
        if self.long_commands.busy and self.long_commands.waits(client, data):
            return
        command: AnyCommand | None = None
        try:
            try:
                command = COMMANDS[client.form](data)
            except UNDECODED:
                command = decode_command(data, client.form)  # which says what is wrong
            asked = client.principal.asked
            if asked is not None and asked.party is not None and asked.party.parks(command, data, now):
                return
            if self.guard is not None:  # not before: what is parked comes here twice
                self.guard.said(client, type(command) in PUBLISHING, now)
            if self.witness is not None:
                self.witness.said(client, command)
            if not client.greeted:
                self._greet(client, command)
                self._ends.watch(client, now)
            if type(command) is Publish:
                self.publications.publish(client, command, now)
            else:
                self._do(client, command, now)
        except InvalidMessage as error:
            number = command_id(data, client.form)
            self.refuse(client, number, error.code, error.reason, understood=command is not None)
        except BadFrame as error:
            client.link.close(Close.BAD_MESSAGE, f"{Close.BAD_MESSAGE.label}: {error}")
        except Refused as error:
            client.link.close(error.code, f"{error.code.label}: {error.reason}")

    def resume(self, client: Client, data: bytes, now: int) -> None:
        """Handle a message that has waited for an answer (core/sessions/deferred_commands.py)."""
        self.receive(client, data, now)

    def beat(self, now: int, awake: float | None = None) -> None:
        """End tokens, ping a share of the clients, close those without a sign of life, once a second.

        ``awake`` is the time (s) that the server has run so far: whoever it pinged has ``ping_seconds`` of that to
        answer, as it cannot hear while it does not run. Without it the server has always run.
        """
        self._ends.pass_time(now)
        self._beat = (self._beat + 1) % self.ping_seconds
        heard = awake is None or awake - self._judged[self._beat] >= self.ping_seconds - 0.5  # it goes by tenths
        if heard and awake is not None:
            self._judged[self._beat] = awake
        for client in list(self._slots[self._beat]):
            if not heard:
                self.broker.send(client, client.terms.wire.ping())
                continue
            if not client.alive and not _waits(client) and not self._moved(client):
                client.link.close(Close.PING_TIMEOUT, "ping_timeout: no sign of life")
                continue
            if self.guard is not None and self.guard.idle(client, now):
                client.link.close(Close.IDLE, "idle: no subscription and no command for long")
                continue
            client.alive = False
            self.broker.send(client, client.terms.wire.ping())

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
                steps = subscribe(self.wildcards, client, command, now)
                if steps is not None:
                    self.long_commands.begin(client, steps, now)
            case Unsubscribe():
                steps = unsubscribe(self.wildcards, client, command, now)
                if steps is not None:
                    self.long_commands.begin(client, steps, now)
            case Ping():
                self.broker.send(client, Pong(id=command.id, time=now))
            case Connect():
                self._connect(client, command, now)
            case Token():
                self._renew(client, command, now)
            case _ if type(command) in self._handlers:
                self._handlers[type(command)](client, command, now)
            case _:
                raise InvalidMessage("invalid", "this server does not answer that command")

    def _connect(self, client: Client, command: Connect, now: int) -> None:
        if command.token:
            self._adopt(client, self.broker.grants.principal(command.token, now), now)
        name_publisher(client, command.publisher)
        client.program = self._named(command.client)
        broker = self.broker
        for observer in broker.observers:
            observer.introduced(client, command.client)
        broker.level(client)  # the answer names the base
        client.base = broker.base
        answer = Connected(
            id=command.id,
            server=broker.server,
            epoch=broker.engine.epoch,
            user=client.principal.user,
            time=now,
            base=client.base,
            ping_ms=self.ping_seconds * 1000,
            frame_bytes=command_bytes_max(broker.limits.message_bytes_max),
        )
        if client.principal.expires is not None:
            answer.expires = client.principal.expires
        broker.send(client, answer)
        self._tell_notice(client)

    def _named(self, program: str) -> str:
        """Return the name as it is kept: most clients have that of many others."""
        name = program[:PROGRAM_CHARS_MAX]
        if len(self._programs) < PROGRAMS_MAX:
            return self._programs.setdefault(name, name)
        return self._programs.get(name, name)

    def _renew(self, client: Client, command: Token, now: int) -> None:
        try:
            principal = self.broker.grants.principal(command.token, now)
        except Refused as error:
            code = "not_ready" if error.code is Close.NOT_READY else "bad_token"
            raise InvalidMessage(code, error.reason) from None
        old, new = client.principal.claims, principal.claims
        if old is not None and (new is None or (old.uid or old.user) != (new.uid or new.user)):
            raise InvalidMessage("bad_token", "the token is another user's")
        self._adopt(client, principal, now)
        answer = Renewed(id=command.id, user=principal.user)
        if principal.expires is not None:
            answer.expires = principal.expires
        self.broker.send(client, answer)

    def _adopt(self, client: Client, principal: Principal, now: int) -> None:
        asked, before = client.principal.asked, client.principal.user
        if asked is not None:
            principal.take_over(asked)
            asked.renew(another=principal.user != before)
        client.principal = principal
        client.warned = False
        for observer in self.broker.observers:
            observer.renewed(client, before)
        self._ends.watch(client, now)
        self.follow(client, now)

    def follow(self, client: Client, now: int) -> None:
        """Bring the client's subscriptions in line with what its user may."""
        if client.subscriptions or client.waiting or client.wilds:
            self.rights.recheck(client, now)

    def _end_token(self, client: Client) -> None:
        self.outboxes.give_up(client)
        if client.end is LOST:
            client.link.close(Close.TOKEN_EXPIRED, "token_expired: get a new token, then reconnect")

    def _tell_end(self, client: Client, expires: int) -> None:
        client.warned = True
        self.broker.send(client, Expiring(expires=expires))

    def refuse(self, client: Client, number: int | None, code: str, reason: str, *, understood: bool = True) -> None:
        """Answer a command without effect; too many that are not even commands end the connection."""
        client.errors += 1
        if self.witness is not None:
            self.witness.refused(client, code, reason)
        if not understood:
            client.nonsense += 1
            if client.nonsense > ERRORS_MAX:
                why = f"too_many_errors: over {ERRORS_MAX} commands that cannot be read"
                client.link.close(Close.TOO_MANY_ERRORS, why)
                return
        answer = Error(id=msgspec.UNSET if number is None else number, code=code, reason=reason)
        self.broker.send(client, answer)


def _waits(client: Client) -> bool:
    """Return whether a hook is being asked and nothing is read from the client, not even its answer to a ping."""
    asked = client.principal.asked
    return asked is not None and asked.party is not None and asked.party.waits
