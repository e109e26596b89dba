"""A group over three workers, whose links are as slow as they like: each message has one taker."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.core.mqtt.groups.asking import RETOLD_MAX, AskingShare
from fastpath.core.mqtt.groups.guests import GuestMembers, Holder
from fastpath.core.mqtt.groups.shares import YIELD_MS, Loan, Member, MessageKey, Share, Shares, Turn
from tests.support.promises import kept

NAME = "$share/crew//a"
WINDOW = 3
"""Messages that a member has under way at most."""


class Peer:
    """A client in the group: what waits for it, what it has under way, and all that it was sent, in order."""

    def __init__(self, world: World, number: int, worker: int) -> None:
        self.world, self.number, self.name, self.worker = world, number, f"peer {number}", worker
        self.waits: deque[MessageKey] = deque()
        self.under_way: dict[MessageKey, Loan] = {}
        self.sent: list[MessageKey] = []
        self.here = self.member = True
        share = world.shares[worker].find(NAME)
        assert share is not None
        self.share = share
        share.join(self.name, Member(5, lambda: len(self.under_way) < WINDOW, self.offer))

    def offer(self, loan: Loan) -> bool:
        """A message that another one had."""
        self.waits.append(loan.key)
        return True

    def look(self) -> None:
        """Send what can be sent, as core/mqtt/outgoing.py does."""
        while self.here and self.member and self.waits:
            key = self.waits[0]
            verdict = self.share.ask(self.name, key, self.world.now, full=len(self.under_way) >= WINDOW)
            if verdict is Turn.ASKED:
                for ahead in list(self.waits)[1 : WINDOW - len(self.under_way)]:
                    self.share.look_ahead(self.name, ahead, self.world.now)
            if verdict not in (Turn.TAKE, Turn.SKIP):
                return
            self.waits.popleft()
            if verdict is Turn.TAKE:
                self.sent.append(key)
                self.under_way[key] = Loan(self.share, key, 5, b"x")
                self.share.left(key)

    def acknowledge(self) -> None:
        """The oldest message has arrived."""
        if self.here and self.under_way:
            key = next(iter(self.under_way))
            del self.under_way[key]
            self.world.arrived[key] += 1
            self.share.done(key)

    def quit(self) -> None:
        """It is no member any more, and acknowledges what it has all the same."""
        self.member = False
        self.waits.clear()
        self.world.shares[self.worker].leave(self.share, self.name)

    def go(self) -> None:
        """Its session ends; what it has not acknowledged is for others."""
        if not self.here:
            return
        self.here = self.member = False
        world = self.world
        loans, self.under_way = list(self.under_way.values()), {}
        world.again.update(loan.key for loan in loans)
        self.share.part(self.name)
        world.shares[self.worker].leave(self.share, self.name)
        if self.worker:
            world.up(self.worker, lambda: world.part(self))
        else:
            for loan in loans:
                self.share.give_back(loan)


class World:
    """The first worker (0) and two others; what they tell each other waits in their links."""

    def __init__(self) -> None:
        self.now = 0
        self.links: dict[tuple[int, str], deque[Callable[[], object]]] = {
            (worker, way): deque() for worker in (1, 2) for way in ("up", "down")
        }
        self.shares = [Shares(), *(Shares(lambda name, w=worker: AskingShare(name, Way(self, w))) for worker in (1, 2))]
        self.lent = GuestMembers(self.shares[0], self)
        self.peers: list[Peer] = []
        self.published: list[MessageKey] = []
        self.arrived: Counter[MessageKey] = Counter()
        self.again: set[MessageKey] = set()  # was sent to somebody who has gone
        self.late: set[MessageKey] = set()  # was somebody's who has gone before it was sent

    def up(self, worker: int, call: Callable[[], object]) -> None:
        """Tell the first worker."""
        self.links[worker, "up"].append(call)

    def holder(self, peer: Peer) -> Holder:
        """By what the first worker knows a session of another one."""
        return peer.worker, peer.number

    def part(self, peer: Peer) -> None:
        """The first worker is told that the session is over: what it was granted and not sent comes to others late."""
        self.late.update(set(self.published) - set(peer.sent))
        self.lent.part(self.holder(peer), stays=False)

    def come(self, worker: int) -> None:
        """One more member."""
        self.peers.append(Peer(self, len(self.peers), worker))

    def publish(self) -> None:
        """One more message, which everybody in the group is offered."""
        key = "/a", 1, len(self.published) + 1
        self.published.append(key)
        for peer in self.peers:
            if peer.member:
                peer.waits.append(key)

    def carry(self, worker: int, way: str) -> None:
        """Something arrives over a link."""
        if self.links[worker, way]:
            self.links[worker, way].popleft()()

    def settle(self) -> None:
        """All arrives, is looked at, and acknowledged."""
        for _ in range(40 * (len(self.published) + 4)):
            self.now += YIELD_MS
            for link in self.links.values():
                while link:
                    link.popleft()()
            self.lent.look(self.now)
            self.shares[0].second()
            for peer in self.peers:
                peer.look()
                peer.acknowledge()
            waits = any(self.links.values()) or any(peer.waits for peer in self.peers if peer.member)
            if not waits and all(self.arrived[key] for key in self.published):
                return

    # The first worker's way to the others

    def answer(self, holder: Holder, name: str, key: MessageKey, *, taken: bool) -> None:
        worker, number = holder

        def told() -> None:
            share = self.shares[worker].get(name)
            peer = self.peers[number]
            if isinstance(share, AskingShare) and peer.here:
                share.answered(peer.name, key, taken=taken)
            elif taken:
                self.late.add(key)
                self.up(worker, lambda: self.lent.free(holder, name, key))

        self.links[worker, "down"].append(told)

    def offer(self, worker: int, loan: Loan) -> None:
        def told() -> None:
            share = self.shares[worker].get(loan.share.name)
            if isinstance(share, AskingShare):
                share.offered(Loan(share, loan.key, loan.level, loan.record))
            else:
                self.up(worker, lambda: self.lent.decline(worker, NAME, loan.key))

        self.links[worker, "down"].append(told)

    def record(self, key: MessageKey, level: int) -> bytes | None:
        return b"x"

    def look_again(self, ms: int) -> None:
        """``settle`` and the steps look often enough."""


class Way:
    """The way of one worker to the first one."""

    def __init__(self, world: World, worker: int) -> None:
        self.world, self.worker = world, worker

    def _tell(self, session: Hashable, call: Callable[[Holder], object]) -> None:
        number = int(str(session).split()[1])
        self.world.up(self.worker, lambda: call((self.worker, number)))

    def joined(self, session: Hashable, name: str, level: int) -> None:
        self._tell(session, lambda holder: self.world.lent.join(holder, session, name, level))

    def quit(self, session: Hashable, name: str) -> None:
        self._tell(session, lambda holder: self.world.lent.quit(holder, name))

    def ask(self, session: Hashable, name: str, key: MessageKey) -> None:
        self._tell(session, lambda holder: self.world.lent.ask(holder, name, key))

    def done(self, session: Hashable, name: str, key: MessageKey) -> None:
        self._tell(session, lambda holder: self.world.lent.done(holder, name, key))

    def free(self, session: Hashable, name: str, key: MessageKey) -> None:
        self.world.late.add(key)
        self._tell(session, lambda holder: self.world.lent.free(holder, name, key))

    def declined(self, name: str, key: MessageKey) -> None:
        self.world.up(self.worker, lambda: self.world.lent.decline(self.worker, name, key))

    def had(self, name: str, keys: list[MessageKey]) -> None:
        self.world.up(self.worker, lambda: self.world.lent.had(name, keys))

    def holds(self, session: Hashable, name: str, key: MessageKey) -> None:
        self._tell(session, lambda holder: self.world.lent.hold(holder, name, key))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.just(0)),
        st.tuples(st.just("come"), st.integers(0, 2)),
        st.tuples(st.sampled_from(("look", "acknowledge", "quit", "go")), st.integers(0, 7)),
        st.tuples(st.sampled_from(("up", "down")), st.integers(1, 2)),
        st.tuples(st.just("time"), st.integers(0, YIELD_MS)),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_each_message_has_one_taker_whatever_the_links_do(steps: list[tuple[str, int]]) -> None:
    world = World()
    for worker in (0, 1, 2, 1):
        world.come(worker)
    for what, which in steps:
        peer = world.peers[which % len(world.peers)]
        if what == "publish":
            world.publish()
        elif what == "come" and len(world.peers) < 8:
            world.come(which)
        elif what == "look":
            peer.look()
        elif what == "acknowledge":
            peer.acknowledge()
        elif what in ("go", "quit") and peer.member and sum(one.member for one in world.peers) > 1:
            peer.go() if what == "go" else peer.quit()
        elif what == "go" and not peer.member:
            peer.go()
        elif what in ("up", "down"):
            world.carry(which, what)
            world.lent.look(world.now)
        elif what == "time":
            world.now += which
    world.settle()
    takers = Counter(key for peer in world.peers for key in peer.sent)
    for key in world.published:
        kept(world.arrived[key], f"{key} was lost")
        kept(takers[key] == 1 or key in world.again, f"{key} was taken {takers[key]} times")
        kept(world.arrived[key] == 1, f"{key} arrived {world.arrived[key]} times")
    for peer in world.peers:
        first = [key for key in peer.sent if key not in world.again | world.late]
        kept(first == sorted(first), f"out of order: {first}")


def group() -> tuple[World, Share]:
    """A member on each worker, who know of each other."""
    world = World()
    for worker in (0, 1, 2):
        world.come(worker)
    world.settle()
    share = world.shares[0].get(NAME)
    assert share is not None
    return world, share


def test_all_workers_have_their_turn() -> None:
    world, _ = group()
    for _ in range(30):
        world.publish()
        world.settle()
    assert [len(peer.sent) for peer in world.peers] == [10, 10, 10]


def test_who_waits_for_a_worker_in_vain_waits_once() -> None:
    world, share = group()
    first = world.peers[0]
    taken = []
    for number in range(6):
        world.publish()
        world.now += 1
        first.look()
        taken.append(len(first.sent))
        if number == 2:
            world.now += YIELD_MS  # the one after the other is passed over
            first.look()
            world.now += YIELD_MS
            first.look()
        first.acknowledge()
    assert taken == [1, 1, 1, 4, 5, 6], "nobody is waited for any more"
    world.publish()
    share.ask("peer 1", world.published[-1], world.now, full=False)  # it is there after all
    world.publish()
    world.now += 1
    first.look()
    assert len(first.sent) < len(world.published), "and has its turns again"


def test_what_no_member_of_a_worker_can_take_is_offered_to_those_of_others() -> None:
    world, share = group()
    second = world.peers[1]
    world.publish()
    second.look()
    while any(world.links.values()) or not second.sent:
        for worker in (1, 2):
            world.carry(worker, "up")
            world.carry(worker, "down")
        world.now += YIELD_MS
        world.lent.look(world.now)
        second.look()
    for peer in (world.peers[0], world.peers[2]):
        peer.look()
        peer.go()
    second.go()
    world.settle()
    assert share.empty
    world.come(2)
    world.settle()
    assert not world.arrived  # the group ended with its last member, and what it had


def test_what_was_on_its_way_to_a_session_that_goes_elsewhere_is_for_others_and_what_it_was_sent_is_its_own() -> None:
    world, share = group()
    first, second = world.peers[:2]
    for _ in range(2):
        world.publish()
        second.look()
        world.now += YIELD_MS
        while world.links[1, "up"]:
            world.carry(1, "up")
        for _ in range(3):
            world.now += YIELD_MS
            world.lent.look(world.now)
        if not second.sent:
            while world.links[1, "down"]:
                world.carry(1, "down")
            second.look()
    sent, on_its_way = world.published
    assert second.sent == [sent]
    assert [share.ask(first.name, key, world.now, full=False) for key in world.published] == [Turn.SKIP] * 2
    first.waits.clear()
    world.lent.part(world.holder(second), stays=True, has=lambda granted: granted.key == sent)
    assert list(first.waits) == [on_its_way]
    assert share.ask(second.name, sent, world.now, full=False) is Turn.TAKE


@pytest.mark.parametrize("stays", [True, False])
def test_a_new_first_worker_is_told_who_had_what(stays: bool) -> None:
    """So that what has been taken is taken by nobody else, and what is under way goes to another if it is left."""
    world, _ = group()
    second = world.peers[1]
    for _ in range(9):
        world.publish()
    for _ in range(60):
        world.now += YIELD_MS
        for link in world.links.values():
            while link:
                link.popleft()()
        world.lent.look(world.now)
        second.look()
    assert len(second.under_way) == WINDOW
    second.acknowledge()
    world.shares[0] = Shares()
    world.lent = GuestMembers(world.shares[0], world)
    for link in world.links.values():
        link.clear()
    share = world.shares[1].get(NAME)
    assert isinstance(share, AskingShare)
    share.tell_again()
    while world.links[1, "up"]:
        world.carry(1, "up")
    world.peers[0].here = world.peers[2].here = False
    world.come(0)
    late = world.peers[-1]
    late.waits.extend(world.published)
    if not stays:
        second.go()
    world.settle()
    mine = {key for key in second.sent if stays or key not in world.again}
    assert mine.isdisjoint(late.sent)
    assert set(world.published) == {*mine, *late.sent}
    assert all(world.arrived[key] == 1 for key in world.published)


def test_what_is_told_again_is_bounded() -> None:
    world, _ = group()
    share = world.shares[1].get(NAME)
    assert isinstance(share, AskingShare)
    for number in range(RETOLD_MAX + 10):
        share.left(("/a", 1, number))
    told: list[list[MessageKey]] = []
    world.lent.had = lambda name, keys: told.append(keys)  # type: ignore[method-assign]
    share.tell_again()
    while world.links[1, "up"]:
        world.carry(1, "up")
    assert [len(keys) for keys in told] == [RETOLD_MAX]
    assert told[0][-1] == ("/a", 1, RETOLD_MAX + 9)
