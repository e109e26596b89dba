"""What is known of a run: every publication with what became of it, and all that each client was sent."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

Position = tuple[int, int]
"""Epoch and sequence number."""

ACKED, REFUSED, UNKNOWN = "acked", "refused", "unknown"

MAYBE_STORED = frozenset({"unavailable", "unknown", "stale", "0x83"})
"""Codes after which a publication may have been stored all the same."""

EXACT, CRASH, MAYBE = "exact", "crash", "maybe"
"""What a fault leaves of a session of MQTT: all of it; what it was up to a second before; all, something or nothing."""

HISTORICAL, RECOVERED, SNAPSHOT, UPDATE = "historical", "recovered", "snapshot", "update"


@dataclass(slots=True)
class Publication:
    """One publication; its content is unique, so that it is known by it everywhere."""

    content: str
    publisher: str
    number: int
    subject: str
    outcome: str = UNKNOWN
    position: Position | None = None
    """Where it was stored, when the acknowledgement says so."""
    code: str = ""
    positions: list[Position] = field(default_factory=list)
    """Of each acknowledgement: a retry must get the first one again."""
    sent_ms: int = 0
    acked_ms: int = 0
    resent: int = 0
    """How often it was sent again by MQTT."""
    anew: int = 0
    """How often of these to a session that did not know it: a new one, or another node's."""


class Seen(NamedTuple):
    """A message came."""

    at: int
    subject: str
    epoch: int
    seq: int
    kind: str
    content: str


class Answered(NamedTuple):
    """``subscribed`` (protocol.md 4.2) for one subject; ``since`` is what was asked."""

    at: int
    subject: str
    epoch: int
    seq: int
    recovery: str
    messages: int
    since: Position | None


class Moved(NamedTuple):
    """``epoch`` (4.8)."""

    at: int
    subject: str
    epoch: int
    seq: int


class Told(NamedTuple):
    """A client library's status for one subject: subscribed, recovered, resynchronised, gap."""

    at: int
    subject: str
    name: str


class Connected(NamedTuple):
    """A connection stands."""

    at: int
    where: str


class Lost(NamedTuple):
    """A connection ended."""

    at: int
    why: str


class Noticed(NamedTuple):
    """A notice, a repaired gap, or an error, for the counts and the must-holds."""

    at: int
    what: str
    subject: str = ""


class Joined(NamedTuple):
    """A subscriber of MQTT is let in, and told whether its session is present; ``place`` names where it would be.

    ``missed``: it was told, now or as its last connection ended, that the session is over as messages are missing.
    """

    at: int
    place: str
    present: bool
    missed: bool = False


class Got(NamedTuple):
    """A subscriber of MQTT was sent a message, which says no number."""

    at: int
    subject: str
    content: str
    retained: bool
    dup: bool
    packet_id: int


Event = Seen | Answered | Moved | Told | Connected | Lost | Noticed | Joined | Got


@dataclass(slots=True)
class Trace:
    """All that one client was sent, in order. ``steady``: nothing should ever disconnect it."""

    name: str
    events: list[Event] = field(default_factory=list)
    steady: bool = False
    library: bool = False
    """Its messages come through the product's client, which drops duplicates and asks again at gaps by itself."""
    sessions: bool = False
    """It speaks MQTT: its events are Joined, Got, Lost and Noticed."""
    subjects: frozenset[str] = frozenset()
    """Those that it is to have, where it does not have all."""


@dataclass(slots=True)
class Run:
    """Everything about one run."""

    publications: dict[str, Publication] = field(default_factory=dict)
    traces: list[Trace] = field(default_factory=list)
    final: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """By subject what the log holds at the end, oldest first, as (number, content): all it has from its first on."""
    snapshots: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By subject the snapshot at the end, as (number, content)."""
    cache_ms: int = 0
    """A position that is younger must be recovered; 0: do not judge."""
    forgets: bool = False
    """The fault destroys what was stored: what was acknowledged before may be gone, if everybody is told."""
    sessions: str = EXACT
    """What the fault leaves of sessions of MQTT."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that must not be; ``content`` names the message."""

    kind: str
    client: str
    subject: str
    content: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.content} on {self.subject}, {self.client}: {self.text}"


KINDS = ("lost", "doubled", "reordered", "unannounced", "false_recovery", "wrong_snapshot", "refused_but_seen")


@dataclass(slots=True)
class Verdict:
    """What the checker says of a run."""

    findings: list[Finding] = field(default_factory=list)
    published: int = 0
    acknowledged: int = 0
    delivered: int = 0
    resynchronised: int = 0
    """Subjects told so, over all clients."""
    resynchronised_in_reach: int = 0
    """Of these, those whose position was younger than the cache: each is a fault beyond the cap of its fault."""
    recovered: int = 0
    gaps: int = 0
    """Gaps that clients saw on a live connection, and asked for: no fault, but a node alone should show none."""
    disconnected: int = 0
    """Connections lost by clients that nothing should disconnect."""

    @property
    def counts(self) -> Counter[str]:
        """Findings by kind."""
        return Counter(dict.fromkeys(KINDS, 0) | Counter(finding.kind for finding in self.findings))
