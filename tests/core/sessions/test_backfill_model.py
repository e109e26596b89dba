"""Recovery in slices against a plain model: each message exactly once and in order, or a told resynchronisation.

Clients take bytes as they please; their subjects go on, are evicted, renumbered by epochs, forbidden; connections end;
their groups, those that share a pattern among them, are written in slices; the base of message times moves.
Whatever a client is sent is checked frame by frame, and at the end what it has against the chain that stands.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fastpath.core.auth.grants import Principal
from fastpath.core.delivery import backlogs
from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import Message, Unsubscribe
from fastpath.core.sessions import backfill
from tests.support.core.checking import SOCKET_BYTES, Reader
from tests.support.core.refusing import Refusing
from tests.support.core.stage import START, Checking, Stage

SUBJECTS = ("/a/1", "/a/2", "/a/3")
PATTERN = "/a/*"
NAMES = ("ann", "bob", "carl", "dora")
OUTBOX_BYTES = 150_000


class Alike(Refusing):
    """Everybody may the same, so that groups share what patterns bring."""

    def rights_key(self, principal: Principal, named: bool = False) -> str:
        """Grants."""
        del principal, named
        return "everybody"


class Slow(Stage):
    """A stage on which slices are made one at a time, when the test says so."""

    def recover(self) -> None:
        """Stage."""


class Sliced(Checking):
    """Writes to so many members of a larger group in one turn, but for what has to be written at once."""

    def __init__(self, members: int) -> None:
        self.members_max = self.step_members = members

    def over(self) -> bool:
        """After each step."""
        return True


class Recovery(RuleBasedStateMachine):
    """The machine."""

    @initialize(
        cached=st.sampled_from([3, 40, 100_000]), renumbers=st.booleans(), members=st.sampled_from([1, 2, 1000])
    )
    def begin(self, cached: int, renumbers: bool, members: int) -> None:
        """A server, with a cache that reaches or one that does not, and groups that are large to it or are not."""
        self.grants = Alike()
        limits = Limits(cache_messages=cached, cache_ms=1 << 40, outbox_bytes_max=OUTBOX_BYTES)
        self.stage = Slow(self.grants, limits)
        self.stage.broker.writer = Sliced(members)
        self.chains: dict[str, list[str]] = {subject: [] for subject in SUBJECTS}
        self.epochs = dict.fromkeys(SUBJECTS, START)
        self.published = 0
        self.whole = cached == 100_000 and not renumbers
        self.renumbers = renumbers
        self.readers = {name: Reader(self.stage, name, {}) for name in NAMES}

    names = st.sampled_from(NAMES)
    subjects = st.sampled_from(SUBJECTS)

    def deliver(self, subject: str, size: int) -> None:
        """The next message of the subject, in its epoch."""
        self.published += 1
        chain = self.chains[subject]
        chain.append(f"{self.published}:{self.stage.now}:{'x' * size}")
        message = Message(subject, chain[-1], epoch=self.epochs[subject], seq=len(chain), time=self.stage.now)
        message.weigh()
        self.stage.broker.deliver((message,))

    @rule(subject=subjects, count=st.integers(1, 30), size=st.sampled_from((3, 300, 8000)))
    def publish(self, subject: str, count: int, size: int) -> None:
        """Messages come."""
        for _ in range(count):
            self.deliver(subject, size)
        self.end()

    @rule(name=names, count=st.sampled_from((50, 1000, 5000, 60_000)))
    def read(self, name: str, count: int) -> None:
        """A client takes some of what was sent."""
        reader = self.readers[name]
        for at in range(0, count, SOCKET_BYTES):
            reader.read(min(SOCKET_BYTES, count - at))
        self.end()

    @rule(count=st.integers(1, 4))
    def step(self, count: int) -> None:
        """Some slices."""
        recoveries = self.stage.sessions.recoveries
        for _ in range(count):
            if recoveries.busy:
                recoveries.step(recoveries.next())
        self.end()

    @rule(name=names, subject=subjects, history=st.sampled_from((0, 2, 200)))
    def subscribe(self, name: str, subject: str, history: int) -> None:
        """By name, from now on or with history."""
        self.readers[name].ask([subject], {}, history)
        self.end()

    @rule(name=names, subject=subjects)
    def again(self, name: str, subject: str) -> None:
        """Once more, from where it was read to."""
        book = self.readers[name].books.get(subject)
        if book is not None and book.position[0] and subject in self.readers[name].wanted:
            self.readers[name].ask([subject], {subject: book.position})
        self.end()

    @rule(name=names)
    def pattern(self, name: str) -> None:
        """All that there is and comes."""
        reader = self.readers[name]
        if PATTERN not in reader.wanted:
            reader.ask([PATTERN], {})
        self.end()

    @rule(name=names, subject=st.sampled_from((*SUBJECTS, PATTERN)))
    def unsubscribe(self, name: str, subject: str) -> None:
        """No more of it, unless a pattern covers it."""
        reader = self.readers[name]
        reader.wanted.pop(subject, None)
        reader.number += 1
        reader.say(Unsubscribe(id=reader.number, subjects=[subject]))
        self.end()

    @rule(name=names)
    def reconnect(self, name: str) -> None:
        """The connection ends; the client comes back with what it has read."""
        old = self.readers[name]
        self.stage.sessions.close(old.client)
        reader = self.readers[name] = Reader(self.stage, name, old.books)
        reader.resynchronised = old.resynchronised
        known = {subject: book.position for subject, book in old.books.items() if book.position[0]}
        for book in old.books.values():
            book.live, book.short, book.asked = False, False, 0
        for subject in [one for one in old.wanted if one != PATTERN]:
            reader.ask([subject], {subject: known[subject]} if subject in known else {})
        if PATTERN in old.wanted:
            rest = {subject: place for subject, place in known.items() if subject not in old.wanted}
            reader.ask([PATTERN], {PATTERN: (0, 0)} | rest)
        for subject in set(old.books) - set(known if PATTERN in old.wanted else old.wanted):
            del old.books[subject]
        self.end()

    @rule(subject=subjects, yes=st.booleans())
    def permit(self, subject: str, yes: bool) -> None:
        """A right comes or goes."""
        (self.grants.denied.discard if yes else self.grants.denied.add)(subject)
        self.grants.changes += 1
        for reader in self.readers.values():
            self.stage.sessions.rights.recheck(reader.client, self.stage.now)
        self.end()

    @rule(name=names, subject=subjects)
    def unread(self, name: str, subject: str) -> None:
        """Behind messages that were not read a pattern goes on with a subject, and the right to it goes."""
        self.pattern(name)
        self.subscribe(name, subject, 0)
        self.read(name, 60_000)
        self.publish(subject, 3, 8000)
        self.unsubscribe(name, subject)
        self.permit(subject, False)

    @rule(seconds=st.sampled_from((1, 30, 61)))
    def wait(self, seconds: int) -> None:
        """Time passes; the next message may move the base of times."""
        self.stage.now += seconds * 1000
        self.stage.broker.grid.tick(self.stage.now)
        self.end()

    @precondition(lambda self: self.renumbers)
    @rule(subject=subjects, back=st.integers(0, 40))
    def epoch(self, subject: str, back: int) -> None:
        """A later epoch numbers the last messages again."""
        chain = self.chains[subject]
        if chain:
            self.epochs[subject] += 1
            del chain[max(len(chain) - back, 0) :]
            self.deliver(subject, 5)
        self.end()

    @precondition(lambda self: self.renumbers)
    @rule(subject=subjects, back=st.integers(0, 10))
    def restart(self, subject: str, back: int) -> None:
        """The subject stands somewhere, whatever was delivered of it."""
        topic = self.stage.broker.interest.topics.get(subject)
        chain = self.chains[subject]
        if topic is not None and chain:
            self.epochs[subject] += 1
            del chain[max(len(chain) - back, 1) :]
            self.stage.broker.reset_topic(topic, self.epochs[subject], len(chain))
        self.end()

    def end(self) -> None:
        """The end of a tick; clients ask again where something is missing, and come back when they were closed."""
        self.stage.now += 1
        self.stage.end()
        for name, reader in self.readers.items():
            gaps, reader.gaps = reader.gaps, {}
            for subject in gaps:
                reader.ask([subject], {subject: reader.books[subject].position})
            if reader.closed is not None:
                self.reconnect(name)

    @invariant()
    def cursors_are_counted(self) -> None:
        """A feed is kept while somebody is on the way to it, and forgotten after."""
        if not hasattr(self, "stage"):
            return
        on_the_way: dict[object, int] = {}
        for client in self.stage.sessions.clients:
            for topic, cursor in (client.recovering or {}).items():
                assert client.subscriptions[topic] is cursor.feed is topic.feed
                assert client.group is None or cursor.feed not in client.group.feeds
                on_the_way[cursor.feed] = on_the_way.get(cursor.feed, 0) + 1
        for topic in self.stage.broker.interest.topics.values():
            if topic.feed is not None:
                assert topic.feed.recovering == on_the_way.get(topic.feed, 0)

    def teardown(self) -> None:
        """Everybody reads all that there is: they have what stands, but for what they were told that they lack."""
        if not hasattr(self, "stage"):
            return
        for subject in SUBJECTS:
            self.permit(subject, True)
        for _ in range(2000):
            for name in self.readers:
                self.read(name, 60_000)
            self.stage.advance(100)
            self.step(50)
            if not self.stage.sessions.recoveries.busy and not any(
                reader.socket or reader.client.queue or reader.client.recovering or reader.gaps
                for reader in self.readers.values()
            ):
                break
        else:
            raise AssertionError("it does not come to an end")
        for reader in self.readers.values():
            assert not reader.rest
            for topic, feed in reader.client.subscriptions.items():
                book = reader.books[topic.subject]
                assert book.live and not book.short and not book.stored and reader.client.group in feed.groups
                assert book.position == (topic.epoch, topic.seq)
                assert book.has == book.expected(self.chains[topic.subject])
            if self.whole:
                assert not reader.resynchronised, "all of it was cached"


def test_each_message_once_and_in_order_or_a_told_resynchronisation(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (backlogs, backfill):
        monkeypatch.setattr(module, "SLICE_BYTES", 2000)  # so that few messages are several slices
    monkeypatch.setattr(backlogs, "SLICE_MESSAGES", 5)
    run_state_machine_as_test(Recovery, settings=settings(max_examples=200, stateful_step_count=40, deadline=None))
