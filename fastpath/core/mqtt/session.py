"""What the server remembers of a client of MQTT, also while it is away: subscriptions, positions, what is under way.

What is missed while a client is away is not copied: its session has the position that it was sent last of each
subject, and what came since is read from the cache when it comes back (protocol.md 3.2, ``since``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from .empty import NO_ENTRIES
from .groups.shares import Loan, Share, Shares
from .packets import Filter
from .reasons import MqttError
from .session_state import SavedFilter, SessionState, UnderWay
from .topics import SHARE, check_filter, is_wild, matches, name_of, patterns_of, share_of

PACKET_IDS = 65_535

RECEIVE_MAX = 1000
"""Publications of QoS 1 and 2 that a client may have under way: the server's receive maximum."""

IN_FLIGHT_MAX = 100
"""Messages of QoS 1 that a client is sent before it acknowledges any, if it does not want fewer."""

RETAIN = 1
"""The retain flag, in the first byte of a PUBLISH (3.3.1.3)."""

POSITIONS_MAX = 10_000
"""Subjects whose positions a session keeps; of the others a client that comes back gets the snapshot."""

TOPICS_MAX = 10_000
"""Topics of which a session remembers how its client wants them; of others it is found out anew."""

GROUPS_MAX = 50
"""Groups of which one client can be a member: it takes no others' place."""

_SHARED = f"{SHARE}/"

FOR_EVER = 0xFFFFFFFF
"""The session expiry that never comes (5: 3.1.2.11.2)."""


class Subscription(NamedTuple):
    """A filter that the client has subscribed to, and the patterns and subjects that cover it.

    ``wants`` says whether retained messages are to be sent for it, ``identifier`` is 0 for none; ``share`` is the group
    whose members share what it brings.
    """

    filter: Filter
    patterns: list[str]
    identifier: int
    wants: bool
    share: Share | None = None

    @property
    def levels(self) -> list[str]:
        """The levels of what has to match: of a group's filter those behind its name."""
        levels = self.filter.text.split("/")
        return share_of(levels) or levels

    @property
    def is_named(self) -> bool:
        """True if the subscription is the client's own, and matches the one topic that is its text."""
        text = self.filter.text
        return not text.startswith(_SHARED) and not is_wild(text.split("/"))


class Place(NamedTuple):
    """A message's place in the log."""

    subject: str
    epoch: int
    seq: int


class Options(NamedTuple):
    """The options of a topic as the client wants it: by all of its filters that match."""

    qos: int
    as_published: bool
    wants: bool
    identifiers: tuple[int, ...]
    subject: str


