"""A small model of Redis servers with their logs, and clients that follow the protocol: for random histories."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, cast

from fastpath.core.protocol.messages import Data, Epoch, Message, Subscribe, Subscribed
from fastpath.engine.redis import entries
from fastpath.engine.redis.entries import GROUPS
from fastpath.engine.redis.primary import Primary
from fastpath.engine.redis.tail import Tail
from tests.support.core.stage import START, Actor, Following, Stage

SUBJECTS = ["/m/a", "/m/b", "/m/c"]
Operation = tuple[Any, ...]

GONE = "gone"
"""How the content of an operation begins that is a removal: it stands in a field then."""


def text_of(message: Message | Data) -> str:
    """The content of the operation that the message is."""
    return str((message.fields or {}).get("n", message.content))


class DataSet:
    """One server's data set: what the operations so far have made of it."""

    def __init__(self) -> None:
        self.epoch = 0
        self.logs: list[list[tuple[tuple[int, int], list[bytes]]]] = [[] for _ in range(GROUPS)]
        self.last: list[tuple[int, int]] = [(0, 0)] * GROUPS
        self.positions: dict[str, tuple[int, int]] = {}
        self.snapshots: dict[str, tuple[str, int, int]] = {}

    def apply(self, operation: Operation) -> None:
        """One step of the replication stream."""
        match operation:
            case "epoch", epoch:
                self.epoch = epoch
            case "trim", group, keep:
                del self.logs[group][: max(0, len(self.logs[group]) - keep)]
            case "add", subject, content:
                group = entries.group_of(subject)
                before = self.last[group]
                place = (self.epoch, before[1] + 1 if before[0] == self.epoch else 1)
                seq = self.positions.get(subject, (0, 0))[1] + 1
                message = Message(subject, content)
                if content.startswith(GONE):
                    message = Message(subject, "", {"n": content}, replace=True, removed=True)
                pairs = [b"s", subject.encode(), b"q", b"%d" % seq, b"t", b"%d" % START, b"p", entries.payload(message)]
                if place[1] == 1:
                    pairs += [b"prev", b"%d-%d" % before]
                self.logs[group].append((place, pairs))
                self.last[group] = place
                self.positions[subject] = (self.epoch, seq)
                self.snapshots[subject] = (content, self.epoch, seq)


