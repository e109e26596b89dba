"""Long polling: how long polls are held, and when who asks nothing is gone."""

from __future__ import annotations

import time

import pytest

from fastpath.edge.clients import poll_connection
from fastpath.edge.clients.poll_connection import Polling
from tests.support.edge.sessions import PollSession
from tests.support.sidecar import Sidecar


class Asker:
    """Stands for a connection."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def answer(self) -> None:
        self.told.append("nothing")

    def silent(self) -> None:
        self.told.append("gone")


def test_the_times_of_a_client_that_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = awake = 0
    monkeypatch.setattr(poll_connection, "now", lambda: moment)
    polling, one, other = Polling(lambda: awake), Asker(), Asker()
    polling.heard(one)  # type: ignore[arg-type]
    polling.hold(other)  # type: ignore[arg-type]
    assert (len(polling), polling.held) == (2, 1)
    polling.tick(24_999)
    assert (one.told, other.told) == ([], [])
    polling.tick(25_000)
    assert (one.told, other.told) == ([], ["nothing"])
    awake = 40_000
    polling.forget(other)  # type: ignore[arg-type]
    polling.heard(one)  # type: ignore[arg-type]
    awake = 89_999
    polling.tick(89_999)
    assert one.told == []
    polling.tick(1_000_000)  # the process stood still: what the client asked meanwhile has not been read yet
    assert one.told == []
    awake = 90_000
    polling.tick(1_000_001)
    assert one.told == ["gone"]
    polling.forget(one)  # type: ignore[arg-type]
    assert len(polling) == 0


@pytest.mark.slow
def test_a_poll_is_held_for_its_time_and_who_asks_nothing_is_gone() -> None:
    with Sidecar() as sidecar, PollSession(sidecar) as session:
        session.subscribe("/poll/a")
        session.poller.connection.timeout = 60
        assert session.poller.connection.sock is not None
        session.poller.connection.sock.settimeout(60)
        began = time.monotonic()
        assert session.poll().body == b""
        assert 24 < time.monotonic() - began < 40
        while "code=4002" not in sidecar.log:
            assert time.monotonic() - began < 120
            time.sleep(0.5)
        assert session.poller.ask("GET", session.path).body.startswith(b'{"close": 4002')
