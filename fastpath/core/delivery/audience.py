"""Who gets what: subjects in use, the ways to receive them, groups of clients that want the same, and clients.

A **topic** is a subject in use. A **feed** is one way to receive it: live, or conflated with an interval and a phase.
Clients on the same terms with the same set of feeds form a **group**. These know each other both ways round, so they
stand in one module; what is done with them stands in the others of this package. Those who change a group's members are
``Group`` itself and the index of all of them (interest.py).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, cast

from ..auth.grants import Principal
from ..cache.history import Ring
from ..cache.snapshot import Snapshot
from ..matching.subscribed_patterns import PatternTree, covers_segments
from ..protocol.as_of import NO_VERSION
from ..protocol.options import TopicOptions
from ..protocol.subject import is_system, may_depend_on_name
from .conflation import ConflationState
from .link import LOST, Link
from .outgoing_queue import Queue
from .wire import Terms

if TYPE_CHECKING:
    from ..protocol.messages import Subscribe

FEW = 8
"""Number of a client's patterns up to which they are compared one by one."""

NO_ROOM = "its stored messages wait for room in the outgoing queue; it starts by itself"
"""Reason why a subscription waits that would fill the client's queue: the client asked for much, and is not slow for
that."""


BEHIND = "it has read further than has come here yet; it starts by itself"
"""Reason why a subscription waits whose position is of another process, a moment ahead of this one."""

CohortName = tuple[tuple[str, ...], Hashable, "frozenset[Topic]"]
"""The patterns of a cohort, the rights key of who is in it, and what they have subscribed to by name."""


# Subjects


class Topic:
    """A subject in use: its position, snapshot, cached messages and feeds."""

    __slots__ = (
        "conflated",
        "epoch",
        "feed",
        "floor",
        "known",
        "live",
        "options",
        "ring",
        "seq",
        "sid",
        "snapshot",
        "subject",
        "system",
        "version",
    )

    def __init__(self, subject: str, sid: int, epoch: int, options: TopicOptions | None = None) -> None:
        self.subject = subject
        self.sid = sid
        self.options = options
        self.epoch = epoch
        self.seq = 0
        self.snapshot: Snapshot | None = None
        self.ring: Ring | None = None
        self.floor = 0
        self.known = False  # that it was published to, and not only subscribed to
        self.feed: SubjectFeed | None = None
        self.live: ConflationState[Client] | None = None
        self.conflated: dict[tuple[int, int], SubjectFeed] | None = None
        self.system = is_system(subject)
        self.version = NO_VERSION  # of the newest message that has one (protocol.md 4.4)

    @property
    def void(self) -> bool:
        """True if the subject has nothing, and never had a number: nobody can come back to it and be told that it was
        removed."""
        return not self.seq and (self.snapshot is None or self.snapshot.removed)

    @property
    def idle(self) -> bool:
        """True if nothing would be lost by forgetting the topic."""
        return self.feed is None and self.live is None and not self.ring and self.void


class SubjectFeed:
    """A way to receive a topic, for who has ``asked`` for that interval (ms) and phase; an ``interval`` of 0 is live.

    The interval is longer than what was asked for where the subject's options say so (features.md C7).
    """

    __slots__ = ("asked", "groups", "interval", "joining", "key", "phase", "recovering", "sent", "topic")

    def __init__(self, topic: Topic, asked: int, phase: int, key: int) -> None:
        self.topic = topic
        self.asked = self.interval = asked
        self.phase = phase
        self.key = key
        self.groups: dict[Group, None] = {}
        # Clients that are about to join: when they have been sent what is cached for them (core/delivery/backlogs.py),
        # or when their command takes effect (core/sessions/subscribe_commands.py).
        self.recovering = 0
        # Conflated feeds only: the number of the topic's live state that was sent last, and the clients that joined
        # since then, each with the number it joined at: until the interval ends they must not get older changes.
        self.sent = 0
        self.joining: dict[Client, int] = {}


class Cohort(SubjectFeed):
    """Clients that follow the same patterns in the usual way, and may read the same: a mark among a group's feeds.

    A subject that comes to be is asked about once for all of them, with the ``principal`` of one. They are ``named``
    where what they follow may depend on their name: then all of them have the same.
    """

    __slots__ = ("name", "named", "own", "principal", "texts")

    def __init__(self, key: int, name: CohortName, principal: Principal) -> None:
        super().__init__(cast(Topic, None), 0, 0, key)
        self.name = name
        self.texts, _, self.own = name
        self.named = depends_on_name(self.texts, self.own)
        self.principal = principal


