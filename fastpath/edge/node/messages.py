"""Every message that the workers of a node send each other over their links, and how it is encoded and decoded.

A link joins the first worker to one of the others. Each message is one MessagePack array with its name in front.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ...core.protocol.messages import Message
from ...core.protocol.packets import Log, pack


class Packet(msgspec.Struct, array_like=True):
    """A message; the fields of each class below are in the order in which they are sent."""


# To the first worker


class Hello(Packet, tag="hello"):
    """A worker's number, the epoch and position of the complete state that it holds, and the last epoch it heard."""

    worker: int
    epoch: int
    position: int
    seen: int


class Publish(Packet, tag="publish"):
    """Accepted publications of the worker's clients, as rows (``handed_in``), and since when the first is under way."""

    rows: list[Any]
    since: int


class Busy(Packet, tag="busy"):
    """The worker writes to its clients and reads no log for now, but lives."""


class Figures(Packet, tag="stats"):
    """The counts of a worker so far, by the figures' names."""

    figures: dict[str, Any]
    """Integers stay what they are."""


class Beat(Packet, tag="beat"):
    """The worker's loop runs: how late it was (s), and whether the worker takes no more clients."""

    late: float
    full: bool


class Latency(Packet, tag="latency"):
    """The counts of the worker's histogram of latencies, and the sum of all of them (ns)."""

    counts: list[int]
    sum_ns: int


class Gathered(Packet, tag="gathered"):
    """The worker's answer to the ``Gather`` of that number."""

    number: int
    answer: dict[str, Any]


class Reloaded(Packet, tag="reloaded"):
    """The ``Reload`` of that number is done; what could not be used, a sentence each."""

    number: int
    errors: list[str]


class Events(Packet, tag="events"):
    """Events of the audit that the first worker listens to, and how many before them were lost."""

    lost: int
    events: list[Any]


class TraceEvents(Packet, tag="trace_events"):
    """The events of a trace that a worker has seen, and how many it had to leave out."""

    trace: str
    events: list[Any]
    lost: int


class TraceOver(Packet, tag="trace_over"):
    """The end of a trace, after which there is nothing to follow, and its reason."""

    trace: str
    why: str


class Seats(Packet, tag="seats"):
    """Clients of the worker ask for places: number, user and address of each."""

    seats: list[tuple[int, str, str]]


class Unseat(Packet, tag="unseat"):
    """The worker's client of that number has left its place."""

    number: int


class Ask(Packet, tag="ask"):
    """Questions to Django's hook: number, turn and what each is about."""

    questions: list[tuple[int, str, dict[str, Any]]]


class Tell(Packet, tag="told"):
    """Something that the hook is told and does not answer."""

    about: dict[str, Any]


class Attendance(Packet, tag="said"):
    """The doings of a worker's clients as a packet of the roster, and whether any of them advertises."""

    packet: list[Any]
    follows: bool


class Who(Packet, tag="who"):
    """A client of the worker asks who is on a subject."""

    number: int
    subject: str


# To the other workers, all of them or one


class Welcome(Packet, tag="welcome"):
    """The link is open: the name of the first worker's server, and its epoch."""

    server: str
    epoch: int


class Give(Packet, tag="give"):
    """Hand over the rights that you hold, and where ``subjects`` the whole state."""

    subjects: bool


class Restart(Packet, tag="restart"):
    """A subject stands elsewhere than what was told leads to: its state as a part (``whole_part``)."""

    part: list[Any]


class Stale(Packet, tag="notice"):
    """All clients are to be told that messages are stale, or fresh again."""

    code: str
    text: str


class Published(Packet, tag="published"):
    """Outcomes of publications, in the order in which they were handed in, and the epoch of their numbers."""

    epoch: int
    outcomes: list[Any]


class RightsDiff(Packet, tag="rules_diff"):
    """A difference of the rights takes force, on top of the generation ``after``."""

    after: Any
    generation: int
    rules: Any
    removed: Any
    users: Any
    sessions: Any


class Drain(Packet, tag="drain"):
    """Send your clients elsewhere, so many a second together with all workers, to these servers and weights."""

    per_second: int
    servers: list[tuple[str, int]]