class Server:
    """A Redis, as the link of a node sees it; ``applied`` operations of the stream have come here."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.data = DataSet()
        self.operations: list[Operation] = []
        self.primary = False
        self.most = 0
        """Entries of a group in one read; 0: by chance."""

    def follow(self, operations: Sequence[Operation]) -> None:
        """Have exactly these: what is not among them goes."""
        if self.operations != operations[: len(self.operations)]:
            self.data, self.operations = DataSet(), []
        for operation in operations[len(self.operations) :]:
            self.data.apply(operation)
        self.operations = list(operations)

    async def ask(self, *commands: Sequence[Any], seconds: float) -> list[Any]:
        """The one transaction that nodes send."""
        answers = [await self.call(*command, seconds=seconds) for command in commands[1:-1]]
        return [b"OK", *[b"QUEUED"] * len(answers), answers]

    async def call(self, *command: Any, seconds: float) -> Any:
        """The few commands that nodes read with."""
        assert seconds
        data = self.data
        match command:
            case "INFO", _:
                return b"role:master\r\n" if self.primary else b"role:slave\r\nmaster_link_status:up\r\n"
            case "HMGET", *_:
                return [b"%d" % data.epoch, b"16", b"1"] if data.epoch else [None, None, None]
            case "XREVRANGE", key, *_:
                last = data.last[_group(key)]
                return [[b"%d-%d" % last, []]] if last[0] else []
            case "HSCAN", key, *_:
                return [b"0", self._hash(str(key))]
            case "XREAD", *rest:
                del rest[: rest.index("STREAMS") + 1]
                keys, ids = rest[: len(rest) // 2], rest[len(rest) // 2 :]
                pairs = zip(keys, ids, strict=True)
                found = [[key, self._after(_group(key), entries.parse_place(one))] for key, one in pairs]
                return [[key, rows] for key, rows in found if rows] or None
        raise AssertionError(command)

    def _after(self, group: int, place: tuple[int, int]) -> list[list[Any]]:
        rows = [[b"%d-%d" % at, pairs] for at, pairs in self.data.logs[group] if at > place]
        return rows[: self.most or self.chance.choice([1, 3, 50, 1000])]

    def _hash(self, key: str) -> list[bytes]:
        group, flat = _group(key), []
        if ":s:" in key:
            for subject, (epoch, seq) in self.data.positions.items():
                if entries.group_of(subject) == group:
                    flat += [subject.encode(), b"%d-%d" % (epoch, seq)]
        else:
            for subject, (content, epoch, seq) in self.data.snapshots.items():
                if entries.group_of(subject) == group:
                    kept = "x" if content.startswith(GONE) else f"t{content}"
                    flat += [subject.encode(), b"%d %d %d %s" % (START, epoch, seq, kept.encode())]
        return flat


def _group(key: str | bytes) -> int:
    text = key.decode() if isinstance(key, bytes) else key
    return int(text.partition("{")[2].partition("}")[0])


class Node:
    """A sidecar without sockets: its broker with clients, and its tail."""

    def __init__(self) -> None:
        self.stage = Stage(engine=Following())
        self.server: Server | None = None
        self.tail = Tail(
            self.stage.broker,
            cast(Primary, None),
            "m",
            end=self.stage.end,
            seen=lambda *_: None,
            changed=lambda: None,
            returning=lambda: True,
            oldest=lambda: 0,
        )

    async def attach(self, server: Server) -> None:
        """Begin with a server."""
        self.server = server
        await self.tail.attach(server)
        self.stage.end()

    async def step(self) -> None:
        """Read once."""
        assert self.server is not None
        await self.tail.step(self.server)
        self.stage.end()


class Reader:
    """A client of one subject that does what protocol.md says; ``got`` is what it holds to be true since ``base``."""

    def __init__(self, subject: str, number: int) -> None:
        self.subject = subject
        self.number = number
        self.position: tuple[int, int] | None = None
        self.base = 0
        self.got: list[tuple[int, str]] = []
        self.told = 0
        self.actor: Actor | None = None
        self.node: Node | None = None
        self._sid = -1
        self._asks = False

    def enter(self, node: Node) -> None:
        """Connect there and subscribe."""
        self.node = node
        self.actor = node.stage.enter(f"r{self.number}")
        self._ask()

    def leave(self) -> None:
        """Be cut off; what was sent before has come."""
        self.process()
        if self.node is not None and self.actor is not None:
            self.node.stage.sessions.close(self.actor.client)
        self.node = self.actor = None

    def process(self) -> None:
        """Take what came, and ask where something is missing, until nothing comes any more."""
        while self.actor is not None and (taken := self.actor.taken()):
            self._asks = False
            for one in taken:
                if isinstance(one, Subscribed):
                    self._subscribed(one)
                elif isinstance(one, Epoch) and one.sid == self._sid:
                    self._epoch(one)
                elif isinstance(one, Data) and one.sid == self._sid and one.meta.kind != "snapshot":
                    self._message(one)
            if self._asks:
                self._ask()

    def _ask(self) -> None:
        assert self.actor is not None
        since = {self.subject: self.position} if self.position is not None else {}
        self.actor.say(Subscribe(id=1, subjects=[self.subject], since=since))

    def _subscribed(self, answer: Subscribed) -> None:
        (result,) = answer.results
        if result.error:
            assert result.error == "not_ready", result
            return
        assert isinstance(result.sid, int) and isinstance(result.epoch, int) and isinstance(result.seq, int)
        self._sid = result.sid
        if self.position is None or result.recovery == "resynchronised":
            self.told += self.position is not None
            self.base, self.got = result.seq, []
            self.position = (result.epoch, result.seq)
        else:
            self.position = (result.epoch, self.position[1])

    def _epoch(self, event: Epoch) -> None:
        assert self.position is not None
        seq = self.position[1]
        if seq > event.seq:
            self.told += 1
            self.got = [one for one in self.got if one[0] <= event.seq]
            self.base = min(self.base, event.seq)
            seq = event.seq
        elif seq < event.seq:
            self._asks = True
        self.position = (event.epoch, seq)

    def _message(self, message: Data) -> None:
        assert self.position is not None
        epoch, seq = self.position
        if message.seq <= seq:
            return
        if message.seq > seq + 1:
            self._asks = True
            return
        self.got.append((message.seq, text_of(message)))
        self.position = (epoch, message.seq)
