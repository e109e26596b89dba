"""What a message waits for, and what it does not wait for: others' load, others' backlogs, a clock."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count, pairwise
from statistics import median

from fastpath.client import blocking
from fastpath.client.control.client import Control
from tests.support.edge.calling import HttpPeer, call_bytes
from tests.support.edge.spread import publisher
from tests.support.edge.wire import TEXT, WireClient, WirePublisher, masked
from tests.support.redis import RedisServer
from tests.support.sidecar import Sidecar
from tests.workers.test_pressure import BATCH_MESSAGES, CONTENT, IN_FLIGHT
from tests.workers.test_pressure import SUBJECTS as HOT_SUBJECTS

from .rows import row


def longest_wait(port: WirePublisher, seconds: float, over: str = "", sidecar: Sidecar | None = None) -> float:
    """Publish as fast as the node lets one, for so long or until the log says it; the longest wait for an answer."""
    rows = [[f"/hot/{number % HOT_SUBJECTS}", CONTENT] for number in range(BATCH_MESSAGES)]
    end, sent, acknowledged, longest = time.monotonic() + seconds, 0, 0, 0.0

    def enough() -> bool:
        return time.monotonic() > end or bool(over and sidecar and over in sidecar.log)

    while acknowledged < sent or not enough():
        while sent < acknowledged + IN_FLIGHT and not enough():
            sent += 1
            port.batch += 1
            port.packet("batch", port.batch, rows)
        began = time.monotonic()
        port.next()
        longest = max(longest, time.monotonic() - began)
        acknowledged += 1
    return longest


@row("publisher-at-full-speed", at_most=2.5)
def full_speed() -> Iterator[float]:
    """Who publishes faster than the workers follow is held for about a second at most."""
    with Sidecar(workers=2, outbox_bytes_max=64 << 20) as sidecar, publisher(sidecar) as port:
        while True:
            yield longest_wait(port, 3)


@row("publisher-held", at_least=0.5, at_most=2.5)
def held() -> Iterator[float]:
    """A worker that is stopped holds who publishes for about a second, then what waits for it grows."""
    while True:
        with Sidecar(workers=2, hang_seconds=60) as sidecar:
            stopped = sidecar.ready["workers"][1]
            os.kill(stopped, signal.SIGSTOP)
            try:
                with publisher(sidecar) as port:
                    yield longest_wait(port, 30, "bytes wait for it", sidecar)
            finally:
                os.kill(stopped, signal.SIGCONT)


@row("control-beside-held", at_most=0.5)
def beside_held() -> Iterator[float]:
    """Control, and what clients ask otherwise, is answered while publishers are held."""
    large = [[f"/large/{number}", "x" * 950_000] for number in range(4)]
    while True:
        with Sidecar(workers=2, hang_seconds=60) as sidecar:
            stopped = sidecar.ready["workers"][1]
            os.kill(stopped, signal.SIGSTOP)
            try:
                with publisher(sidecar) as port, Control(sidecar.control) as control:
                    for _ in range(3):
                        port.publish(*large)
                    began = time.monotonic()
                    control.publish([["/held/control", "x"]])
                    yield time.monotonic() - began
            finally:
                os.kill(stopped, signal.SIGCONT)


@row("ping-beside-churn", at_most=0.5, unit="of all")
def beside_churn() -> Iterator[float]:
    """Who says little waits for a part of the time that another's hundred commands take."""
    pattern = b'{"op":"%b","id":%d,"subjects":["/turns/*"]}'
    with Sidecar() as sidecar, WireClient(sidecar) as much, WireClient(sidecar) as little:
        with WirePublisher(sidecar) as feed:
            feed.publish(*[[f"/turns/{number}", "x"] for number in range(200)])
        churn = b"".join(
            masked(TEXT, pattern % (op, number)) for number in range(60) for op in (b"subscribe", b"unsubscribe")
        )
        while True:
            began = time.monotonic()
            much.send(churn)
            much.answer("unsubscribed")
            little.ask("ping", "pong")
            waited = time.monotonic() - began
            for _ in range(59):
                much.answer("unsubscribed")
            yield waited / (time.monotonic() - began)


@row("served-beside-limited", at_most=0.4)
def beside_limited() -> Iterator[float]:
    """Who keeps to the rates is served at once while another one is far ahead of them."""
    with Sidecar(commands_per_second_max=400) as sidecar:
        while True:
            with WireClient(sidecar) as hasty, WireClient(sidecar) as good:
                began = time.monotonic()
                hasty.send(b"".join(masked(TEXT, b'{"op":"ping","id":%d}' % number) for number in range(600)))
                hasty.answer("pong")
                good.ask("ping", "pong")
                yield time.monotonic() - began


@row("rate-commands", at_least=0.45, at_most=1.0)
def limited() -> Iterator[float]:
    """Six hundred commands at four hundred a second: a second's worth at once, the others as they may."""
    with Sidecar(commands_per_second_max=400) as sidecar:
        while True:
            with WireClient(sidecar) as hasty:
                began = time.monotonic()
                hasty.send(b"".join(masked(TEXT, b'{"op":"ping","id":%d}' % number) for number in range(600)))
                for _ in range(600):
                    hasty.answer("pong")
                yield time.monotonic() - began


