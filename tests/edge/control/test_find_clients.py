"""The control verb ``clients``: who is found by user, address, subject and pattern, page by page, and who is slow."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from fastpath.client.control.client import Control
from fastpath.client.errors import ControlRefused
from fastpath.core.delivery.audience import Client
from fastpath.core.protocol.errors import InvalidMessage
from fastpath.core.wires.registry import PLAIN
from fastpath.edge.control.find_clients import SLICE_SUBSCRIPTIONS, Readers
from fastpath.edge.runtime.connection_names import Name
from fastpath.edge.runtime.runtime import now
from fastpath.server.components import make_runtime
from fastpath.settings import Settings
from tests.support.edge.operators import Nowhere
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.rights import load_rights, rule
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint
from tests.support.waiting import auntil, run, until

FILLER = "x" * 4000


@pytest.fixture(scope="module")
def ward() -> Iterator[Sidecar]:
    """Everybody may do everything below /a; only ann may read /b."""
    with Sidecar(mode="rules", token_secret=SECRET, outbox_bytes_max=32 << 20) as sidecar:
        load_rights(sidecar.control, rule(1, "everyone", "/a/**"), rule(2, "user:ann", "/b/**"))
        yield sidecar
        assert "Traceback" not in sidecar.log, sidecar.log


@pytest.fixture
def control(ward: Sidecar) -> Iterator[Control]:
    """A connection of Django's, once nobody of the test before is left."""
    with Control(ward.control) as control:
        until(lambda: control.clients()["total"] == 0)
        yield control


def called(sidecar: Sidecar, user: str, **options: str) -> WireClient:
    """A client of that user."""
    client = WireClient(sidecar, source=options.pop("source", ""))
    client.ask("connect", "connected", token=mint(user), **options)
    return client


def test_a_row_says_who_and_how(ward: Sidecar, control: Control) -> None:
    with called(ward, "ann", client="tests/1") as ann:
        ann.subscribe("/a/one", "/b/*", "/a/two", "/a/three")
        found = control.clients()
        [row] = found.pop("clients")
        assert found == {"total": 1, "more": False, "after": "", "away": []}
        connection, since = row.pop("connection"), row.pop("since")
        assert connection.split(".")[:2] == ["0", str(ward.pid)]
        assert since > 1_700_000_000_000
        assert row == {
            "worker": 0,
            "user": "ann",
            "address": "127.0.0.1",
            "transport": "websocket",
            "over": "tcp",
            "encoding": "json",
            "program": "tests/1",
            "subscriptions": 3,
            "patterns": 1,
            "queue_bytes": 0,
            "blocked_since": None,
            "lagging": False,
            "subjects": ["/b/*", "/a/one", "/a/two"],
        }


def test_by_user_address_and_subject(ward: Sidecar, control: Control) -> None:
    """Each alone, and all together; what waits for its right counts, and so does what a pattern covers."""
    with (
        called(ward, "Ann", source="127.0.0.7") as ann,
        called(ward, "hannah") as hannah,
        WireClient(ward) as nobody,
    ):
        ann.subscribe("/a/one", "/b/one")
        hannah.subscribe("/a/*/x", "/b/one")  # the second waits
        nobody.subscribe("/a/two")
        control.publish([["/a/k/x", "1"]])
        hannah.message()

        def users(**wanted: str) -> list[str]:
            return [row["user"] for row in control.clients(**wanted)["clients"]]

        assert users(user="ann") == ["Ann", "hannah"]
        assert users(user="HANN") == ["hannah"]
        assert users(address="127.0.0.7") == ["Ann"]
        assert users(address="127.0.0.") == ["Ann", "hannah", ""]
        assert users(subject="/b/one") == ["Ann", "hannah"]
        assert users(subject="/a/k/x") == ["hannah"]
        assert users(subject="/a/*/x") == ["hannah"]
        assert users(subject="/a/*") == ["Ann", ""], "subjects that nobody has published to"
        assert users(subject="/a/**") == ["Ann", "hannah", ""]
        assert users(subject="/a/**", user="ann", address="127.0.0.1") == ["hannah"]
        assert users(subject="/none/one") == []


def test_pages_have_each_client_once(ward: Sidecar, control: Control) -> None:
    with ExitStack() as stack:
        for _ in range(7):
            stack.enter_context(WireClient(ward)).ask("connect", "connected")
        pages = [control.clients(limit=3)]
        while pages[-1]["more"]:
            pages.append(control.clients(limit=3, after=pages[-1]["after"]))
        assert [len(page["clients"]) for page in pages] == [3, 3, 1]
        assert {page["total"] for page in pages} == {7}
        numbers = [int(row["connection"].split(".")[2]) for page in pages for row in page["clients"]]
        assert numbers == sorted(numbers)
        assert len(set(numbers)) == 7
        elsewhere = f"0.1.{max(numbers)}"  # a page of a process that is no more: its clients came back with new names
        assert len(control.clients(after=elsewhere)["clients"]) == 7
        assert control.clients(after="9.1.1")["clients"] == []


