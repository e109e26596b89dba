"""A server that did not run blames nobody for what it could not hear: clients, publishers and their deadlines."""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest

from fastpath.awake import AwakeClock
from fastpath.client.control.client import Control
from fastpath.core.protocol.errors import Close
from fastpath.core.websocket.frames import CLOSE, PING, PONG
from tests.support.edge.stopping import stopped
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.sidecar import Sidecar


def ping(client: WireClient) -> bytes:
    """Wait for a ping, and do not answer it."""
    while True:
        opcode, payload = client.next_frame()
        assert opcode != CLOSE, payload
        if opcode == PING:
            return payload


def test_an_answer_to_a_ping_that_comes_while_the_server_stands_still_counts() -> None:
    """When the server goes on, the answer waits unread, and its time is over."""
    with Sidecar(ping_seconds=1) as sidecar, WireClient(sidecar) as client:
        client.ask("connect", "connected")
        for _ in range(2):
            payload = ping(client)
            with stopped(sidecar, 1.5):
                client.frame(PONG, payload)
        assert client.subscribe("/awake/one")[0]["subject"] == "/awake/one", "it is still connected"


ROUND_SECONDS = 2.0
"""Longer than a client has to answer: a loop that goes on finds its time over before it reads."""


@pytest.mark.slow
def test_a_server_with_a_hundredth_of_a_core_closes_nobody_who_answers() -> None:
    """Each answer comes while the server does not run, and waits unread when its time is over."""
    with ExitStack() as stack:
        sidecar = stack.enter_context(Sidecar(ping_seconds=1))
        clients = [stack.enter_context(WireClient(sidecar)) for _ in range(20)]
        for client in clients:
            client.ask("connect", "connected")
        pings = 0
        for _ in range(8):
            with stopped(sidecar, ROUND_SECONDS):
                for client in clients:
                    while not client.silent():
                        opcode, payload = client.next_frame()
                        assert opcode == PING, payload
                        client.frame(PONG, payload)
                        pings += 1
            time.sleep(ROUND_SECONDS / 100)  # what it has of the CPU
        assert pings >= 4 * len(clients)
        with Control(sidecar.control) as control:
            figures = control.stats()
            assert (figures["connections"], figures["disconnects_ping_timeout"]) == (20, 0)


@pytest.mark.slow
def test_whoever_says_nothing_is_closed_all_the_same() -> None:
    """Once the server has had the time to hear it."""
    with Sidecar(ping_seconds=1) as sidecar, WireClient(sidecar) as client:
        client.ask("connect", "connected")
        ping(client)
        with stopped(sidecar, 3):
            pass
        while (frame := client.next_frame())[0] != CLOSE:
            assert frame[0] == PING
        assert int.from_bytes(frame[1][:2]) == Close.PING_TIMEOUT


@pytest.mark.slow
def test_a_first_command_that_comes_while_the_server_stands_still_is_in_time() -> None:
    with (
        Sidecar(handshake_seconds=2) as sidecar,
        WireClient(sidecar) as client,
        WirePublisher(sidecar, hello=False) as publisher,
    ):
        with stopped(sidecar, 4):
            number = client.say("connect")
            publisher.packet("hello", {"version": 1, "token": "", "publisher": ""})
        assert client.answer("connected", number)
        assert publisher.next()[0] == "welcome"
        with WireClient(sidecar) as silent:
            assert silent.closed()[1] == "handshake_timeout"


@pytest.mark.parametrize(
    ("moments", "time", "late"),
    [
        ([10.1, 10.2, 10.3], 0.3, False),
        ([10.1, 70.1], 0.3, True),
        ([10.1, 70.1, 70.2], 0.4, False),
        ([9.0, 9.1], 0.1, False),
        ([11.0, 12.0, 13.0], 0.6, True),
    ],
)
def test_the_clock_goes_while_it_is_told_the_time(moments: list[float], time: float, late: bool) -> None:
    clock = AwakeClock(0.2, 10.0)
    for moment in moments:
        clock.tick(moment)
    assert clock.time == pytest.approx(time)
    assert clock.late is late


def test_the_clock_stands_while_there_is_no_processor() -> None:
    """Of what lies between two calls, however often a process that starves comes to call; never more than that."""
    clock = AwakeClock(0.2, 0.0)
    clock.tick(0.0, 5.0)  # what it waited for before is nothing to this clock
    for number in range(1, 1001):
        clock.tick(number * 0.1, 5.0 + number * 0.095)
        assert not clock.late
    assert clock.time == pytest.approx(5.0)
    clock.tick(100.1, 5.0 + 95.0)
    assert clock.time == pytest.approx(5.1), "it goes as others do when it has one"
    clock.tick(130.1, 5.0 + 95.0 + 29.9)
    assert (clock.time, clock.late) == (pytest.approx(5.2), True)
    clock.tick(130.2, 5.0 + 95.0 + 40.0)
    assert clock.time == pytest.approx(5.2), "it never goes back"