def depends_on_name(texts: Iterable[str], own: Iterable[Topic]) -> bool:
    """Return whether a right to what these patterns and these topics are may depend on the client's name."""
    return any(map(may_depend_on_name, texts)) or any(may_depend_on_name(topic.subject) for topic in own)


# Groups


class Held:
    """Frames that a group holds over ticks; ``due`` is when its first has waited long enough, in ms; ``mark`` is what
    ``Batches.begun`` has said."""

    __slots__ = ("due", "frames", "mark", "size")

    def __init__(self, due: int, mark: int = 0) -> None:
        self.due = due
        self.mark = mark
        self.frames: list[bytes] = []
        self.size = 0

    def keep(self, frames: list[bytes]) -> None:
        """Hold these frames, too."""
        self.frames += frames
        self.size += sum(map(len, frames))


class UnevenProgress:
    """The progress of a group's members while it is not the same for all (core/delivery/writing.py).

    ``ahead`` are those who have had so many of the pending frames (the held ones come first), or need not have them.
    While ``writing`` there is a round: ``frames`` in one piece are ``data``; of the group's ``ready`` and ``singles``
    the first so many have had it, the others are owed it, but for ``parts``, who have had so many of its frames.
    ``begun`` is the mark of ``Batches.begun`` for the round, ``next`` that for what is pending. ``size`` are the bytes
    of the first ``counted`` pending frames.
    """

    __slots__ = ("ahead", "begun", "counted", "data", "frames", "next", "parts", "ready", "singles", "size", "writing")

    def __init__(self) -> None:
        self.ahead: dict[Client, int] = {}
        self.parts: dict[Client, int] = {}
        self.frames: list[bytes] = []
        self.data = b""
        self.ready = self.singles = 0
        self.writing = False
        self.begun = self.next = 0
        self.counted = self.size = 0


class Group:
    """Clients on the same terms with the same feeds; what it waits to send is written to all of them at once.

    ``ready`` are the clients whose sockets take a plain write, ``keys`` their slot keys in the same order;
    ``singles`` are all others (blocked, or behind a transport of their own), written one by one. A client's ``slot`` is
    its place in one of them, from the end (-1 - n) in ``singles``. With a ``cohort`` its members have one dict of
    subscriptions, ``topics``, and one of the patterns that these follow, ``owners``. ``progress`` is None while all
    members are owed all that is pending, and nothing else.
    """

    __slots__ = (
        "base",
        "cohort",
        "keys",
        "feeds",
        "held",
        "owners",
        "pending",
        "progress",
        "ready",
        "signature",
        "singles",
        "terms",
        "topics",
        "wire",
    )

    def __init__(self, terms: Terms, signature: int, feeds: set[SubjectFeed], cohort: Cohort | None = None) -> None:
        self.cohort = cohort
        self.topics: dict[Topic, SubjectFeed] | None = None
        self.owners: dict[Topic, str] = {}
        self.terms = terms
        self.wire = terms.wire
        self.held: Held | None = None
        self.signature = signature
        self.feeds = feeds
        self.pending: list[bytes] = []
        self.base = 0  # that its members were last told of: see Broker.tell_base
        self.ready: list[Client] = []
        self.keys: list[int] = []
        self.singles: list[Client] = []
        self.progress: UnevenProgress | None = None

    def __len__(self) -> int:
        return len(self.ready) + len(self.singles)

    # Who is in it

    def add(self, client: Client) -> None:
        """Take the client in: what is pending is not for it."""
        client.group = self
        waits = len(self.pending) + (len(self.held.frames) if self.held is not None else 0)
        if waits:
            self.uneven().ahead[client] = waits
        self._place(client, owed=False)

    def discard(self, client: Client) -> None:
        """Let the client go."""
        self._displace(client)
        progress = self.progress
        if progress is not None:
            progress.ahead.pop(client, None)
            progress.parts.pop(client, None)
        client.group = None
        client.slot = -1

    def refile(self, client: Client) -> None:
        """Move a client that became blocked or level between ``ready`` and ``singles``."""
        self._place(client, owed=self._displace(client))

    # How far they are

    def uneven(self) -> UnevenProgress:
        """Return the group's progress, which from here on is not the same for all members."""
        if self.progress is None:
            self.progress = UnevenProgress()
        return self.progress

    def even(self) -> None:
        """Forget the progress, if it is the same for all again."""
        progress = self.progress
        if progress is not None and not progress.writing and not progress.ahead:
            self.progress = None

    def serve(self, client: Client) -> bool:
        """Count the client among those who have had the round; return whether it was owed the round."""
        progress = self.progress
        assert progress is not None
        slot = client.slot
        if slot >= progress.ready:
            self._swap_ready(slot, progress.ready)
            progress.ready += 1
            return True
        if slot < 0 and -1 - slot >= progress.singles:
            self._swap_singles(-1 - slot, progress.singles)
            progress.singles += 1
            return True
        return False

    # Places, all in constant time: with a round under way each list has a first part, which has had it

    def _place(self, client: Client, *, owed: bool) -> None:
        """Put the client among ``ready`` if its socket takes plain writes now, among ``singles`` if not."""
        if client.direct and client.queue is None:
            client.slot = len(self.ready)
            self.ready.append(client)
            self.keys.append(client.slot_key)
        else:
            self.singles.append(client)
            client.slot = -len(self.singles)
        if self.progress is not None and self.progress.writing and not owed:
            self.serve(client)

    def _displace(self, client: Client) -> bool:
        """Take the client out of its list, where the last one takes its place; return whether it was owed the round."""
        progress, slot = self.progress, client.slot
        writing = progress is not None and progress.writing
        if slot >= 0:
            owed = not (progress is not None and writing and slot < progress.ready)
            if progress is not None and not owed:
                progress.ready -= 1
                slot = self._swap_ready(slot, progress.ready)
            self._swap_ready(slot, len(self.ready) - 1)
            self.ready.pop()
            self.keys.pop()
            return owed
        at = -1 - slot
        owed = not (progress is not None and writing and at < progress.singles)
        if progress is not None and not owed:
            progress.singles -= 1
            at = self._swap_singles(at, progress.singles)
        self._swap_singles(at, len(self.singles) - 1)
        self.singles.pop()
        return owed

    def _swap_ready(self, one: int, other: int) -> int:
        """Let two ready clients change places; return the second one's."""
        if one != other:
            ready, keys = self.ready, self.keys
            ready[one], ready[other] = ready[other], ready[one]
            keys[one], keys[other] = keys[other], keys[one]
            ready[one].slot, ready[other].slot = one, other
        return other

    def _swap_singles(self, one: int, other: int) -> int:
        if one != other:
            singles = self.singles
            singles[one], singles[other] = singles[other], singles[one]
            singles[one].slot, singles[other].slot = -1 - one, -1 - other
        return other