def test_the_slow_ones_come_with_the_longest_queue_first(ward: Sidecar, control: Control) -> None:
    with (
        WireClient(ward, receive_bytes=4096) as slow,
        WireClient(ward, receive_bytes=4096) as slower,
        WireClient(ward) as quick,
        WirePublisher(ward, mint("bob")) as publisher,
    ):
        slow.subscribe("/a/few")
        slower.subscribe("/a/few", "/a/many")
        quick.subscribe("/a/other")
        for _ in range(10):
            publisher.publish(*(["/a/many", FILLER] for _ in range(200)), *(["/a/few", FILLER] for _ in range(100)))

        def both() -> list[dict[str, object]]:
            rows = control.clients(slow=True)["clients"]
            return rows if len(rows) == 2 else []

        first, second = until(both)
        assert first["subjects"] == ["/a/few", "/a/many"]
        assert first["queue_bytes"] > second["queue_bytes"] > 0
        assert first["blocked_since"] >= first["since"]
        assert control.clients(slow=True, limit=1) == {
            "clients": [first],
            "total": 2,
            "more": True,
            "after": "",
            "away": [],
        }
        slow.texts(1000)
        until(lambda: len(control.clients(slow=True)["clients"]) == 1)


def test_a_pattern_is_looked_for_by_subscriptions() -> None:
    """However many each of the clients has: there is an interruption after some thousand."""

    async def story() -> None:
        runtime = make_runtime(Settings(mode="none", subscriptions_max=10_000), asyncio.get_running_loop())
        clients = []
        for number in range(5):
            clients.append(runtime.sessions.open(Nowhere(), number, False, PLAIN["json"], "", "10.0.0.1", now()))
            for part in range(5):
                names = ",".join(f'"/many/{number}/{part}/{each}"' for each in range(1000))
                runtime.sessions.receive(
                    clients[-1], f'{{"op":"subscribe","id":1,"subjects":[{names}]}}'.encode(), now()
                )
                await auntil(lambda: not runtime.sessions.long_commands.busy)
        *clients, last = clients
        others = set(last.subscriptions)
        steps, found = looked(Readers("/many/4/**", others), clients)
        assert (steps >= 20_000 // SLICE_SUBSCRIPTIONS - 1, found) == (True, [])
        assert looked(Readers("/other/*", set(list(others)[:9])), clients) == (0, [])
        both = others | set(clients[1].subscriptions)
        assert looked(Readers("/**", both), clients)[1] == [clients[1]]
        runtime.watch.stop()

    run(story())


def looked(readers: Readers, clients: list[Client]) -> tuple[int, list[Client]]:
    """How often it could be interrupted, and who was found."""
    steps, work = 0, readers.among(clients)
    while True:
        try:
            next(work)
        except StopIteration as end:
            return steps, end.value
        steps += 1


@pytest.mark.parametrize("part", range(3))
def test_no_number_of_a_name_is_too_large(part: int) -> None:
    numbers = ["1", "4711", "12"]
    assert Name.parse(".".join(numbers)) == (1, 4711, 12, False)
    numbers[part] = str(1 << 53)
    assert Name.parse(".".join(numbers))[part] == 1 << 53
    numbers[part] = str((1 << 53) + 1)
    with pytest.raises(InvalidMessage, match=r"WORKER\.PID\.NUMBER"):
        Name.parse(".".join(numbers))
    assert Name.parse("1.2.p3") == (1, 2, 3, True)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"limit": 0}, "limit is a number from 1 to 200"),
        ({"limit": 201}, "limit is a number"),
        ({"after": "1.2"}, "WORKER.PID.NUMBER"),
        ({"after": f"1.1.{'9' * 40}"}, "WORKER.PID.NUMBER"),
        ({"after": 7}, "after is a text"),
        ({"user": "x" * 2000}, "user is a text of at most"),
        ({"subject": "/a*/b"}, "must be a whole segment"),
        ({"subject": "/{username}/b"}, "name the user"),
    ],
)
def test_refusals(ward: Sidecar, arguments: dict, text: str) -> None:
    with Control(ward.control) as control, pytest.raises(ControlRefused, match=text):
        control.call("clients", arguments)
