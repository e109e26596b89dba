"""The sessions of MQTT clients, as the first worker has them: who is connected where, who may come back, wills that
wait; those of clients on other workers are lent to these (guests.py)."""

from __future__ import annotations

import gc
import logging
import secrets
from collections import OrderedDict
from collections.abc import Generator, Hashable
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import NamedTuple

from ....core.delivery.audience import Client
from ....core.mqtt.groups.guests import Granted, Holder
from ....core.mqtt.groups.shares import Loan, Share, Shares
from ....core.mqtt.reasons import Reason
from ....core.mqtt.session import MqttSession, Place
from ....core.mqtt.session_state import decode_state, encode_state
from ....engine.base import SessionStore, SharedSessions
from ...node.messages import (
    AskSession,
    ChangeSessions,
    GiveSession,
    HoldGroup,
    HoldSession,
    JoinGroup,
    ReturnSession,
    TakeSession,
    UseGroups,
)
from ...runtime.component import Offers
from ...runtime.runtime import Runtime, now
from .connections import STEP, Given, Key, MqttConnections, in_steps
from .guest_groups import GuestGroups, record_of
from .nodes import RENEW_SECONDS, FoundSession, NodeSessions
from .saving import SavedSession, Saving, encode_saved, restored
from .stream import MqttStream
from .wills import LeftWill, decode_will

POSITIONS_MAX = 5_000_000
"""Positions that all sessions keep whose clients are away, some 150 bytes each; beyond that, and while there is no
memory, those that were left first end."""

UNSENT_BYTES_MAX = 8 << 20
"""Bytes for another worker up to which a session is lent to it: beyond, its client is told to come again."""

ENDED_MAX = 1000
"""Sessions that end in one second because the server is out of memory."""

log = logging.getLogger("fastpath.clients")


class _Asker(NamedTuple):
    """A connection that is to have the session: of this process (``stream``), of another worker (``holder``), or of
    another ``node``, which is told by that number."""

    level: int
    clean: bool
    expiry_seconds: int
    stream: MqttStream | None = None
    given: Given | None = None
    holder: Holder | None = None
    will: bytes = b""
    node: str | None = None
    number: int = 0


class _Kept:
    """A session, the connection that it has here, or who has it; and while neither is there when it ends (ms).

    ``standing`` is the will of a client on another worker, ``will`` one that waits until ``will_at`` (ms). ``next`` is
    who has the session as soon as it has come back. ``written`` says whether the store knows it.
    """

    __slots__ = ("ends", "holder", "next", "positions", "session", "standing", "stream", "will", "will_at", "written")

    def __init__(self, session: MqttSession) -> None:
        self.session = session
        self.stream: MqttStream | None = None
        self.holder: Holder | None = None
        self.standing: LeftWill | None = None
        self.next: _Asker | None = None
        self.ends = 0
        self.positions = 0
        self.will: LeftWill | None = None
        self.will_at = 0
        self.written = False


