"""Who sends much gets its turns like everybody else: nobody waits for it, and nothing of it is lost or out of order."""

from __future__ import annotations

import time
from contextlib import ExitStack

import msgspec

from tests.support.edge.wire import PING, TEXT, WireClient, WirePublisher, masked
from tests.support.sidecar import Sidecar

SUBJECTS = [f"/turns/{number}" for number in range(200)]


def heavy(count: int) -> bytes:
    """Commands that cost the server a millisecond or more each."""
    return b"".join(
        masked(TEXT, msgspec.json.encode({"op": "subscribe", "id": number, "subjects": SUBJECTS}))
        for number in range(1, count + 1)
    )


def test_nobody_waits_for_what_one_has_sent(shared: Sidecar) -> None:
    """All of it comes in one read."""
    pattern = b'{"op":"%b","id":%d,"subjects":["/turns/*"]}'
    with WireClient(shared) as much, WireClient(shared) as little, WirePublisher(shared) as publisher:
        publisher.publish(*[[subject, "x"] for subject in SUBJECTS])
        little.ask("ping", "pong")
        churn = [masked(TEXT, pattern % (op, number)) for number in range(60) for op in (b"subscribe", b"unsubscribe")]
        began = time.monotonic()
        much.send(b"".join(churn))
        assert much.answer("unsubscribed")["id"] == 0, "it is being served"
        little.ask("ping", "pong")
        waited = time.monotonic() - began
        assert [much.answer("unsubscribed")["id"] for _ in range(59)] == list(range(1, 60))
        assert waited < (time.monotonic() - began) / 2


def test_many_who_send_much_are_all_served(shared: Sidecar) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(WireClient(shared)) for _ in range(20)]
        for client in clients:
            client.send(heavy(5))
        for client in reversed(clients):
            assert [client.answer("subscribed")["id"] for _ in range(5)] == [1, 2, 3, 4, 5]


def test_pongs_keep_their_place_among_answers(shared: Sidecar) -> None:
    with WireClient(shared) as client:
        command = masked(TEXT, b'{"op":"ping","id":1}')
        client.send((masked(PING, b"p") + command) * 500)
        client.answer("pong")
        assert [client.next_frame()[0] for _ in range(998)] == [10, 1] * 499
