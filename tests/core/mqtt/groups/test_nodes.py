"""Groups over nodes: each message has one taker, and none is nobody's, whatever nodes hear late and whoever dies."""

from __future__ import annotations

import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable

import pytest

from fastpath.core.mqtt.groups.nodes import AWAY, PATIENCE_MS, SETTLE_MS, LateMessages, NodeShare
from fastpath.core.mqtt.groups.shares import Loan, Member, MessageKey, Turn
from tests.support.promises import kept as held

NAME = "$share/crew/a"
STEP_MS = 50


class Cluster:
    """Nodes on one log, and the packets between them, each pair's in order and as late as ``lag`` says."""

    def __init__(self, lag: Callable[[], int] = lambda: 1) -> None:
        self.now = 1_000_000
        self.lag = lag
        self.log: list[MessageKey] = []
        self.times: dict[MessageKey, int] = {}
        self.nodes: dict[str, Node] = {}
        self.packets: dict[tuple[str, str], deque[tuple[int, Callable[[Node], None]]]] = defaultdict(deque)
        self.taken: Counter[MessageKey] = Counter()
        self.takers: dict[MessageKey, str] = {}
        self.acknowledged: set[MessageKey] = set()

    def node(self, name: str) -> Node:
        found = self.nodes[name] = Node(self, name)
        return found

    def send(self, sender: str, to: str, packet: Callable[[Node], None]) -> None:
        way = self.packets[sender, to]
        due = self.now + self.lag() * STEP_MS
        way.append((max(due, way[-1][0] if way else 0), packet))

    def publish(self) -> MessageKey:
        key = ("/a", 1, len(self.log) + 1)
        self.log.append(key)
        self.times[key] = self.now
        return key

    def step(self, count: int = 1) -> None:
        """Time goes on."""
        for _ in range(count):
            self.now += STEP_MS
            for (_, to), way in list(self.packets.items()):
                while way and way[0][0] <= self.now:
                    _, packet = way.popleft()
                    if to in self.nodes:
                        packet(self.nodes[to])
            for node in list(self.nodes.values()):
                node.turn()

    def settle(self) -> None:
        self.step((SETTLE_MS + 6 * PATIENCE_MS) // STEP_MS)

    def dies(self, name: str) -> None:
        """The others notice it some time later."""
        del self.nodes[name]
        for node in self.nodes.values():
            self.send(name, node.node, lambda node: node.hears(name, 0))


class Node:
    """One node with members; implements core.mqtt.groups.nodes.GroupNodes."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.node = name
        self._cluster = cluster
        self._known: dict[str, int] = {other.node: other.told for other in cluster.nodes.values() if other.told}
        self.told = 0
        self.share = NodeShare(NAME, self)
        self._read: dict[str, int] = {}  # how far each member has read
        self._offered: list[tuple[str, Loan]] = []
        self.stands = False
        self.holds = False

    def come(self, member: str, since: int | None = None) -> None:
        self._read[member] = len(self._cluster.log) if since is None else since

        def offer(loan: Loan) -> bool:
            self._offered.append((member, loan))
            return True

        self.share.join(member, Member(5, lambda: not self.stands, offer))

    def go(self, member: str, *, ends: bool) -> None:
        del self._read[member]
        (self.share.leave if ends else self.share.part)(member)

    def turn(self) -> None:
        """What members look at, and once a second what waits."""
        if self.stands:
            return
        for member, at in self._read.items():
            for key in self._cluster.log[at:]:
                verdict = self.share.ask(member, key, self._cluster.now, full=False)
                if verdict not in (Turn.TAKE, Turn.SKIP):
                    break
                self._read[member] += 1
                if verdict is Turn.TAKE:
                    self._takes(key)
        offered, self._offered = self._offered, []
        for member, loan in offered:
            if member not in self._read:
                continue
            verdict = self.share.ask(member, loan.key, self._cluster.now, full=False)
            if verdict is Turn.TAKE:
                self._takes(loan.key)
            elif verdict is not Turn.SKIP:
                self._offered.append((member, loan))
        if self._cluster.now % 1000 < STEP_MS:
            self.share.look(self._cluster.now)
            self.share.offer_returned()

    def _takes(self, key: MessageKey) -> None:
        self.share.left(key)
        self._cluster.taken[key] += 1
        self._cluster.takers[key] = self.node
        if not self.holds:
            self._cluster.acknowledged.add(key)
            self.share.done(key)

    def hears(self, node: str, since: int) -> None:
        if since:
            self._known[node] = since
        else:
            self._known.pop(node, None)
        self.share.changed(self._cluster.now)

    def answered(self, node: str, answer: LateMessages) -> None:
        self.share.was_done(answer.done)
        self.share.given(node, answer.given)
        self.share.elsewhere(node, answer.elsewhere)

    # The way to the others

    def time_of(self, key: MessageKey) -> int:
        return self._cluster.times[key]

    def entered(self, name: str, connected: bool | None) -> int:
        assert name == NAME
        self.told = 0 if connected is None else self._cluster.now if connected else AWAY
        mine, told = self.node, self.told
        for other in self._cluster.nodes:
            if other != mine:
                self._cluster.send(mine, other, lambda node: node.hears(mine, told))
        return self.told

    def nodes(self, name: str) -> dict[str, int]:
        return dict(self._known)

    def done(self, name: str, key: MessageKey) -> None:
        for other in self._known:
            self._cluster.send(self.node, other, lambda node: node.share.was_done([key]))

    def want(self, node: str, name: str, keys: list[MessageKey]) -> None:
        mine = self.node

        def asked(other: Node) -> None:
            answer = other.share.wanted(mine, keys, self._cluster.now)
            self._cluster.send(node, mine, lambda one: one.answered(node, answer))

        self._cluster.send(mine, node, asked)

    def record(self, key: MessageKey, level: int) -> bytes | None:
        return b"x"


def once(cluster: Cluster) -> None:
    """Each message was taken once."""
    held(all(cluster.taken[key] == 1 for key in cluster.log), {key: cluster.taken[key] for key in cluster.log})


def crew(cluster: Cluster, *names: str, members: int = 2) -> list[Node]:
    """Nodes with members, who all know each other."""
    found = [cluster.node(name) for name in names]
    for node in found:
        for number in range(members):
            node.come(f"{node.node}{number}")
        cluster.step(3)
    cluster.step(SETTLE_MS // STEP_MS + 1)
    return found


def test_each_message_is_one_nodes_and_all_have_their_share() -> None:
    cluster = Cluster()
    crew(cluster, "a", "b", "c")
    for _ in range(300):
        cluster.publish()
        cluster.step()
    once(cluster)
    counts = Counter(cluster.takers.values())
    assert min(counts.values()) > 60, counts
    cluster.step(3)
    assert not any(node.share._left for node in cluster.nodes.values())


def test_until_a_node_has_settled_what_comes_is_the_others() -> None:
    cluster = Cluster(lambda: 5)
    crew(cluster, "a")
    (late,) = [cluster.node("b")]
    late.come("b0")
    for _ in range(SETTLE_MS // STEP_MS - 1):
        cluster.publish()
        cluster.step()
    assert set(cluster.takers.values()) == {"a"}
    for _ in range(100):
        cluster.publish()
        cluster.step()
    cluster.settle()
    once(cluster)
    assert set(cluster.takers.values()) == {"a", "b"}


def test_what_a_node_does_not_take_in_time_another_one_does() -> None:
    """Its members stand still, or may not read it: nobody has to know."""
    cluster = Cluster()
    _, other = crew(cluster, "a", "b")
    other.stands = True
    for _ in range(40):
        cluster.publish()
    cluster.settle()
    once(cluster)
    assert set(cluster.takers.values()) == {"a"}
    other.stands = False
    cluster.settle()
    once(cluster)


def test_what_a_dead_node_had_not_for_good_is_the_others() -> None:
    cluster = Cluster()
    _, dead = crew(cluster, "a", "b")
    dead.holds = True
    for _ in range(40):
        cluster.publish()
    cluster.step(5)
    assert set(cluster.takers.values()) == {"a", "b"}
    cluster.dies("b")
    cluster.settle()
    held(cluster.acknowledged == set(cluster.log), "missing")
    held(max(cluster.taken.values()) == 2, "taken thrice")


def test_what_waits_for_its_acknowledgement_is_nobody_elses() -> None:
    cluster = Cluster()
    nodes = crew(cluster, "a", "b")
    for node in nodes:
        node.holds = True
    for _ in range(40):
        cluster.publish()
    cluster.settle()
    cluster.settle()
    once(cluster)


def test_who_comes_back_gets_nothing_that_others_have_taken_meanwhile() -> None:
    """On the node that it has left, and on one that had no members before."""
    cluster = Cluster()
    one, other = crew(cluster, "a", "b")
    since = len(cluster.log)
    for member in ("b0", "b1"):
        other.go(member, ends=False)
    cluster.step(3)
    for _ in range(40):
        cluster.publish()
        cluster.step()
    third = cluster.node("c")
    third.come("c0", since)
    other.come("b0", since)
    cluster.settle()
    once(cluster)
    assert set(cluster.takers.values()) == {"a"}
    assert one.share.was_deserted("a0") is other.share.was_deserted("b0") is False


def test_what_comes_while_nobody_is_there_is_for_who_comes_back_first() -> None:
    cluster = Cluster()
    one, other = crew(cluster, "a", "b", members=1)
    for node in (one, other):
        node.go(f"{node.node}0", ends=False)
    cluster.step(3)
    for _ in range(20):
        cluster.publish()
        cluster.step()
    other.come("b0", 0)
    one.come("a0", 0)
    cluster.settle()
    once(cluster)
    assert other.share.was_deserted("b0")


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_nobodys_whatever_happens(seed: int) -> None:
    """Nodes come, die and are late, members come and go; what is taken twice is what somebody who died had."""
    choose = random.Random(seed)
    cluster = Cluster(lambda: choose.choice((1, 1, 1, 2, 5, 15)))
    crew(cluster, "a", "b")
    deaths = 0
    for number in range(120):
        for _ in range(choose.randrange(3)):
            cluster.publish()
        what = choose.random()
        names = list(cluster.nodes)
        if what < 0.04:
            cluster.node(f"n{number}").come(f"m{number}")
        elif what < 0.07 and len(names) > 2:
            victim = choose.choice(names[1:])
            cluster.dies(victim)
            deaths += 1
        elif what < 0.12:
            node = cluster.nodes[choose.choice(names)]
            node.come(f"m{number}")
        elif what < 0.17:
            node = cluster.nodes[choose.choice(names[1:])]
            if len(node._read) > 1:
                node.go(choose.choice(list(node._read)), ends=True)
        elif what < 0.22:
            node = cluster.nodes[choose.choice(names[1:])]
            node.stands = not node.stands
        cluster.step(choose.randrange(4))
    for node in cluster.nodes.values():
        node.stands = False
    cluster.settle()
    cluster.settle()
    held(cluster.acknowledged == set(cluster.log), sorted(set(cluster.log) - cluster.acknowledged))
    if not deaths:
        once(cluster)
