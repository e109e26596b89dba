"""Groups between the first worker, which has them, and their members on another one: the side of that one."""

from __future__ import annotations

from collections.abc import Hashable

from ....core.mqtt.groups.asking import AskingShare
from ....core.mqtt.groups.shares import Loan, MessageKey, Share, Shares
from ....core.mqtt.session import MqttSession
from ...node.messages import GroupAnswers, GroupMessage, HoldGroup, JoinGroup, OfferGroup, UseGroups
from ...runtime.runtime import Runtime
from .guest_groups import record_of

MESSAGES_MAX = 10_000
"""Messages in one packet to the first worker."""


class AskingGroups:
    """The groups of this worker's clients; what is said of messages is sent at the end of the turn of the loop."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.shares = Shares(self._make)
        self._sessions: dict[int, MqttSession] = {}  # members, by their numbers
        self._use = UseGroups([], [], [], [])
        self._soon = False

    def _make(self, name: str) -> Share:
        return AskingShare(name, self)

    def _find(self, name: str) -> AskingShare | None:
        share = self.shares.get(name)
        return share if isinstance(share, AskingShare) else None

    # Sessions

    def begin(self, session: MqttSession, deserted: list[str]) -> bool:
        """Find the groups of a session that has come here, of which some were deserted; False if one of its filters can
        be none any more."""
        if not session.revive(self.shares.find):
            return False
        for name in deserted:
            share = self._find(name)
            if share is not None:
                share.is_late(session)
        return True

    def end(self, session: MqttSession) -> None:
        """Tell what a session had that has left this worker."""
        self._sessions.pop(session.lent_as, None)
        for one in session.subscriptions.values() if session.in_groups else ():
            if one.share is not None:
                self.shares.leave(one.share, session)

    # What the groups say: implements core.mqtt.groups.asking.FirstWorker

    def joined(self, session: Hashable, name: str, level: int) -> None:
        assert isinstance(session, MqttSession)
        self._sessions[session.lent_as] = session
        self._runtime.workers.to_first(JoinGroup(session.lent_as, name, level, joins=True))

    def quit(self, session: Hashable, name: str) -> None:
        assert isinstance(session, MqttSession)
        if session.lent_as in self._sessions:
            self.flush()
            self._runtime.workers.to_first(JoinGroup(session.lent_as, name, session.level, joins=False))

    def ask(self, session: Hashable, name: str, key: MessageKey) -> None:
        self._add(self._use.asked, session, name, key)

    def done(self, session: Hashable, name: str, key: MessageKey) -> None:
        self._add(self._use.done, session, name, key)

    def free(self, session: Hashable, name: str, key: MessageKey) -> None:
        self._add(self._use.free, session, name, key)

    def declined(self, name: str, key: MessageKey) -> None:
        self._use.declined.append((0, name, key))
        self._flush_soon()

    def had(self, name: str, keys: list[MessageKey]) -> None:
        self._runtime.workers.to_first(HoldGroup(name, keys, []))

    def holds(self, session: Hashable, name: str, key: MessageKey) -> None:
        assert isinstance(session, MqttSession)
        self._runtime.workers.to_first(HoldGroup(name, [], [(session.lent_as, key)]))

    def _add(self, to: list[GroupMessage], session: Hashable, name: str, key: MessageKey) -> None:
        assert isinstance(session, MqttSession)
        to.append((session.lent_as, name, key))
        if len(to) >= MESSAGES_MAX:
            self.flush()
        else:
            self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._soon:
            self._soon = True
            self._runtime.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._soon = False
        self.flush()

    def flush(self) -> None:
        """Send what was said of messages by now. Without a first worker it is lost: a new one is told all."""
        use = self._use
        if use.done or use.free or use.declined or use.asked:
            self._use = UseGroups([], [], [], [])
            self._runtime.workers.to_first(use)

    def tell_again(self) -> None:
        """Tell a new first worker which sessions are here."""
        self._use = UseGroups([], [], [], [])
        for share in self.shares:
            if isinstance(share, AskingShare):
                share.tell_again()

    # What the first worker says

    def answered(self, packet: GroupAnswers) -> None:
        """Take which messages members get, and which they do not get."""
        for answers, taken in ((packet.taken, True), (packet.gone, False)):
            for number, name, key in answers:
                session, share = self._sessions.get(number), self._find(name)
                if session is not None and share is not None:
                    share.answered(session, key, taken=taken)
                elif taken:
                    self._use.free.append((number, name, key))
                    self._flush_soon()

    def offered(self, packet: OfferGroup) -> None:
        """Offer a message that is free again."""
        share, key = self._find(packet.name), packet.message
        record = record_of(self._runtime, key, packet.level) if share is not None else None
        if share is None or record is None:
            self.declined(packet.name, key)
        else:
            share.offered(Loan(share, key, packet.level, record))
