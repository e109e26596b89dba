"""How long what stops, drains or is told to end takes for it."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from fastpath.client.control.client import Control
from tests.support.edge.calling import HttpPeer, call_bytes
from tests.support.edge.draining import OTHERS, SERVERS, Seen, clients_of
from tests.support.edge.wire import WireClient, WirePublisher, request
from tests.support.recording.programs import Program
from tests.support.recording.samples import message, write
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

from .rows import row


def stopped(sidecar: Sidecar) -> float:
    """How long it takes to stop."""
    began = time.monotonic()
    sidecar.stop()
    return time.monotonic() - began


@row("stop-answered", at_most=1.5)
def stop_answered() -> Iterator[float]:
    """A node whose clients answer its close stops at once."""
    while True:
        with Sidecar() as sidecar, ExitStack() as stack:
            clients = clients_of(sidecar, stack, 3)
            began = time.monotonic()
            os.kill(sidecar.pid, signal.SIGTERM)
            for client in clients:
                client.closed()
            assert sidecar.process is not None
            assert sidecar.process.wait(60) == 0
            yield time.monotonic() - began


@row("stop-deaf", at_most=3.5)
def stop_deaf() -> Iterator[float]:
    """Who does not answer, or has said only half of what he wants, holds it up for two seconds at most."""
    while True:
        with Sidecar() as sidecar, WireClient(sidecar, receive_bytes=4096) as deaf:
            deaf.subscribe("/end/deaf")
            with socket.create_connection(deaf.sock.getpeername()) as half, WirePublisher(sidecar) as port:
                half.sendall(request()[:20])
                for _ in range(50):
                    port.publish(["/end/deaf", "x" * 50_000])
                yield stopped(sidecar)


@row("stop-held-poll", at_most=5.0)
def stop_held_poll() -> Iterator[float]:
    """A question over HTTP that may wait for half a minute holds nothing up."""
    while True:
        with Sidecar() as sidecar, HttpPeer(sidecar) as waiting:
            (one,) = waiting.history(subject="/stop/one")
            waiting.send(call_bytes("GET", f"/api/history?subject=/stop/one&since={one['epoch']},0&wait=30"))
            yield stopped(sidecar)


@row("drain-rate", at_least=0.5, at_most=4.0)
def drain_rate() -> Iterator[float]:
    """Thirty clients at fifty a second are told within 0.6 s, and closed a step later."""
    yield from _drained(30, workers=1, per_second=50)


@row("drain-rate-workers", at_least=0.9, at_most=4.0)
def drain_rate_workers() -> Iterator[float]:
    """Workers share the rate: 24 clients of two at twenty a second."""
    yield from _drained(24, workers=2, per_second=20)


def _drained(clients: int, workers: int, per_second: int) -> Iterator[float]:
    while True:
        with Sidecar(workers=workers) as sidecar, ExitStack() as stack, Control(sidecar.control) as control:
            there = clients_of(sidecar, stack, clients)
            until(lambda control=control: control.stats()["connections"] == clients)  # type: ignore[misc]
            began = time.monotonic()
            control.call("drain", {"per_second": per_second, "servers": OTHERS})
            for client in there:
                Seen(client)
            yield time.monotonic() - began


@row("drain-over", at_least=1.8, at_most=4.0)
def drain_over() -> Iterator[float]:
    """A node that is told to stop drains for the two seconds that were set, then all go at once."""
    while True:
        with Sidecar(servers=SERVERS, drain_per_second=1, drain_seconds=2) as sidecar, ExitStack() as stack:
            clients = clients_of(sidecar, stack, 8)
            began = time.monotonic()
            os.kill(sidecar.pid, signal.SIGTERM)
            for client in clients:
                Seen(client)
            yield time.monotonic() - began


@row("drain-second-signal", at_most=1.5)
def drain_second_signal() -> Iterator[float]:
    """A second signal ends the drain of every worker."""
    for workers in (1, 2) * 1000:
        settings = {"servers": SERVERS, "drain_per_second": 1, "drain_seconds": 60, "workers": workers}
        with Sidecar(**settings) as sidecar, ExitStack() as stack:
            clients = clients_of(sidecar, stack, 10)
            os.kill(sidecar.pid, signal.SIGTERM)
            until(lambda sidecar=sidecar: "drain" in sidecar.log)  # type: ignore[misc]

            def told(sidecar: Sidecar = sidecar, workers: int = workers) -> bool:
                os.kill(sidecar.pid, signal.SIGTERM)
                return sidecar.log.count("stopping: ") == workers

            began = time.monotonic()
            until(told)
            for client in clients:
                Seen(client)
            yield time.monotonic() - began


@row("recorder-stops", at_most=4.0)
def recorder_stops() -> Iterator[float]:
    """A recorder that is told to end before a server has answered ends soon."""
    while True:
        with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as server:
            url = f"ws://127.0.0.1:{server.getsockname()[1]}/ws"
            words = "/a/*", "--output", str(Path(folder) / "a.jsonl"), "--url", url
            with Program(Path(folder), "record", *words) as program, server.accept()[0]:
                began = time.monotonic()
                program.end(signal.SIGTERM)
                yield time.monotonic() - began


@row("replayer-stops", at_most=4.0)
def replayer_stops() -> Iterator[float]:
    """So does a replayer."""
    while True:
        with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as server:
            path = write(Path(folder) / "a.jsonl", [message(0)])
            words = str(path), "--url", f"127.0.0.1:{server.getsockname()[1]}"
            with Program(Path(folder), "replay", *words) as program, server.accept()[0]:
                began = time.monotonic()
                program.end(signal.SIGTERM)
                yield time.monotonic() - began