@row("rate-publications", at_least=0.45, at_most=1.2)
def limited_publisher() -> Iterator[float]:
    """So wait publications: of a batch of 300 at 200 a second, what comes next waits half a second."""
    with Sidecar(publications_per_second_max=200) as sidecar:
        while True:
            with WirePublisher(sidecar) as port:
                began = time.monotonic()
                port.publish(*[["/l/two", str(number)] for number in range(300)])
                port.publish(["/l/two", "after"])
                yield time.monotonic() - began


@row("beside-backlogs", at_most=0.25)
def beside_backlogs() -> Iterator[float]:
    """Others' messages do not wait for ten clients that take a backlog of 40,000: the slowest but one of 40."""
    size, backlog = 50, 40_000
    with Sidecar(cache_messages=backlog, cache_bytes=256 << 20) as sidecar, WirePublisher(sidecar) as port:
        for start in range(0, backlog, 1000):
            port.publish(*[["/bulk/one", f"{start + number}".ljust(size)] for number in range(1000)])
        for turn in count():
            with ExitStack() as stack:
                other = stack.enter_context(WireClient(sidecar))
                subject = f"/quick/{turn}"
                other.subscribe(subject)
                for _ in range(10):
                    taker = stack.enter_context(WireClient(sidecar))
                    epoch = taker.subscribe(f"/none/{turn}")[0]["epoch"]
                    taker.say("subscribe", subjects=["/bulk/one"], since={"/bulk/one": [epoch, 0]})
                took = []
                for number in range(40):
                    began = time.monotonic()
                    port.packet("batch", 10_000 * (turn + 1) + number, [[subject, str(number)]])
                    other.message()
                    took.append(time.monotonic() - began)
                    port.next()
                yield sorted(took)[-2]


@row("acknowledgement-redis", at_most=0.02)
def acknowledgement() -> Iterator[float]:
    """An acknowledgement with Redis waits for no clock: the middle one of 40, each by itself."""
    with RedisServer() as redis, Sidecar(engine=redis.url) as sidecar, blocking.connect(sidecar.client_url) as client:
        while True:
            took = []
            for _ in range(40):
                began = time.perf_counter()
                client.publish("/ack/a", "x")
                took.append(time.perf_counter() - began)
                time.sleep(0.013)  # else each follows the clock's last beat
            yield median(took)


@row("conflation-interval", at_least=0.4, at_most=0.75)
def conflation() -> Iterator[float]:
    """With conflation a message comes each half second that was asked for: the longest of five gaps."""
    with Sidecar() as sidecar, WireClient(sidecar) as client, WirePublisher(sidecar) as port:
        client.subscribe("/much/one", conflation=500)
        number = 0
        while True:
            arrivals: list[float] = []
            while len(arrivals) < 6:
                while client.silent(0.01):
                    number += 1
                    port.publish(["/much/one", str(number)])
                client.message()
                arrivals.append(time.monotonic())
            yield max(later - earlier for earlier, later in pairwise(arrivals))


@contextmanager
def collecting(options: str) -> Iterator[tuple[WireClient, WirePublisher]]:
    """A client of a listener that collects."""
    with (
        Sidecar(listen=f"clients://127.0.0.1:0?{options},publishers://127.0.0.1:0") as sidecar,
        WireClient(sidecar) as client,
        WirePublisher(sidecar) as port,
    ):
        client.subscribe("/batch/a")
        yield client, port


@row("batch-ms", at_least=0.148, at_most=0.4)
def batch_ms() -> Iterator[float]:
    """What a listener collects for 150 ms leaves when they are over."""
    with collecting("batch_ms=150") as (client, port):
        while True:
            began = time.monotonic()
            port.publish(["/batch/a", "1"])
            client.message()
            yield time.monotonic() - began


@row("batch-bytes", at_least=0.098, at_most=0.35)
def batch_bytes() -> Iterator[float]:
    """What it collects up to a size alone leaves after 100 ms."""
    with collecting("batch_bytes=1000000") as (client, port):
        while True:
            began = time.monotonic()
            port.publish(["/batch/a", "1"])
            client.message()
            yield time.monotonic() - began


@row("history-wait", at_most=1.0)
def history_wait() -> Iterator[float]:
    """Who waits for news over HTTP has them when they come."""
    with Sidecar() as sidecar, HttpPeer(sidecar) as writer, HttpPeer(sidecar) as reader:
        for number in count(1):
            (one,) = writer.history(subject="/news/one")
            since = f"{one['epoch']},{number - 1}"
            reader.send(call_bytes("GET", f"/api/history?subject=/news/one&since={since}&wait=9"))
            time.sleep(0.2)  # it waits
            began = time.monotonic()
            writer.publish({"subject": "/news/one", "content": str(number)})
            assert reader.response().status == 200
            yield time.monotonic() - began