# Clients, and what each has of subjects and patterns


class Cursor:
    """The place up to which a subscription has been sent what is cached: (``epoch``, ``seq``), as the client was told.

    Up to ``upto`` messages are of this ``kind``, and were announced with the answer; those behind came since then.
    ``feed`` is where the client goes when it is level, ``interval`` what it was told of that, ``slow`` what it has
    agreed to if it lags then.
    """

    __slots__ = ("epoch", "feed", "interval", "kind", "seq", "slow", "upto")

    feed: SubjectFeed
    interval: int

    def __init__(self, epoch: int, seq: int, upto: int, kind: str, slow: str) -> None:
        self.epoch = epoch
        self.seq = seq
        self.upto = upto
        self.kind = kind
        self.slow = slow


class Lag:
    """A client's subscriptions that may be conflated while it lags: ``able`` follow, ``behind`` do not at present;
    ``lost`` are those of either of which messages were taken out of the queue."""

    __slots__ = ("able", "behind", "lost")

    def __init__(self) -> None:
        self.able: dict[Topic, None] = {}
        self.behind: dict[Topic, None] = {}
        self.lost: set[Topic] = set()


class WaitingSubscription:
    """A subscription that waits for its right, for room, or for what its client has read elsewhere (protocol.md 4.2).

    For the last it waits until ``until`` (ms), which moves while this process is behind, up to ``latest``. ``pattern``
    is that of the client which brought it; its subject may not have been ``told``, and is not unless it starts.
    """

    __slots__ = ("error", "latest", "pattern", "request", "told", "until")

    def __init__(self, request: Subscribe, error: str, until: int, latest: int) -> None:
        self.request = request
        self.error = error
        self.until = until
        self.latest = latest
        self.pattern = ""
        self.told = True


class PatternSubscription:
    """One client's subscription to a pattern.

    ``again`` are subjects that run from before it was subscribed to in another way; ``resumes`` says that the client
    had it before, on another connection; ``search`` goes on to others that are there already, None when it is done;
    ``limited`` says that the client was told of the bound on its subscriptions, and ``rights`` how much of it may be
    read, as the client was told.
    """

    __slots__ = ("again", "limited", "request", "resumes", "rights", "search", "segments", "text")

    def __init__(self, text: str, request: Subscribe, resumes: bool) -> None:
        self.text = text
        self.segments = text[1:].split("/")
        self.request = request
        self.resumes = resumes
        self.again: set[Topic] = set()
        self.search: Iterator[str | None] | None = None
        self.limited = False
        self.rights: tuple[str, str] = ("", "")

    @property
    def usual(self) -> bool:
        """True if a new subject is joined as by all others, with nothing that is this client's own."""
        request = self.request
        return (
            self.search is None
            and not (self.limited or request.conflation or request.since)
            and request.slow == "close"
        )


