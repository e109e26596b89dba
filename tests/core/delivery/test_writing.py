"""Groups that are written in slices: each member gets exactly what came while it was one, in order, whatever happens
between two slices."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fastpath.core.delivery.audience import Client, Group
from fastpath.core.delivery.wire import Terms, terms_of
from fastpath.core.protocol.codec import encode
from fastpath.core.protocol.errors import Close
from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import (
    AnyCommand,
    Base,
    CaughtUp,
    Connect,
    Connected,
    Data,
    Epoch,
    Lagging,
    Message,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
)
from fastpath.core.wires.registry import PLAIN, wire_of
from tests.support.core.stage import Actor, Checking, Stage

SUBJECTS = ("/s/1", "/s/2")
NAMES = ("ann", "bob", "carl", "dora", "eve", "fay", "gus")
BATCHED = terms_of(wire_of("json"), 50, 400)
LONG = "x" * 150


class Sliced(Checking):
    """Writes to so many members of a group in one turn, and counts."""

    def __init__(self, members_max: int, step_members: int) -> None:
        self.members_max = members_max
        self.step_members = step_members
        self.writes = 0

    def write_group(self, group: Group, data: bytes) -> None:
        """To all of a group: it must be a small one."""
        assert len(group) <= self.members_max
        self.writes += len(group)
        super().write_group(group, data)

    def write_some(self, clients: list[Client], keys: list[int], data: bytes) -> None:
        """To a step's members."""
        assert len(clients) <= self.step_members
        self.writes += len(clients)
        super().write_some(clients, keys, data)

    def over(self) -> bool:
        """After each step."""
        return True


class Reader:
    """A client, and the plain list of what it must be told, which is what ``Broker`` is measured by."""

    def __init__(self, actor: Actor, *, exact: bool) -> None:
        self.actor = actor
        self.exact = exact
        """It neither conflates nor may be conflated, so that its whole list is known."""
        self.wanted: list[tuple[object, ...]] = []
        self.subjects: set[str] = set()

    def got(self) -> list[tuple[object, ...]]:
        """What it was told, message times worked out as a client does."""
        base, found = 0, list[tuple[object, ...]]()
        for one in self.actor.got:
            match one:
                case Base() | Connected():
                    base = one.base
                case Data():
                    assert base
                    found.append((self.actor.subjects[one.sid], one.meta.kind, one.seq, one.content, base + one.t))
                case Subscribed():
                    found += [("subscribed", result.subject) for result in one.results]
                case Unsubscribed():
                    found += [("unsubscribed", subject) for subject in one.subjects]
                case Epoch():
                    found.append(("epoch", self.actor.subjects[one.sid], one.epoch))
                case Lagging() | CaughtUp():
                    assert not self.exact
        return found


