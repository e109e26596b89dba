"""Every worker answers with the same snapshots and the same cached messages, also one that came later."""

from __future__ import annotations

from typing import Any

from tests.support.edge.spread import kill_worker, spread
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.sidecar import Sidecar

WORKERS = 3
LARGE = 200
"""Messages of a subject that does not fit into one slice of a copy."""


def fill(sidecar: Sidecar) -> dict[str, int]:
    """Publish all sorts of things; the subjects and how many of their messages are cached."""
    cached = {}
    with WirePublisher(sidecar) as port:
        port.publish(*[["/copy/large", "x" * 3000, {"n": str(n)}] for n in range(LARGE)])
        cached["/copy/large"] = LARGE
        for number in range(300):
            port.publish([f"/copy/small/{number}", str(number), {"a": b"\x00", "b": "1"}])
            cached[f"/copy/small/{number}"] = 1
        port.publish(["/copy/merged", "1", {"a": "1"}], ["/copy/merged", "2", {"b": "2"}])
        port.publish(["/copy/merged", "3", {"c": "3"}, {"retained": False, "reply_to": "/r/r", "as_of": "then"}])
        cached["/copy/merged"] = 3
        port.publish(["/copy/replaced", "1", {"a": "1"}], ["/copy/replaced", "2", {"b": "2"}, {"replace": True}])
        cached["/copy/replaced"] = 2
        port.publish(["/copy/removed", "1", {"a": "1"}], ["/copy/removed", "", None, {"removed": True}])
        port.publish(
            ["/copy/again", "1", {"a": "1"}], ["/copy/again", "", None, {"removed": True}], ["/copy/again", "2"]
        )
        cached |= {"/copy/removed": 2, "/copy/again": 3}
        port.publish(["/copy/standard", "s", None, {"qos": "standard"}])
        cached["/copy/standard"] = 0
    return cached


def held(client: WireClient, cached: dict[str, int]) -> list[Any]:
    """What a new subscriber to everything gets, first the snapshots, then all that is cached."""
    answers = []
    for subject, count in cached.items():
        for history in (0, 1000):
            [result] = client.subscribe(subject, history=history)
            expected = (count or 1) if history else int(subject != "/copy/removed")
            assert result.get("messages", 0) == expected, subject
            messages = [client.message()[1:] for _ in range(expected)]
            for message in messages:
                del message[1]  # the time, which counts from each worker's own base
            answers.append((subject, result["epoch"], result["seq"], messages))
            client.ask("unsubscribe", "unsubscribed", subjects=[subject])
    return answers


def test_all_workers_hold_the_same() -> None:
    with Sidecar(workers=WORKERS) as sidecar:
        cached = fill(sidecar)
        with spread(sidecar, WORKERS, form="msgpack") as clients:
            expected = held(clients.first, cached)
            for client in clients.others:
                assert held(client, cached) == expected


def test_a_worker_that_comes_later_holds_the_same() -> None:
    """Its copy is made while messages stream in; nothing is missed or doubled at the seam."""
    with Sidecar(workers=2) as sidecar:
        cached = fill(sidecar)
        with WirePublisher(sidecar) as port:
            for number in range(1, 200):
                port.packet("batch", number, [["/copy/large", "y" * 3000], ["/copy/new", str(number)]])
                if number == 100:
                    kill_worker(sidecar, 1, 2)
            for number in range(1, 200):
                assert port.next()[:2] == ["ack", number]
        cached |= {"/copy/large": LARGE + 199, "/copy/new": 199}
        with spread(sidecar, 2, form="msgpack") as clients:
            expected = held(clients.first, cached)
            assert held(clients.others[0], cached) == expected


def test_the_state_outlives_the_first_worker() -> None:
    """The others still hold it: the new one takes it over; numbers go on, in a new epoch."""
    with Sidecar(workers=2) as sidecar:
        cached = fill(sidecar)
        with spread(sidecar, 2, form="msgpack") as clients:
            before = held(clients.first, cached)
        kill_worker(sidecar, 0, 2)
        with spread(sidecar, 2, form="msgpack") as clients:
            after = held(clients.first, cached)
            assert held(clients.others[0], cached) == after
        assert after == before
        with WirePublisher(sidecar) as port:
            assert port.publish(["/copy/merged", "4"]) == [4]
        with spread(sidecar, 2, form="msgpack") as clients:
            [result] = clients.first.subscribe("/copy/merged")
        assert result["epoch"] > max(epoch for _, epoch, _, _ in before)