class MqttSession:
    """One client's session; ``name`` is the publisher as which its publications are numbered, ``lent_as`` that
    under which a worker that is not the first has it.

    ``in_flight`` are the packets that wait for the client's PUBACK, by packet id and in order; ``received`` the ids of
    publications of QoS 2 that are not released yet, and whether they are stored; ``numbers`` those of its publications
    of late, by packet id, and ``digests`` of what they said.

    A session that comes from another process has no packets: ``_unread`` has the packet ids of what was under way by
    subject and place, and the log is read again from the first of these places (``since``). What of it the client has
    acknowledged is known by the position (``under_way_as``).
    """

    __slots__ = (
        "_borrowed",
        "digests",
        "expiry_seconds",
        "in_flight",
        "in_flight_bytes",
        "lent_as",
        "level",
        "name",
        "numbers",
        "positions",
        "received",
        "subscriptions",
        "_dormant",
        "_groups",
        "_loans",
        "_moved",
        "_options",
        "_packet_id",
        "_places",
        "_published",
        "_retained",
        "_saved",
        "_searched",
        "_shared",
        "_simple",
        "_unread",
    )

    def __init__(self, name: str, level: int, expiry_seconds: int, lent_as: int = 0) -> None:
        self.name = name
        self.lent_as = lent_as
        self.level = level
        self.expiry_seconds = expiry_seconds
        self.subscriptions: dict[str, Subscription] = NO_ENTRIES
        self.positions: dict[str, tuple[int, int]] = NO_ENTRIES
        self.in_flight: dict[int, bytes] = NO_ENTRIES
        self.in_flight_bytes = 0
        self.received: dict[int, bool] = NO_ENTRIES
        self.numbers: dict[int, int] = NO_ENTRIES
        self.digests: dict[int, int] = NO_ENTRIES
        self._options: dict[tuple[int, bool], Options | None] = NO_ENTRIES
        # Those that match other topics than their text says, or are a group's; the others are found by the topic.
        self._searched: dict[str, Subscription] = NO_ENTRIES
        self._shared: dict[int, tuple[Subscription, ...]] | None = None  # by subject id; None without any
        self._simple: bool | None = None  # None: not known
        self._groups = 0  # subscriptions that are shared
        self._loans: dict[int, tuple[Loan, ...]] = NO_ENTRIES  # what is under way of groups, by packet id
        self._packet_id = 0
        self._published = 0
        self._places: dict[int, Place] = NO_ENTRIES  # of the packets in flight
        self._unread: dict[str, dict[tuple[int, int], int]] = NO_ENTRIES
        self._borrowed: dict[Place, list[str]] = NO_ENTRIES  # what of it was taken from groups
        self._retained: dict[Place, None] = NO_ENTRIES  # what of it was sent with the retain flag
        self._dormant: list[SavedFilter] | None = None  # subscriptions that are none yet: nobody needs them now
        self._moved: dict[str, None] = NO_ENTRIES  # subjects whose positions are not saved
        self._saved = _Saved()

    @property
    def lasts(self) -> bool:
        """True if the session outlives its connection."""
        return self.expiry_seconds > 0

    def resume(self, expiry_seconds: int) -> None:
        """Resume the session of a client that is back, in the version that it has spoken: what is under way to it are
        packets of that one."""
        self.expiry_seconds = expiry_seconds
        self._forget()

    def revive(self, share: Callable[[str], Share | None]) -> bool:
        """Make subscriptions of what is known from a state; ``share`` finds the group of a shared filter. False if one
        of them can be none any more."""
        filters, self._dormant = self._dormant, None
        if filters is None:
            return True
        try:
            found = [_subscription(one, share) for one in filters]
        except MqttError:
            return False
        self.subscriptions = {one.filter.text: one for one in found if one is not None}
        self._searched = {text: one for text, one in self.subscriptions.items() if not one.is_named} or NO_ENTRIES
        self._groups = sum(one.share is not None for one in self.subscriptions.values())
        self._shared = {} if self._groups else None
        self._forget()
        return True

    @property
    def in_groups(self) -> bool:
        """True if the session shares any subscription."""
        dormant = self._dormant
        return self._shared is not None or (
            dormant is not None and any(one.text.startswith(_SHARED) for one in dormant)
        )

    def keep_for(self, seconds: int) -> None:
        """Have the session outlast the connection for so long."""
        self.expiry_seconds = seconds
        self._forget()

    def _forget(self) -> None:
        """Forget what was found out about the subscriptions, which may be so no more."""
        self._options.clear()
        self._simple = None

    # Subscriptions

    @property
    def direct(self) -> bool:
        """True if nothing of what the client gets is shared with a group, or read from the log again."""
        return self._shared is None and not self._unread

    @property
    def simple(self) -> bool:
        """True if all that the client gets is as everybody gets it."""
        if self._simple is None:  # asked for at each message
            self._simple = (
                not self.lasts
                and not self.in_groups
                and all(
                    not (one.filter.qos or one.identifier or one.filter.no_local or one.filter.as_published)
                    for one in self.subscriptions.values()
                )
            )
        return self._simple

    def subscribe(self, subscription: Subscription) -> bool:
        """Keep the subscription, in place of one to the same filter; whether there was one."""
        text = subscription.filter.text
        before = self.subscriptions.get(text)
        self.subscriptions = self.subscriptions or {}
        self.subscriptions[text] = subscription
        if not subscription.is_named:
            self._searched = self._searched or {}
            self._searched[text] = subscription
        self._changed((subscription.share is not None) - (before is not None and before.share is not None))
        return before is not None

    def unsubscribe(self, text: str) -> Subscription | None:
        """Forget the subscription to the filter."""
        found = self.subscriptions.pop(text, None)
        self._searched.pop(text, None)
        if found is not None:
            self._changed(-(found.share is not None))
        return found

    def _changed(self, groups: int) -> None:
        self._forget()
        self._saved.filters = False
        self._groups += groups
        self._shared = {} if self._groups else None

    def unused(self, patterns: Iterable[str]) -> list[str]:
        """Return those of the patterns that no subscription needs."""
        used = {pattern for one in self.subscriptions.values() for pattern in one.patterns}
        return [pattern for pattern in dict.fromkeys(patterns) if pattern not in used]

    def options(self, sid: int, topic: str, subject: str, *, own: bool) -> Options | None:
        """Return how the client wants the topic for itself; None: not at all. ``own``: of what it has published
        itself."""
        found = self._options.get((sid, own), self)
        if not isinstance(found, MqttSession):
            return found
        options = self.find_options(topic, subject, own=own)
        if len(self._options) >= TOPICS_MAX:
            self._options.clear()
        self._options = self._options or {}
        self._options[sid, own] = options
        return options

    def find_options(self, topic: str, subject: str, *, own: bool = False) -> Options | None:
        """Return the same as ``options``, which is not remembered."""
        levels = topic.split("/")
        named = self.subscriptions.get(topic)
        fit = [] if named is None or (own and named.filter.no_local) else [named]
        fit += [
            one
            for one in self._searched.values()
            if one.share is None and not (own and one.filter.no_local) and matches(one.levels, levels)
        ]
        return _combined(fit, subject) if fit else None

    @property
    def searched(self) -> int:
        """Number of filters that a topic is held against, to find out how the client wants it."""
        return len(self._searched)

    def was_deserted(self, topic: str) -> bool:
        """Return whether nobody of a group that is to get each message of the topic was there for some of the time for
        which this one was away."""
        levels = topic.split("/")
        return any(
            one.share is not None and one.filter.qos and one.share.was_deserted(self) and matches(one.levels, levels)
            for one in self._searched.values()
        )

    def shared(self, sid: int, topic: str) -> Sequence[Subscription]:
        """Return the subscriptions that match the topic and are a group's."""
        if self._shared is None:
            return ()
        found = self._shared.get(sid)
        if found is None:
            levels = topic.split("/")
            searched = self._searched.values()
            found = tuple(one for one in searched if one.share is not None and matches(one.levels, levels))
            if len(self._shared) >= TOPICS_MAX:
                self._shared.clear()
            self._shared[sid] = found
        return found

    def with_shares(self, options: Options | None, taken: Sequence[Subscription], subject: str) -> Options:
        """Return how the client gets what it takes of groups, and wants for itself as well if there are ``options``."""
        found = _combined(taken, subject)
        if options is None:
            return found
        identifiers = tuple(dict.fromkeys((*options.identifiers, *found.identifiers)))
        as_published = options.as_published or found.as_published
        return Options(max(options.qos, found.qos), as_published, options.wants, identifiers, subject)

    def reached(self, subject: str, epoch: int, seq: int) -> None:
        """Note that the client has been sent the subject up to there."""
        known = self.positions.get(subject)
        if known is None:
            if len(self.positions) >= POSITIONS_MAX:
                return
        elif known[0] == epoch and known[1] >= seq:
            return
        self.positions = self.positions or {}
        self.positions[subject] = (epoch, seq)
        self._moved = self._moved or {}
        self._moved[subject] = None

    def begins(self, subject: str, epoch: int, seq: int) -> None:
        """Note that the client has subscribed to the subject anew: it is sent what is retained, which is behind there,
        as for the first time, whatever it was sent by an earlier subscription."""
        known = self.positions.get(subject)
        if known is not None and known[0] == epoch and known[1] > seq:
            options = self.find_options(name_of(subject), subject)
            if options is not None and options.wants:
                del self.positions[subject]
                self.reached(subject, epoch, seq)

    def since(self) -> dict[str, tuple[int, int]]:
        """Return from where on each subject is read when the client comes back: behind what it has been sent, or before
        the first message that it has not acknowledged and whose packet is not here."""
        positions = dict(self.positions)
        for subject, places in self._unread.items():
            if places:
                epoch, seq = min(places)
                positions[subject] = (max(epoch, positions.get(subject, (0, 0))[0]), seq - 1)
        return positions

    def under_way_as(self, place: Place, *, snapshot: bool) -> int | None:
        """Return the packet id under which the message was sent before and not acknowledged, 0 if it was not sent;
        None: the client has it.

        A ``snapshot`` stands for what the log does not have any more, and is always for the client.
        """
        places = self._unread.get(place.subject)
        if places is None:
            return 0
        found = places.get((place.epoch, place.seq), 0)
        if found or snapshot:
            return found
        epoch, seq = self.positions.get(place.subject, (0, 0))
        return None if place.epoch <= epoch and place.seq <= seq else 0

    def was_retained(self, place: Place) -> bool:
        """Return whether the message was sent before with the retain flag, and not acknowledged: it may have stood for
        what the log did not have any more, and the client is to be told so."""
        return place in self._retained

    def read_again(self, place: Place) -> None:
        """Note that the message has been read again; what is older and was not is in the log no more."""
        if self._borrowed.pop(place, None):
            self._saved.in_flight = False
        places = self._unread.get(place.subject)
        if places is None:
            return
        self._saved.in_flight = False
        self._retained.pop(place, None)
        if places.pop((place.epoch, place.seq), 0):
            return
        epoch, seq = self.positions.get(place.subject, (0, 0))
        if place.epoch > epoch or place.seq > seq:
            del self._unread[place.subject]

    def stood_for(self, subject: str) -> None:
        """Note that something else stands for what of the subject was under way and is not here, as it is in the log no
        more."""
        if self._unread.pop(subject, None):
            self._saved.in_flight = False

    # Messages to the client

    def next_packet_id(self) -> int:
        """Return a packet id that is free."""
        while True:
            self._packet_id = self._packet_id % PACKET_IDS + 1
            if self._packet_id in self.in_flight:
                continue
            if self._unread and any(self._packet_id in places.values() for places in self._unread.values()):
                continue
            return self._packet_id

    def sent(self, packet_id: int, packet: bytes, place: Place, loans: tuple[Loan, ...] = ()) -> None:
        """Keep a packet that waits for its acknowledgement; with ``loans`` it is of these groups."""
        self.in_flight = self.in_flight or {}
        self.in_flight[packet_id] = packet
        self._places = self._places or {}
        self._places[packet_id] = place
        self._saved.in_flight = False
        if loans:
            self._loans = self._loans or {}
            self._loans[packet_id] = loans
        self.in_flight_bytes += len(packet)

    def acknowledged(self, packet_id: int) -> bool:
        """Let go of a packet that the client has; return whether one was under way."""
        packet = self.in_flight.pop(packet_id, None)
        if packet is None:
            return False
        self.in_flight_bytes -= len(packet)
        self._places.pop(packet_id, None)
        for loan in self._loans.pop(packet_id, ()):
            loan.share.done(loan.key)
        self._saved.in_flight = False
        return True

    def give_up(self, packet_id: int) -> None:
        """Give up a packet that the client may not have any more; what of it is a group's is for another member."""
        loans = self._loans.pop(packet_id, ())
        self.acknowledged(packet_id)
        for loan in loans:
            loan.share.give_back(loan)

    def end(self, shares: Shares) -> None:
        """End the session: it is of no group any more, and what it has not acknowledged of theirs is free."""
        for one in self.subscriptions.values():
            if one.share is not None:
                shares.leave(one.share, self)
        for loan in (loan for loans in self._loans.values() for loan in loans):
            if not loan.share.empty:
                loan.share.give_back(loan)
        self._loans.clear()

    # Publications of the client

    @property
    def published(self) -> int:
        """The number of the client's last publication."""
        return self._published

    def receive(self, packet_id: int, *, stored: bool) -> None:
        """Note that a publication of QoS 2 is under way, or stored by now, until it is released."""
        self.received = self.received or {}
        self.received[packet_id] = stored

    def number(self, packet_id: int, digest: int, *, again: bool) -> int:
        """Return the number of a publication: of one that comes ``again`` that which it had.

        A client may use a packet id anew as soon as it is acknowledged, and then send again what never came here: by
        the ``digest`` of what it says that is another publication.
        """
        if again and packet_id in self.numbers and self.digests.get(packet_id, digest) == digest:
            return self.numbers[packet_id]
        self._published += 1
        if packet_id:
            self.numbers.pop(packet_id, None)
            self.numbers = self.numbers or {}
            self.numbers[packet_id] = self._published
            self.digests = self.digests or {}
            self.digests[packet_id] = digest
            self._forget_oldest()
        return self._published

    def refused(self, packet_id: int) -> None:
        """Forget a publication that was not stored: one that comes with its packet id is another one."""
        self.received.pop(packet_id, None)
        self.numbers.pop(packet_id, None)
        self.digests.pop(packet_id, None)

    def _forget_oldest(self) -> None:
        while len(self.numbers) > RECEIVE_MAX:
            oldest = next(iter(self.numbers))
            del self.numbers[oldest]
            self.digests.pop(oldest, None)

    def rename(self, name: str) -> None:
        """Number what is published from now on as another publisher: of what had the last numbers nobody knows, and
        one that comes twice would be taken for a repetition."""
        self.name = name
        self.numbers.clear()
        self.digests.clear()
        self._published = 0
        self._saved = _Saved()

    # The session as a state

    @property
    def changed(self) -> bool:
        """True if anything is not as it was when ``change`` was asked for last."""
        saved = self._saved
        return bool(
            self._moved
            or not saved.filters
            or not saved.in_flight
            or saved.published != self._published
            or saved.expiry_seconds != self.expiry_seconds
            or saved.received != self.received
        )

    def change(self) -> SessionState:
        """Return what has changed since ``change`` was asked for last."""
        saved, self._saved = self._saved, _Saved(self)
        moved, self._moved = self._moved, NO_ENTRIES
        numbers: dict[int, int] = {}
        for packet_id, number in reversed(self.numbers.items()):
            if number <= saved.published:
                break
            numbers[packet_id] = number
        return SessionState(
            self.name,
            self.level,
            self.expiry_seconds,
            self._published,
            self._packet_id,
            None if saved.filters else self._filters(),
            {subject: self.positions[subject] for subject in moved},
            None if saved.in_flight else self._under_way(),
            None if saved.received == self.received else dict(self.received),
            dict(reversed(numbers.items())),
            {packet_id: self.digests[packet_id] for packet_id in numbers if packet_id in self.digests},
        )

    def whole(self) -> SessionState:
        """Return the whole state of the session."""
        return SessionState(
            self.name,
            self.level,
            self.expiry_seconds,
            self._published,
            self._packet_id,
            self._filters(),
            dict(self.positions),
            self._under_way(),
            dict(self.received),
            dict(self.numbers),
            dict(self.digests),
        )

    def _filters(self) -> list[SavedFilter]:
        if self._dormant is not None:
            return self._dormant
        return [
            SavedFilter(
                one.filter.text,
                one.filter.qos,
                one.filter.no_local,
                one.filter.as_published,
                one.filter.handling,
                one.identifier,
                one.wants,
            )
            for one in self.subscriptions.values()
        ]

    def _under_way(self) -> list[UnderWay]:
        unread = [
            UnderWay(packet_id, *place, self._borrowed.get(place, []), place in self._retained)
            for subject, places in self._unread.items()
            for place, packet_id in ((Place(subject, *at), packet_id) for at, packet_id in places.items())
        ]
        for packet_id, place in self._places.items():
            groups = [loan.share.name for loan in self._loans.get(packet_id, ())]
            unread.append(UnderWay(packet_id, *place, groups, bool(self.in_flight[packet_id][0] & RETAIN)))
        return unread

    def part(self) -> None:
        """Let go of the packets, as another process has the session from now on."""
        self._read(self._under_way())
        self.in_flight.clear()
        self.in_flight_bytes = 0
        self._places.clear()
        self._loans.clear()  # they are among what is borrowed, until it is read again elsewhere

    def _read(self, under_way: list[UnderWay]) -> None:
        self._unread = {} if under_way else NO_ENTRIES
        self._borrowed = {} if any(one.groups for one in under_way) else NO_ENTRIES
        self._retained = {
            Place(one.subject, one.epoch, one.seq): None for one in under_way if one.retained
        } or NO_ENTRIES
        for one in under_way:
            self._unread.setdefault(one.subject, {})[one.epoch, one.seq] = one.packet_id
            if one.groups:
                self._borrowed[Place(one.subject, one.epoch, one.seq)] = one.groups

    @property
    def borrowed(self) -> dict[Place, list[str]]:
        """Messages that were taken from groups, by their filters, and are neither acknowledged nor read again."""
        return self._borrowed

    def borrow(self, place: Place, group: str) -> None:
        """Note that the message was taken from that group by a process that has died: whether it was sent is not
        known."""
        self._borrowed = self._borrowed or {}
        groups = self._borrowed.setdefault(place, [])
        if group not in groups:
            groups.append(group)

    def adopt(self, state: SessionState) -> None:
        """Become what the state says, which counts as changed; of its filters ``revive`` makes subscriptions."""
        if state.name != self.name:
            self.numbers.clear()
            self.digests.clear()
        self.name, self.level, self.expiry_seconds = state.name, state.level, state.expiry_seconds
        self._published, self._packet_id = state.published, state.packet_id
        self._simple = None
        if state.filters is not None:
            self._dormant = state.filters
            self.subscriptions = self._searched = NO_ENTRIES
            self._saved.filters = False
        if state.positions:
            self.positions = self.positions or {}
            self.positions.update(state.positions)
            self._moved = self._moved or {}
            self._moved.update(dict.fromkeys(state.positions))
        if state.under_way is not None:
            self._saved.in_flight = False
            self._read(state.under_way)
        if state.received is not None:
            self.received = state.received
        for packet_id, number in state.numbers.items():
            self.numbers.pop(packet_id, None)
            self.numbers = self.numbers or {}
            self.numbers[packet_id] = number
            self.digests.pop(packet_id, None)
        if state.digests:
            self.digests = self.digests or {}
            self.digests.update(state.digests)
        self._forget_oldest()


