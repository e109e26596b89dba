"""What clients missed, however much: exactly that, in bounded memory, while nobody waits for it (features.md C3)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import msgspec
import pytest

from fastpath.client.control.client import Control
from tests.support.edge.wire import Ended, WireClient, WirePublisher, resident_bytes
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

BACKLOG = 60_000
BATCH = 10_000
SUBJECT = "/bulk/one"
OUTBOX_BYTES = 1 << 18

_decode = msgspec.json.decode


@pytest.fixture(scope="module")
def full() -> Iterator[Sidecar]:
    """A sidecar that has a backlog cached, and takes no more for a client than a fraction of it."""
    settings = {"cache_messages": BACKLOG + 10_000, "cache_bytes": 1 << 30, "cache_seconds": 3600}
    with Sidecar(mode="none", outbox_bytes_max=OUTBOX_BYTES, **settings) as sidecar:
        with WirePublisher(sidecar) as publisher:
            fill(publisher, SUBJECT, BACKLOG)
        yield sidecar
        assert "Traceback" not in sidecar.log, sidecar.log


def fill(publisher: WirePublisher, subject: str, count: int, first: int = 1) -> None:
    """Publish so many small messages, their numbers as contents."""
    for start in range(first, first + count, BATCH):
        rows = [[subject, str(number)] for number in range(start, min(start + BATCH, first + count))]
        publisher.packet("batch", start, rows)
        assert publisher.next()[0] == "ack"


class Taker:
    """Takes what a client is sent, a piece at a time: what it was answered, and the numbers that came."""

    def __init__(self, client: WireClient) -> None:
        self.client = client
        self.rest = client.buffer
        client.buffer = b""
        self.answers: list[dict[str, object]] = []
        self.numbers: list[int] = []
        self.kinds: list[str] = []

    def take(self, count: int = 1 << 18) -> None:
        """What one call of the socket brings."""
        data = self.client.sock.recv(count)
        if not data:
            raise Ended(0, "")
        data = self.rest + data
        at = 0
        while len(data) - at >= 2:
            length, head = data[at + 1], 2
            if length >= 126:
                head = 4 if length == 126 else 10
                length = int.from_bytes(data[at + 2 : at + head], "big") if len(data) >= at + head else 1 << 62
            if len(data) - at < head + length:
                break
            payload = data[at + head : at + head + length]
            at += head + length
            if data[at - head - length] & 0x0F == 8:
                raise Ended(int.from_bytes(payload[:2], "big"), payload[2:].decode())
            if data[at - head - length] & 0x0F == 1:
                self._understand(_decode(payload))
        self.rest = data[at:]

    def _understand(self, value: object) -> None:
        if isinstance(value, list):
            assert value[3].partition(" ")[0] == str(value[1])
            self.numbers.append(value[1])
            self.kinds.append(value[5].get("kind", "") if len(value) > 5 else "")
        elif isinstance(value, dict) and value["op"] == "subscribed":
            self.answers += value["results"]

    def until(self, number: int) -> None:
        """Take all up to this number."""
        while not self.numbers or self.numbers[-1] < number:
            self.take()


def test_a_backlog_many_times_the_queue_is_recovered_exactly(full: Sidecar) -> None:
    with WireClient(full) as client:
        epoch = epoch_of(client)
        client.say("subscribe", subjects=[SUBJECT], since={SUBJECT: [epoch, 0]})
        taker = Taker(client)
        taker.until(BACKLOG)
    (answer,) = taker.answers
    assert (answer["recovery"], answer["seq"], answer["messages"]) == ("recovered", BACKLOG, BACKLOG)
    assert taker.numbers == list(range(1, BACKLOG + 1))
    assert set(taker.kinds) == {"recovered"}


def test_live_messages_come_after_it_in_order_and_others_do_not_wait(full: Sidecar) -> None:
    """Ten clients have the whole backlog ahead, of which they read nothing yet, while messages come here and there."""
    # Others at a second try.
    live_subject, quick_subject = (f"/bulk/{name}{time.monotonic_ns()}" for name in ("live", "quick"))
    with ExitStack() as stack:
        publisher = stack.enter_context(WirePublisher(full))
        fill(publisher, live_subject, 100)
        other = stack.enter_context(WireClient(full))
        other.subscribe(quick_subject)
        takers = []
        for _ in range(10):
            client = stack.enter_context(WireClient(full))
            epoch = epoch_of(client)
            client.say("subscribe", subjects=[live_subject], since={live_subject: [epoch, 0]})
            client.say("subscribe", subjects=[SUBJECT], since={SUBJECT: [epoch, BACKLOG - 30_000]})
            takers.append(Taker(client))
        for number in range(1, 41):
            publisher.packet(
                "batch", 1_000_000 + number, [[quick_subject, str(number)], [live_subject, str(100 + number)]]
            )
            assert other.message()[3] == str(number)
            assert publisher.next()[0] == "ack"
        for taker in takers:
            numbers: dict[str, list[int]] = {}
            while len(taker.numbers) < 30_000 + 140:
                taker.take()
            live = [number for number in taker.numbers if number <= 140]
            numbers["bulk"] = [number for number in taker.numbers if number > 140]
            assert live == list(range(1, 141))
            assert numbers["bulk"] == list(range(BACKLOG - 30_000 + 1, BACKLOG + 1))
            assert [answer["recovery"] for answer in taker.answers] == ["recovered", "recovered"]


def test_who_takes_nothing_while_it_recovers_costs_a_cursor_and_is_not_closed(full: Sidecar) -> None:
    """Fifty ask for all of it and do not read: not one is slow for that, and the server holds next to nothing."""
    with ExitStack() as stack, Control(full.control) as control:
        clients = [stack.enter_context(WireClient(full, receive_bytes=4096)) for _ in range(50)]
        epochs = [epoch_of(client) for client in clients]
        before, closed = resident_bytes(full.pid), control.stats()["slow_closed"]
        for client, epoch in zip(clients, epochs, strict=True):
            client.say("subscribe", subjects=[SUBJECT], since={SUBJECT: [epoch, 0]})
        until(lambda: len(control.clients(slow=True)["clients"]) == len(clients), 20)
        rows = control.clients(slow=True)["clients"]
        assert max(row["queue_bytes"] for row in rows) <= 128 << 10
        seen = control.client(rows[0]["connection"])["subscriptions"][0]
        assert seen["state"] == "behind"
        assert seen["behind"] > BACKLOG / 2
        assert resident_bytes(full.pid) - before < 50 * (256 << 10)
        assert control.stats()["slow_closed"] == closed
        taker = Taker(clients[0])
        taker.until(BACKLOG)
        assert taker.numbers == list(range(1, BACKLOG + 1))


def epoch_of(client: WireClient) -> int:
    """The server's epoch."""
    client.say("connect")
    answer = client.next()
    assert answer["op"] == "connected"
    return int(answer["epoch"])


def test_every_worker_recovers_from_its_own_cache() -> None:
    """Who lands on a worker that follows gets the same as on the one that numbers."""
    count = 20_000
    with (
        Sidecar(
            mode="none", workers=2, outbox_bytes_max=OUTBOX_BYTES, cache_messages=count, handshake_seconds=300
        ) as sidecar,
        ExitStack() as stack,
    ):
        fill(stack.enter_context(WirePublisher(sidecar)), SUBJECT, count)
        control = stack.enter_context(Control(sidecar.control))
        clients: list[WireClient] = []

        def on_both() -> bool:
            clients.append(stack.enter_context(WireClient(sidecar)))
            return {row["worker"] for row in control.clients()["clients"]} == {0, 1}

        until(on_both)
        epoch = epoch_of(clients[0])
        for client in clients:
            client.say("subscribe", subjects=[SUBJECT], since={SUBJECT: [epoch, 1]})
            taker = Taker(client)
            taker.until(count)
            assert taker.numbers == list(range(2, count + 1))
            assert taker.answers[-1]["recovery"] == "recovered"