class Undrain(Packet, tag="undrain"):
    """The drain is called off."""


class Gather(Packet, tag="gather"):
    """A question of that kind to every worker; number 0 wants no answer."""

    number: int
    kind: str
    arguments: dict[str, Any]


class Reload(Packet, tag="reload"):
    """Read anew what may change while the process runs."""

    number: int


class Listen(Packet, tag="listen"):
    """The kinds of events of the audit that somebody listens to."""

    kinds: list[str]


class EventsTaken(Packet, tag="events_taken"):
    """The number of the worker's events that were taken: more may come."""

    count: int


class Memory(Packet, tag="memory"):
    """The state of the memory that all workers share: whether it is used up."""

    full: bool


class Unseated(Packet, tag="unseated"):
    """The worker's client of that number gets no place, because of that limit."""

    number: int
    limit: str


class Asked(Packet, tag="asked"):
    """The hook's answer to a question of the worker."""

    number: int
    reply: dict[str, Any]


class Recheck(Packet, tag="recheck"):
    """Ask the hook again about a user's connections; None: about everybody's."""

    user: str | None


class Attend(Packet, tag="attend"):
    """Say again all that your clients do."""


class Patterns(Packet, tag="patterns"):
    """The patterns that are advertised anywhere."""

    patterns: list[str]


class Presences(Packet, tag="presences"):
    """The joins and leaves of subjects: subject, user and the number of the user's connections from now on."""

    events: list[list[Any]]


class Wanted(Packet, tag="wanted"):
    """Subjects that have subscribers from now on, or have none any more."""

    subjects: list[str]
    wanted: bool


class AllWanted(Packet, tag="all_wanted"):
    """All subjects with subscribers are told between one that begins and one that does not."""

    begins: bool


class Present(Packet, tag="present"):
    """The users on a subject, in answer to ``Who``: each with its connections, how many more, and how sure that is."""

    number: int
    users: list[tuple[str, int]]
    anonymous: int
    more: int
    stale: bool


# Both ways: a copy of the state goes to a new worker, or comes from one that outlived the first worker


class Parts(Packet, tag="parts"):
    """A slice of the subjects with what is kept of each."""

    parts: list[Any]


class RightsBegin(Packet, tag="rules_begin"):
    """A whole set of rights follows."""


class RightsChunk(Packet, tag="rules"):
    """A part of that set."""

    rules: Any
    users: Any
    sessions: Any


class RightsCommit(Packet, tag="rules_commit"):
    """The set is complete and takes force as that generation."""

    generation: int


class Copied(Packet, tag="copied"):
    """The copy is complete, as of that position of the log."""

    position: int


ToFirst = (
    Hello
    | Publish
    | Busy
    | Figures
    | Beat
    | Latency
    | Gathered
    | Reloaded
    | Events
    | TraceEvents
    | TraceOver
    | Seats
    | Unseat
    | Ask
    | Tell
    | Attendance
    | Who
)
ToOthers = (
    Log
    | Welcome
    | Give
    | Restart
    | Stale
    | Published
    | RightsDiff
    | Drain
    | Undrain
    | Gather
    | Reload
    | Listen
    | EventsTaken
    | Memory
    | Unseated
    | Asked
    | Recheck
    | Attend
    | Patterns
    | Presences
    | Wanted
    | AllWanted
    | Present
)
Copying = Parts | RightsBegin | RightsChunk | RightsCommit | Copied

_decode = msgspec.msgpack.Decoder(ToFirst | ToOthers | Copying).decode


def encode(packet: Packet) -> bytes:
    """The message as it goes over a link, with its length in front."""
    return pack(packet)


def encode_log(position: int, messages: Sequence[Message], since: int, own: int) -> bytes:
    """The log up to that position, for each worker that follows it (``Log``)."""
    return pack(["log", position, messages, since, own])


def decode(data: memoryview) -> Packet | Log:
    """The message of the bytes behind a length; raises msgspec.DecodeError."""
    packet: Packet | Log = _decode(data)
    return packet
