"""What the pages on the two clients and on requests print, against a sidecar."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastpath.client import connect
from fastpath.client.blocking import connect as connect_blocking
from fastpath.client.publisher import Publisher
from tests.support.browser.node import CLIENT, NODE
from tests.support.documentation.running import Run, here
from tests.support.guide import one
from tests.support.realtime.server import Program
from tests.support.sidecar import Sidecar
from tests.support.waiting import auntil, until

PYTHON = "docs/develop/python.md"
JAVASCRIPT = "docs/develop/javascript.md"
REQUESTS = "docs/develop/request-reply.md"


@pytest.fixture(scope="module")
def shared() -> Iterator[Sidecar]:
    """One for all: each test has subjects of its own."""
    with Sidecar(mode="none", presence="/chat/**") as running:
        yield running


async def test_the_client(shared: Sidecar) -> None:
    """Two servers to choose from, a publication, a subscription."""
    text = here(one(PYTHON, "python", 'publish("/chat/room1", "hello", {"from": "ann"})'), shared)
    async with connect(shared.client_url) as other, Run(text, {"token": "ann"}).meanwhile() as run:
        await other.publish("/stocks/us/IBM", "193.20", {"bid": "193.19"})
        await auntil(lambda: any(line.startswith("193.20 {'bid': '193.19'} ") for line in run.printed))
        async for message in other.subscribe("/chat/room1"):
            assert (message.content, message.fields) == ("hello", {"from": "ann"})
            break


async def test_many_subjects(shared: Sidecar) -> None:
    text = one(PYTHON, "python", 'client.subscribe(["/stocks/us/*", "/chat/**"])')
    given = {"connect": connect, "url": shared.client_url, "token": "ann"}
    async with connect(shared.client_url) as other, Run(text, given).meanwhile() as run:
        await other.publish("/chat/room2/x", "hello")
        await other.publish("/stocks/us/GE", "7")
        await auntil(lambda: {"/chat/room2/x hello", "/stocks/us/GE 7"} <= set(run.printed))


async def test_publications_on_their_way(shared: Sidecar) -> None:
    async with connect(shared.client_url) as client:
        run = await Run(one(PYTHON, "python", "client.enqueue"), {"client": client, "texts": ["1", "2", "3"]}).wait()
    first, *others = [position.seq for position in run.names["positions"]]
    assert others == [first + 1, first + 2]


def test_the_blocking_client(shared: Sidecar) -> None:
    """It prints nothing, and is asked to with one line more."""
    text = here(one(PYTHON, "python", "fastpath.client.blocking"), shared).replace("...", "break")
    with connect_blocking(shared.client_url) as other:
        other.publish("/stocks/us/IBM", "193.20")
        assert Run(text, {}).now().names["message"].subject == "/stocks/us/IBM"


def test_the_publisher(shared: Sidecar) -> None:
    run = Run(here(one(PYTHON, "python", "import Publisher"), shared), {"token": "any"}).now()
    assert (run.names["results"].accepted, run.names["results"].refused) == (2, [])
    with connect_blocking(shared.client_url) as client, client.subscribe(["/prices/a", "/prices/b"]) as stream:
        found = {message.subject: message for message in (next(iter(stream)), next(iter(stream)))}
    assert found["/prices/b"].content == "7"


def test_a_batch_exactly_once(shared: Sidecar) -> None:
    text = here(one(PYTHON, "python", "with Stager("), shared)
    first, again = (Run(text, {"token": "any"}).now() for _ in range(2))
    assert first.printed[0] == again.printed[0] == "[]"
    assert "repeated=False" in first.printed[1]
    assert "repeated=True" in again.printed[1]


async def test_request_and_reply(shared: Sidecar) -> None:
    text = here(one(REQUESTS, "python", "client.respond"), shared)
    run = await Run(text, {"connect": connect, "token": "ann", "prices": {"IBM": "193.20"}}).wait()
    assert run.printed == ["193.20"]


async def test_the_readme(shared: Sidecar) -> None:
    text = here(one("README.md", "python", "fastpath.client import connect"), shared)
    async with Run(text, {"token": "ann"}).meanwhile() as run:
        await auntil(lambda: run.printed)
    assert run.printed[0].startswith("2:1 {} ")


def in_node(text: str, folder: Path, ready: str, **environment: str) -> Program:
    """A module with this checkout's client, which goes on until the block of the test ends."""
    file = folder / "block.mjs"
    file.write_text(re.sub(r'"[./\w]*/static/realtime/client\.js"', json.dumps(CLIENT), text))
    return Program([str(NODE), str(file)], environment, ready, 30, folder=folder)