class PatternSubscriptions(dict[str, PatternSubscription]):
    """One client's patterns; a subject that several cover follows the first.

    ``owners`` has, of the subjects that run, which pattern each follows; those subscribed to by name are not in it.
    """

    __slots__ = ("_places", "_ranked", "owners")

    def __init__(self) -> None:
        super().__init__()
        self.owners: dict[Topic, str] = {}
        self._places: PatternTree[Client, PatternSubscription, Cohort] | None = None
        self._ranked: list[PatternSubscription] = []

    def add(self, wild: PatternSubscription) -> None:
        """Subscribe to the pattern; in another way it keeps its place among the others."""
        self[wild.text] = wild
        self._places = None

    def remove(self, text: str) -> None:
        """End the subscription to the pattern."""
        del self[text]
        self._places = None

    def covering(self, subject: str) -> PatternSubscription | None:
        """Return the pattern that the subject follows."""
        if len(self) <= FEW:
            given = subject[1:].split("/")
            return next((wild for wild in self.values() if covers_segments(wild.segments, given)), None)
        if self._places is None:
            self._places = PatternTree()
            self._places.rank(self)
            self._ranked = list(self.values())
        places = self._places.match(subject)
        return self._ranked[min(place.rank for place in places)] if places else None


class Client:
    """A connection on a client port.

    ``slot_key`` is the number by which the edge finds its socket, and no other client has it; ``direct`` says that the
    writer may write to it by that number (``Writer.write_some``); ``queue`` is None while the socket takes all that is
    written; ``lag`` is None without subscriptions that may be conflated (slow_consumers.py), ``recovering`` without any
    that come from behind (backlogs.py). ``number`` tells it from all other clients of this process; ``end`` is the code
    and the reason with which it was closed. ``errors`` are commands that were refused, and ``nonsense`` those of them
    that could not be read. ``since`` is when it opened, in ms and to a tenth of a second; ``program`` is what it says
    that it is; ``responds``, whether it answers requests. Until its queue has been taken, so many bytes more than the
    bound may wait in it as are ``allowed`` (outbox.py).
    """

    __slots__ = (
        "address",
        "alive",
        "allowed",
        "base",
        "closed",
        "direct",
        "end",
        "errors",
        "form",
        "greeted",
        "group",
        "lag",
        "link",
        "nonsense",
        "number",
        "out",
        "principal",
        "program",
        "publisher",
        "queue",
        "recovering",
        "responds",
        "since",
        "slot",
        "slot_key",
        "subscriptions",
        "terms",
        "waiting",
        "warned",
        "wilds",
    )

    def __init__(
        self, link: Link, slot_key: int, direct: bool, principal: Principal, terms: Terms, address: str = ""
    ) -> None:
        self.link = link
        self.slot_key = slot_key
        self.direct = direct
        self.principal = principal
        self.address = address
        self.terms = terms
        self.form = terms.wire.form
        self.publisher: str | None = None
        self.group: Group | None = None
        self.slot = -1
        self.queue: Queue | None = None
        self.allowed = 0
        self.recovering: dict[Topic, Cursor] | None = None
        self.out: list[bytes] | None = None
        self.subscriptions: dict[Topic, SubjectFeed] = {}
        self.waiting: dict[str, WaitingSubscription] | None = None
        self.wilds: PatternSubscriptions | None = None
        self.lag: Lag | None = None
        self.base = 0
        self.number = 0
        self.since = 0
        self.program = ""
        self.end: tuple[int, str] = LOST
        self.errors = 0
        self.nonsense = 0
        self.greeted = False
        self.alive = True
        self.warned = False
        self.closed = False
        self.responds = False

    @property
    def transport(self) -> str:
        """The transport of the client's frames: ``websocket``, ``events``, ``stream``, ``poll`` or ``mqtt``."""
        return self.terms.wire.transport

    @property
    def count(self) -> int:
        """Subscriptions that count towards the limit, waiting ones included."""
        return len(self.subscriptions) + len(self.waiting or ()) + len(self.wilds or ())


def pattern_of(client: Client, topic: Topic) -> str:
    """Return the pattern of the client that the subject follows; empty when the client subscribed to the subject by
    name."""
    wilds = client.wilds
    return wilds.owners.get(topic, "") if wilds else ""
