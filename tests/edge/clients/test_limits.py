"""Each limit, by exceeding it: what is refused or held up, that others do not notice, and the figure that counts it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from fastpath.client.control.client import Control
from tests.support.edge.wire import PING, PONG, TEXT, Ended, Socket, WireClient, WirePublisher, masked, request
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint_jwt
from tests.support.waiting import until

RATE = 200
"""Publications a second; twice as many commands."""
BOB = mint_jwt("bob", both=["/**"])


@pytest.fixture(scope="module")
def limited() -> Iterator[Sidecar]:
    """A sidecar with every limit that is off by default, and small ones of the others."""
    with Sidecar(
        mode="jwt",
        token_secret=SECRET,
        commands_per_second_max=2 * RATE,
        publications_per_second_max=RATE,
        connections_per_user_max=3,
        connections_per_address_max=5,
        subscriptions_max=3,
        message_bytes_max=1000,
        subjects_max=50,
        handshake_seconds=3,
    ) as running:
        yield running
        assert "Traceback" not in running.log, running.log


def at(sidecar: Sidecar, address: str, token: str = BOB) -> WireClient:
    """A client behind the trusted proxy that this test is."""
    return WireClient(sidecar, path=f"/ws?token={token}", headers=f"X-Forwarded-For: {address}\r\n")


def count(sidecar: Sidecar, limit: str) -> int:
    """How often it was met."""
    with Control(sidecar.control) as control:
        return int(control.stats()[f"limited_{limit}"])


def counted(sidecar: Sidecar, limit: str, before: int, times: int = 1) -> bool:
    """Whether it has been met so often since."""
    return bool(until(lambda: count(sidecar, limit) >= before + times))


def test_commands_beyond_the_rate_wait_and_none_is_lost(limited: Sidecar) -> None:
    before = count(limited, "commands")
    with at(limited, "10.0.0.1") as hasty, at(limited, "10.0.0.2") as good:
        hasty.subscribe("/l/meanwhile")
        with limited.paused():
            hasty.send(b"".join(masked(TEXT, b'{"op":"ping","id":%d}' % number) for number in range(600)))
            good.say("publish", subject="/l/meanwhile", content="x")
        answers: list[int] = []
        while len(answers) < 600:
            value = hasty.next()
            if isinstance(value, list):
                assert len(answers) < 500, "the other one is served at once"
            else:
                answers.append(value["id"])
        assert answers == list(range(600))
        assert hasty.quiet()
    assert counted(limited, "commands", before)


def test_publications_beyond_the_rate_wait_and_none_is_lost(limited: Sidecar) -> None:
    before = count(limited, "publications")
    publish = b'{"op":"publish","subject":"/l/one","content":"%d"}'
    with at(limited, "10.0.0.1") as hasty, at(limited, "10.0.0.2") as good:
        good.subscribe("/l/one")
        hasty.send(b"".join(masked(TEXT, publish % number) for number in range(300)))
        assert good.texts(300) == [str(number) for number in range(300)]
    assert counted(limited, "publications", before)


def test_a_publisher_beyond_the_rate_is_not_read_from_for_a_while(limited: Sidecar) -> None:
    before = count(limited, "publications")
    with WirePublisher(limited, BOB) as publisher, WirePublisher(limited, BOB) as other:
        taken = publisher.publish(*[["/l/two", str(number)] for number in range(300)])
        assert len(taken) == 300, "a batch is taken whole"
        with limited.paused():
            publisher.packet("batch", 2, [["/l/two", "after"]])
            other.packet("batch", 1, [["/l/two", "meanwhile"]])
        assert other.next()[3] == [taken[-1] + 1], "who has said less is not held up"
        assert publisher.next()[3] == [taken[-1] + 2]
    assert counted(limited, "publications", before)


def test_connections_of_an_address(limited: Sidecar) -> None:
    before = count(limited, "connections_per_address")
    with ExitStack() as stack:
        there = [stack.enter_context(at(limited, "10.1.0.1", "")) for _ in range(5)]
        for client in there:
            assert client.ask("ping", "pong")
        with at(limited, "10.1.0.1", "") as refused:
            code, reason = ended(refused)
            assert code == 4006
            assert reason == "overloaded: this address has 5 connections already (connections_per_address_max)"
        with at(limited, "10.1.0.2", "") as elsewhere:
            assert elsewhere.ask("ping", "pong")
        there[0].sock.close()
        again = until(lambda: stays(limited, "10.1.0.1", ""))
        again.sock.close()
    assert counted(limited, "connections_per_address", before)


def test_connections_of_a_user_whether_the_token_comes_with_the_address_or_with_connect(limited: Sidecar) -> None:
    before = count(limited, "connections_per_user")
    ann = mint_jwt("ann", both=["/**"])
    with ExitStack() as stack:
        there = [stack.enter_context(at(limited, f"10.2.0.{number}", ann)) for number in range(2)]
        late = stack.enter_context(at(limited, "10.2.0.3", ""))
        assert late.ask("connect", "connected", token=ann)["user"] == "ann"
        for client in there:
            assert client.ask("ping", "pong")
        for token in (ann, ""):
            with at(limited, "10.2.0.4", token) as refused:
                if not token:
                    refused.say("connect", token=ann)
                assert ended(refused) == (
                    4006,
                    "overloaded: this user has 3 connections already (connections_per_user_max)",
                )
        with at(limited, "10.2.0.5") as other:
            assert other.ask("ping", "pong")
        late.sock.close()
        again = until(lambda: stays(limited, "10.2.0.6", ann))
        again.sock.close()
    assert counted(limited, "connections_per_user", before, 2)


def ended(client: WireClient) -> tuple[int, str]:
    """The code and the whole reason with which the server closes."""
    try:
        while True:
            client.next()
    except Ended as end:
        return end.code, end.reason


def stays(sidecar: Sidecar, address: str, token: str) -> WireClient | None:
    """A client, unless it is one too many."""
    client = at(sidecar, address, token)
    try:
        client.ask("ping", "pong")
        client.ask("ping", "pong")
    except Ended:
        client.sock.close()
        return None
    return client


def subscriptions(client: WireClient) -> None:
    assert [one.get("error") for one in client.subscribe("/s/1", "/s/2", "/s/3", "/s/4")] == [None] * 3 + ["limit"]


def message(client: WireClient) -> None:
    assert client.ask("publish", "published", subject="/l/m", content="x" * 1001, closure="c")["status"] == "too_large"


def frame(client: WireClient) -> None:
    client.send(masked(TEXT, b"x" * (1 << 17)))
    assert client.closed() == (1009, "too_big")


def errors(client: WireClient) -> None:
    client.send(masked(TEXT, b'{"op":"nothing","id":1}') * 101)
    assert client.closed() == (4505, "too_many_errors")


def handshake(client: WireClient) -> None:
    assert client.closed() == (4003, "handshake_timeout")


def subjects(client: WireClient) -> None:
    statuses = []
    for number in range(60):
        answer = client.ask("publish", "published", subject=f"/many/{number}", content="x", closure="c")
        statuses.append(answer["status"])
    assert statuses[-1] == "failed"


EXCEEDING: dict[str, Any] = {
    "subscriptions": subscriptions,
    "message": message,
    "errors": errors,
    "handshake": handshake,
    "subjects": subjects,
}


@pytest.mark.parametrize("limit", EXCEEDING)
def test_what_is_refused_is_counted(limited: Sidecar, limit: str) -> None:
    before = count(limited, limit)
    with at(limited, "10.3.0.1") as client:
        EXCEEDING[limit](client)
    assert counted(limited, limit, before)


def test_a_frame_that_is_too_big_is_counted_as_a_message(limited: Sidecar) -> None:
    before = count(limited, "message")
    with at(limited, "10.3.0.2") as client:
        frame(client)
    assert counted(limited, "message", before)


def test_who_does_nothing_is_closed_and_who_is_subscribed_stays() -> None:
    with Sidecar(idle_seconds=2, ping_seconds=1) as sidecar, ExitStack() as stack:
        idle, deaf, subscribed, offering, busy = (stack.enter_context(WireClient(sidecar)) for _ in range(5))
        subscribed.subscribe("/a/b")
        offering.ask("advertise", "advertised", patterns=["/offered/**"])
        for client in (idle, deaf):
            client.ask("ping", "pong")
        gone: dict[str, tuple[int, str]] = {}

        def all_told() -> bool:
            busy.ask("ping", "pong")
            for client in (subscribed, offering):
                while not client.silent():
                    opcode, payload = client.next_frame()
                    assert opcode == PING
                    client.frame(PONG, payload)
            if "idle" not in gone and not idle.silent():
                opcode, payload = idle.next_frame()
                if opcode == 9:
                    idle.frame(PONG, payload)
                else:
                    gone["idle"] = int.from_bytes(payload[:2]), payload[2:].decode()
            return "idle" in gone

        until(all_told)
        assert gone["idle"] == (4507, "idle: no subscription and no command for long")
        assert subscribed.ask("ping", "pong")
        assert offering.ask("ping", "pong")
        assert count(sidecar, "idle") == 1 + (deaf.closed()[0] == 4507)


def test_a_full_memory_refuses_what_is_new() -> None:
    """The way back and many workers are in tests/hostile."""
    with Sidecar(memory_bytes_max=1) as sidecar:
        with WireClient(sidecar) as client:
            assert ended(client) == (4006, "overloaded: the server's memory is full; retry later")
        with Control(sidecar.control) as control:
            assert control.publish([["/new/one", "x"]])["results"][0][0] == "failed"
        with WirePublisher(sidecar, hello=False) as publisher:
            publisher.packet("hello", {})
            assert publisher.closed() == (4006, "overloaded: the server's memory is full; retry later")
        assert count(sidecar, "memory") == 3


def test_publishers_take_places_on_a_port_for_both() -> None:
    with Sidecar(listen="clients+publishers://127.0.0.1:0", connections_max=2) as sidecar:
        sidecar.publisher_url = sidecar.ready["publishers"][0]
        with WirePublisher(sidecar), WireClient(sidecar) as client:
            assert client.ask("ping", "pong")
            assert full(sidecar)
            with WirePublisher(sidecar, hello=False) as publisher:
                publisher.packet("hello", {})
                assert publisher.closed() == (4006, "overloaded: too many connections; try again later")
        until(lambda: not full(sidecar))
        assert count(sidecar, "connections") >= 2


def test_who_says_nothing_on_such_a_port_takes_no_place_but_there_are_not_many() -> None:
    with Sidecar(listen="clients+publishers://127.0.0.1:0", connections_max=2) as sidecar, ExitStack() as stack:
        silent = [stack.enter_context(Socket(sidecar.client_url)) for _ in range(100)]
        until(lambda: sum(not peer.silent() for peer in silent) >= 100 - 2 - 64 - 1)
        assert sum(peer.silent() for peer in silent) >= 64
        # Those who are there are told apart by their first byte; the others were cut without a word.
        first = next(peer for peer in silent if peer.silent())
        first.send(request())
        assert first.read(12) == b"HTTP/1.1 101"


def full(sidecar: Sidecar) -> bool:
    """Whether a client is told that there is no place."""
    with Socket(sidecar.client_url) as peer:
        peer.send(request())
        return peer.read(12) == b"HTTP/1.1 503"
