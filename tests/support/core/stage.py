"""A stage for the pure core: clients that record what they get, a clock set by the test, no socket."""

from __future__ import annotations

from fastpath.core.auth.grants import Grants
from fastpath.core.broker.broker import Broker
from fastpath.core.broker.ports import Engine, Writer
from fastpath.core.delivery import slow_consumers
from fastpath.core.delivery.client import Client, Queue
from fastpath.core.delivery.groups import Group
from fastpath.core.delivery.wire_encoding import PLAIN, Wire
from fastpath.core.protocol.codec import JSON, decode_server, encode
from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import AnyCommand, Data, Message
from fastpath.core.sessions.sessions import Sessions
from fastpath.core.websocket.frames import TEXT, split_frames
from fastpath.core.websocket.permessage_deflate import inflate
from fastpath.engine.memory import MemoryEngine

START = 1_700_000_000_000
"""When every stage begins: a round number of seconds, so that the grid of 100 ms starts with it."""


class Actor:
    """A client of the stage: an in-memory core.client.Link that decodes what it is given."""

    def __init__(self, stage: Stage, name: str, token: str, wire: Wire) -> None:
        self.name = name
        self.closed: tuple[int, str] | None = None
        self.blocked = False
        self.got: list[object] = []
        self.subjects: dict[int, str] = {}
        self._stage = stage
        Actor.made += 1
        self.client = stage.sessions.open(self, Actor.made, True, wire, token, name, stage.now)

    made = 0

    def write(self, data: bytes) -> None:
        """Take whole frames, or queue them while blocked."""
        if self.closed is not None:
            return
        if self.client.queue is not None:
            self.client.queue.push(data)
            self.check_bound()
        elif self.blocked:
            self.lag(data, 0)
        else:
            self.take(data)

    def lag(self, data: bytes, sent: int) -> None:
        """What the socket did not take waits."""
        self.client.queue = Queue(data, sent)
        if self.client.group is not None:
            self.client.group.refile(self.client)
        self.check_bound()

    def check_bound(self) -> None:
        """Take out of a queue over its bound what may be conflated; what may not is let be: nobody is closed here."""
        queue = self.client.queue
        if queue is not None and queue.size > self._stage.broker.limits.outbox_bytes_max:
            slow_consumers.shed(self._stage.broker, self.client)

    def unblock(self) -> None:
        """Take what waits, as the edge does when the socket takes bytes again."""
        if self.client.lag is not None and self.client.lag.lost:
            slow_consumers.begin(self._stage.broker, self.client)
        queue, self.client.queue, self.blocked = self.client.queue, None, False
        if queue is not None:
            self.take(b"".join(queue.chunks)[queue.sent :])
            if self.client.group is not None:
                self.client.group.refile(self.client)
            self._stage.sessions.recoveries.drained(self.client)

    def take(self, data: bytes) -> None:
        """Decode frames into ``got``."""
        for frame in split_frames(data):
            if frame[0] & 0x0F > 2:
                continue
            payload = frame[4 if frame[1] == 126 else 10 if frame[1] == 127 else 2 :]
            if frame[0] & 0x40:
                payload = inflate(payload, 1 << 20)
            value = decode_server(payload, self.client.form)
            for result in getattr(value, "results", ()):
                if not result.error and result.sid:
                    self.subjects[result.sid] = result.subject
            self.got.append(value)

    def hold(self, why: int, held: bool) -> None:
        """Nothing of it is read here but what it says."""

    def close(self, code: int, reason: str) -> None:
        """The server says goodbye."""
        out, self.client.out = self.client.out, None
        self.write(b"".join(out or ()))
        self.closed = (int(code), reason)
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
        engine: Engine | None = None,
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
        self.actors: dict[str, Actor] = {}

    def enter(self, name: str, token: str = "", form: str = JSON, wire: Wire | None = None) -> Actor:
        """A client connects."""
        actor = self.actors[name] = Actor(self, name, token, wire or PLAIN[form])
        return actor

    def publish(self, subject: str, content: str, fields: dict[str, str] | None = None, **options: object) -> object:
        """The server itself publishes; the outcome."""
        outcomes: list[object] = []
        self.broker.publish(None, [Message(subject, content, fields, **options)], self.now, outcomes.extend)
        self.end()
        return outcomes[0]

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

    def turn(self) -> None:
        """What the edge does between two handlers: whose queue is long falls behind, whose is empty is pulled level."""
        for actor in [actor for actor in self.actors.values() if actor.closed is None]:
            slow_consumers.begin(self.broker, actor.client)
            while slow_consumers.catch_up(self.broker, actor.client):
                pass

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
        assert len(group.fds) == len(group.ready)
        for slot, client in enumerate(group.ready):
            assert client.slot == slot and client.group is group and group.fds[slot] == client.fd
        for client in [*group.ready, *group.singles]:
            client.link.write(data)

    def write_some(self, clients: list[Client], fds: list[int], data: bytes) -> None:
        """To some members of a large group."""
        assert [client.fd for client in clients] == fds
        for client in clients:
            assert client.group is not None and client.group.ready[client.slot] is client
        for client in clients:
            client.link.write(data)

    def write_ones(self, groups: list[Group], fds: list[int], frames: list[bytes]) -> None:
        """To the one member of each."""
        assert [len(group) for group in groups] == [1] * len(fds) == [1] * len(frames)
        for group, data in zip(groups, frames, strict=True):
            self.write_group(group, data)


__all__ = ["START", "TEXT", "Actor", "Stage"]