class _Saved:
    """The part of a session that is in its last state."""

    __slots__ = ("expiry_seconds", "filters", "in_flight", "published", "received")

    def __init__(self, session: MqttSession | None = None) -> None:
        self.filters = self.in_flight = session is not None
        self.received = dict(session.received) if session is not None and session.received else NO_ENTRIES
        self.published = session.published if session is not None else 0
        self.expiry_seconds = session.expiry_seconds if session is not None else 0


def _subscription(saved: SavedFilter, share: Callable[[str], Share | None]) -> Subscription | None:
    """Return the subscription of a saved filter; None for one of a group of which there is no more."""
    levels = check_filter(saved.text)
    shared = share_of(levels)
    found = share(saved.text) if shared else None
    if shared and found is None:
        return None
    one = Filter(
        text=saved.text,
        qos=saved.qos,
        no_local=saved.no_local,
        as_published=saved.as_published,
        handling=saved.handling,
    )
    return Subscription(one, patterns_of(shared or levels), saved.identifier, saved.wants, found)


def _combined(fit: Sequence[Subscription], subject: str) -> Options:
    return Options(
        max(one.filter.qos for one in fit),
        any(one.filter.as_published for one in fit),
        any(one.wants for one in fit),
        tuple(dict.fromkeys(one.identifier for one in fit if one.identifier)),
        subject,
    )
