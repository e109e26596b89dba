"""MQTT with several workers: a port on the first, WebSockets on all, and one connection and session for each client
id."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from threading import Event, Thread

import pytest
from websockets.exceptions import WebSocketException

from fastpath.core.mqtt.packets import Connack, ConnectPacket, Disconnect
from fastpath.core.mqtt.reasons import Reason
from tests.support.edge.mqtt import LISTEN, MqttPeer, kept, mqtt
from tests.support.edge.spread import kill_worker
from tests.support.seeds import run_seed
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until


def test_a_client_is_connected_once_whichever_worker_it_comes_to() -> None:
    with Sidecar(listen=LISTEN, workers=2) as sidecar, ExitStack() as stack:
        address = sidecar.ready["clients"][0]
        before: MqttPeer | None = None
        for _ in range(8):
            one = stack.enter_context(MqttPeer(address, websocket=True))
            assert one.connect("same").code == 0
            if before is not None:
                assert [each.code for each in before.ended() if isinstance(each, Disconnect)] == [Reason.TAKEN_OVER]
            before = one
        assert before is not None
        before.subscribe("workers/#")
        with mqtt(sidecar) as other:
            other.subscribe("workers/#")
            for number in range(20):
                assert before.publish("workers/a", f"from a page {number}") == 0
                assert other.publish("workers/a", f"from a thing {number}") == 0
            told = [payload for _, payload, _, _ in before.messages(40)]
            assert told == [payload for _, payload, _, _ in other.messages(40)]


def test_who_waits_in_vain_for_its_session_is_told_so_and_not_blamed_for_silence() -> None:
    """The first worker, which has the sessions, stands still; clients of the other one have said CONNECT."""
    settings = {"handshake_seconds": 4, "hang_seconds": 0}
    with Sidecar(listen=LISTEN, workers=2, **settings) as sidecar, ExitStack() as stack:
        address = sidecar.ready["clients"][0]
        peers = [stack.enter_context(MqttPeer(address, websocket=True)) for _ in range(16)]
        pool = stack.enter_context(ThreadPoolExecutor(len(peers)))
        os.kill(sidecar.ready["workers"][0], signal.SIGSTOP)
        try:
            for number, one in enumerate(peers):
                one.send(ConnectPacket(level=one.level, client_id=f"waits{number}", clean=False))
            answers = [pool.submit(one.receive, Connack) for one in peers]
            told = next(as_completed(answers, PATIENCE_SECONDS)).result()
        finally:
            os.kill(sidecar.ready["workers"][0], signal.SIGCONT)
        assert told.code == Reason.SERVER_BUSY
        assert told.properties["reason_string"] == "its session cannot be had at this moment"
        assert {answer.result().code for answer in answers} <= {0, Reason.SERVER_BUSY}
        assert "handshake_timeout" not in sidecar.log


class Mouth(Thread):
    """A publisher that goes on whoever dies: ``stored`` is what has been acknowledged."""

    def __init__(self, sidecar: Sidecar) -> None:
        super().__init__()
        self.stored: list[bytes] = []
        self.over = Event()
        self._sidecar = sidecar

    def run(self) -> None:
        number = 0
        while not self.over.is_set():
            with suppress(OSError, AssertionError), mqtt(self._sidecar) as one:
                while not self.over.is_set():
                    number += 1
                    payload = b"%d" % number
                    if one.publish(f"all/{number % 5}", payload) == 0:
                        self.stored.append(payload)
            self.over.wait(0.05)  # nobody is there for a moment


class Ear(Thread):
    """A client that comes to any worker, leaves some messages without acknowledgement, and goes again and again."""

    def __init__(self, sidecar: Sidecar, seed: int) -> None:
        super().__init__()
        self.heard: set[bytes] = set()
        self.present: list[bool] = []
        self.subscribed = Event()
        self.over = Event()
        self._sidecar = sidecar
        self._chance = Random(seed)

    def run(self) -> None:
        while not self.over.is_set():
            with suppress(OSError, AssertionError, WebSocketException):
                self._come(self._chance.choice(("clients", "mqtt")), self._chance.randrange(20, 400))
                continue
            self.over.wait(0.05)

    def _come(self, port: str, count: int) -> None:
        with MqttPeer(self._sidecar.ready[port][0], websocket=port == "clients") as one:
            one.sock.settimeout(2)
            self.present.append(one.connect("ear", clean=False, properties={"session_expiry": 600}).session_present)
            if len(self.present) == 1:
                one.subscribe("all/+")
                self.subscribed.set()
            for _ in range(count):
                self.heard.add(one.message(acknowledge=self._chance.random() < 0.95).payload)


@pytest.mark.slow
def test_a_session_misses_nothing_whoever_dies(tmp_path: Path) -> None:
    """What has been acknowledged to its publisher arrives, though workers and the whole sidecar are killed."""
    settings = {"journal": "interval", "data": tmp_path, "cache_messages": 100_000, "cache_seconds": 600}
    with Sidecar(listen=LISTEN, workers=2, **settings) as sidecar:
        mouth, ear = Mouth(sidecar), Ear(sidecar, run_seed())
        ear.start()
        try:
            assert ear.subscribed.wait(PATIENCE_SECONDS)
            kept(sidecar, 1)
            mouth.start()
            for death in (
                lambda: kill_worker(sidecar, 1, 2),
                sidecar.kill,
                lambda: kill_worker(sidecar, 0, 2),
                sidecar.stop,
            ):
                count = len(mouth.stored)
                until(lambda count=count: len(mouth.stored) > count + 200, 60)
                death()
                if sidecar.process is None:
                    sidecar.start()
            mouth.over.set()
            mouth.join()
            until(lambda: ear.heard.issuperset(mouth.stored), 60)
        finally:
            mouth.over.set()
            ear.over.set()
            ear.join()
        assert ear.present.count(False) == 1