class MqttSessions(MqttConnections[Key]):
    """Sessions by user and client id."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self._session_seconds = runtime.settings.mqtt_session_seconds
        self._sessions_max = runtime.settings.mqtt_sessions_max
        self._kept: dict[Key, _Kept] = {}
        self._away: OrderedDict[Key, None] = OrderedDict()  # the one that was left first comes first
        self._lent: dict[Holder, Key] = {}
        self._due: list[tuple[int, Key]] = []  # of sessions that end, and of wills
        self._positions = 0
        self._shares = Shares(self._make_group)
        self._groups = GuestGroups(runtime, self._shares, self._member)
        self._saving = Saving(self._saved)
        self._nodes: NodeSessions | None = None
        self._claiming: dict[Key, _Asker] = {}  # who waits until it is known that no other node has the session
        self._renewed = 0  # seconds since those that are connected were written though nothing has changed
        self._fleeting = MqttSession("", 0, 0)  # stands for all that are lent and do not last
        self._written = False  # nothing that happens from now on will be
        self.offers = Offers(
            mqtt=self,
            sharing=self,
            on_second=self.on_second,
            on_grid=self._saving.on_grid,
            stop=self._stop,
            parted=self._parted,
            figures=self.figures,
            messages={
                AskSession: lambda worker, packet: self._asked(packet),
                HoldSession: lambda worker, packet: self._held(packet),
                ChangeSessions: self._changed,
                ReturnSession: self._returned,
                JoinGroup: self._groups.joined,
                UseGroups: self._groups.used,
                HoldGroup: self._groups.held,
            },
        )

    @property
    def shares(self) -> Shares:
        """All groups; of those that have members on other workers, these are among theirs."""
        return self._shares

    def figures(self) -> dict[str, float]:
        """Return the figures of all sessions, and of those that outlast the process."""
        return super().figures() | self._saving.figures() | (self._nodes.figures() if self._nodes is not None else {})

    # Who comes

    def take(self, stream: MqttStream, owner: str, given: Given) -> None:
        """Find the session of a client that is let in; whoever has it is cut off."""
        talk = stream.talk
        asker = _Asker(talk.level, talk.clean, talk.expiry_seconds, stream, given)
        if not talk.client_id:
            talk.assign(f"fastpath-{secrets.token_hex(8)}")
            if not asker.expiry_seconds:  # nobody else has it, nor will
                self._seek((owner, talk.client_id), asker)
                return
        self._ask((owner, talk.client_id), asker)

    def _asked(self, packet: AskSession) -> None:
        """Take another worker's client that is let in."""
        holder = packet.worker, packet.number
        if self._runtime.workers.unsent_to(packet.worker) > UNSENT_BYTES_MAX:
            self._send(holder, TakeSession(packet.number))
            return
        asker = _Asker(packet.level, packet.clean, packet.expiry_seconds, holder=holder, will=packet.will)
        self._ask((packet.owner, packet.client_id), asker)

    def _ask(self, key: Key, asker: _Asker) -> None:
        """Find the session of this node, or of another one."""
        if self._nodes is None:
            self._seek(key, asker)
            return
        before, self._claiming[key] = self._claiming.get(key), asker
        if before is not None:
            self._refuse(before)
            return

        def claimed(found: FoundSession | None) -> None:
            self._claimed(key, found)

        self._nodes.claim(key, fresh=asker.clean, seconds=asker.expiry_seconds, done=claimed)

    def _claimed(self, key: Key, found: FoundSession | None) -> None:
        """Begin with the session, which no other node has any more; where nobody can say that, what is here goes on."""
        asker, kept = self._claiming.pop(key), self._kept.get(key)
        if found is None and kept is None and not asker.clean:
            self._refuse(asker)
            return
        if found is not None and not found.local:
            if kept is not None:  # what is here is older
                self._give_up(key, "", 0, fresh=False)
            if found.saved is not None and not 0 < found.saved.ends <= now():
                self._restore(key, found.saved, in_order=found.exact)
        elif kept is not None:
            kept.written = False  # what is on its way by the claim of before is not taken any more
        if asker.stream is None or asker.stream in self._streams:
            self._seek(key, asker)
        elif key not in self._kept:
            self._saving.ended(key)

    def _seek(self, key: Key, asker: _Asker) -> None:
        kept = self._kept.get(key)
        if kept is not None and kept.holder is not None:
            before, kept.next = kept.next, asker
            if before is None:
                self._send(kept.holder, TakeSession(kept.holder[1]))
            else:
                self._refuse(before)
            return
        if kept is not None:
            self._cut_off(kept)
        if asker.node is not None:
            self._hand_over(key, kept, asker)
        else:
            self._give(key, kept, asker)

    def _give(self, key: Key, kept: _Kept | None, asker: _Asker) -> None:
        self._back(key, kept)
        expiry = min(asker.expiry_seconds, self._session_seconds)
        present, lacks = kept is not None and self._goes_on(kept, asker), ""
        if kept is not None and present and asker.stream is not None:
            present = kept.session.revive(self._shares.find)
            lacks = self._missed(asker.stream, kept.session) if present else ""
        if kept is not None and lacks:
            present, kept.will = False, None  # it came back in time (3.1.3.2.2)
        if kept is None or not present:
            if kept is not None:
                self._over(key, kept)
            kept = self._kept[key] = _Kept(MqttSession(secrets.token_hex(8), asker.level, expiry))
        else:
            kept.will = None  # it came back in time (3.1.3.2.2)
            kept.session.resume(expiry)
        kept.ends = 0
        self._note(key, kept)
        if asker.holder is not None:
            state = encode_state(kept.session.whole())
            groups = [one.share for one in kept.session.subscriptions.values() if one.share is not None]
            deserted = [share.name for share in groups if share.was_deserted(kept.session)]
            self._send(asker.holder, GiveSession(asker.holder[1], present, state, deserted))
            self._lend(key, kept, asker.holder, asker.will)
        elif asker.stream is not None and asker.given is not None:
            kept.stream = asker.stream
            self._streams[asker.stream] = key
            asker.given(kept.session, present, lacks)

    def _refuse(self, asker: _Asker) -> None:
        """Refuse the session to who has asked: somebody has come after it, before the session that both want."""
        if asker.holder is not None:
            self._send(asker.holder, TakeSession(asker.holder[1]))
        elif asker.node is not None:
            self._gave(asker, b"", over=False)
        elif asker.stream in self._streams:
            asker.stream.close(Reason.SERVER_BUSY, "its session cannot be had at this moment")

    def _goes_on(self, kept: _Kept, asker: _Asker) -> bool:
        """Return whether the session is there for who asks for it."""
        session = kept.session
        return session.lasts and session.level == asker.level and not asker.clean

    def _cut_off(self, kept: _Kept) -> None:
        """End the connection that the session has here, as it has another one now (3.1.4)."""
        other, kept.stream = kept.stream, None
        if other is not None:
            self._streams[other] = None
            other.talk.parted()
            self._leave_will(kept, self._left(other))
            other.close(Reason.TAKEN_OVER, "another connection has this client's session")

    # Sessions that other nodes have

    def share(self, node: str, shared: SharedSessions) -> NodeSessions:
        """Have the sessions together with other nodes from now on."""
        nodes = self._nodes = NodeSessions(self._runtime, self, node, shared, self._shares, self._session_seconds)
        shared.start()
        self._saving.begin(nodes)
        return nodes

    def _make_group(self, name: str) -> Share:
        return self._nodes.groups.make(name) if self._nodes is not None else Share(name)

    def give_up(self, key: Key, node: str, number: int, *, fresh: bool) -> None:
        """Leave the session to another node from now on."""
        if key in self._claiming:  # its client is on its way back
            self._gave(_Asker(0, fresh, 0, node=node, number=number), b"", over=False)
        else:
            self._give_up(key, node, number, fresh=fresh)

    def is_here(self, key: Key) -> bool:
        """Return whether a client is connected, or may come back to its session here."""
        return key in self._kept

    def incomplete(self, key: Key, *, soon: bool) -> None:
        """Have all of the session written."""
        kept = self._kept.get(key)
        if kept is not None:
            kept.written = False
            if soon:
                self._note(key, kept)

    def _give_up(self, key: Key, node: str, number: int, *, fresh: bool) -> None:
        self._seek(key, _Asker(0, fresh, 0, node=node, number=number))

    def _hand_over(self, key: Key, kept: _Kept | None, asker: _Asker) -> None:
        """Hand what is here of the session to another node; nothing of it has ended, unless its client begins anew."""
        data = b""
        if kept is not None and asker.clean:
            self._end(key)
        elif kept is not None:
            del self._kept[key]
            self._back(key, kept)
            session = kept.session
            if session.lasts:
                session.part()
                ends = kept.ends or self._now() + min(session.expiry_seconds, self._session_seconds) * 1000
                will = kept.will.saved(self._runtime) if kept.will is not None else None
                data = encode_saved(SavedSession(session.whole(), ends, will, kept.will_at if will else 0, whole=True))
            session.end(self._shares)
        self._saving.forget(key)
        self._gave(asker, data, over=not data)

    def _gave(self, asker: _Asker, data: bytes, *, over: bool) -> None:
        if self._nodes is not None and asker.node:
            self._nodes.gave(asker.node, asker.number, data, over=over)

    def _had(self, key: Key) -> None:
        """Tell the other nodes of a session that another worker has since before this one was the first."""

        def claimed(found: FoundSession | None) -> None:
            kept = self._kept.get(key)
            if found is not None and not found.local:
                self._give_up(key, "", 0, fresh=False)
            elif kept is not None:
                kept.written = False
                self._note(key, kept)

        if self._nodes is not None:
            self._nodes.claim(key, fresh=False, seconds=self._session_seconds, done=claimed)

    # Sessions that other workers have

    def _send(self, holder: Holder, packet: GiveSession | TakeSession) -> None:
        self._runtime.workers.to_others(packet, holder[0])

    def _lend(self, key: Key, kept: _Kept, holder: Holder, will: bytes) -> None:
        if kept.session.lasts:
            kept.session.part()
        else:
            kept.session = self._fleeting  # of which nothing is wanted but who has it
        kept.holder, kept.standing = holder, decode_will(self._runtime, will)
        self._lent[holder] = key

    def _member(self, holder: Holder) -> Hashable | None:
        """Return what stands for a session of another worker among the members of groups; None if the session is not
        there."""
        key = self._lent.get(holder)
        if key is None:
            return None
        session = self._kept[key].session
        return holder if session is self._fleeting else session

    def _stays_in_groups(self, kept: _Kept, holder: Holder, *, died: bool) -> None:
        """Take back into its groups a session that has come back from another worker: what it has of groups is in its
        state; what else it was granted there, as on its way when the client went, is for others.

        If the worker has ``died`` that may have been sent, and stays the session's.
        """
        session = kept.session

        def has(granted: Granted) -> bool:
            place = Place(*granted.key)
            if died:
                session.borrow(place, granted.name)
            return granted.name in session.borrowed.get(place, ())

        self._groups.members.part(holder, stays=session is not self._fleeting, has=has)
        if session is self._fleeting:
            return
        if session.in_groups and not session.revive(self._shares.find):
            session.keep_for(0)
        for subscription in session.subscriptions.values():
            if subscription.share is not None:
                subscription.share.part(session)

    def _held(self, packet: HoldSession) -> None:
        """Note that another worker has had the session since before this one was the first."""
        key, holder = (packet.owner, packet.client_id), (packet.worker, packet.number)
        kept = self._kept.get(key)
        if kept is not None and (kept.stream is not None or kept.holder is not None):
            self._send(holder, TakeSession(packet.number))  # the client has come back elsewhere meanwhile
            return
        state = decode_state(packet.state)
        self._back(key, kept)
        if kept is None:
            kept = self._kept[key] = _Kept(MqttSession(state.name, state.level, state.expiry_seconds))
        kept.session.adopt(state)
        kept.will, kept.ends = None, 0
        self._lend(key, kept, holder, packet.will)
        self._note(key, kept)
        self._had(key)

    def _changed(self, worker: int, packet: ChangeSessions) -> None:
        for number, data in packet.changes:
            key = self._lent.get((worker, number))
            if key is not None:
                kept = self._kept[key]
                kept.session.adopt(decode_state(data))
                self._note(key, kept)

    def _returned(self, worker: int, packet: ReturnSession) -> None:
        key = self._lent.pop((worker, packet.number), None)
        if key is not None:
            kept = self._kept[key]
            if kept.session is not self._fleeting:
                kept.session.adopt(decode_state(packet.state))
            self._stays_in_groups(kept, (worker, packet.number), died=False)
            self._come_back(key, kept, decode_will(self._runtime, packet.will))

    def _parted(self, worker: int) -> None:
        """Take back the sessions of a worker that has died, as it has told of them last, up to a second ago."""
        for holder, key in list(self._lent.items()):
            kept = self._kept[key]
            if kept.next is not None and kept.next.holder is not None and kept.next.holder[0] == worker:
                kept.next = None
            if holder[0] == worker:
                del self._lent[holder]
                kept.session.rename(secrets.token_hex(8))
                self._stays_in_groups(kept, holder, died=True)
                self._come_back(key, kept, kept.standing)

    def _come_back(self, key: Key, kept: _Kept, will: LeftWill | None) -> None:
        """Give the session, which nobody has any more, to whoever has waited for it."""
        asker, kept.next = kept.next, None
        kept.holder = kept.standing = None
        self._leave_will(kept, will)
        self._leave(key, kept)
        if asker is not None and (asker.stream is None or asker.stream in self._streams):
            self._seek(key, asker)

    def subscribed(self, stream: MqttStream) -> None:
        """Have the subscriptions of the client written with the next batch, as they have changed."""
        key = self._streams.get(stream)
        kept = self._kept.get(key) if key is not None and self._saving.keeps else None
        if key is not None and kept is not None and kept.session.changed:
            self._note(key, kept)

    # Who goes

    def gone(self, stream: MqttStream, client: Client | None) -> None:
        """Let go of a connection that is over; ``client`` is who it was."""
        key = self._streams.pop(stream, None)
        kept = self._kept.get(key) if key is not None else None
        if key is None or kept is None or kept.stream is not stream:
            return
        kept.stream = None
        stream.talk.parted()
        self._leave_will(kept, self._left(stream, client))
        self._leave(key, kept)

    def _leave(self, key: Key, kept: _Kept) -> None:
        """Put a session away that has no connection any more."""
        seconds = kept.session.expiry_seconds
        if not seconds:
            self._end(key)  # and its will, delayed or not (5: 3.1.3.2.2)
            return
        kept.ends = self._now() + min(seconds, self._session_seconds) * 1000
        self._put_away(key, kept)
        self._note(key, kept)

    def _put_away(self, key: Key, kept: _Kept) -> None:
        """Keep the session until it ends, or others come for which there is no room."""
        self._away[key] = None
        kept.positions = len(kept.session.positions)
        self._positions += kept.positions
        self._schedule(kept.ends, key)
        if kept.will is not None:
            self._schedule(kept.will_at, key)
        while len(self._away) > self._sessions_max or (self._positions > POSITIONS_MAX and self._away):
            self._end(next(iter(self._away)))

    def _back(self, key: Key, kept: _Kept | None) -> None:
        """Take back a session that is away no more."""
        if self._away.pop(key, self) is None and kept is not None:
            self._positions -= kept.positions

    def _schedule(self, moment: int, key: Key) -> None:
        """Look at the session then; what is noted of those that came back since goes when it is too much."""
        heappush(self._due, (moment, key))
        if len(self._due) > 2 * len(self._away) + 1000:
            away = [(key, self._kept[key]) for key in self._away]
            self._due = [(kept.ends, key) for key, kept in away]
            self._due += [(kept.will_at, key) for key, kept in away if kept.will is not None]
            heapify(self._due)

    def _now(self) -> int:
        return self._runtime.broker.grid.moment

    def _leave_will(self, kept: _Kept, will: LeftWill | None) -> None:
        if will is None:
            return
        delay = min(will.delay_seconds, kept.session.expiry_seconds)
        kept.will, kept.will_at = will, self._now() + delay * 1000
        if not delay:
            self._publish_will(kept)

    def _publish_will(self, kept: _Kept) -> None:
        if self._written and kept.session.lasts:
            return  # the process that comes after this one publishes it
        will, kept.will = kept.will, None
        if will is not None:
            will.publish(self._runtime)

    def _end(self, key: Key) -> None:
        """End the session, and publish its will now."""
        kept = self._kept.pop(key, None)
        self._back(key, kept)
        if kept is not None:
            self._over(key, kept)

    def _over(self, key: Key, kept: _Kept) -> None:
        self._publish_will(kept)
        for place, groups in kept.session.borrowed.items():
            self._give_back(kept.session, place, groups)
        kept.session.end(self._shares)
        self._saving.ended(key)

    def _give_back(self, session: MqttSession, place: Place, groups: list[str]) -> None:
        """Give to another member what a session has taken from groups, as far as the cache has it."""
        record = record_of(self._runtime, place, session.level)
        for text in groups if record is not None else ():
            share = self._shares.get(text)
            if share is not None and record is not None and not share.empty:
                share.give_back(Loan(share, place, session.level, record))

    # Once a second

    def on_second(self, moment: int) -> None:
        """End sessions whose time is over, publish wills that are due, close clients that were silent for too long,
        once a second."""
        self._shares.second()
        self._sweep_soon(moment)
        if self._nodes is not None:
            self._nodes.second()

    def _sweep(self, moment: int) -> Generator[None, None, None]:
        if self._runtime.broker.admission.full:
            for key in in_steps(list(islice(self._away, ENDED_MAX))):
                if key is None:
                    yield
                elif key in self._away:  # else it came back meanwhile
                    self._end(key)
        yield from self._end_due(moment)
        yield from super()._sweep(moment)
        if self._saving.keeps:
            yield from self._note_changed()
        self._renewed += self._nodes is not None
        if self._renewed >= RENEW_SECONDS:
            self._renewed = 0
            for key in in_steps(list(self._kept)):
                if key is None:
                    yield
                elif key in self._kept and key not in self._away and self._kept[key].session.lasts:
                    self._saving.changed(key)

    def _end_due(self, moment: int) -> Generator[None, None, None]:
        count = 0
        ready = self._runtime.broker.grants.ready  # before rights are known no will may be published
        while self._due and self._due[0][0] <= moment:
            due, key = heappop(self._due)
            kept = self._kept.get(key)
            if kept is None or key not in self._away:
                continue  # it came back, or is another session by now
            if kept.will is not None and not ready:
                self._schedule(moment + 1000, key)
                if due != kept.ends:
                    continue
            elif kept.will is not None and kept.will_at <= moment:
                self._publish_will(kept)
                self._note(key, kept)
            if 0 < kept.ends <= moment:
                self._end(key)
            count += 1
            if count % STEP == 0:
                yield

    # Sessions that outlast the process

    def keep(self, store: SessionStore) -> None:
        """Go on with the sessions that are in the store, and keep them there from now on."""
        gc.disable()  # what is made here makes no cycles and stays
        try:
            for key, saved in self._saving.begin(store).items():
                self._restore(key, saved, in_order=store.in_order)
        finally:
            gc.enable()
        if self._kept:
            log.info("%d sessions of MQTT clients go on", len(self._kept))

    def _restore(self, key: Key, saved: SavedSession, *, in_order: bool) -> None:
        session = restored(saved)
        session.resume(min(session.expiry_seconds, self._session_seconds))
        if not session.lasts:
            self._saving.ended(key)
            return
        if not in_order:
            session.rename(secrets.token_hex(8))
        kept = self._kept[key] = _Kept(session)
        moment = now()
        kept.written = self._nodes is None
        kept.ends = saved.ends or moment + session.expiry_seconds * 1000
        if saved.will is not None:
            kept.will = LeftWill.restored(self._runtime, saved.will)
            delay = kept.will.delay_seconds if kept.will is not None else 0
            kept.will_at = saved.will_at or moment + min(delay, session.expiry_seconds) * 1000
        if session.in_groups and session.revive(self._shares.find):
            for one in session.subscriptions.values():
                if one.share is not None:
                    one.share.keep(session)
            for place, groups in session.borrowed.items():
                for share in filter(None, map(self._shares.get, groups)):
                    share.hold(session, place)
        self._put_away(key, kept)
        self._note(key, kept)

    def _note(self, key: Key, kept: _Kept) -> None:
        """Have written what has changed; of a session that does not last nothing is."""
        if not self._saving.keeps:
            kept.session.change()  # nobody asks for it
        elif kept.session.lasts:
            self._saving.changed(key)
        else:
            kept.written = False
            self._saving.fleeting(key)

    def _note_changed(self) -> Generator[None, None, None]:
        for stream in in_steps(list(self._streams)):
            key = self._streams.get(stream) if stream is not None else None
            if stream is None:
                yield
            elif key is not None and (kept := self._kept.get(key)) is not None and kept.session.changed:
                self._note(key, kept)

    def _saved(self, key: Key, *, whole: bool, copies: bool) -> SavedSession | None:
        """Return what is to be written of the session (saving.py)."""
        kept = self._kept.get(key)
        if kept is None or not kept.session.lasts:
            return None
        session, will = kept.session, kept.will or kept.standing
        if kept.stream is not None and kept.stream.client is not None and kept.stream.talk.will is not None:
            will = LeftWill.of(kept.stream.client, kept.stream.talk.will)
        whole = whole or not kept.written
        if not copies:
            change = session.change()
            kept.written = True
        return SavedSession(
            session.whole() if whole else change,
            kept.ends,
            will.saved(self._runtime) if will is not None else None,
            kept.will_at if kept.will is not None else 0,
            whole,
        )

    def _stop(self) -> None:
        """Write what is left, as the process stops."""
        for key in self._streams.values():
            kept = self._kept.get(key) if key is not None else None
            if key is None or kept is None:
                continue
            if self._nodes is not None and kept.session.lasts:  # another node takes it from here as it is
                kept.ends = self._now() + min(kept.session.expiry_seconds, self._session_seconds) * 1000
                self._note(key, kept)
            elif kept.session.changed:
                self._note(key, kept)
        self._written = self._saving.keeps and self._nodes is None
        self._saving.close()
