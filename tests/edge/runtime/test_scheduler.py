"""Who sends much gets its turns like everybody else: nobody waits for it, and nothing of it is lost or out of order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from contextlib import ExitStack
from functools import partial

import msgspec

from fastpath.edge.runtime.scheduler import TURN_SECONDS, Scheduler
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
    """All of it comes in one read; what the other one says meanwhile is heard among the answers."""
    pattern = b'{"op":"%b","id":%d,"subjects":["/turns/*"]}'
    with WireClient(shared) as much, WireClient(shared) as little, WirePublisher(shared) as publisher:
        publisher.publish(*[[subject, "x"] for subject in SUBJECTS])
        much.subscribe("/turn/of/little")
        little.ask("ping", "pong")
        churn = [masked(TEXT, pattern % (op, number)) for number in range(60) for op in (b"subscribe", b"unsubscribe")]
        with shared.paused():
            much.send(b"".join(churn))
            little.say("publish", subject="/turn/of/little", content="now")
        heard: list[int | str] = []
        while len(heard) < 61:
            value = much.next()
            if isinstance(value, list):
                heard += ["now"] if value[3] == "now" else []
            elif value["op"] == "unsubscribed":
                heard.append(value["id"])
        assert [one for one in heard if one != "now"] == list(range(60))
        assert heard.index("now") < 30


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


def test_those_in_line_end_one_after_another() -> None:
    """Each has all its turns before the next one has its first, also after a fault; who only waits comes between."""
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: None)
    scheduler = Scheduler(loop)
    turns: list[str] = []

    def standing(name: str) -> bool:
        turns.append(name)
        if name == "faulty":
            raise ValueError(name)
        if turns.count(name) == 3 and name == "b":
            scheduler.later(loop.stop)
        return turns.count(name) < 3

    for name in ("a", "faulty", "b"):
        scheduler.in_line(partial(standing, name))
        scheduler.later(partial(turns.append, "waits"))
    loop.call_later(10, loop.stop)
    loop.run_forever()
    loop.close()
    assert [name for name in turns if name != "waits"] == [*"aaa", "faulty", *"bbb"]
    assert turns[:4] == ["a", "waits", "waits", "waits"]


def test_a_fault_of_one_who_waits_or_works_holds_up_nobody_else() -> None:
    """What is interrupted goes on after the others; each is answered once, with its own end."""
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: faults.append(str(context["exception"])))
    scheduler = Scheduler(loop)
    faults: list[str] = []
    ends: list[str] = []

    def work(steps: int, end: str) -> Generator[None, None, str]:
        for _ in range(steps):
            due = time.perf_counter() + TURN_SECONDS
            while time.perf_counter() < due:
                pass
            yield
        if end == "fails":
            raise ValueError(end)
        return end

    def faulty() -> None:
        raise ValueError("faulty")

    def done(end: str) -> None:
        ends.append(end)
        if end == "long":
            loop.call_soon(loop.stop)
        elif end == "short":
            scheduler.run(work(0, "begun by an end"), done, str)

    scheduler.later(faulty)
    scheduler.run(work(9, "long"), done, str)
    scheduler.run(work(0, "short"), done, str)
    scheduler.run(work(1, "fails"), done, lambda error: ends.append(str(error)))
    loop.call_later(10, loop.stop)
    loop.run_forever()
    loop.close()
    assert (faults, sorted(ends[:3]), ends[3:]) == (["faulty"], ["begun by an end", "fails", "short"], ["long"])
