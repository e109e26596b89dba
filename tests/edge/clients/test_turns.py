"""How much of what connections have sent is handled in one round of the loop, whatever they speak."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from fastpath.core.delivery.link import PauseReason
from fastpath.core.websocket.frames import FrameReader
from fastpath.edge.clients.client_socket import ClientSocket
from fastpath.edge.clients.client_stream import Stream
from fastpath.edge.clients.connection import ClientConnection
from fastpath.edge.runtime.scheduler import LARGE_BYTES, PIECE_BYTES, Scheduler
from fastpath.listen_address import Listener
from tests.support.edge.wire import PING, Socket, masked, request
from tests.support.sidecar import Sidecar

PINGS = masked(PING, b"x" * 125) * 500
"""As much as is read at once: some 64 KiB."""

PACKETS = b"\xc0\x00" * (32 << 10)


class Packets(Stream):
    """Stands for a stream of MQTT, in frames or without: notes what it is given."""

    hears = True

    def __init__(self, link: Peer, reader: FrameReader | None) -> None:
        super().__init__()
        self.link = link
        self.reader = reader

    def received(self, data: bytes) -> None:
        assert len(data) <= PIECE_BYTES
        self.link.handled(len(data) // 2 if self.reader is None else len(self.reader.feed(data)))


class Peer(ClientConnection):
    """A connection whose every ping is answered at once, and whose socket takes all."""

    __slots__ = ("name", "reads", "watched")

    def __init__(self, name: str, runtime: Any, watched: Rounds, *, mqtt: bool = False, framed: bool = True) -> None:
        super().__init__(runtime, Socketless(), 0, "127.0.0.1")
        self.name = name
        self.watched = watched
        self.client = SimpleNamespace(alive=False, form="json")  # type: ignore[assignment]
        reader = FrameReader() if framed else None
        self.stream = Packets(self, reader) if mqtt else None
        self.reader = None if mqtt else reader
        self.echoing = True
        self.reads = True

    def handled(self, count: int) -> None:
        self.watched.rounds[-1][self.name] += count

    def write(self, data: bytes) -> None:
        self.handled(1)

    def failed(self, error: Exception) -> None:
        raise error

    def close(self, code: int, reason: str, seconds: float = 0) -> None:
        raise AssertionError(reason)


class Socketless(ClientSocket[Peer]):
    """No socket: whether it is to be read is noted."""

    def __init__(self) -> None:
        super().__init__(Listener.parse("clients://127.0.0.1:0"))

    def send(self, connection: Peer, data: bytes | memoryview) -> int:
        raise AssertionError(data)

    def await_writable(self, connection: Peer, wanted: bool) -> None:
        raise AssertionError(wanted)

    def await_readable(self, connection: Peer, wanted: bool) -> None:
        connection.reads = wanted

    def finish(self, connection: Peer) -> None:
        raise AssertionError("nobody ends")

    def shut(self, connection: Peer) -> None:
        raise AssertionError("nobody ends")


class Rounds:
    """How many pings of whom were answered in each round of the loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.rounds: list[Counter[str]] = [Counter()]
        self.runtime = SimpleNamespace(
            loop=self.loop,
            scheduler=Scheduler(self.loop),
            paused={},
            broker=SimpleNamespace(counters=SimpleNamespace(bytes_in=0)),
            ponged=[],
            end=lambda: None,
            connection_opened=lambda: None,
            expect=lambda connection, seconds: None,
            settings=SimpleNamespace(handshake_seconds=10),
        )

    def peer(self, name: str, **kind: bool) -> Peer:
        return Peer(name, self.runtime, self, **kind)

    def run(self, *peers: tuple[Peer, bytes], count: int) -> None:
        """Each says this in one read, in one round; until ``count`` pings are answered."""

        def say() -> None:
            for peer, data in peers:
                peer.received(data)

        def tick() -> None:
            self.rounds.append(Counter())
            if sum(map(Counter.total, self.rounds)) < count:
                self.loop.call_soon(tick)
            else:
                self.loop.call_soon(self.loop.stop)

        self.loop.call_soon(say)
        self.loop.call_soon(tick)
        self.loop.call_later(30, self.loop.stop)
        self.loop.run_forever()
        self.loop.close()

    def in_one(self) -> int:
        """The most who were served in the same round, but for those who said little."""
        return max(sum(name != "little" for name in one) for one in self.rounds)


KINDS = {
    "WebSocket": ({}, PINGS, 500),
    "MQTT": ({"mqtt": True, "framed": False}, PACKETS, 32 << 10),
    "pings among MQTT over a WebSocket": ({"mqtt": True}, PINGS, 500),
}


@pytest.mark.parametrize(("kind", "data", "count"), KINDS.values(), ids=KINDS)
def test_who_sends_much_is_served_one_a_round(kind: dict[str, bool], data: bytes, count: int) -> None:
    """However quickly it can be handled; who says little is answered at once, in the round in which it came."""
    rounds = Rounds()
    many = [rounds.peer(f"much {number}", **kind) for number in range(8)]
    little = rounds.peer("little")
    rounds.run(*((one, data) for one in many), (little, masked(PING, b"")), count=8 * count + 1)
    assert rounds.rounds[0] == {"little": 1}
    assert rounds.in_one() == 1
    assert sum(rounds.rounds, Counter()) == {"little": 1} | {one.name: count for one in many}
    assert all(one.reads and not one.held and not one.head for one in many)


def test_who_sends_some_is_served_at_once() -> None:
    """While those who do so take no more than a turn together."""
    rounds = Rounds()
    data = masked(PING, b"x" * 125) * ((LARGE_BYTES - 1) // 131)
    one = rounds.peer("some")
    rounds.run((one, data), count=len(data) // 131)
    assert rounds.rounds[0]["some"] >= PIECE_BYTES // 131


@pytest.mark.parametrize("why", [PauseReason.CONGESTED, PauseReason.RATE, PauseReason.ASKED])
def test_those_who_are_let_go_together_are_served_one_a_round(why: int) -> None:
    """What each had said before is much; it is neither lost nor handled out of order, and no more is read before."""
    rounds = Rounds()
    many = [rounds.peer(f"much {number}") for number in range(8)]
    for one in many:
        one.hold(why, True)
        one.received(PINGS)

    class Letting(Peer):
        __slots__ = ()

        def received(self, data: bytes) -> None:
            del data
            for one in many:
                one.hold(why, False)
                assert not one.reads

    rounds.run((Letting("go", rounds.runtime, rounds), b""), count=8 * 500)
    assert rounds.in_one() == 1
    assert sum(rounds.rounds, Counter()) == {one.name: 500 for one in many}
    assert all(one.reads and not one.held for one in many)


def test_what_comes_right_behind_an_upgrade_waits_for_its_turn_and_is_answered(shared: Sidecar) -> None:
    """Also on a connection that has asked for something else before, and in the same read as that."""
    ask = b"GET /api/servers HTTP/1.1\r\nHost: x\r\n\r\n"
    for before in (b"", ask):
        with Socket(shared.client_url) as client:
            client.send(before + request() + masked(PING, b"p" * 100) * 400)
            heads = b""
            while b" 101 " not in heads or not heads.endswith(b"\r\n\r\n"):
                heads += client.read(1)
            assert [client.read(102) for _ in range(400)] == [b"\x8a\x64" + b"p" * 100] * 400
