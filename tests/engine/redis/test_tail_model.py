"""Random histories of failovers, trimmed logs and nodes that come late: nobody misses anything without being told."""

from __future__ import annotations

import asyncio
import random

import pytest

from fastpath.engine.redis.tail import FAULTS
from tests.support.engine.redis_model import GONE, SUBJECTS, Node, Operation, Reader, Server, text_of
from tests.support.promises import BrokenPromise


class World:
    """Three servers, three nodes, six readers; ``operations`` is what the primary stands for."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.operations: list[Operation] = [("epoch", 1)]
        self.safe = 1  # operations that are acknowledged: they survive
        self.epoch = 1
        self.published = 0
        self.servers = [Server(self.chance) for _ in range(3)]
        self.nodes = [Node() for _ in range(3)]
        self.readers = [Reader(self.chance.choice(SUBJECTS), number) for number in range(6)]
        self.primary = self.servers[0]
        self.primary.primary = True
        self.trimming = self.chance.random() < 0.3
        self._replicate(1.0)

    def _replicate(self, share: float) -> None:
        self.primary.follow(self.operations)
        for server in self.servers:
            if self.chance.random() < share and not server.primary:
                have = len(server.operations) if server.operations == self.operations[: len(server.operations)] else 0
                server.follow(self.operations[: self.chance.randint(have, len(self.operations))])

    async def step(self) -> None:
        """One thing happens."""
        chance = self.chance
        dice = chance.random()
        if dice < 0.3:
            for _ in range(chance.randint(1, 5)):
                self._publish()
            self._replicate(0.5)
        elif dice < 0.62:
            await self._read(chance.choice(self.nodes))
        elif dice < 0.7:
            self._replicate(1.0)
            self.safe = min(len(server.operations) for server in self.servers)
        elif dice < 0.75:
            self._fail_over()
        elif dice < 0.8 and self.trimming:
            self.operations.append(("trim", chance.randrange(16), chance.choice([1, 1, 3])))
            self.primary.follow(self.operations)
        elif dice < 0.86:
            await self._attach(chance.choice(self.nodes))
        elif dice < 0.93:
            chance.choice(self.readers).leave()
        else:
            reader, node = chance.choice(self.readers), chance.choice(self.nodes)
            if reader.node is None and node.tail.joined.is_set():
                reader.enter(node)
        for reader in self.readers:
            reader.process()

    def _publish(self) -> None:
        self.published += 1
        kind = GONE if self.chance.random() < 0.2 else "m"
        self.operations.append(("add", self.chance.choice(SUBJECTS), f"{kind}{self.published}"))

    def _fail_over(self) -> None:
        """A replica that has all that is acknowledged becomes the primary; what it lacks is published again."""
        fit = [
            server
            for server in self.servers
            if not server.primary
            and len(server.operations) >= self.safe
            and server.operations == self.operations[: len(server.operations)]
        ]
        if not fit:
            return
        new = self.chance.choice(fit)
        gone = self.operations[len(new.operations) :]
        self.epoch += 1
        self.operations = [*new.operations, ("epoch", self.epoch)]
        again = [one for one in gone if one[0] == "add" and self.chance.random() < 0.8]
        self.chance.shuffle(again)  # each by its own publisher
        self.operations += again
        self.primary.primary, new.primary = self.chance.random() < 0.5, True  # the old one may not know yet
        self.primary = new
        new.follow(self.operations)
        for server in self.servers:
            if server is not new and self.chance.random() < 0.5:
                server.primary = False
                server.follow(self.operations)

    async def _attach(self, node: Node) -> None:
        try:
            await node.attach(self.chance.choice(self.servers))
        except FAULTS:
            node.server = None

    async def _read(self, node: Node) -> None:
        if node.server is None:
            await self._attach(node)
        try:
            if node.server is not None:
                await node.step()
        except FAULTS:
            node.server = None

    async def settle(self) -> None:
        """Everything comes to rest: all servers agree, all nodes read on, all readers are somewhere."""
        for server in self.servers:
            server.primary = server is self.primary
            server.follow(self.operations)
        for node in self.nodes:
            await self._attach(node)
            while not node.tail.current:
                await self._read(node)
        for _ in range(20):
            for node in self.nodes:
                await node.step()
        for reader in self.readers:
            if reader.node is None:
                reader.enter(self.chance.choice(self.nodes))
        for node in self.nodes:
            node.stage.advance(3000)
        for reader in self.readers:
            reader.process()

    def check(self) -> int:
        """Raise AssertionError for whatever anybody missed; how many readers were never told of a loss."""
        data = Server(self.chance)
        data.follow(self.operations)
        truth: dict[str, list[tuple[int, str]]] = {subject: [] for subject in SUBJECTS}
        for kind, *rest in self.operations:
            if kind == "add":
                truth[rest[0]].append((len(truth[rest[0]]) + 1, rest[1]))
        for reader in self.readers:
            assert reader.got == truth[reader.subject][reader.base :]
            assert reader.position is not None
            if truth[reader.subject]:
                assert reader.position == data.data.positions[reader.subject]
        for node in self.nodes:
            topics = node.stage.broker.interest.topics
            for subject, position in data.data.positions.items():
                topic = topics[subject]
                assert (topic.epoch, topic.seq) == position
                assert topic.snapshot is not None
                last = truth[subject][-1][1]
                assert topic.snapshot.removed == last.startswith(GONE)
                assert topic.snapshot.newest.content == ("" if topic.snapshot.removed else last)
                assert not topic.snapshot.fields
                for message in topic.ring or ():
                    assert truth[subject][message.seq - 1][1] == text_of(message)
        return sum(not reader.told for reader in self.readers)


async def histories(seeds: range) -> int:
    """How many readers were never told of a loss, in all of them."""
    untold = 0
    for seed in seeds:
        world = World(seed)
        for _ in range(120):
            await world.step()
        await world.settle()
        try:
            untold += world.check()
        except AssertionError as error:
            raise BrokenPromise(f"history {seed}: {error}") from error
    return untold


def test_others_have_their_turn_while_much_is_read() -> None:
    async def story() -> None:
        server, node = Server(random.Random(0)), Node()
        server.primary = True
        await node.attach(server)
        server.most = 1000
        server.follow([("epoch", 1), *(("add", f"/m/{n % 200}", "x") for n in range(10_000))])
        counters, most, before = node.stage.broker.counters, 0, 0
        reading = asyncio.create_task(node.step())
        while not reading.done():
            await asyncio.sleep(0)
            most, before = max(most, counters.messages_in - before), counters.messages_in
        assert (counters.messages_in, most < 6000) == (10_000, True), most

    asyncio.run(story())


def test_no_history_loses_anything_in_silence() -> None:
    assert asyncio.run(histories(range(100))) > 200


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nor_do_thousands() -> None:
    assert asyncio.run(histories(range(1000, 3000))) > 4000
