"""Clients that never read: bounded memory, no harm to others, a named close, and a way back (features.md C6)."""

from __future__ import annotations

import select
import socket
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fastpath.client.control.client import Control
from fastpath.core.auth.grants import Grants
from fastpath.core.delivery.audience import Client
from fastpath.core.delivery.link import Link, PauseReason
from fastpath.core.protocol.codec import JSON
from fastpath.core.wires.registry import PLAIN
from fastpath.edge.clients.liveness import Liveness
from tests.support.certificates import Certificate
from tests.support.edge.wire import WireClient, WirePublisher, resident_bytes
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

SLOW = 200
FILLER = "x" * 4000


@dataclass
class Load:
    """One publisher and clients that read all of it; each message carries the time at which it was sent."""

    sidecar: Sidecar
    publisher: WirePublisher
    readers: list[WireClient]
    number: int = 0
    memory: int = 0
    latencies: list[float] = field(default_factory=list)

    def run(self, seconds: float, pause_seconds: float) -> float:
        """Publish for so long; the 99th percentile of the latency in ms. Nothing is lost, doubled or reordered."""
        self.latencies = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.number += 1
            sent = time.monotonic()
            self.publisher.packet("batch", self.number, [["/slow/one", f"{self.number} {FILLER}"]])
            for reader in self.readers:
                message = reader.message()
                self.latencies.append(time.monotonic() - sent)
                assert message[3].partition(" ")[0] == str(message[1]) == str(self.number)
            assert self.publisher.next()[3] == [self.number]
            if self.number % 10 == 0:
                self.memory = max(self.memory, resident_bytes(self.sidecar.pid))
            self.readers[0].silent(pause_seconds)  # the pace; a ping of the server's may cut it short
        return quantiles(self.latencies, n=100)[98] * 1000


def never_reading(sidecar: Sidecar, seconds: float, rate: float, outbox_bytes: int) -> str:
    """200 clients subscribe and never read, while a publisher publishes; what was measured, in words."""
    with ExitStack() as stack:
        readers = [stack.enter_context(WireClient(sidecar)) for _ in range(3)]
        for reader in readers:
            reader.subscribe("/slow/one")
        load = Load(sidecar, stack.enter_context(WirePublisher(sidecar)), readers)
        load.run(1, 0)  # fills the cache, whose memory is not what is measured
        while load.number < 1000:
            load.run(0.2, 0)
        without = load.run(min(seconds, 10), 1 / rate)
        slow = [stack.enter_context(WireClient(sidecar, receive_bytes=4096)) for _ in range(SLOW)]
        for client in slow:
            client.subscribe("/slow/one")
        first = load.number
        baseline = load.memory = resident_bytes(sidecar.pid)
        during = load.run(seconds, 1 / rate)
        with Control(sidecar.control) as control:
            until(lambda: load.run(0.1, 1 / rate) and control.stats()["slow_closed"] == SLOW, 30)
        # Its queue is counted once for all of them: what each has of its own is a reference to every message.
        allowed = 3 * outbox_bytes + SLOW * (64 << 10)
        assert allowed < SLOW * outbox_bytes / 4
        assert load.memory - baseline < allowed
        positions = [read_to_the_end(client) for client in slow]
        assert all(first <= position < load.number for position in positions)
        come_back(sidecar, load, min(positions))
        assert during < max(20 * without, 250), f"p99 {without:.2f} ms without, {during:.2f} ms with slow clients"
        grown = (load.memory - baseline) / (1 << 20)
        return (
            f"{SLOW} clients that do not read, {seconds:g} s: p99 of the others {during:.2f} ms "
            f"({without:.2f} ms without); memory {grown:+.1f} MiB, of {SLOW * outbox_bytes >> 20} MiB if not shared"
        )


def read_to_the_end(client: WireClient) -> int:
    """What a slow client finds when it reads after all: messages without a gap, then the code; its position."""
    numbers: list[int] = []

    def note(message: list[Any]) -> None:
        if len(message) < 6:  # no snapshot
            numbers.append(message[1])

    original = client.next

    def watched() -> Any:
        value = original()
        if isinstance(value, list):
            note(value)
        return value

    client.next = watched  # type: ignore[method-assign]
    assert client.closed() == (4001, "slow_consumer")
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    return numbers[-1]


def come_back(sidecar: Sidecar, load: Load, position: int) -> None:
    """With its last position it is told what it gets: exactly what it missed, or the snapshot."""
    with WireClient(sidecar) as client:
        epoch = client.ask("connect", "connected")["epoch"]
        [result] = client.subscribe("/slow/one", since={"/slow/one": [epoch, position]})
        got = [client.message() for _ in range(result["messages"])]
        if result["recovery"] == "recovered":
            assert [message[1] for message in got] == list(range(position + 1, load.number + 1))
        else:
            assert result["recovery"] == "resynchronised"
            assert [message[1] for message in got] == [load.number]
        [result] = client.subscribe("/slow/one", since={"/slow/one": [epoch, load.number - 5]})
        assert (result["recovery"], result["messages"]) == ("recovered", 5)
        assert [client.message()[1] for _ in range(5)] == list(range(load.number - 4, load.number + 1))