class Turns(RuleBasedStateMachine):
    """A server whose turns write to two clients of a group at most, so that it is nearly always behind."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage(limits=Limits(outbox_bytes_max=6400))
        self.stage.broker.writer = Sliced(2, 2)
        self.readers: dict[str, Reader] = {}
        self.gone: list[Reader] = []
        self.newest: dict[str, tuple[object, ...]] = {}
        self.number = 0

    def say(self, reader: Reader, command: AnyCommand) -> None:
        """As the edge does: answers leave at once, messages with the turns to come."""
        stage = self.stage
        stage.sessions.receive(reader.actor.client, encode(command, reader.actor.client.form), stage.now)
        stage.broker.flush_answers()

    @precondition(lambda self: len(self.readers) < len(NAMES))
    @rule(kind=st.sampled_from(["plain", "plain", "plain", "batched", "single", "slow", "conflated"]), data=st.data())
    def enter(self, kind: str, data: st.DataObject) -> None:
        """Somebody comes, and is subscribed at once more often than not."""
        name = next(name for name in NAMES if name not in self.readers)
        wired: Terms = BATCHED if kind == "batched" else PLAIN["json"]
        actor = self.stage.enter(name, terms=wired)
        actor.client.direct = kind != "single"
        reader = self.readers[name] = Reader(actor, exact=kind not in ("slow", "conflated"))
        for subject in data.draw(st.sets(st.sampled_from(SUBJECTS))):
            self.subscribe(reader, subject, kind)

    @precondition(lambda self: self.readers)
    @rule(data=st.data(), subject=st.sampled_from(SUBJECTS))
    def again(self, data: st.DataObject, subject: str) -> None:
        """One more subject, or the same one again."""
        reader = self.one(data)
        if reader.exact:
            self.subscribe(reader, subject, "plain")

    def subscribe(self, reader: Reader, subject: str, kind: str) -> None:
        """The answer, and the snapshot, come after all that was published before."""
        slow = "conflate" if kind == "slow" else "close"
        interval = 200 if kind == "conflated" else 0
        self.say(reader, Subscribe(id=1, subjects=[subject], slow=slow, conflation=interval))
        reader.wanted.append(("subscribed", subject))
        reader.subjects.add(subject)
        if subject in self.newest:
            _, _, *rest = self.newest[subject]
            reader.wanted.append((subject, "snapshot", *rest))

    @precondition(lambda self: self.readers)
    @rule(data=st.data(), subject=st.sampled_from(SUBJECTS))
    def unsubscribe(self, data: st.DataObject, subject: str) -> None:
        """Nothing of it comes after the answer."""
        reader = self.one(data)
        self.say(reader, Unsubscribe(id=1, subjects=[subject]))
        if subject in reader.subjects:
            reader.subjects.discard(subject)
            reader.wanted.append(("unsubscribed", subject))

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        """It is gone, with what it was owed."""
        reader = self.one(data)
        self.stage.sessions.close(reader.actor.client)
        del self.stage.actors[reader.actor.name], self.readers[reader.actor.name]
        self.gone.append(reader)

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def connect(self, data: st.DataObject) -> None:
        """An answer that names the base of times, though messages that count from an older one are owed."""
        self.say(self.one(data), Connect(id=1))

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def stall(self, data: st.DataObject) -> None:
        """Its socket takes nothing from now on."""
        self.one(data).actor.blocked = True

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        """It reads all that waits."""
        self.one(data).actor.unblock()

    @rule(subject=st.sampled_from(SUBJECTS), count=st.integers(1, 3))
    def publish(self, subject: str, count: int) -> None:
        """Some messages of one batch."""
        for _ in range(count):
            self.number += 1
            message = Message(subject, f"{self.number} {LONG}")
            self.stage.broker.publish(None, [message], self.stage.now)
            told = (subject, "", message.seq, message.content, self.stage.now)
            self.newest[subject] = told
            self.each(subject, told)

    @precondition(lambda self: self.newest)
    @rule(data=st.data())
    def tell(self, data: st.DataObject) -> None:
        """An event of a subject, told in its place among the messages."""
        broker = self.stage.broker
        topic = broker.interest.topics[data.draw(st.sampled_from(sorted(self.newest)))]
        broker.tell(topic, Epoch(sid=topic.sid, epoch=topic.epoch, seq=topic.seq))
        self.each(topic.subject, ("epoch", topic.subject, topic.epoch))

    @rule(milliseconds=st.sampled_from([10, 60, 300, 30_000, 61_000]))
    def wait(self, milliseconds: int) -> None:
        """Time passes; the next message may move the base."""
        self.stage.now += milliseconds
        self.stage.broker.grid.tick(self.stage.now)

    @rule(times=st.integers(1, 4))
    def turn(self, times: int) -> None:
        """A turn of the loop, or some: each writes to a few at most."""
        stage, writer = self.stage, self.stage.broker.writer
        for _ in range(times):
            small = len([group for group in stage.broker.dirty if len(group) <= 2])
            before = writer.writes
            stage.broker.flush(stage.now)
            assert writer.writes - before <= 2 * (small + 2)
            stage.turn()
            stage.broker.flush_answers()

    @invariant()
    def closed_ones_are_gone(self) -> None:
        """Who was closed for its queue leaves, with what it was owed."""
        for name in [name for name, reader in self.readers.items() if reader.actor.closed is not None]:
            reader = self.readers.pop(name)
            assert reader.actor.closed is not None and reader.actor.closed[0] == Close.SLOW_CONSUMER
            self.stage.sessions.close(self.stage.actors.pop(name).client)
            self.gone.append(reader)

    @invariant()
    def in_order(self) -> None:
        """What has come is how the list begins."""
        for reader in (*self.readers.values(), *self.gone):
            if reader.exact:
                got = reader.got()
                assert got == reader.wanted[: len(got)], reader.actor.name

    @invariant()
    def in_place(self) -> None:
        """Every member is where its slot says."""
        for group in self.stage.broker.interest.groups.values():
            assert [client.slot_key for client in group.ready] == group.keys
            assert all(group.ready[client.slot] is client for client in group.ready)
            assert all(group.singles[-1 - client.slot] is client for client in group.singles)

    def teardown(self) -> None:
        """With no more turns than it takes everybody gets all of it."""
        stage = self.stage
        self.closed_ones_are_gone()
        for reader in self.readers.values():
            reader.actor.unblock()
        stage.now += 1000
        stage.broker.grid.tick(stage.now)
        for _ in range(400):
            stage.now += 60
            stage.broker.flush(stage.now)
            stage.turn()
            stage.broker.flush_answers()
            if not stage.broker.writing.behind:
                break
        stage.now += 60
        stage.broker.finish()
        for name, reader in self.readers.items():
            got = reader.got()
            if reader.exact:
                assert got == reader.wanted, name
                continue
            for subject in reader.subjects & set(self.newest):
                mine = [one for one in got if one[0] == subject]
                assert [one[2] for one in mine] == sorted(one[2] for one in mine), "never backwards"
                assert mine[-1][3] == self.newest[subject][3], "the newest is there in the end"
        for group in stage.broker.interest.groups.values():
            assert group.progress is None
            assert not group.pending

    def each(self, subject: str, told: tuple[object, ...]) -> None:
        """All who are subscribed are told."""
        for reader in self.readers.values():
            if subject in reader.subjects:
                reader.wanted.append(told)

    def one(self, data: st.DataObject) -> Reader:
        """Any of those who are there."""
        return self.readers[data.draw(st.sampled_from(sorted(self.readers)))]


TestTurns = Turns.TestCase
TestTurns.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
