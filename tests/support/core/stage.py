"""A stage for the pure core: clients that record what they get, a clock set by the test, no socket."""

from __future__ import annotations

from collections.abc import Callable

from fastpath.core.auth.grants import Grants
from fastpath.core.broker.broker import Broker
from fastpath.core.broker.ports import EnginePort
from fastpath.core.delivery.audience import Client, Group
from fastpath.core.delivery.outbox import Effect
from fastpath.core.delivery.outbox_performer import Performer
from fastpath.core.delivery.ports import Writer
from fastpath.core.delivery.wire import Terms
from fastpath.core.protocol.codec import JSON, decode_server, encode
from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import AnyCommand, Data, Message
from fastpath.core.sessions.sessions import Sessions
from fastpath.core.websocket.frames import TEXT
from fastpath.core.wires.registry import PLAIN
from fastpath.engine.memory import MemoryEngine
from tests.support.core.lines import payload_of

START = 1_700_000_000_000
"""When every stage begins: a round number of seconds, so that the grid of 100 ms starts with it."""


class Actor:
    """A client of the stage: an in-memory core.client.Link that decodes what it is given."""

    def __init__(self, stage: Stage, name: str, token: str, terms: Terms) -> None:
        self.name = name
        self.closed: tuple[int, str] | None = None
        self.blocked = False
        self.got: list[object] = []
        self.subjects: dict[int, str] = {}
        self._stage = stage
        Actor.made += 1
        self.client = stage.sessions.open(self, Actor.made, True, terms, token, name, stage.now)

    made = 0

    def send(self, data: bytes | memoryview) -> int:
        """The socket takes all, or nothing while blocked (core.delivery.outbox_performer.Socket)."""
        if self.blocked:
            return 0
        self.take(bytes(data))
        return len(data)

    def wait(self, data: bytes, sent: int) -> None:
        """Socket: all of it waits."""

    def await_room(self, wanted: bool) -> None:
        """Socket: the test says when it takes bytes again."""

    def end(self, effect: int) -> None:
        """Socket: the core lets go."""
        if effect == Effect.OVERFLOW:
            self.close(*self._stage.outboxes.overflow)

    @property
    def closing(self) -> bool:
        """Whether goodbye was said."""
        return self.closed is not None

    @property
    def bounded(self) -> bool:
        """Whether the bound on what waits holds."""
        return self.closed is None

    def write(self, data: bytes) -> None:
        """Send whole pieces."""
        if self.closed is None:
            self._stage.performer.write(self, data)

    def lag(self, data: bytes, sent: int) -> None:
        """What the socket did not take waits."""
        self._stage.performer.lag(self, data, sent)

    def unblock(self) -> None:
        """The socket takes bytes again."""
        self.blocked = False
        self.writable()

    def writable(self) -> None:
        """Write what waits, as far as the socket takes it."""
        self._stage.performer.drain(self)

    def take(self, data: bytes) -> None:
        """Decode frames into ``got``."""
        wire = self.client.terms.wire
        for piece, _ in wire.split(data):
            payload = payload_of(piece, wire)
            if payload is None:
                continue
            value = decode_server(payload, self.client.form)
            for result in getattr(value, "results", ()):
                if not result.error and result.sid:
                    self.subjects[result.sid] = result.subject
            self.got.append(value)

    def hold(self, why: int, held: bool) -> None:
        """Nothing of it is read here but what it says."""

    def close(self, code: int, reason: str) -> None:
        """The server says goodbye."""
        if self.closed is None:
            last = self._stage.outboxes.end(self.client, code, reason)
            self.closed = (int(code), reason)
            self._stage.performer.write(self, last)
            self._stage.ended.append(self.client)

    def say(self, command: AnyCommand) -> None:
        """Send a command."""
        self._stage.sessions.receive(self.client, encode(command, self.client.form), self._stage.now)
        self._stage.end()

    def taken(self) -> list[object]:
        """What came since the last call."""
        got, self.got = self.got, []
        return got

    def messages(self) -> list[tuple[str, int, object]]:
        """The (subject, seq, content) of the messages among what came since the last call."""
        return [(self.subjects[one.sid], one.seq, one.content) for one in self.taken() if isinstance(one, Data)]


class Following(MemoryEngine):
    """An engine whose messages come from elsewhere; ``waits`` is whether some of them wait unread."""

    def __init__(self) -> None:
        super().__init__(START)
        self.waits = False

    @property
    def numbering(self) -> None:  # type: ignore[override]
        return

    def unheard(self) -> bool:
        return self.waits


