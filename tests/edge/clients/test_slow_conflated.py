"""Clients that stop reading and agreed to conflation, on real sockets: told, bounded, level again (features.md C6)."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fastpath.client.control.client import Control
from tests.support.certificates import Certificate
from tests.support.edge.wire import WireClient, WirePublisher, resident_bytes
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

OUTBOX_BYTES = 400_000
FILLER = "x" * 4000
SUBJECTS = [f"/lag/{number}" for number in range(5)]


class Tape:
    """What a slow client finds when it reads again: messages by subject, and when it was told of conflation."""

    def __init__(self, client: WireClient) -> None:
        self.client = client
        self.events: list[str] = []
        self.told: set[int] = set()
        self.anew: set[int] = set()
        self.positions: dict[int, int] = {}
        self.skipped = 0

    def next(self) -> Any:
        """Take in one message or event; a gap must have been announced, and nothing goes backward."""
        value = self.client.next()
        if isinstance(value, list):
            sid, seq = value[:2]
            step = seq - self.positions.get(sid, 0)
            assert step > 0
            assert step == 1 or sid in self.told or sid in self.anew
            self.anew.discard(sid)
            self.skipped += step - 1
            self.positions[sid] = seq
        elif value["op"] in ("lagging", "caught_up"):
            self.events.append(value["op"])
            (self.told.update if value["op"] == "lagging" else self.told.difference_update)(value["sids"])
        elif value["op"] == "subscribed":
            self.events.append("subscribed")
            self.told.difference_update(result["sid"] for result in value["results"])
            self.anew.update(result["sid"] for result in value["results"])
        return value

    def until_level(self, position: int) -> None:
        """Read until every subject stands at the position and follows again."""
        while self.told or set(self.positions.values()) != {position} or len(self.positions) < len(SUBJECTS):
            self.next()


def publish(publisher: WirePublisher, count: int) -> None:
    """So many messages on each subject."""
    for _ in range(count):
        publisher.publish(*([subject, FILLER, {"bid": "1"}] for subject in SUBJECTS))


def lagged(sidecar: Sidecar) -> int:
    """How often clients fell back to conflation."""
    with Control(sidecar.control) as control:
        return int(control.stats()["slow_conflated"])


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_told_then_one_message_a_subject_then_live(form: str) -> None:
    with (
        Sidecar(outbox_bytes_max=OUTBOX_BYTES) as sidecar,
        WirePublisher(sidecar) as publisher,
        WireClient(sidecar) as reader,
        WireClient(sidecar, form, receive_bytes=4096) as slow,
    ):
        reader.subscribe(*SUBJECTS)
        slow.subscribe(*SUBJECTS, slow="conflate")
        count = more = 0
        while more < 100:
            publish(publisher, 1)
            count += 1
            assert [reader.message()[1] for _ in SUBJECTS] == [count] * len(SUBJECTS)
            more += lagged(sidecar)
        tape = Tape(slow)
        tape.until_level(count)
        assert tape.events[0] == "lagging"
        assert tape.events[-1] == "caught_up"
        assert tape.skipped >= 90 * len(SUBJECTS)
        events = len(tape.events)
        publish(publisher, 3)
        tape.until_level(count + 3)
        assert len(tape.events) == events, "live again"


def test_a_twentieth_that_stops_reading_costs_nobody_anything() -> None:
    """5 of 100 clients of one subject: the 95 get everything at once, memory stays, the five are level in the end."""
    with Sidecar(outbox_bytes_max=OUTBOX_BYTES) as sidecar, ExitStack() as stack:
        publisher = stack.enter_context(WirePublisher(sidecar))
        readers = [stack.enter_context(WireClient(sidecar)) for _ in range(95)]
        slow = [stack.enter_context(WireClient(sidecar, receive_bytes=4096)) for _ in range(5)]
        for client in readers:
            client.subscribe("/lag/one")
        for client in slow:
            client.subscribe("/lag/one", slow="conflate")
        memory = 0
        for number in range(1, 1501):
            publisher.publish(["/lag/one", FILLER])
            for client in readers:
                assert client.message()[1] == number
            if number == 1100:  # the cache is full, and the slow ones lag
                memory = resident_bytes(sidecar.pid)
                assert lagged(sidecar) == 5
        assert resident_bytes(sidecar.pid) - memory < OUTBOX_BYTES
        for client in slow:
            tape = Tape(client)
            while set(tape.positions.values()) != {number} or tape.told:
                tape.next()
            assert tape.events == ["lagging", "caught_up"]
        with Control(sidecar.control) as control:
            assert control.stats()["slow_closed"] == 0


def test_what_may_not_be_conflated_closes_the_client_and_resumes() -> None:
    """A subscription of each kind on one client; it comes back with its positions, and is told what it gets."""
    with (
        Sidecar(outbox_bytes_max=OUTBOX_BYTES) as sidecar,
        WirePublisher(sidecar) as publisher,
        WireClient(sidecar, receive_bytes=4096) as slow,
    ):
        epoch = slow.ask("connect", "connected")["epoch"]
        slow.subscribe("/lag/0", slow="conflate")
        slow.subscribe("/lag/1")
        count = 0
        with Control(sidecar.control) as control:
            while not control.stats()["slow_closed"]:
                publish(publisher, 10)
                count += 10
        seen: dict[str, list[int]] = {"/lag/0": [0], "/lag/1": [0]}
        original = slow.next

        def noted() -> Any:
            value = original()
            if isinstance(value, list):
                seen[slow.subjects[value[0]]].append(value[1])
            return value

        slow.next = noted  # type: ignore[method-assign]
        assert slow.closed() == (4001, "slow_consumer")
        for numbers in seen.values():
            assert all(later == before + 1 for before, later in pairwise(numbers))
        with WireClient(sidecar) as again:
            since = {subject: [epoch, numbers[-1]] for subject, numbers in seen.items()}
            results = again.subscribe("/lag/0", "/lag/1", since=since, slow="conflate")
            for result in results:
                assert result["recovery"] in ("recovered", "resynchronised")
                got = [again.message()[1] for _ in range(result["messages"])]
                assert got[-1] == count
                if result["recovery"] == "recovered":
                    assert got == list(range(since[result["subject"]][1] + 1, count + 1))


def test_over_tls(tmp_path: Path) -> None:
    certificate = Certificate(tmp_path)
    listen = f"{certificate.url('clients')},publishers://127.0.0.1:0"
    with (
        Sidecar(listen=listen, outbox_bytes_max=OUTBOX_BYTES) as sidecar,
        WirePublisher(sidecar) as publisher,
        WireClient(sidecar.ready["clients"][0], tls=certificate.trusting(), receive_bytes=4096) as slow,
    ):
        slow.subscribe(*SUBJECTS, slow="conflate")
        count = 0
        while not lagged(sidecar):
            publish(publisher, 10)
            count += 10
        publish(publisher, 50)
        tape = Tape(slow)
        tape.until_level(count + 50)
        assert tape.events[0] == "lagging"
        assert tape.skipped > 0


def test_a_client_that_goes_while_it_lags_leaves_nothing() -> None:
    with Sidecar(outbox_bytes_max=OUTBOX_BYTES) as sidecar, WirePublisher(sidecar) as publisher:
        with WireClient(sidecar, receive_bytes=4096) as slow:
            slow.subscribe(*SUBJECTS, slow="conflate")
            while not lagged(sidecar):
                publish(publisher, 10)
        publish(publisher, 1)
        with Control(sidecar.control) as control:
            until(lambda: control.stats()["subscriptions"] == 0)
        publish(publisher, 1)
        assert "Traceback" not in sidecar.log


def test_one_tick_beyond_the_bound() -> None:
    """More than the queue may hold, at once, again and again: told, started anew, level; and nobody is closed."""
    with (
        Sidecar(outbox_bytes_max=OUTBOX_BYTES, unsent_bytes_max=16384) as sidecar,
        WirePublisher(sidecar) as publisher,
        WireClient(sidecar, receive_bytes=4096) as slow,
    ):
        slow.subscribe("/lag/0", slow="conflate")
        for batch in range(10):
            publisher.publish(*(["/lag/0", f"{batch} {number} {FILLER}"] for number in range(250)))
        tape = Tape(slow)
        while 2500 not in tape.positions.values() or tape.told:
            tape.next()
        assert "subscribed" in tape.events
        assert tape.skipped > 2000
        publisher.publish(["/lag/0", "after"])
        assert tape.next()[1] == 2501
        with Control(sidecar.control) as control:
            assert control.stats()["slow_closed"] == 0