def tell(capsys: pytest.CaptureFixture[str], words: str) -> None:
    """Show a measurement also when the test passes."""
    with capsys.disabled():
        sys.stdout.write(f"\n{words}\n")


@pytest.mark.slow
def test_two_hundred_clients_that_never_read_for_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    with Sidecar() as sidecar:
        tell(capsys, never_reading(sidecar, seconds=60, rate=60, outbox_bytes=4 << 20))
        assert "Traceback" not in sidecar.log


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_who_reads_slowly_shows_that_it_lives(tmp_path: Path, secure: bool) -> None:
    """Pings wait behind what it has not read yet; a client that reads nothing for so long is closed."""
    certificate = Certificate(tmp_path)
    listen = f"clients://127.0.0.1:0,{certificate.url('clients')},publishers://127.0.0.1:0"
    tls = certificate.trusting() if secure else None
    with Sidecar(listen=listen, ping_seconds=1) as sidecar, WirePublisher(sidecar) as publisher:
        address = sidecar.ready["clients"][secure]
        with (
            WireClient(address, receive_bytes=4096, tls=tls) as slow,
            WireClient(address, receive_bytes=4096, tls=tls) as deaf,
        ):
            for client in (slow, deaf):
                client.subscribe("/slowly/one")
            publisher.publish(*(["/slowly/one", f"{n} {FILLER}"] for n in range(700)))
            data = b""
            end = time.monotonic() + 5
            while time.monotonic() < end:
                data += slow.sock.recv(20_000)  # not a ping of these is answered
                select.select([], [], [], 0.05)
            slow.buffer = data + slow.buffer
            assert [text.partition(" ")[0] for text in slow.texts(700)] == [str(n) for n in range(700)]
            assert slow.ask("ping", "pong")
            with Control(sidecar.control) as control:
                assert until(lambda: control.stats()["disconnects_ping_timeout"]) == 1


def test_who_waits_for_its_turn_is_not_taken_for_dead() -> None:
    """Its answer to the ping is not read before."""
    ours, peer = socket.socketpair()
    with ours, peer:
        link = SimpleNamespace(held=0)
        client = Client(cast(Link, link), ours.fileno(), False, Grants().principal("", 0), PLAIN[JSON])
        liveness = Liveness()
        assert not liveness.moved(client)
        peer.send(b"pong")
        assert liveness.moved(client)
        link.held = PauseReason.ECHOING
        assert not liveness.moved(client)
        for why in (PauseReason.WORKING, PauseReason.WORKING | PauseReason.TURN, PauseReason.CONGESTED):
            link.held = why
            assert liveness.moved(client)


def test_answers_and_messages_keep_their_order_for_a_blocked_client() -> None:
    with Sidecar() as sidecar, WirePublisher(sidecar) as publisher, WireClient(sidecar, receive_bytes=4096) as client:
        client.subscribe("/order/one")
        for turn in range(200):
            publisher.publish(*(["/order/one", f"{turn} {FILLER}"] for _ in range(3)))
            client.say("publish", subject="/order/one", content=f"{turn} own", closure=str(turn))
        seen: list[int] = []
        closures = []
        while len(seen) < 800 or len(closures) < 200:
            value = client.next()
            if isinstance(value, list):
                seen.append(value[1])
            else:
                closures.append(value["closure"])
        assert seen == list(range(1, 801))
        assert closures == [str(turn) for turn in range(200)]


def test_a_slow_client_does_not_hold_up_its_own_group(tmp_path: Path) -> None:
    """Plain and TLS, reading and not, in one group: everybody who reads gets everything."""
    certificate = Certificate(tmp_path)
    listen = f"clients://127.0.0.1:0,{certificate.url('clients')},publishers://127.0.0.1:0"
    with Sidecar(listen=listen, outbox_bytes_max=300_000) as sidecar, ExitStack() as stack:
        plain, secure = sidecar.ready["clients"]
        context = certificate.trusting()
        good = [stack.enter_context(WireClient(plain)), stack.enter_context(WireClient(secure, tls=context))]
        bad = [
            stack.enter_context(WireClient(plain, receive_bytes=4096)),
            stack.enter_context(WireClient(secure, tls=context, receive_bytes=4096)),
        ]
        for client in (*bad, *good):
            client.subscribe("/group/one")
        publisher = stack.enter_context(WirePublisher(sidecar))
        for number in range(1, 401):
            publisher.publish(["/group/one", FILLER])
            for client in good:
                assert client.message()[1] == number
        for client in bad:
            assert client.closed() == (4001, "slow_consumer")
