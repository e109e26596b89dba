"""The life of a client over all its connections, without I/O or clock: what happens goes in, what to do comes out.

Whoever drives it connects to ``url``, tells ``opened()``, each frame by ``receive()`` and the end by ``ended()``, then
looks at ``wait``, calls ``tick()`` when ``due()`` has come, and sends what ``take_out()`` yields. Times are seconds of
one clock. Every method that returns events has them in the order in which they are to be told.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from math import inf
from typing import Any

from msgspec import UNSET, UnsetType

from fastpath.core.protocol import messages as wire
from fastpath.core.protocol.codec import Form
from fastpath.core.protocol.errors import Close

from ..backoff import Backoff
from ..errors import ConnectionRejected, TooLarge, may_reconnect
from ..message import Status
from ..options import Options, Transport
from ..servers import Draw, ServerList, WeightedServer, parse_servers
from .attempts import Attempts
from .events import Answered, Event, NamedServers, ProbeTransport, Renew, SubscriptionRefused
from .outgoing import OutgoingPublication, OutgoingPublications, Settled
from .recovery import Recovery
from .renewal import Renewal
from .state import ClientState
from .transports.ladder import Failure, Ladder, TransportMemory
from .transports.link import ABNORMAL
from .transports.memory import AddressMemory

MachineEvent = Event | Settled

TOKEN_CODES = (Close.TOKEN_EXPIRED, Close.BAD_TOKEN)
"""Close codes after which a new token may help."""


class Machine:
    """The life of one client; ``renewable``: a new token can be had; ``pick_draw`` and ``wait_draw`` are the
    randomness.

    ``memory`` is what is known of transports.
    """

    def __init__(
        self,
        form: Form,
        servers: Iterable[WeightedServer],
        options: Options,
        *,
        publisher: str = "",
        renewable: bool = False,
        pick_draw: Draw = random.random,
        wait_draw: Draw = random.random,
        memory: TransportMemory | None = None,
    ) -> None:
        self.state = ClientState(form, publisher=publisher)
        self.following = self.state.following
        self.servers = ServerList(servers, pick_draw)
        self.connected = False
        self.paused = self.closed = False
        self.wait: float | None = None
        """Seconds until ``begin()``; None: ``url`` is to be tried now, or the client is paused or has ended."""
        self.at_once = False
        """True when ``begin()`` is due now, without any wait."""
        self.leaving: tuple[Close, str] | None = None
        """Code and reason with which the connection is to be closed now, as by the server; None: it stays."""
        self.failure: Exception | None = None
        """Error with which the client has ended; None while it lives."""
        backoff = Backoff(
            options.quick_retries,
            options.quick_seconds,
            options.backoff_seconds,
            options.backoff_seconds_max,
            wait_draw,
        )
        self._attempts = Attempts(
            self.servers,
            backoff,
            down_after=options.down_after,
            reconnects_max=options.reconnects_max,
            steady_seconds=options.steady_seconds,
        )
        self._step_down = options.step_down_seconds
        self._ladder = Ladder(
            options.transports,
            memory or AddressMemory(),
            up_seconds=options.step_up_seconds,
            steady_seconds=options.steady_seconds,
        )
        self._outgoing = OutgoingPublications(
            options.publish_queue_messages, options.publish_queue_bytes, options.publish_seconds
        )
        self._recovery = Recovery()
        self._renewable = renewable
        self._renewed = False
        self._renewal = Renewal()
        self._server_ahead = 0.0

    # The connection.

    @property
    def url(self) -> str:
        """The server that is tried or connected."""
        return self._attempts.url

    @property
    def transport(self) -> Transport:
        """The transport by which it is."""
        return self._ladder.transport

    def begin(self, now: float) -> str:
        """Begin a round; return its first address."""
        self.wait, self.at_once = None, False
        self._ladder.begin(self._attempts.begin(), now)
        return self.url

    def within(self, seconds: float) -> float:
        """Return the time that a server has to open, and to answer, while there is another transport to try after
        it."""
        return min(seconds, self._step_down) if self._ladder.has_lower else seconds

    def opened(self, token: str, form: Form | None = None) -> None:
        """Say who we are and ask for all subjects: the connection stands."""
        self._recovery.begin(wanted.subject for wanted in self.following.wanted.subjects.values() if wanted.position)
        self.state.open(token, form)

    def receive(self, data: bytes, now: float) -> list[MachineEvent]:
        """Take in one frame; raises BadFrame."""
        events: list[MachineEvent] = []
        for event in self.state.receive(data):
            events.append(event)
            match event:
                case NamedServers(servers):
                    self._named(servers)
                case Answered(number, answer):
                    events += self._answered(number, answer, now)
                case Status():
                    events += self._recovery.told(event, now)
                    if event.name == "expiring":
                        self._renewal.expiring(now)
                    if event.name == "notice" and event.notice == "drain":
                        self.leaving = (Close.DRAIN, "the server drains") if self._attempts.leave(now) else None
                case SubscriptionRefused():
                    events += self._recovery.left([event.subject])
        return [*events, *self._pump(now), *self._renew(now)]

    def ended(self, code: int, reason: str, now: float, how: Failure = "closed") -> list[MachineEvent]:
        """Note that the attempt or the connection is over; ``how`` says where it failed if no frame came before."""
        stood, self.connected = self.connected, False
        left, self.leaving = self.leaving is not None, None
        if stood and not left:
            self._ladder.lost(code, now)
        settled = self._lose(too_big=code == Close.TOO_BIG)
        if code in TOKEN_CODES and self._renewable and not self._renewed:
            self._renewed = True
            self.wait, self.at_once = 0.0, True
            return [*settled, self._disconnected(code, reason)]
        # One frame that was too big is that frame's fault; its publication has failed, the others go on.
        comes_back = may_reconnect(code) or code == Close.TOO_BIG
        # Where a new token can be had one of them will do: the key of the last may not be known yet (protocol.md 8.5).
        if not comes_back or (code == Close.TOKEN_EXPIRED and not self._renewable):
            return [*settled, *self.fail(ConnectionRejected(code, reason))]
        if stood:
            self.at_once = left or (self._attempts.leave(now) and code == Close.DRAIN)
            self.wait = 0.0 if self.at_once else self._attempts.lost()
            return [*settled, self._disconnected(code, reason)]
        if self._ladder.failed(how, code, reason, self.servers.more(self.url)):
            return settled  # the same server, by the next transport
        if url := self._attempts.failed():
            self._ladder.begin(url, now)
            return settled
        self.wait, told = self._attempts.round_failed()
        return [*settled, self._disconnected(*self._ladder.why), *told]

    def abandon(self, reason: str) -> list[MachineEvent]:
        """Give a round up that cannot begin, for want of a token."""
        self.wait, told = self._attempts.round_failed()
        return [self._disconnected(ABNORMAL, reason), *told]

    def fail(self, error: Exception) -> list[MachineEvent]:
        """Give up for good."""
        self.failure = error
        self.wait, self.at_once = None, False
        code, reason = getattr(error, "code", 0), getattr(error, "reason", str(error))
        told = self._tell(self._outgoing.end(str(error)))
        return [*told, Status(name="failed", code=code, reason=reason, url=self.url)]

    def pause(self) -> list[MachineEvent]:
        """Let go of the connection; subscriptions and publications stay."""
        if self.paused or self.closed:
            return []
        self.paused, self.connected, self.leaving, self.failure = True, False, None, None
        self.wait, self.at_once = None, False
        return [*self._lose(), Status(name="paused")]

    def resume(self) -> bool:
        """Connect again, after a pause or after the end for good: whether ``begin()`` is due now."""
        if self.closed or not (self.paused or self.failure):
            return False
        self.paused, self.failure, self._renewed = False, None, False
        self.wait, self.at_once = 0.0, True
        self._attempts.reset()
        return True

    def close(self) -> list[MachineEvent]:
        """End the client, as the program asks."""
        if self.closed:
            return []
        self.connected, self.closed = False, True
        self.wait, self.at_once = None, False
        return [*self._lose(), *self._tell(self._outgoing.end("the client was closed")), Status(name="closed")]

    # Time.

    def due(self) -> float | None:
        """Return the time at which ``tick()`` has something to do."""
        times = [self._outgoing.due()]
        if self.connected:
            times += [self._recovery.due(), self._renewal.at if self._renewable else None, self._ladder.probe_at]
        return min((time for time in times if time is not None and time < inf), default=None)

    def tick(self, now: float) -> list[MachineEvent]:
        """Do all that is due at this time."""
        settled = self._tell(self._outgoing.expire(now))
        if self.connected:
            self.following.ask_again(self._recovery.again(now))
        return [*settled, *self._pump(now), *self._renew(now), *self._probe(now)]

    def probed(self, url: str, transport: str, works: bool, now: float) -> None:
        """Take the outcome of the event ``ProbeTransport``."""
        if self.connected and url == self.url and self._ladder.probed(transport, works, now):
            self.leaving = Close.NORMAL, f"step_up: the transport {transport} works here"

    def not_renewed(self, now: float) -> None:
        """Plan another event ``Renew``: no new token could be had for the last one."""
        if self.connected:
            self._renewal.failed(now)

    # What the program asks for, beside subscriptions (``following.subscribe``).

    def publish(self, publication: OutgoingPublication, now: float) -> list[MachineEvent]:
        """Queue a publication; ``Settled`` tells what became of it, now or later."""
        if self.failure is not None or self.closed:
            return self._tell([Settled(publication, "failed", "the client has ended", answered=False)])
        refused = self._outgoing.put(publication, now)
        return [*self._tell([refused] if refused else []), *self._pump(now)]

    def hurry(self, now: float, at: float) -> float:
        """Return when to call ``begin()``, which was due ``at``: the program needs a connection now."""
        return self._attempts.hurry(now, at)

    def reconnect(self) -> None:
        """Note that ``begin()`` is called now, whatever was to be waited for: waits begin with the shortest again."""
        self._attempts.reset()
        if self.wait is not None:
            self.wait = 0.0

    def unsubscribe(self, subjects: Iterable[str], owner: Any = None) -> tuple[list[int], list[MachineEvent]]:
        """Return the ids of the commands (``ClientSubscriptions.unsubscribe``), and what to tell."""
        names = list(subjects)
        ids = self.following.unsubscribe(names, owner)
        left = [name for name in names if not self.following.wanted.owners(name)]
        return ids, [*self._recovery.left(left), *self._recovery.keep(self.following.wanted.subjects)]

    # Inside.

    def _answered(self, number: int, answer: wire.AnyAnswer, now: float) -> list[MachineEvent]:
        match answer:
            case wire.Connected():
                self.connected, self._renewed = True, False
                self._server_ahead = answer.time / 1000 - now
                self._taken(answer.expires, now)
                told = self._attempts.stood(now)
                self._ladder.stood(now)
                here = Status(name="connected", url=self.url, transport=self.transport, user=self.state.user)
                return [here, *told]
            case wire.Renewed():
                self._taken(answer.expires, now)
            case wire.Published():
                publication = self._outgoing.answered(number, answer.status, now)
                if publication is None:
                    return []
                epoch, seq = (0 if value is UNSET else value for value in (answer.epoch, answer.seq))
                status = "unknown" if answer.status == "stale" else answer.status
                return self._tell([Settled(publication, status, answer.reason, epoch, seq)])
            case wire.Error() if self._outgoing.waits_for(number):
                publication = self._outgoing.answered(number, answer.code, now)
                return self._tell([Settled(publication, answer.code, answer.reason)]) if publication else []
        return []

    def _taken(self, expires: int | UnsetType, now: float) -> None:
        self._renewal.taken(now, None if expires is UNSET else expires / 1000 - (now + self._server_ahead))

    def _renew(self, now: float) -> list[MachineEvent]:
        if not (self._renewable and self.connected and now >= self._renewal.at):
            return []
        self._renewal.begun()
        return [Renew()]

    def _probe(self, now: float) -> list[MachineEvent]:
        at = self._ladder.probe_at
        if not self.connected or at is None or now < at:
            return []
        return [ProbeTransport(self.url, self._ladder.probe())]

    def _named(self, servers: Iterable[tuple[str, int]]) -> None:
        try:
            self.servers.add(parse_servers(servers))
        except ValueError:
            pass  # what is no address for us is no place to go

    def _pump(self, now: float) -> list[MachineEvent]:
        """Send what may be sent; what the server takes no frame of is settled."""
        settled = []
        for one in self._outgoing.take(now) if self.connected else ():
            try:
                number = self._publish(one)
            except TooLarge as error:
                settled.append(self._outgoing.refuse(one, error.code, error.reason))
            else:
                self._outgoing.on_wire(one, number)
        return self._tell(settled)

    def _publish(self, one: OutgoingPublication) -> int:
        return self.state.publish(
            one.subject,
            one.content,
            one.fields,
            one.closure,
            one.retained,
            one.qos,
            one.reply_to,
            one.number,
            one.replace,
            one.removed,
            one.traceparent,
        )

    def _lose(self, too_big: bool = False) -> list[MachineEvent]:
        lost = self.state.lose()
        self._recovery.lose()
        self._renewal.stop()
        self._ladder.stop()
        return [*lost, *self._tell(self._outgoing.lose(too_big))]

    def _disconnected(self, code: int, reason: str) -> Status:
        return Status(name="disconnected", code=code, reason=reason, url=self.url, retry_seconds=self.wait or 0)

    @staticmethod
    def _tell(settled: Iterable[Settled]) -> list[MachineEvent]:
        events: list[MachineEvent] = []
        for one in settled:
            events.append(one)
            if one.publication.told:
                events.append(_status_of(one))
        return events


_NAMES = {"ok": "published", "denied": "publish_denied", "too_large": "publish_too_large"}


def _status_of(settled: Settled) -> Status:
    """Return the status that tells the program the outcome of a publication to which it gave a closure."""
    return Status(
        name=_NAMES.get(settled.status, "publish_failed"),
        subject=settled.publication.subject,
        closure=settled.publication.closure,
        status=settled.status,
        reason=settled.reason,
        epoch=settled.epoch,
        seq=settled.seq,
    )
