"""The roster of a node: its first process hears all others and the other nodes, and tells what follows from that."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from ...core.broker.broker import Broker
from ...core.presence.replication import Packet, PresenceReceiver
from ...core.presence.roster import Roster
from ...core.protocol.errors import InvalidSubject
from ...core.protocol.messages import STANDARD, Message, Present, User
from ...core.protocol.subject import PRESENCE, check_subject
from ...engine.base import PresenceChannel
from ..node import messages
from ..runtime.component import Offers
from ..runtime.runtime import Runtime, now

FLUSH_SECONDS = 0.05
"""Seconds within which what happens is told together."""

TURN_SECONDS = 0.005
"""Seconds between two slices of work, so that everybody else has a turn."""

SLICE = 200
"""Joins and leaves told in one slice: each is a message to this node's clients, about 10 µs."""

LEARN_SLICE = 2000
"""Changes that are learnt in one slice, and told to nobody."""

WORKER_SILENCE_MS = 6000
"""A process of this node that is silent for so long is not counted: it hangs, or has ended."""

NODE_SILENCE_MS = 12_000
"""The same for another node; its users have left 2 s later (core.roster.SETTLE_MS)."""

LEARN_SECONDS = 3.0
"""Seconds that a process that takes over, or a node that joins, listens to the others before it tells what is new."""

USERS_MAX = 1000
"""Users in one answer (protocol.md 4.14)."""

SUBJECTS_PER_PACKET = 500

log = logging.getLogger("fastpath.roster")


