"""Groups between the first worker, which has them, and their members on other workers: the first worker's side."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from ....core.mqtt.groups.guests import GuestMembers, Holder
from ....core.mqtt.groups.shares import Loan, MessageKey, Shares
from ....core.mqtt.reasons import V5
from ....core.mqtt.records import encode_record
from ....core.protocol.codec import MQTT, MQTT5
from ...node.messages import GroupAnswers, GroupMessage, HoldGroup, JoinGroup, OfferGroup, UseGroups
from ...runtime.runtime import Runtime, now


def record_of(runtime: Runtime, key: MessageKey, level: int) -> bytes | None:
    """Return a message as a record for clients of that protocol level; None if the cache does not have it any more."""
    subject, epoch, seq = key
    topic = runtime.broker.interest.topics.get(subject)
    ring = topic.ring if topic is not None else None
    at = seq - ring[0].seq if ring else -1
    if topic is None or not ring or not 0 <= at < len(ring) or ring[at].epoch != epoch:
        return None
    return encode_record(ring[at], topic.sid, runtime.broker.base, MQTT5 if level == V5 else MQTT, "recovered")


class GuestGroups:
    """``session_of`` says who has the session of that worker and number: what stands for it among members."""

    def __init__(self, runtime: Runtime, shares: Shares, session_of: Callable[[Holder], Hashable | None]) -> None:
        self._runtime = runtime
        self._session_of = session_of
        self.members = GuestMembers(shares, self)
        self._answers: dict[int, GroupAnswers] = {}
        self._soon = False
        self._timed = False

    # What other workers say

    def joined(self, worker: int, packet: JoinGroup) -> None:
        """Note that a client there is a member, or is none any more."""
        holder = worker, packet.number
        session = self._session_of(holder)
        if session is None:
            return  # it has gone already
        if packet.joins:
            self.members.join(holder, session, packet.name, packet.level)
        else:
            self.members.quit(holder, packet.name)

    def used(self, worker: int, packet: UseGroups) -> None:
        """Follow what members there do with messages."""
        members = self.members
        for number, name, key in packet.done:
            members.done((worker, number), name, key)
        for number, name, key in packet.free:
            members.free((worker, number), name, key)
        for _, name, key in packet.declined:
            members.decline(worker, name, key)
        for number, name, key in packet.asked:
            members.ask((worker, number), name, key)
        self._look()

    def held(self, worker: int, packet: HoldGroup) -> None:
        """Note what was taken there before this worker was the first."""
        self.members.had(packet.name, packet.had)
        for number, key in packet.held:
            self.members.hold((worker, number), packet.name, key)

    # The way to them: implements core.mqtt.groups.guests.OtherWorkers

    def answer(self, holder: Holder, name: str, key: MessageKey, *, taken: bool) -> None:
        worker, number = holder
        answers = self._answers.get(worker)
        if answers is None:
            answers = self._answers[worker] = GroupAnswers([], [])
        one: GroupMessage = (number, name, key)
        (answers.taken if taken else answers.gone).append(one)

    def offer(self, worker: int, loan: Loan) -> None:
        self._runtime.workers.to_others(OfferGroup(loan.share.name, loan.level, loan.key), worker)

    def record(self, key: MessageKey, level: int) -> bytes | None:
        return record_of(self._runtime, key, level)

    def look_again(self, ms: int) -> None:
        if ms:
            if not self._timed:
                self._timed = True
                self._runtime.loop.call_later(ms / 1000, self._look_later)
        elif not self._soon:
            self._soon = True
            self._runtime.loop.call_soon(self._look_soon)

    def _look_later(self) -> None:
        self._timed = False
        self._look_soon()

    def _look_soon(self) -> None:
        self._soon = False
        self._look()

    def _look(self) -> None:
        self.members.look(now())
        answers, self._answers = self._answers, {}
        for worker, packet in answers.items():
            self._runtime.workers.to_others(packet, worker)
