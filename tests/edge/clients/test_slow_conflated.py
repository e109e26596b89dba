"""Clients that stop reading and agreed to conflation, on real sockets: told, bounded, level again (features.md C6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fastpath.client.control.client import Control
from tests.support.certificates import Certificate
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.sidecar import Sidecar

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


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_told_then_one_message_a_subject_then_live(tmp_path: Path, secure: bool) -> None:
    certificate = Certificate(tmp_path)
    listen = f"clients://127.0.0.1:0,{certificate.url('clients')},publishers://127.0.0.1:0"
    tls = certificate.trusting() if secure else None
    with (
        Sidecar(listen=listen, outbox_bytes_max=OUTBOX_BYTES) as sidecar,
        WirePublisher(sidecar) as publisher,
        WireClient(sidecar) as reader,
        WireClient(sidecar.ready["clients"][secure], tls=tls, receive_bytes=4096) as slow,
    ):
        reader.subscribe(*SUBJECTS)
        slow.subscribe(*SUBJECTS, slow="conflate")
        count = more = 0
        while more < 20:
            publish(publisher, 1)
            count += 1
            assert [reader.message()[1] for _ in SUBJECTS] == [count] * len(SUBJECTS)
            more += lagged(sidecar)
        tape = Tape(slow)
        tape.until_level(count)
        assert tape.events[0] == "lagging"
        assert tape.events[-1] == "caught_up"
        assert tape.skipped >= 15 * len(SUBJECTS)
        events = len(tape.events)
        publish(publisher, 3)
        tape.until_level(count + 3)
        assert len(tape.events) == events, "live again"
        with Control(sidecar.control) as control:
            assert control.stats()["slow_closed"] == 0
