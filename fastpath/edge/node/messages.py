"""Every message that the workers of a node send each other over their links, and how it is encoded and decoded.

A link joins the first worker to one of the others. Each message is one MessagePack array with its name in front. The
first workers of different nodes send each other some of them, and others of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ...core.protocol.messages import Message
from ...core.protocol.options import OptionRow
from ...core.protocol.packets import Log, pack


class Packet(msgspec.Struct, array_like=True):
    """A message; the fields of each class below are in the order in which they are sent."""


MessagePlace = tuple[str, int, int]
"""A message's subject, epoch and number."""

GroupMessage = tuple[int, str, MessagePlace]
"""The number of a session, the name of a group, and a message of it."""


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


class AskSession(Packet, tag="session_ask"):
    """A client of MQTT has come to that worker, which asks for its session by this number of its own; ``will`` is
    empty without one."""

    worker: int
    number: int
    owner: str
    client_id: str
    level: int
    clean: bool
    expiry_seconds: int
    will: bytes


class HoldSession(Packet, tag="session_held"):
    """The word that this worker has the session of a client that is connected there; it tells a new first worker so."""

    worker: int
    number: int
    owner: str
    client_id: str
    state: bytes
    will: bytes


class ChangeSessions(Packet, tag="session_changes"):
    """The changes in sessions that the worker has, by their numbers."""

    changes: list[tuple[int, bytes]]


class ReturnSession(Packet, tag="session_back"):
    """The client of the session of that number is gone from the worker: what has changed since, and the will that
    waits, empty without one."""

    number: int
    state: bytes
    will: bytes


class JoinGroup(Packet, tag="group_join"):
    """A client of MQTT on the worker, whose session has that number, is a member of a group, or is none any more."""

    number: int
    name: str
    level: int
    joins: bool


class UseGroups(Packet, tag="group_use"):
    """The messages that members on the worker have for good, are not to have, cannot take though they were offered, and
    ask for: each with the session's number."""

    done: list[GroupMessage]
    free: list[GroupMessage]
    declined: list[GroupMessage]
    asked: list[GroupMessage]


class HoldGroup(Packet, tag="group_held"):
    """A new first worker is told which messages of a group were taken on the worker, and by whom those that are under
    way, with the session's number."""

    name: str
    had: list[MessagePlace]
    held: list[tuple[int, MessagePlace]]


class Ask(Packet, tag="ask"):
    """Questions to Django's hook: number, turn and what each is about."""

    questions: list[tuple[int, str, dict[str, Any]]]


class Tell(Packet, tag="told"):
    """Something that the hook is told and does not answer."""

    about: dict[str, Any]


class CheckPassword(Packet, tag="password"):
    """Is that the password of that user, who comes from this address?"""

    number: int
    user: str
    password: str
    address: str


class KeysWanted(Packet, tag="keys?"):
    """A token names a key that is not there: have the keys fetched."""


class Attendance(Packet, tag="said"):
    """The doings of a worker's clients as a packet of the roster, and whether any of them advertises."""

    packet: list[Any]
    follows: bool


class Who(Packet, tag="who"):
    """A client of the worker asks who is on a subject."""

    number: int
    subject: str


class Responds(Packet, tag="responds"):
    """The patterns that a responder of the worker answers from now on, none at its end; ``at`` comes back."""

    number: int
    patterns: list[str]
    at: int


class Operate(Packet, tag="operate"):
    """An operator asks the worker over HTTP to do something to clients: the control verb and its arguments."""

    number: int
    verb: str
    arguments: dict[str, Any]


# To the other workers, all of them or one


class Welcome(Packet, tag="welcome"):
    """The link is open: the name of the first worker's server, its epoch, and the options of subjects that count there
    while it has no rights yet: they come before the copy of what is cached by them."""

    server: str
    epoch: int
    options: list[OptionRow] = []


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
    options: Any
    """All that there are from now on; None: they stay as they are."""


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


class GiveSession(Packet, tag="session_given"):
    """The session that the worker asked for by that number, and whether it was there before."""

    number: int
    present: bool
    state: bytes
    deserted: list[str] = []
    """Groups of which nobody was connected for some of the time for which the client was away."""


class GroupAnswers(Packet, tag="group_answers"):
    """The messages that members on the worker have asked for: those which they get, and those which another one has."""

    taken: list[GroupMessage]
    gone: list[GroupMessage]


class OfferGroup(Packet, tag="group_offer"):
    """A message of a group is free again; it is for members of that protocol level."""

    name: str
    level: int
    message: MessagePlace


