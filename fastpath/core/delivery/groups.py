"""Clients of one wire with the same feeds: who they are, what is pending for them, and how far each of them is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .client import Client
    from .interest import Cohort, SubjectFeed, Topic
    from .wire_encoding import Wire
    from .write_batches import Held


class Progress:
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
    """Clients of one wire with the same feeds; what it waits to send is written to all of them at once.

    ``ready`` are the clients whose sockets take a plain write, ``fds`` their descriptors in the same order;
    ``singles`` are all others (blocked, or behind a transport of their own), written one by one. A client's ``slot`` is
    its place in one of them, from the end (-1 - n) in ``singles``. With a ``cohort`` its members have one dict of
    subscriptions, ``topics``, and one of the patterns that these follow, ``owners``. ``progress`` is None while all
    members are owed all that is pending, and nothing else.
    """

    __slots__ = (
        "base",
        "cohort",
        "encoding",
        "fds",
        "feeds",
        "held",
        "owners",
        "pending",
        "progress",
        "ready",
        "signature",
        "singles",
        "topics",
        "wire",
    )

    def __init__(self, wire: Wire, signature: int, feeds: set[SubjectFeed], cohort: Cohort | None = None) -> None:
        self.cohort = cohort
        self.topics: dict[Topic, SubjectFeed] | None = None
        self.owners: dict[Topic, str] = {}
        self.wire = wire
        self.encoding = wire.encoding
        self.held: Held | None = None
        self.signature = signature
        self.feeds = feeds
        self.pending: list[bytes] = []
        self.base = 0  # that its members were last told of: see Broker.tell_base
        self.ready: list[Client] = []
        self.fds: list[int] = []
        self.singles: list[Client] = []
        self.progress: Progress | None = None

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
        """The client became blocked or level: move it between ``ready`` and ``singles``."""
        self._place(client, owed=self._displace(client))

    # How far they are

    def uneven(self) -> Progress:
        """Return the group's progress, which from here on is not the same for all members."""
        if self.progress is None:
            self.progress = Progress()
        return self.progress

    def even(self) -> None:
        """Forget it, if it is the same for all again."""
        progress = self.progress
        if progress is not None and not progress.writing and not progress.ahead:
            self.progress = None

    def serve(self, client: Client) -> bool:
        """Count the client among those who have had the round; whether it was owed it."""
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
        """Put it among ``ready`` if its socket takes plain writes now, among ``singles`` if not."""
        if client.direct and client.queue is None:
            client.slot = len(self.ready)
            self.ready.append(client)
            self.fds.append(client.fd)
        else:
            self.singles.append(client)
            client.slot = -len(self.singles)
        if self.progress is not None and self.progress.writing and not owed:
            self.serve(client)

    def _displace(self, client: Client) -> bool:
        """Take it out of its list, where the last one takes its place; whether it was owed the round."""
        progress, slot = self.progress, client.slot
        writing = progress is not None and progress.writing
        if slot >= 0:
            owed = not (progress is not None and writing and slot < progress.ready)
            if progress is not None and not owed:
                progress.ready -= 1
                slot = self._swap_ready(slot, progress.ready)
            self._swap_ready(slot, len(self.ready) - 1)
            self.ready.pop()
            self.fds.pop()
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
        """Let these change places; the second one's."""
        if one != other:
            ready, fds = self.ready, self.fds
            ready[one], ready[other] = ready[other], ready[one]
            fds[one], fds[other] = fds[other], fds[one]
            ready[one].slot, ready[other].slot = one, other
        return other

    def _swap_singles(self, one: int, other: int) -> int:
        if one != other:
            singles = self.singles
            singles[one], singles[other] = singles[other], singles[one]
            singles[one].slot, singles[other].slot = -1 - one, -1 - other
        return other
