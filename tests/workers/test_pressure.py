"""Who publishes faster than another worker follows is held back, for as long as that one makes progress."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from fastpath.client.control.client import Control
from fastpath.client.errors import ClientError
from tests.support.edge.rules import rule, ruled
from tests.support.edge.spread import figures_by_worker, kill_worker, publisher, spread
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.sidecar import Sidecar
from tests.support.tokens import mint
from tests.support.waiting import PATIENCE_SECONDS, until

SUBJECTS = 20
BATCH_MESSAGES = 1000
IN_FLIGHT = 8
CONTENT = "x" * 100
FULL_SPEED_SECONDS = 3.0
SLOW_SECONDS = 60
"""A slow machine needs long to fill a link: meanwhile nobody ends a worker that is stopped for hanging."""
LARGE_BATCH = [[f"/large/{number}", "x" * 950_000] for number in range(4)]
"""Just below what a publisher's frame may have: three of them are more than may wait for a worker."""


def at_full_speed(port: WirePublisher, enough: Callable[[], bool]) -> dict[str, int]:
    """Publish with several batches in flight; the last number of each subject."""
    rows = [[f"/hot/{number % SUBJECTS}", CONTENT] for number in range(BATCH_MESSAGES)]
    sent = acknowledged = 0
    last: dict[str, int] = {}
    while acknowledged < sent or not enough():
        while sent < acknowledged + IN_FLIGHT and not enough():
            sent += 1
            port.packet("batch", sent, rows)
        kind, number, _, results = port.next()
        acknowledged += 1
        assert (kind, number) == ("ack", acknowledged)
        last.update({row[0]: result for row, result in zip(rows[-SUBJECTS:], results[-SUBJECTS:], strict=True)})
    return last


def read_until(client: WireClient, last: Callable[[], int | None], got: list[int]) -> None:
    """The numbers of all messages until the last one has come."""
    while not got or got[-1] != last():
        if client.silent(0.05):
            continue
        got.append(client.message()[1])


@contextmanager
def busy(sidecar: Sidecar, token: str = "") -> Iterator[None]:
    """A publisher at full speed, for a while."""
    over = threading.Event()
    with WirePublisher(sidecar, token) as port:
        thread = threading.Thread(target=at_full_speed, args=(port, over.is_set))
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def test_a_publisher_at_full_speed_gets_no_worker_cut() -> None:
    """Every acknowledged message arrives on both, once and in order."""
    with Sidecar(workers=2, outbox_bytes_max=64 << 20) as sidecar, spread(sidecar, 2) as clients:
        got: list[list[int]] = [[], []]
        last: dict[str, int] = {}
        for client in clients.all:
            client.subscribe("/hot/0")
        threads = [
            threading.Thread(target=read_until, args=(client, lambda: last.get("/hot/0"), numbers))
            for client, numbers in zip(clients.all, got, strict=True)
        ]
        for thread in threads:
            thread.start()
        with publisher(sidecar) as port:
            end = time.monotonic() + FULL_SPEED_SECONDS
            last.update(at_full_speed(port, lambda: time.monotonic() > end))
        for thread in threads:
            thread.join(2 * PATIENCE_SECONDS)
        assert got == [list(range(1, last["/hot/0"] + 1))] * 2
        assert all(client.quiet() for client in clients.all)
        assert "is over" not in sidecar.log, sidecar.log


@pytest.mark.slow
def test_a_whole_set_of_rights_takes_force_under_load() -> None:
    with ruled(rule(1, "/r/**"), workers=2) as rules:
        token = mint("alice", generation=rules.generation)
        root = mint("root", superuser=True, generation=rules.generation)
        with spread(rules.sidecar, 2, token=token) as clients, busy(rules.sidecar, root):
            until(lambda: all(one["subjects"] > SUBJECTS for one in figures_by_worker(rules.sidecar)))
            for client in clients.all:
                assert "sid" in client.subscribe("/r/one")[0]
            for removed in (True, False, True):
                many = [rule(number, f"/x/{number}") for number in range(10, 3000)]
                rules.generation += 1
                rules.control.rules_begin(rules.generation)
                for start in range(0, len(many), 1000):
                    rules.control.rules_chunk(rules=many[start : start + 1000])
                if not removed:
                    rules.control.rules_chunk(rules=[rule(1, "/r/**")])
                rules.control.rules_commit(rules.generation)
                for client in clients.all:
                    client.answer("revoked" if removed else "subscribed")
        assert "is over" not in rules.sidecar.log, rules.sidecar.log


