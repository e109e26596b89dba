"""One process' part of presence and interactive publishing: its clients' commands, and the way to the node's roster."""

from __future__ import annotations

import hashlib
import socket
from typing import Protocol

import msgspec

from ...core.auth.grants import Principal
from ...core.auth.reasons import PENDING
from ...core.auth.rules import SUBSCRIBE
from ...core.delivery.audience import Client
from ...core.matching.pattern_set import PatternSet
from ...core.presence.advertisements import OFFERS_MAX, Advertiser
from ...core.presence.local_presence import LocalPresence
from ...core.presence.replication import Packet, PresenceSender
from ...core.presence.roster import advertised_key
from ...core.protocol.errors import InvalidMessage, InvalidSubject
from ...core.protocol.messages import Advertise, Advertised, Error, Interest, Presence, Present, User
from ...core.protocol.subject import PRESENCE, check_subject
from ..node import messages
from ..plain_http.answers import refused_by
from ..plain_http.call import Call, code_of
from ..runtime.component import Offers
from ..runtime.runtime import Runtime, now
from .presence_leader import FLUSH_SECONDS, TURN_SECONDS, NodePresence, announce

STEP_SECONDS = 0.002
"""Seconds that one turn works on what waits."""

STEP = 50
"""Subjects between two looks at the clock."""

BEATS = 2
"""Seconds between signs of life."""

QUESTIONS_MAX = 10_000
"""Questions of this process' clients that may wait for the first worker."""

ANSWER_SECONDS = 2.0
"""Seconds that such a question waits."""

AWAY = "the server does not know it at this moment; ask again"


class ClientAdvertiser:
    """A client that advertises (core.presence.advertisements.Advertiser)."""

    def __init__(self, runtime: Runtime, client: Client) -> None:
        self._runtime = runtime
        self._client = client

    @property
    def over(self) -> bool:
        """True when the client's connection has ended."""
        return self._client.closed

    @property
    def full(self) -> bool:
        """True while a queue waits for the client."""
        return self._client.queue is not None

    @property
    def principal(self) -> Principal:
        """The client's principal at this moment."""
        return self._client.principal

    def tell(self, subjects: list[str], wanted: bool) -> None:
        """Tell the client what is wanted of what it advertised (protocol.md 4.15)."""
        self._runtime.broker.send(self._client, Interest(subjects=subjects, wanted=wanted))


class Questioner(Protocol):
    """A client that has asked who is there."""

    id: int
    """Number of the question, if it has one."""
    subject: str

    def tell(self, answer: Present) -> None:
        """Answer the question."""

    def refuse(self, code: str, reason: str) -> None:
        """Say why it is not answered."""


class _ClientAsks:
    """A client that has asked by a command."""

    def __init__(self, runtime: Runtime, client: Client, command: Presence) -> None:
        self.id = command.id
        self.subject = command.subject
        self._runtime = runtime
        self._client = client

    def tell(self, answer: Present) -> None:
        self._runtime.broker.send(self._client, answer)

    def refuse(self, code: str, reason: str) -> None:
        self._runtime.broker.send(self._client, Error(id=self.id, code=code, reason=reason))


class _CallerAsks:
    """Somebody who has asked over HTTP."""

    def __init__(self, call: Call) -> None:
        self.id = 0
        self.subject = call.parameter("subject") or ""
        self._call = call

    def tell(self, answer: Present) -> None:
        self._call.answer_with(
            {
                "subject": self.subject,
                "users": msgspec.to_builtins(answer.users),
                "anonymous": answer.anonymous,
                "more": answer.more,
                "stale": answer.stale,
            }
        )

    def refuse(self, code: str, reason: str) -> None:
        self._call.answer(refused_by(InvalidMessage(code, reason)))


