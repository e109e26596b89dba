"""What delivery asks of others: the state of a broker, and who hands bytes to sockets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..cache.history import History
from ..cache.snapshot import Snapshot
from ..protocol.limits import Limits
from ..protocol.messages import AnyAnswer, Message
from ..telemetry.counters import Counters
from .audience import Client, Group, SubjectFeed, Topic
from .interest import SubscriptionIndex
from .wire import Wire


class Writer:
    """Hands bytes to sockets; the edge's replaces this one, which drops them."""

    members_max = 1000
    """Number of clients to whom a group is written in one go; and so many writes to such groups make a turn, about 5
    ms."""
    step_members = 250
    """Number of members of a larger group who are written to before ``over`` is asked."""

    def write_group(self, group: Group, data: bytes) -> None:
        """Send whole frames to every member."""

    def write_some(self, clients: list[Client], keys: list[int], data: bytes) -> None:
        """Send whole frames to some ready members of a group; ``keys`` stand in the order of ``clients``."""

    def write_singles(self, clients: list[Client], data: bytes) -> None:
        """Send whole frames to members of a group that are written to one by one."""
        for client in clients:
            client.link.write(data)

    def write_ones(self, groups: list[Group], keys: list[int], frames: list[bytes]) -> None:
        """Send to the one ready member of each group its own frames; ``keys`` and ``frames`` stand in that order."""

    def begin(self) -> None:
        """Begin a turn of writes to large groups."""

    def over(self) -> bool:
        """Return whether the writer has taken as long as a turn may; asked after each step of it."""
        return False


class LagListener(Protocol):
    """Is told of clients that do not keep up."""

    def blocked(self, client: Client) -> None:
        """Hear that the client's socket does not take what is written."""

    def unblocked(self, client: Client) -> None:
        """Hear that the client's socket has taken all that waited."""

    def lagging(self, client: Client, topics: Sequence[Topic]) -> None:
        """Hear that the client's subscriptions to these are conflated from now on."""

    def caught_up(self, client: Client, topics: Sequence[Topic]) -> None:
        """Hear that the client, which lagged in these topics, is level again."""


class ConflationClock(Protocol):
    """The clock of conflated feeds (conflation_clock.py)."""

    def feed(self, topic: Topic, asked: int, phase: int) -> SubjectFeed:
        """Return the topic's feed for who asks for that interval (ms), known to the clock where it is conflated."""

    def fire(self, feed: SubjectFeed) -> None:
        """End an interval of the feed."""


class Deliverer(Protocol):
    """The broker (core/broker/broker.py), as those see it that deliver for it."""

    base: int
    """Time that message times count from, in ms."""
    counters: Counters
    dirty: list[Group]
    """Groups that have something pending."""
    history: History
    interest: SubscriptionIndex
    limits: Limits
    writer: Writer

    @property
    def grid(self) -> ConflationClock:
        """The clock of conflated feeds."""

    @property
    def observers(self) -> Sequence[LagListener]:
        """Observers who are told of what clients do."""

    def snapshot(self, topic: Topic) -> Snapshot | None:
        """Return the subject's snapshot, unless it has expired."""

    def state(self, topic: Topic) -> Snapshot | None:
        """Return the same, or that the subject was removed."""

    def frame(self, message: Message, topic: Topic, wire: Wire, kind: str = "") -> bytes:
        """Return the message as a piece for one client."""

    def base_frame(self, wire: Wire) -> bytes:
        """Return the base that is in force, as an event."""

    def tell_base(self, client: Client) -> None:
        """Tell the client the present base, unless it knows it."""

    def offer(self, feed: SubjectFeed, message: Message) -> None:
        """Put the message before every group of the feed."""

    def put(self, group: Group, event: AnyAnswer) -> None:
        """Tell all members of the group, in its place among the messages."""

    def send(self, client: Client, *answers: AnyAnswer | bytes) -> None:
        """Queue answers for one client; they leave with the next flush."""

    def bring(self, client: Client, *answers: AnyAnswer | bytes) -> None:
        """Queue what the client has asked for, which does not count towards the bound of its queue."""

    def flush_answers(self) -> None:
        """Write the answers that wait."""

    def level(self, client: Client) -> None:
        """Write the client what its group owes it."""

    def move(self, client: Client, add: list[SubjectFeed], remove: list[SubjectFeed]) -> None:
        """Change the client's feeds; nothing pending is missed, doubled or misdirected by it."""

    def release(self, feed: SubjectFeed) -> None:
        """Forget the feed if nobody is left."""
