"""Long polling: how long polls are held, and when who asks nothing is gone."""

from __future__ import annotations

import asyncio
import gc
import json
import time

import pytest

from fastpath.core.websocket.handshake import Request
from fastpath.edge.clients import poll_connection
from fastpath.edge.clients.connection import ClientConnection
from fastpath.edge.clients.poll_connection import ENDED, TOLD, PollAnswers, PollingClients
from fastpath.listen_address import Listener
from fastpath.server.components import make_runtime
from fastpath.settings import Settings
from tests.support.edge.sessions import PollSession
from tests.support.sidecar import Sidecar
from tests.support.waiting import auntil


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
    polling, one, other = PollingClients(lambda: awake), Asker(), Asker()
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


async def test_the_answers_are_the_socket_of_a_connection_and_nothing_of_either_stays() -> None:
    """They hold each other until the session is over; whoever asks then is told so."""
    runtime = make_runtime(Settings(mode="none"), asyncio.get_running_loop())
    told: list[tuple[int, bytes]] = []

    def left() -> list[object]:
        return [one for one in gc.get_objects() if type(one) in (PollAnswers, ClientConnection)]

    gc.collect()
    before = len(left())
    gc.disable()
    try:
        listener = Listener.parse("clients://127.0.0.1:0")
        answers = PollAnswers(runtime, PollingClients(lambda: 0), "127.0.0.1", listener)
        asked = Request("GET", "/session/poll", "/session/poll", "", "HTTP/1.1", {}, 0)
        answers.begin(asked, "", lambda status, body: told.append((status, body)))
        assert told[0][0] == TOLD
        assert runtime.http.sessions == {json.loads(told[0][1])["session"]: answers}
        assert len(left()) == before + 2
        answers.leave()
        await auntil(lambda: not runtime.http.sessions)
        answers.poll(1, lambda status, body: told.append((status, body)))
        answers.posted(1, [b"{}"], lambda status: told.append((status, b"")))
        assert [status for status, _ in told[1:]] == [ENDED, ENDED]
        del answers
        await auntil(lambda: len(left()) == before)
    finally:
        gc.enable()
    runtime.stop()


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