class WorkerPresence:
    """The presence of this process' clients: told to the ``view`` or to the first worker's, whose news come back."""

    def __init__(self, runtime: Runtime, node: str, worker: int = 0, view: NodePresence | None = None) -> None:
        self._runtime = runtime
        self._view = view
        self._speaker = PresenceSender(f"{node}/{worker}", runtime.broker.server)
        presence = PatternSet.parse(runtime.settings.presence)
        clients = runtime.sessions.clients
        self._attendance = LocalPresence(runtime.broker, clients, self._speaker, presence, self.wake)
        runtime.sessions.rights.options.watch(self._attendance.renew)
        self._advertisers = runtime.advertisers
        self._advertisers.follow(self._advertised)
        self._of_clients: dict[Client, Advertiser] = {}
        self._questions: dict[int, tuple[float, Questioner]] = {}
        self._asked = 0
        self._fresh: set[str] | None = None  # what is wanted, while all of it is being told
        self._scheduled = self._ended = False
        self._seconds = 0
        if runtime.sessions.guard is not None:
            runtime.sessions.guard.spare(self._of_clients.__contains__)
        if view is not None:
            view.serve(self._attendance.follow, self._change, self._ask)
        self.offers = Offers(
            commands={Presence: self._presence, Advertise: self._advertise},
            endpoints={"/api/presence": {"GET": self._called}},
            messages={
                messages.Attend: lambda worker, told: self._ask(),
                messages.Patterns: lambda worker, told: self._attendance.follow(told.patterns),
                messages.Presences: lambda worker, told: announce(runtime.broker, told.events),
                messages.Wanted: self._wanted,
                messages.AllWanted: self._all_wanted,
                messages.Present: self._answer,
            },
            linked=None if view is not None else lambda worker: self._say(self._speaker.beat()),
        )

    def start(self) -> None:
        """Start the clock."""
        self._on_second()

    def stop(self) -> None:
        """End with the process: its clients are gone, or soon will be."""
        self._ended = True
        if self._speaker.n:
            self._say(self._speaker.bye())

    def wake(self, seconds: float = FLUSH_SECONDS) -> None:
        """Wake the component soon: there is something to look at, or to say."""
        if not self._scheduled and not self._ended:
            self._scheduled = True
            self._runtime.loop.call_later(seconds, self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        if self._ended:
            return
        loop, attendance, advertisers = self._runtime.loop, self._attendance, self._advertisers
        end = loop.time() + STEP_SECONDS
        while attendance.busy and loop.time() < end:
            attendance.step(STEP)
        if self._speaker.busy and not self._is_held():
            packet = self._speaker.next()
            if packet is not None:
                self._say(packet)
        moment = now()
        while advertisers.busy and loop.time() < end and advertisers.step(moment, STEP):
            pass
        self._runtime.end()
        if attendance.busy or self._speaker.busy:
            self.wake(TURN_SECONDS)
        elif advertisers.busy:
            self.wake()

    def _is_held(self) -> bool:
        """Return whether the way to the other nodes is full."""
        return self._view is not None and self._view.channel is not None and self._view.channel.full

    def _on_second(self) -> None:
        if self._ended:
            return
        self._runtime.loop.call_later(1, self._on_second)
        self._seconds += 1
        self._advertisers.sweep()
        for client in [client for client in self._of_clients if client.closed]:
            del self._of_clients[client]
        if self._seconds % BEATS == 0 and (self._speaker.n or len(self._advertisers)):
            self._say(self._speaker.beat())
        late = self._runtime.loop.time() - ANSWER_SECONDS
        for number in [one for one, question in self._questions.items() if question[0] < late]:
            _, questioner = self._questions.pop(number)
            questioner.refuse("not_ready", AWAY)
        if self._view is not None:
            self._view.beat()
        if self._advertisers.busy:
            self.wake()
        self._runtime.end()

    def _say(self, packet: Packet) -> None:
        """Tell the roster; what is lost on the way is asked for."""
        if self._view is not None:
            self._view.say(0, packet, False)
        else:
            self._runtime.workers.to_first(messages.Attendance(packet, bool(len(self._advertisers))))

    def _ask(self) -> None:
        """Tell all that this process has: somebody does not know it."""
        if self._speaker.n:
            self._speaker.ask()
            self.wake(TURN_SECONDS)

    def _advertised(self, pattern: str, count: int) -> None:
        self._speaker.set(advertised_key(pattern), count)
        self.wake()

    def _change(self, subject: str, wanted: bool) -> None:
        self._advertisers.change(subject, wanted)
        self.wake()

    # Between the workers

    def _wanted(self, worker: int, told: messages.Wanted) -> None:
        del worker
        for subject in told.subjects:
            if self._fresh is not None:
                (self._fresh.add if told.wanted else self._fresh.discard)(subject)
            self._change(subject, told.wanted)

    def _all_wanted(self, worker: int, told: messages.AllWanted) -> None:
        """Take all that is wanted, told between two of these: what is not among it is not wanted any more."""
        del worker
        if told.begins:
            self._fresh = set()
        elif self._fresh is not None:
            gone, self._fresh = self._advertisers.wanted - self._fresh, None
            for subject in gone:
                self._change(subject, False)

    # Commands of clients

    def _presence(self, client: Client, command: Presence, moment: int) -> None:
        """protocol.md 3.9; raises InvalidMessage."""
        self._check_kept(command.subject)
        reason = self._runtime.broker.grants.check(client.principal, SUBSCRIBE, PRESENCE + command.subject, moment)
        questioner = _ClientAsks(self._runtime, client, command)
        if reason in PENDING:
            questioner.refuse("not_ready", reason)
        elif reason:
            raise InvalidMessage("denied", reason)
        else:
            self._who(questioner, command.subject)

    def _called(self, call: Call) -> None:
        """Answer the same over HTTP; raise InvalidMessage and Refused."""
        call.check_parameters("subject")
        subject = call.parameter("subject") or ""
        self._check_kept(subject)
        if not subject and call.parameters("subject"):
            raise InvalidMessage("invalid", "subject is empty; leave it away to ask who is online")

        def decided(reason: str) -> None:
            if reason:
                raise InvalidMessage(code_of(reason), reason)
            self._who(_CallerAsks(call), subject)

        call.decide(SUBSCRIBE, PRESENCE + subject, decided)

    def _check_kept(self, subject: str) -> None:
        """Raise InvalidMessage where presence is not kept."""
        coverage = self._attendance.coverage
        if not coverage:
            raise InvalidMessage("invalid", "this server does not keep presence")
        if subject:
            try:
                check_subject(subject)
            except InvalidSubject as error:
                raise InvalidMessage("invalid", error.reason) from None
            if not coverage.covers(subject):
                raise InvalidMessage("invalid", "presence is not kept for this subject")

    def _who(self, questioner: Questioner, subject: str) -> None:
        """Tell who is there, here or by the first worker."""
        if self._view is not None:
            questioner.tell(self._view.present(questioner.id, subject))
            return
        self._asked += 1
        asked = len(self._questions) < QUESTIONS_MAX and self._runtime.workers.to_first(
            messages.Who(self._asked, subject)
        )
        if asked:
            self._questions[self._asked] = self._runtime.loop.time(), questioner
        else:
            questioner.refuse("not_ready", AWAY)

    def _answer(self, worker: int, found: messages.Present) -> None:
        del worker
        question = self._questions.pop(found.number, None)
        if question is not None:
            _, questioner = question
            users = [User(user=user, connections=connections) for user, connections in found.users]
            answer = Present(id=questioner.id, subject=questioner.subject, users=users)
            answer.anonymous, answer.more, answer.stale = found.anonymous, found.more, found.stale
            questioner.tell(answer)

    def _advertise(self, client: Client, command: Advertise, moment: int) -> None:
        """protocol.md 3.10; raises InvalidMessage."""
        del moment
        advertiser = self._of_clients.get(client)
        if advertiser is None:
            advertiser = self._of_clients[client] = ClientAdvertiser(self._runtime, client)
        if len(command.patterns) > OFFERS_MAX:
            raise InvalidMessage("limit", f"over {OFFERS_MAX} patterns in one command")
        results = self._advertisers.advertise(advertiser, command.patterns)
        self._runtime.broker.send(client, Advertised(id=command.id, results=results))
        self.wake()


def node_name(links: str) -> str:
    """Return the name of this node: the same for all its workers, and for those that take the place of others.

    ``links`` is the path of their socket.
    """
    return hashlib.blake2b(f"{socket.gethostname()} {links}".encode(), digest_size=8).hexdigest()