class Stage:
    """A broker with its sessions, its clients and its clock."""

    def __init__(
        self,
        grants: Grants | None = None,
        limits: Limits | None = None,
        engine: EnginePort | None = None,
        **options: bool,
    ) -> None:
        self.now = START
        self.ended: list[Client] = []
        self.broker = Broker(
            engine or MemoryEngine(START),
            grants or Grants(),
            limits or Limits(),
            server="stage",
            started=START,
            secret=b"stage",
            own=MemoryEngine(START) if engine is not None else None,
            **options,
        )
        self.broker.writer = Checking()
        self.sessions = Sessions(self.broker, 25)
        self.outboxes = self.sessions.outboxes
        self.performer = Performer(self.outboxes, self.later, self.broker.flush_answers)
        self.turning: dict[tuple[Callable[..., object], tuple[object, ...]], None] = {}
        self.actors: dict[str, Actor] = {}

    def enter(self, name: str, token: str = "", form: str = JSON, terms: Terms | None = None) -> Actor:
        """A client connects."""
        actor = self.actors[name] = Actor(self, name, token, terms or PLAIN[form])
        return actor

    def publish(self, subject: str, content: str, fields: dict[str, str] | None = None, **options: object) -> object:
        """The server itself publishes; the outcome."""
        outcomes: list[object] = []
        self.broker.publish(None, [Message(subject, content, fields, **options)], self.now, outcomes.extend)
        self.end()
        return outcomes[0]

    def remove(self, subject: str, **options: object) -> object:
        """The server itself removes a subject; the outcome."""
        return self.publish(subject, "", replace=True, removed=True, **options)

    def advance(self, milliseconds: int) -> None:
        """Let time pass, ticking the grid every 100 ms and coming back for what is collected, as the edge does."""
        until = self.now + milliseconds
        while True:
            grid = (self.now // 100 + 1) * 100
            wait = self.broker.batches.wait_ms(self.now)
            moment = grid if wait is None else min(grid, self.now + wait)
            if moment > until:
                break
            self.now = moment
            if moment == grid:
                self.broker.grid.tick(self.now)
                self.sessions.rights.tick(self.now)
            self.end()
        self.now = until
        self.broker.history.expire(self.now)

    def later(self, call: Callable[..., object], *arguments: object) -> None:
        """Call this between two handlers, once however often it was asked for."""
        self.turning[call, arguments] = None

    def turn(self) -> None:
        """What the edge does between two handlers: whose queue is long falls behind, whose is empty is pulled level."""
        while self.turning:
            call, arguments = next(iter(self.turning))
            del self.turning[call, arguments]
            call(*arguments)

    def end(self) -> None:
        """The end of a tick."""
        while self.sessions.rights.busy:
            self.sessions.rights.step(self.now)
        self.broker.flush(self.now)
        self.turn()
        self.broker.flush_answers()
        self.recover()
        for client in self.ended:
            self.sessions.close(client)
        self.ended.clear()

    def recover(self) -> None:
        """Everybody takes the slices of what it missed."""
        while self.sessions.recoveries.busy:
            self.sessions.recoveries.step(self.sessions.recoveries.next())


class Checking(Writer):
    """Hands a group's bytes to each member's link, and checks that the group's lists agree."""

    def write_group(self, group: Group, data: bytes) -> None:
        """To every member."""
        assert len(group.keys) == len(group.ready)
        for slot, client in enumerate(group.ready):
            assert client.slot == slot and client.group is group and group.keys[slot] == client.slot_key
        for client in [*group.ready, *group.singles]:
            client.link.write(data)

    def write_some(self, clients: list[Client], keys: list[int], data: bytes) -> None:
        """To some members of a large group."""
        assert [client.slot_key for client in clients] == keys
        for client in clients:
            assert client.group is not None and client.group.ready[client.slot] is client
        for client in clients:
            client.link.write(data)

    def write_ones(self, groups: list[Group], keys: list[int], frames: list[bytes]) -> None:
        """To the one member of each."""
        assert [len(group) for group in groups] == [1] * len(keys) == [1] * len(frames)
        for group, data in zip(groups, frames, strict=True):
            self.write_group(group, data)


__all__ = ["START", "TEXT", "Actor", "Stage"]