class NodePresence:
    """The node's view of who is there."""

    def __init__(self, runtime: Runtime, node: str, *, learns: bool) -> None:
        self.roster = Roster()
        self._follow: Callable[[list[str]], None] = lambda patterns: None
        self._change: Callable[[str, bool], None] = lambda subject, wanted: None
        self._ask_own: Callable[[], None] = lambda: None
        self.channel: PresenceChannel | None = None
        self._runtime = runtime
        self._node = node
        self._local = PresenceReceiver(self.roster, WORKER_SILENCE_MS, self._ask)
        self._remote = PresenceReceiver(self.roster, NODE_SILENCE_MS, lambda member: self._send(["?", member]))
        self._followers: set[int] = set()
        self._tellings: list[tuple[int, Iterator[str]]] = []
        self._learnt_at = runtime.loop.time() + LEARN_SECONDS if learns else 0.0
        self._patterns_at = 0.0
        self._scheduled = False
        self.offers = Offers(
            messages={messages.Attendance: self._said, messages.Who: self._asked},
            linked=self._linked,
            parted=self._parted,
            figures=self._figures,
        )

    def serve(
        self, follow: Callable[[list[str]], None], change: Callable[[str, bool], None], ask: Callable[[], None]
    ) -> None:
        """Tell this process' own part (edge/workers/presence.py): ``follow`` the patterns that are advertised anywhere,
        ``change`` which subjects are wanted; ``ask`` has it say again what its clients do."""
        self._follow, self._change, self._ask_own = follow, change, ask

    @property
    def learning(self) -> bool:
        """True while this process does not know yet what the one before it, or the cluster, knew."""
        return self._runtime.loop.time() < self._learnt_at

    @property
    def stale(self) -> bool:
        """True if the view may be incomplete."""
        return self.learning or (self.channel is not None and self.channel.away)

    def join(self, channel: PresenceChannel) -> None:
        """Join the other nodes, now that there are some."""
        self.channel = channel
        self._learnt_at = self._runtime.loop.time() + LEARN_SECONDS
        self.wake()

    def say(self, worker: int, packet: Packet, follows: bool) -> None:
        """Take what a process of this node says of its clients."""
        self._local.hear(packet, self._time())
        self._send(packet)
        if follows and worker and worker not in self._followers:
            self._followers.add(worker)
            self._tell_wanted(worker)
        elif not follows:
            self._followers.discard(worker)
        self.wake()

    def _said(self, worker: int, said: messages.Attendance) -> None:
        self.say(worker, said.packet, said.follows)

    def _asked(self, worker: int, asked: messages.Who) -> None:
        found = self.present(asked.number, asked.subject)
        users = [(user.user, user.connections) for user in found.users]
        answer = messages.Present(asked.number, users, found.anonymous, found.more, found.stale)
        self._runtime.workers.to_others(answer, worker)

    def hear(self, packet: Packet) -> None:
        """Hear what another node says, or asks."""
        try:
            if packet[:1] != ["?"]:
                self._remote.hear(packet, self._time())
            elif packet[1] == "*":
                self._runtime.workers.to_others(messages.Attend())
                self._ask_own()
            elif str(packet[1]).startswith(self._node + "/"):
                self._ask(packet[1])
        except (ValueError, IndexError) as error:
            log.error("another node is not understood: %s", error)
        self.wake()

    def present(self, number: int, subject: str) -> Present:
        """Return the users on the subject, or anywhere, as the answer to question ``number``."""
        users, anonymous, more = self.roster.who(subject, USERS_MAX)
        return Present(
            id=number,
            subject=subject,
            users=[User(user=user, connections=count) for user, count in users],
            anonymous=anonymous,
            more=more,
            stale=self.stale,
        )

    def beat(self) -> None:
        """Do what is due each second."""
        moment = self._time()
        if self.channel is not None and self.channel.away:
            self._remote.rest(moment)
        self._remote.expire(moment)
        self._local.expire(moment)
        self.wake()

    def wake(self, seconds: float = FLUSH_SECONDS) -> None:
        """Wake the view soon: there is something to tell."""
        if not self._scheduled:
            self._scheduled = True
            self._runtime.loop.call_later(seconds, self._turn)

    def _time(self) -> int:
        """Return ms while this loop runs: what others said while it stood still waits unread, and ends nobody here."""
        return int(self._runtime.awake.time * 1000)

    def _send(self, packet: Packet) -> None:
        if self.channel is not None:
            self.channel.send(packet)

    def _ask(self, member: str) -> None:
        """Ask one of this node's processes for all that it has."""
        worker = int(member.rpartition("/")[2])
        if worker:
            self._runtime.workers.to_others(messages.Attend(), worker)
        else:
            self._ask_own()

    def _linked(self, worker: int) -> None:
        """Note that a process of this node is there, perhaps a new one."""
        self._followers.discard(worker)
        if self.roster.patterns and not self.learning:
            self._runtime.workers.to_others(messages.Patterns(list(self.roster.patterns)), worker)

    def _parted(self, worker: int) -> None:
        """Note that a process of this node is gone."""
        self._followers.discard(worker)
        self._local.leave(f"{self._node}/{worker}")
        self.wake()

    def _figures(self) -> dict[str, float]:
        roster = self.roster
        return {
            "roster_members": self._local.members + self._remote.members,
            "roster_keys": roster.keys,
            "roster_left_out": roster.left_out,
        }

    def _turn(self) -> None:
        self._scheduled = False
        moment = self._time()
        changes = self.roster.step(moment, SLICE if not self._learnt_at else LEARN_SLICE)
        if self.learning or (self._learnt_at and self.roster.busy(moment)):
            self.wake(TURN_SECONDS if self.roster.busy(moment) else FLUSH_SECONDS)
            return  # that is no news
        if self._learnt_at:
            changes = []
            self._learnt_at = 0.0
            self.roster.patterns_changed = bool(self.roster.patterns)
            for subject in list(self.roster.wanted):
                self._change(subject, True)
            for worker in self._followers:
                self._tell_wanted(worker)
        events = [[change.subject, change.user, change.number] for change in changes if change.user is not None]
        if events:
            self._runtime.workers.to_others(messages.Presences(events))
            announce(self._runtime.broker, events)
        for wanted in (True, False):
            subjects = [one.subject for one in changes if one.user is None and bool(one.number) == wanted]
            if subjects:
                self._tell(subjects, wanted)
        self._tell_patterns(moment)
        self._go_on()
        self._runtime.end()
        if self._tellings or self.roster.busy(moment):
            self.wake(TURN_SECONDS)
        elif self.roster.waits or self.roster.patterns_changed:
            self.wake()

    def _tell_patterns(self, moment: int) -> None:
        """Tell the patterns at most once a second: every process looks at all its subjects then."""
        if self.roster.patterns_changed and moment >= self._patterns_at:
            self.roster.patterns_changed = False
            self._patterns_at = moment + 1000
            patterns = list(self.roster.patterns)
            self._runtime.workers.to_others(messages.Patterns(patterns))
            self._follow(patterns)

    def _tell(self, subjects: list[str], wanted: bool) -> None:
        for worker in self._followers:
            self._runtime.workers.to_others(messages.Wanted(subjects, wanted), worker)
        for subject in subjects:
            self._change(subject, wanted)

    def _tell_wanted(self, worker: int) -> None:
        """Tell a process that has somebody who advertises all that is wanted, in slices."""
        if not self.learning:
            self._runtime.workers.to_others(messages.AllWanted(True), worker)
            self._tellings.append((worker, iter(list(self.roster.wanted))))

    def _go_on(self) -> None:
        for telling in list(self._tellings):
            worker, subjects = telling
            some = [subject for subject, _ in zip(subjects, range(SUBJECTS_PER_PACKET), strict=False)]
            # One that is not wanted any more has been told of, before or behind what is told here.
            some = [subject for subject in some if self.roster.wanted.get(subject)]
            if some:
                self._runtime.workers.to_others(messages.Wanted(some, True), worker)
            else:
                self._tellings.remove(telling)
                self._runtime.workers.to_others(messages.AllWanted(False), worker)


def announce(broker: Broker, events: list[list[Any]]) -> None:
    """Tell this process' clients who joined and left (protocol.md 3.9).

    Every process of every node does this for itself, so that no log carries it; what nobody listens to is forgotten.
    """
    time = now()
    for subject, user, count in events:
        try:
            check_subject(PRESENCE + subject)
        except InvalidSubject:
            continue  # too long with what stands in front of it
        fields = {"user": user, "connections": str(count)}
        message = Message(
            PRESENCE + subject, "join" if count else "leave", fields, qos=STANDARD, retained=False, time=time
        )
        message.weigh()
        broker.deliver_here(message)
        topic = broker.interest.topics.get(message.subject)
        if topic is not None:
            broker.interest.tidy(topic)