class TakeSession(Packet, tag="session_taken"):
    """The client of the session of that number has another connection now: the worker cuts off its own, and gives the
    session back."""

    number: int


class Asked(Packet, tag="asked"):
    """The hook's answer to a question of the worker."""

    number: int
    reply: dict[str, Any]


class PasswordChecked(Packet, tag="checked"):
    """The answer to ``CheckPassword``: the user's token, or a close code and the reason."""

    number: int
    token: str
    code: int
    reason: str


class TokenKeys(Packet, tag="keys"):
    """The JWK set that tokens are checked by, as it came."""

    data: bytes


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


class ResponderNoted(Packet, tag="responder_noted"):
    """The word that what the worker has said of its responders up to that number is in force."""

    at: int


class Operated(Packet, tag="operated"):
    """The outcome of ``Operate``: the answer of the control verb, or the code and reason of a refusal."""

    number: int
    answer: dict[str, Any]
    refusal: tuple[str, str] | None


# Both ways: requests and their replies (edge/requests)


class Requested(Packet, tag="requested"):
    """A request on its way to a responder: ``responder`` is that one's number in its worker.

    ``name`` is where its replies go, ``node`` and ``worker`` where from it comes; ``timeout`` is in ms. ``passed`` are
    the responders, as worker and number, that have not taken it, and ``why`` the error that the last one had for it.
    """

    name: str
    node: str
    worker: int
    subject: str
    content: Any
    fields: dict[str, Any]
    timeout: int
    replies: int
    user: str
    responder: int = 0
    passed: list[tuple[int, int]] = []
    why: str = ""


class Responded(Packet, tag="responded"):
    """A reply on its way to the requester, at that node and worker."""

    name: str
    node: str
    worker: int
    content: Any
    fields: dict[str, Any]
    more: bool
    error: str
    reason: str
    own: bool


class Abandoned(Packet, tag="abandoned"):
    """Nobody waits any more for replies to the requests of these names."""

    names: list[str]


# Between the first workers of different nodes, beside those of requests


class NodeResponds(Packet, tag="node_responds"):
    """The patterns that the responders of a node answer, as a packet of their replication."""

    packet: list[Any]


class NotTaken(Packet, tag="not_taken"):
    """No responder of the node has taken the request of that name; ``why`` is the error that the last one had."""

    name: str
    why: str


# Both ways: requests for sessions over HTTP, and their answers, between any two workers; the first one hands them on


class Relay(Packet, tag="relay"):
    """A request for a session of worker ``to``: what is wanted, and the place in the session; ``origin`` knows it by
    ``number``."""

    to: int
    origin: int
    number: int
    kind: str
    session: str
    place: int
    body: bytes


class Relayed(Packet, tag="relayed"):
    """The answer to the ``Relay`` of that number of worker ``to``: a status of HTTP, and lines."""

    to: int
    number: int
    status: int
    body: bytes


class RelayOver(Packet, tag="relay_over"):
    """The word that this worker is gone: it answers nothing that was handed on to it."""

    worker: int


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
    options: Any


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
    | AskSession
    | HoldSession
    | ChangeSessions
    | ReturnSession
    | JoinGroup
    | UseGroups
    | HoldGroup
    | Ask
    | Tell
    | CheckPassword
    | KeysWanted
    | Attendance
    | Who
    | Responds
    | Operate
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
    | GiveSession
    | TakeSession
    | GroupAnswers
    | OfferGroup
    | Asked
    | PasswordChecked
    | TokenKeys
    | Recheck
    | Attend
    | Patterns
    | Presences
    | Wanted
    | AllWanted
    | Present
    | ResponderNoted
    | Operated
)
Requesting = Requested | Responded | Abandoned
RequestingNodes = Requesting | NodeResponds | NotTaken
Relaying = Relay | Relayed | RelayOver
Copying = Parts | RightsBegin | RightsChunk | RightsCommit | Copied

_decode = msgspec.msgpack.Decoder(ToFirst | ToOthers | RequestingNodes | Relaying | Copying).decode


def encode(packet: Packet) -> bytes:
    """Return the message as it goes over a link, with its length in front."""
    return pack(packet)


def encode_log(position: int, messages: Sequence[Message], since: int, own: int) -> bytes:
    """Return the log up to that position, for each worker that follows it (``Log``)."""
    return pack(["log", position, messages, since, own])


def decode(data: memoryview) -> Packet | Log:
    """Return the message of the bytes behind a length; raise msgspec.DecodeError."""
    packet: Packet | Log = _decode(data)
    return packet