@pytest.mark.slow
def test_a_worker_that_is_replaced_gets_its_copy_beside_a_full_log() -> None:
    """However busy the log is: the copy has its share of the link."""
    with Sidecar(workers=2) as sidecar:
        with publisher(sidecar) as port:
            for start in range(0, 20_000, 1000):
                port.publish(*([f"/many/{number}", CONTENT] for number in range(start, start + 1000)))
        with busy(sidecar):
            until(lambda: (each := figures_by_worker(sidecar)) and each[0]["subjects"] > 20_000, 30)
            kill_worker(sidecar, 1, 2)
            until(lambda: [one["subjects"] for one in figures_by_worker(sidecar)] == [20_000 + SUBJECTS + 1] * 2, 30)
        assert sidecar.log.count("is over") == 1, sidecar.log


def test_only_those_who_publish_are_held_on_every_worker() -> None:
    """Control, and what clients ask otherwise, is served meanwhile; what is held is taken afterwards, in order."""
    with Sidecar(workers=3, hang_seconds=SLOW_SECONDS) as sidecar, spread(sidecar, 3) as clients:
        each = until(lambda: (each := figures_by_worker(sidecar)) and len(each) == 3 and each)
        stopped = int(each[2]["pid"])
        os.kill(stopped, signal.SIGSTOP)
        try:
            with publisher(sidecar) as port, Control(sidecar.control) as control:
                for _ in range(3):
                    assert len(port.publish(*LARGE_BATCH)) == len(LARGE_BATCH)
                assert control.publish([["/held/control", "x"]])["results"] == [1]
                first, other = clients.first, first_to_answer(clients.others)
                for client in (first, other):
                    for number in range(5):
                        client.say("publish", subject="/held/one", content="x", closure=str(number))
                        client.sock.settimeout(PATIENCE_SECONDS)
                assert port.publish(["/held/publisher", "x"]) == [1]
                for client in (first, other):
                    answers = [client.answer("published") for _ in range(5)]
                    assert [(one["closure"], one["status"]) for one in answers] == [(str(n), "ok") for n in range(5)]
                    assert client.quiet()
        finally:
            os.kill(stopped, signal.SIGCONT)
        for client in clients.all:
            until(lambda client=client: client.subscribe("/held/one")[0]["seq"] == 10)
        assert "is over" not in sidecar.log, sidecar.log


def first_to_answer(clients: list[WireClient]) -> WireClient:
    """The one whose worker runs; of the others none does."""
    for client in clients:
        client.say("ping")
    ready, _, _ = select.select([client.sock for client in clients], [], [], 10)
    [found] = [client for client in clients if client.sock in ready]
    assert found.next()["op"] == "pong"
    return found


def test_rights_change_while_the_others_get_their_copy_of_a_take_over() -> None:
    """Control is open before the publishers' port: those who serve already are told of what is revoked."""
    with ruled(rule(1, "/r/**"), workers=2, cache_bytes=256 << 20) as rules:
        sidecar = rules.sidecar
        token = mint("alice", generation=rules.generation)
        with spread(sidecar, 2, token=token) as clients:
            other = clients.others[0]
            other.subscribe("/r/one")
            for number in range(80):
                rules.publish([f"/state/{number % 4}", "x" * 1_000_000])
            os.kill(sidecar.ready["workers"][0], signal.SIGKILL)

            def changed() -> bool:
                try:
                    with Control(sidecar.control) as control:
                        control.rules_diff(rules.generation, rules.generation + 1, removed=[1])
                except (ClientError, OSError):
                    return False
                return True

            until(changed)
            with suppress(ConnectionRefusedError):  # as long as the others get their copy
                WirePublisher(sidecar, hello=False).sock.close()
                until(lambda: sidecar.log.count("has the whole copy") == 2)  # else it is open before they have it
            assert other.answer("revoked")["subjects"] == ["/r/one"]
            publisher_token = mint("root", superuser=True, generation=rules.generation)
            until(lambda: accepts(sidecar, publisher_token))


def accepts(sidecar: Sidecar, token: str) -> bool:
    """Whether the publishers' port is open."""
    try:
        with WirePublisher(sidecar, token):
            return True
    except OSError:
        return False