@pytest.mark.browser
def test_the_client_in_node(shared: Sidecar, tmp_path: Path) -> None:
    """From the root of the checkout, as its import says."""
    with Publisher(shared.publisher_url) as publisher:
        publisher.publish("/stocks/us/IBM", "193.20")
    with in_node(here(one(JAVASCRIPT, "js", "process.env.TOKEN"), shared), tmp_path, r"193\.20", TOKEN="ann"):
        pass


@pytest.mark.browser
def test_who_is_there_and_what_is_wanted_in_node(shared: Sidecar, tmp_path: Path) -> None:
    """`begin` and `end` are the reader's; presence says who comes."""
    text = one(JAVASCRIPT, "js", "client.advertise")
    before = (
        'import { connect } from "/static/realtime/client.js";\n'
        'const begin = (subject) => console.log("begin", subject), end = (subject) => console.log("end", subject);\n'
        f"const client = connect({{ urls: {json.dumps(shared.client_url)} }});\n"
    )
    with in_node(before + text + 'console.log("advertised");', tmp_path, "advertised") as program:
        with connect_blocking(shared.client_url) as client, client.subscribe(["/stocks/us/MSFT", "/chat/room1"]):
            until(lambda: "begin /stocks/us/MSFT" in program.output, 30)
        until(lambda: "end /stocks/us/MSFT" in program.output, 30)


@pytest.mark.browser
def test_request_and_reply_in_node(shared: Sidecar, tmp_path: Path) -> None:
    text = one(REQUESTS, "js", "client.respond")
    before = (
        'import { connect } from "/static/realtime/client.js";\n'
        'const prices = new Map([["IBM", "193.20"]]);\n'
        f"const client = connect({{ urls: {json.dumps(shared.client_url)} }});\n"
    )
    with in_node(f"{before}{text}console.log(content);", tmp_path, r"193\.20"):
        pass


@pytest.mark.browser
def test_subscriptions_that_take_the_place_of_others_in_node(shared: Sidecar, tmp_path: Path) -> None:
    """From polling, Channels, Centrifugo and Pusher; `show` is the reader's."""
    with Publisher(shared.publisher_url) as publisher:
        publisher.publish("/orders/42", '{"event":"shipped","state":"sent"}')
    before = (
        'import { connect } from "/static/realtime/client.js";\n'
        "const show = (value) => console.log(JSON.stringify(value));\n"
        f"const client = connect({{ urls: {json.dumps(shared.client_url)} }});\n"
    )
    for text in (
        one("docs/develop/from-polling.md", "js", "client.subscribe"),
        one("docs/develop/from-channels.md", "js", "client.subscribe"),
        one("docs/develop/from-centrifugo.md", "js", "client.subscribe"),
        one("docs/develop/from-pusher.md", "js", "client.subscribe"),
    ):
        with in_node(f"{before}{text}", tmp_path, '"sent"'):
            pass


async def test_the_pages_on_boards(shared: Sidecar, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/start/board.md: a bar that a program of one's own publishes."""
    monkeypatch.setenv("REALTIME_PUBLISH_TOKEN", "any")
    text = here(one("docs/start/board.md", "python", "/bars-1m/us/KO"), shared)
    await asyncio.to_thread(Run(text, {}).now)
    async with connect(shared.client_url) as client:
        async for message in client.subscribe("/bars-1m/us/KO"):
            assert (message.content, message.fields["high"]) == ("61.50", "61.55")
            break
