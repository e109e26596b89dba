"""The commands that subscribe and unsubscribe: subjects and patterns, and their answers (protocol.md 3.2, 3.3, 3.8).

One of many subjects takes more than a turn may. It is taken in steps, between which everybody else has a turn
(``CommandsInSteps``), and it takes effect in the last one: the steps before only find out about each subject what that
needs to know, and read what is stored of it. Where a subject has changed until then it is read again. So whatever
happens meanwhile, publications, rights, the end of the connection, meets either nothing of the command or all of it.
Subscriptions end in steps as they are, since one that has ended owes nothing to those that go on; the answer comes when
the last one has. Beside patterns they end in one moment, as what goes on by a pattern is told behind the answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence

from ..delivery import slow_consumers
from ..delivery.audience import Client, SubjectFeed, Topic
from ..delivery.link import PauseReason
from ..protocol.errors import InvalidMessage
from ..protocol.limits import SINCE_CHECKS_MAX, SUBJECTS_PER_COMMAND_MAX
from ..protocol.messages import AnyAnswer, Result, Revoked, Subscribe, Subscribed, Unsubscribe, Unsubscribed
from ..protocol.subject import is_wildcard
from .pattern_subscriptions import Covering, PatternSubscriber, Positions
from .subscriptions import Prospect

AT_ONCE_MAX = 40
"""Number of subjects that are subscribed to at once: half a millisecond."""

POSITIONS_AT_ONCE_MAX = 1000
"""Number of positions times patterns that are compared at once: the same."""

STEP_SUBJECTS = 5
"""Subjects that are looked at between two looks at the clock: some 0.05 ms."""

STEP_POSITIONS = 100
"""Positions that are compared with a pattern between two looks at the clock."""

STEP_ENDED = 100
"""Subscriptions that end between two looks at the clock: 0.1 ms, and the client goes to another group each time."""

STEP_COVERED = 20
"""Subjects for which it is looked by which pattern they go on between two looks at the clock: 0.1 ms with many."""

CHANGED_MAX = 20
"""Number of subjects that have changed since they were looked at, and are read again when the command takes effect."""

LOOKS_MAX = 5
"""Number of times that more of them are read again before: where more is published than that, the command is not to
wait longer."""

UNDER_WAY_MAX = 4
"""Number of commands that are under way at a time, while the others wait in line as they came: however many there are,
little is kept of what was read for them, and little of that has changed until they take effect."""

Steps = Generator[None, int, None]
"""A command in steps; each is sent the time (ms)."""


class CommandInSteps:
    """A command that is under way, and what its client has said behind it."""

    __slots__ = ("_steps", "behind", "client")

    def __init__(self, client: Client, steps: Steps) -> None:
        self.client = client
        self.behind: deque[bytes] = deque()
        self._steps = steps
        next(steps)

    def step(self, now: int) -> bool:
        """Take the next step; return whether there is another.

        Behind the last one ``CommandsInSteps.ended`` is to be called; where one raises, the client is to be closed.
        """
        try:
            self._steps.send(now)
        except StopIteration:
            return False
        return True

    def drop(self) -> None:
        """Do nothing more, and leave nothing."""
        self._steps.close()


class CommandsInSteps:
    """The commands that are under way or in line, at most one of each client, of which nothing more is read until it is
    done.

    ``run_by`` says who takes the steps; without anybody they are taken at once.
    """

    def __init__(self, receive: Callable[[Client, bytes, int], None]) -> None:
        self._receive = receive
        self._run: Callable[[CommandInSteps], None] | None = None
        self._line: dict[CommandInSteps, None] = {}
        self._under_way = 0
        self.busy: dict[Client, CommandInSteps] = {}
        """Commands under way, by their clients."""

    def run_by(self, run: Callable[[CommandInSteps], None]) -> None:
        """Have ``run`` called for each command whose turn has come; behind its last step it calls ``stopped``."""
        self._run = run

    def begin(self, client: Client, steps: Steps, now: int) -> None:
        """Do what takes more than one step."""
        command = CommandInSteps(client, steps)
        if self._run is None:
            while command.step(now):
                pass
            return
        self.busy[client] = command
        client.link.hold(PauseReason.WORKING, True)
        self._line[command] = None
        self._go_on()

    def _go_on(self) -> None:
        while self._run is not None and self._line and self._under_way < UNDER_WAY_MAX:
            command = next(iter(self._line))
            del self._line[command]
            self._under_way += 1
            self._run(command)

    def stopped(self) -> None:
        """Take no more steps of a command, whether it is done, has failed, or its client is gone."""
        self._under_way -= 1
        self._go_on()

    def waits(self, client: Client, data: bytes) -> bool:
        """Return whether what the client says is kept until its command is done.

        What comes over its connection is not read meanwhile; this is what its side of MQTT says by itself."""
        command = self.busy.get(client)
        if command is None:
            return False
        command.behind.append(data)
        return True

    def ended(self, command: CommandInSteps, now: int) -> None:
        """Let the client of a command that is done go on."""
        client = command.client
        if self.busy.get(client) is not command:
            return  # the client is gone
        del self.busy[client]
        for data in command.behind:
            self._receive(client, data, now)
        if client not in self.busy:
            client.link.hold(PauseReason.WORKING, False)

    def forget(self, client: Client) -> None:
        """Forget a client that is gone."""
        command = self.busy.pop(client, None)
        if command is not None:
            self._line.pop(command, None)
            command.drop()


def subscribe(wildcards: PatternSubscriber, client: Client, command: Subscribe, now: int) -> Steps | None:
    """Begin what may begin, and answer; steps that do so, where it is much; raises InvalidMessage."""
    if len(command.subjects) > SUBJECTS_PER_COMMAND_MAX:
        raise InvalidMessage("limit", f"over {SUBJECTS_PER_COMMAND_MAX} subjects in one command")
    if command.slow not in slow_consumers.POLICIES:
        raise InvalidMessage("invalid", 'slow is "close" or "conflate"')
    if command.history < 0 or command.conflation < 0:
        raise InvalidMessage("invalid", "history and conflation are not negative")
    patterns = sum(map(is_wildcard, command.subjects))
    if patterns * len(command.since) > SINCE_CHECKS_MAX:
        raise InvalidMessage("limit", f"over {SINCE_CHECKS_MAX} positions times patterns in one command")
    if len(command.subjects) > AT_ONCE_MAX or patterns * len(command.since) > POSITIONS_AT_ONCE_MAX:
        return _subscribe_in_steps(wildcards, client, command)
    _begin(wildcards, client, command, now, {}, {})
    return None


def _subscribe_in_steps(wildcards: PatternSubscriber, client: Client, command: Subscribe) -> Steps:
    """Find out about each subject, then subscribe to all of them."""
    subscriptions = wildcards.subscriptions
    found: dict[str, Prospect] = {}
    positions: dict[str, Positions] = {}
    now = yield
    room, planned = subscriptions.room(client), 0
    try:
        for at, subject in enumerate(dict.fromkeys(command.subjects), 1):
            if is_wildcard(subject):
                rest = list(command.since)
                positions[subject] = {}
                for start in range(0, len(rest), STEP_POSITIONS):
                    now = yield
                    positions[subject] |= wildcards.positions(subject, command, rest[start : start + STEP_POSITIONS])
                continue
            found[subject] = one = subscriptions.look(client, subject, command, now, room, planned)
            planned += one.feed is not None
            if at % STEP_SUBJECTS == 0:
                now = yield
        looks = LOOKS_MAX
        while changed := [one for one in found.values() if one.feed is not None and not subscriptions.stands(one)]:
            looks -= 1
            at_once = looks < 0 or len(changed) <= CHANGED_MAX
            for at, one in enumerate(changed):
                if not at_once and at % STEP_SUBJECTS == 0:
                    now = yield
                room.take(-one.size)
                subscriptions.read(client, command, one, room)
            if at_once:
                break
        _begin(wildcards, client, command, now, found, positions)
    finally:
        for one in found.values():
            subscriptions.let_go(one)


def _begin(
    wildcards: PatternSubscriber,
    client: Client,
    command: Subscribe,
    now: int,
    found: dict[str, Prospect],
    positions: dict[str, Positions],
) -> None:
    """Begin what may begin, and answer."""
    subscriptions = wildcards.subscriptions
    broker = subscriptions.broker
    broker.level(client)
    results: list[Result] = []
    stored: list[bytes] = []
    join: list[SubjectFeed] = []
    room = subscriptions.room(client)
    for subject in dict.fromkeys(command.subjects):
        if is_wildcard(subject):
            results.append(wildcards.add(client, subject, command, positions.get(subject)))
            continue
        result, frames, feed = subscriptions.begin(client, subject, command, now, room, found.get(subject))
        if client.wilds is not None:
            wildcards.own(client, subject)
        results.append(result)
        stored += frames.frames
        if feed is not None:
            join.append(feed)
    if stored:
        broker.tell_base(client)
    broker.bring(client, Subscribed(id=command.id, results=results), *stored)
    broker.counters.messages_out += len(stored)
    broker.move(client, join, [])
    if broker.observers and (refused := [result for result in results if result.error]):
        for observer in broker.observers:
            observer.denied(client, refused)
    wildcards.again(client)
    wildcards.step(now, client)


def unsubscribe(wildcards: PatternSubscriber, client: Client, command: Unsubscribe, now: int) -> Steps | None:
    """End subscriptions, and answer; return steps that do so, where they are many; raise InvalidMessage."""
    if len(command.subjects) > SUBJECTS_PER_COMMAND_MAX:
        raise InvalidMessage("limit", f"over {SUBJECTS_PER_COMMAND_MAX} subjects in one command")
    if len(command.subjects) > STEP_ENDED:
        steps = _unsubscribe_beside_patterns if client.wilds else _unsubscribe_in_steps
        return steps(wildcards, client, command)
    _unsubscribe(wildcards, client, command, now, {})
    return None


def _unsubscribe(
    wildcards: PatternSubscriber, client: Client, command: Unsubscribe, now: int, covering: Covering
) -> None:
    def told(ended: list[str], topics: list[Topic]) -> list[Unsubscribed]:
        del topics
        return [Unsubscribed(id=command.id, subjects=ended)]

    _end(wildcards, client, command.subjects, "", now, told, covering)


def _unsubscribe_in_steps(wildcards: PatternSubscriber, client: Client, command: Unsubscribe) -> Steps:
    """End some at a time, and answer behind the last of them; none goes on by a pattern."""
    ended: list[str] = []
    subjects = list(dict.fromkeys(command.subjects))
    for at in range(0, len(subjects), STEP_ENDED):
        now = yield
        ended += _end(wildcards, client, subjects[at : at + STEP_ENDED], "", now, lambda _, __: [], {})
    wildcards.subscriptions.broker.send(client, Unsubscribed(id=command.id, subjects=ended))


def _unsubscribe_beside_patterns(wildcards: PatternSubscriber, client: Client, command: Unsubscribe) -> Steps:
    """Find out which subjects go on by a pattern, then end all in one moment: those go on without a gap, and are told
    behind the answer."""
    covering: Covering = {}
    now = yield
    for at, subject in enumerate(dict.fromkeys(command.subjects), 1):
        if client.wilds:
            covering[subject] = client.wilds.covering(subject)
        if at % STEP_COVERED == 0:
            now = yield
    _unsubscribe(wildcards, client, command, now, covering)


def end_subscriptions(
    wildcards: PatternSubscriber, client: Client, subjects: Iterable[str], reason: str, now: int
) -> int:
    """End subscriptions as the client itself would, which is told why; return how many they were.

    Nothing waits for its return: the client may subscribe again.
    """

    def told(ended: list[str], topics: list[Topic]) -> list[Revoked]:
        """Tell of all that has ended, also of what patterns have brought."""
        names = list(dict.fromkeys([*ended, *(topic.subject for topic in topics)]))
        starts = range(0, len(names), SUBJECTS_PER_COMMAND_MAX)
        return [Revoked(subjects=names[at : at + SUBJECTS_PER_COMMAND_MAX], reason=reason) for at in starts]

    return len(_end(wildcards, client, subjects, reason, now, told, {}))


def _end(
    wildcards: PatternSubscriber,
    client: Client,
    subjects: Iterable[str],
    reason: str,
    now: int,
    told: Callable[[list[str], list[Topic]], Sequence[AnyAnswer]],
    covering: Covering,
) -> list[str]:
    """End those of the subscriptions that there are, and say what ``told`` makes of these and of the subjects that ran.

    ``reason`` is empty for the client's own wish.
    """
    broker = wildcards.subscriptions.broker
    ended: list[str] = []
    topics: list[Topic] = []
    patterns: set[str] = set()
    for subject in dict.fromkeys(subjects):
        topic = broker.interest.topics.get(subject)
        if client.wilds and subject in client.wilds:
            patterns.add(subject)
        elif client.wilds and wildcards.brought(client, subject):
            continue  # a pattern brought it, and ends it
        elif topic is not None and topic in client.subscriptions:
            topics.append(topic)
        elif client.waiting and client.waiting.pop(subject, None):
            broker.counters.waiting -= 1
        else:
            continue
        ended.append(subject)
    if patterns:
        topics += wildcards.remove(client, patterns)
    standing = wildcards.standing(client, topics) if client.wilds else {}
    kept = wildcards.kept(client, topics, standing, covering) if standing else {}
    wildcards.subscriptions.leave_all(client, [topic for topic in topics if topic not in kept] if kept else topics)
    for observer in broker.observers:
        observer.unsubscribed(client, topics, reason)
    if answers := told(ended, topics):
        broker.send(client, *answers)
    if client.wilds:
        wildcards.inherit(client, topics, standing, kept, now)
        wildcards.again(client)
        wildcards.step(now, client)
    return ended
