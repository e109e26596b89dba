"""Publications that a worker has handed to the first one are answered rightly, whoever goes before the answer."""

from __future__ import annotations

import os
import signal
from typing import Any

from tests.support.edge.spread import figures_by_worker, spread
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

SHARED = "clients+publishers://127.0.0.1:0"
TRIES_MAX = 100


def publisher_elsewhere(sidecar: Sidecar, server: str) -> WirePublisher:
    """A publisher on another worker than that one."""
    for _ in range(TRIES_MAX):
        publisher = WirePublisher(sidecar)
        if publisher.welcome["server"] != server:
            return publisher
        publisher.sock.close()
    raise AssertionError("the other worker got no publisher")


def hand_in(client: WireClient, publisher: WirePublisher) -> None:
    """A batch, then three publications of a client of the same worker, which has read them all."""
    publisher.packet("batch", 1, [["/gone/batch", "1"], ["/gone/batch", "2"]])
    publisher.packet("ping", 7)
    assert publisher.next() == ["pong", 7]
    for number in range(3):
        client.say("publish", subject="/gone/one", content="x", closure=str(number))
    client.ask("ping", "pong")


def answers(client: WireClient) -> list[tuple[Any, ...]]:
    return [(one["closure"], one["status"], one.get("seq")) for one in (client.answer("published") for _ in range(3))]


def test_a_publisher_that_leaves_before_its_acknowledgement_harms_nobody() -> None:
    with Sidecar(workers=2, listen=SHARED) as sidecar, spread(sidecar, 2) as clients:
        other, first = clients.others[0], sidecar.ready["workers"][0]
        publisher = publisher_elsewhere(sidecar, clients.server)
        os.kill(first, signal.SIGSTOP)
        hand_in(other, publisher)
        publisher.sock.close()
        for _ in range(2):
            other.ask("ping", "pong")  # the worker has seen the publisher go
        os.kill(first, signal.SIGCONT)
        assert answers(other) == [("0", "ok", 1), ("1", "ok", 2), ("2", "ok", 3)]
        assert other.subscribe("/gone/batch")[0]["seq"] == 2
        assert "Traceback" not in sidecar.log, sidecar.log


def test_the_first_worker_dies_before_it_acknowledges() -> None:
    """Its publishers on other workers are told to come again, each closure is answered, and the worker follows on."""
    with Sidecar(workers=2, listen=SHARED) as sidecar, spread(sidecar, 2) as clients:
        other, first = clients.others[0], sidecar.ready["workers"][0]
        publisher = publisher_elsewhere(sidecar, clients.server)
        os.kill(first, signal.SIGSTOP)
        hand_in(other, publisher)
        os.kill(first, signal.SIGKILL)
        assert [(closure, status) for closure, status, _ in answers(other)] == [
            ("0", "unavailable"), ("1", "unavailable"), ("2", "unavailable")]  # fmt: skip
        assert publisher.closed()[0] == 4000
        publisher.sock.close()
        assert other.answer("notice")["code"] == "fresh"
        assert "Traceback" not in sidecar.log, sidecar.log


def test_a_first_worker_that_is_stopped_acknowledges_nothing_that_the_others_miss() -> None:
    with Sidecar(workers=2) as sidecar, spread(sidecar, 2) as clients:
        other, first = clients.others[0], sidecar.ready["workers"][0]
        other.subscribe("/stopped/one")
        os.kill(first, signal.SIGTERM)
        acknowledged: list[str] = []
        got: list[str] = []
        number = 0
        told = False
        while not told:
            other.say("publish", subject="/stopped/one", content=str(number), closure=str(number))
            number += 1
            while True:
                value = other.next()
                if isinstance(value, list):
                    got.append(value[3])
                    continue
                if value["op"] == "published":
                    acknowledged += [value["closure"]] if value["status"] == "ok" else []
                    break
                told = told or (value["op"], value.get("code")) == ("notice", "fresh")
        pong = other.say("ping")
        while not (isinstance(value := other.next(), dict) and value.get("id") == pong):
            got += [value[3]] if isinstance(value, list) else []
        assert set(acknowledged) <= set(got)
        until(lambda: len(figures_by_worker(sidecar)) == 2)


def test_a_subject_larger_than_a_link_holds_is_copied() -> None:
    """A worker that is restarted has it, and so has a new first worker."""
    with Sidecar(workers=2, cache_bytes=256 << 20) as sidecar:
        with WirePublisher(sidecar) as port:
            for _ in range(80):
                port.publish(["/large/one", "x" * 1_000_000])
        for number in (1, 0):
            workers = {one["worker"]: one["pid"] for one in figures_by_worker(sidecar)}
            os.kill(int(workers[number]), signal.SIGKILL)

            def copied(number: int = number, dead: float = workers[number]) -> bool:
                each = figures_by_worker(sidecar)
                return [one["cached_messages"] for one in each] == [80, 80] and each[number]["pid"] != dead

            until(copied, 30)


def test_what_is_handed_in_replaces_on_every_worker() -> None:
    """A client's on each worker, and a publisher's: no field of before is in anybody's snapshot."""
    replace = {"replace": True}
    with (
        Sidecar(workers=2, listen=SHARED) as sidecar,
        spread(sidecar, 2) as clients,
        publisher_elsewhere(sidecar, clients.server) as publisher,
    ):
        for at, client in enumerate(clients.all):
            subject = f"/replaced/{at}"
            publisher.publish([subject, "1", {"a": "1"}])
            answer = client.ask(
                "publish", "published", subject=subject, content="2", fields={"b": "2"}, closure="c", **replace
            )
            assert answer["status"] == "ok"
        publisher.publish(["/replaced/2", "1", {"a": "1"}], ["/replaced/2", "2", {"b": "2"}, replace])
        for client in clients.all:
            for at in range(3):
                client.subscribe(f"/replaced/{at}")
                assert client.message()[3:5] == ["2", {"b": "2"}]


def test_what_is_handed_in_removes_on_every_worker() -> None:
    """A client's on each worker, and a publisher's: who is subscribed is told once, and nobody has a snapshot then."""
    with (
        Sidecar(workers=2, listen=SHARED) as sidecar,
        spread(sidecar, 2) as clients,
        spread(sidecar, 2) as readers,
        publisher_elsewhere(sidecar, clients.server) as publisher,
    ):
        subjects = [f"/removed/{at}" for at in range(3)]
        publisher.publish(*[[subject, "1", {"a": "1"}] for subject in subjects])
        for client in readers.all:
            client.subscribe(*subjects)
            assert [client.message()[3] for _ in subjects] == ["1", "1", "1"]
        for at, client in enumerate(clients.all):
            answer = client.ask("publish", "published", subject=subjects[at], content="", removed=True, closure="c")
            assert (answer["status"], answer["seq"]) == ("ok", 2)
        assert publisher.publish([subjects[2], "", None, {"removed": True}], [subjects[2], "2"]) == [2, 3]
        for client in readers.all:
            got = [client.message() for _ in range(4)]
            assert [one[3:5] for one in got] == [["", None]] * 3 + [["2"]]
            assert [one[5]["removed"] for one in got[:3]] == [True] * 3
            client.ask("unsubscribe", "unsubscribed", subjects=subjects)
            assert [result.get("messages", 0) for result in client.subscribe(*subjects)] == [0, 0, 1]
            assert client.message()[3:] == ["2", None, {"kind": "snapshot"}]
