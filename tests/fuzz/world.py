"""A whole sidecar in this process, fed by hand: its connections read and write memory instead of sockets."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from fastpath.core.delivery.audience import Topic
from fastpath.core.protocol.codec import decode_server
from fastpath.core.websocket.frames import split_frames
from fastpath.edge.clients.client_socket import ClientSocket
from fastpath.edge.clients.connection import ClientConnection
from fastpath.edge.publishers.connection import PublisherConnection
from fastpath.edge.runtime.runtime import Runtime, now
from fastpath.listen_address import Listener
from fastpath.server.components import make_runtime
from fastpath.server.presence import PresenceComponent
from fastpath.settings import Settings
from tests.support.edge.wire import TEXT, masked, request

from .targets import check

LISTENER = Listener.parse("clients+publishers://127.0.0.1:8800?deflate=64")
SETTINGS = Settings(
    mode="none",
    message_bytes_max=1 << 14,
    outbox_bytes_max=1 << 18,
    subjects_max=200,
    subscriptions_max=50,
    cache_messages=20,
    presence="/a/**",
    log_level="error",
)
TURNS = 4
"""Turns of the loop after an input: what it has begun comes to its end."""


class Piped(ClientSocket[ClientConnection]):
    """The socket of a client, which takes everything and keeps it."""

    def __init__(self, runtime: Runtime, fd: int) -> None:
        super().__init__(LISTENER)
        self.written = b""
        self.reading = True
        self.gone = False
        self.connection = ClientConnection(runtime, self, fd, "127.0.0.1")

    def __getattr__(self, name: str) -> Any:
        """What else is asked of it is the connection's."""
        return getattr(self.connection, name)

    def send(self, connection: ClientConnection, data: bytes | memoryview) -> int:
        """Keep it."""
        if connection.ended:
            return -1
        self.written += bytes(data)
        return len(data)

    def await_writable(self, connection: ClientConnection, wanted: bool) -> None:
        """It always is."""

    def await_readable(self, connection: ClientConnection, wanted: bool) -> None:
        """Remember it."""
        self.reading = wanted

    def finish(self, connection: ClientConnection) -> None:
        """Nothing to do."""

    def shut(self, connection: ClientConnection) -> None:
        """The end."""
        self.gone = True

    def answers(self) -> list[Any]:
        """What was sent after the head, decoded; a finding when it is no frame of the protocol."""
        head, _, rest = self.written.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 101"):
            return []
        client = self.client
        form = client.form if client is not None else "json"
        return [
            decode_server(payload(one), form) for one in split_frames(rest) if one[0] & 0x0F < 8 and not one[0] & 0x40
        ]


class Pipe(asyncio.Transport):
    """A publisher's transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.written = b""
        self.closing = False

    def write(self, data: bytes | bytearray | memoryview[int]) -> None:
        """Keep it."""
        self.written += bytes(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There are none."""

    def can_write_eof(self) -> bool:
        """As TCP can."""
        return True

    def write_eof(self) -> None:
        """Nothing to do."""

    def pause_reading(self) -> None:
        """Nothing to do."""

    def resume_reading(self) -> None:
        """Nothing to do."""

    def is_closing(self) -> bool:
        """Whether it was closed."""
        return self.closing

    def close(self) -> None:
        """The end."""
        self.closing = True

    def abort(self) -> None:
        """The end."""
        self.closing = True


class World:
    """One runtime with a client that must not notice anything of the others."""

    loop = asyncio.new_event_loop()

    def __init__(self) -> None:
        logging.disable(logging.INFO)
        self.runtime = make_runtime(SETTINGS, self.loop)
        self._part = PresenceComponent(self.runtime, self.runtime.broker.engine)
        self.runtime.serve(*self._part.components)
        self._part.start()
        self.count = 0
        self.witness = self.client(b"")
        self.say(self.witness, b'{"op":"subscribe","id":1,"subjects":["/witness/one"]}')

    def client(self, headers: bytes) -> Piped:
        """A client that has opened its WebSocket."""
        connection = self.piped()
        connection.received(request(headers=headers.decode()))
        return connection

    def piped(self) -> Piped:
        """A connection that has sent nothing yet."""
        self.count += 1
        return Piped(self.runtime, self.count)

    def publisher(self) -> tuple[PublisherConnection, Pipe]:
        """A publisher that has not said hello."""
        connection, pipe = PublisherConnection(self.runtime, "127.0.0.1"), Pipe()
        connection.connection_made(pipe)
        return connection, pipe

    def say(self, connection: Piped, text: bytes) -> None:
        """One command in JSON."""
        connection.received(masked(TEXT, text))
        self.turn()

    def turn(self) -> None:
        """End the handler, and let the loop do what is due."""
        self.runtime.end()
        for _ in range(TURNS):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()

    def second(self, milliseconds: int = 1000) -> None:
        """What the clocks do, some time later."""
        moment = now() + milliseconds
        if self.witness.client is not None:
            self.witness.client.alive = True  # it answers its pings
        self.runtime.broker.grid.tick(moment)
        self.runtime.broker.history.expire(moment)
        self.runtime.sessions.rights.tick(moment)
        self.runtime.sessions.beat(moment)
        self.turn()

    def end(self, *connections: Piped) -> None:
        """Check the witness, let the connections go, and check that nothing of them is left."""
        runtime, broker = self.runtime, self.runtime.broker
        self.turn()
        check("internal_error" not in broker.counters.closes, "a fault while handling, see the log")
        for connection in connections:
            connection.answers()
        if "/witness/one" not in {topic.subject for topic in self._topics_of(connections)}:
            self.witness.written = b""
            self.say(self.witness, b'{"op":"publish","subject":"/witness/one","content":"seen"}')
            check(b'"seen"' in self.witness.written, "the witness got nothing")
        for connection in connections:
            connection.lost()
        for session in list(runtime.http.sessions.values()):
            session.leave()  # one that polls outlives the connections of its requests
        self.turn()
        clients = list(runtime.sessions.clients)
        check(clients == [self.witness.client], f"{len(clients)} clients are left")
        check(runtime.connections == 1, f"{runtime.connections} connections are counted")
        check(broker.counters.waiting == 0, f"{broker.counters.waiting} subscriptions wait")
        check(broker.counters.subscriptions == 1, f"{broker.counters.subscriptions} subscriptions are left")
        check(len(broker.interest.topics) <= SETTINGS.subjects_max, "more subjects than may be")
        self.loop.run_until_complete(self._part.end())
        runtime.watch.stop()

    def _topics_of(self, connections: tuple[Piped, ...]) -> list[Topic]:
        return [topic for one in connections if one.client is not None for topic in one.client.subscriptions]


def payload(frame: bytes) -> bytes:
    """What a frame of the server carries."""
    return frame[4 if frame[1] == 126 else 10 if frame[1] == 127 else 2 :]
