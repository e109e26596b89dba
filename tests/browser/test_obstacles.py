"""The JavaScript client behind what is in the way of WebSockets and streams, in Chromium and in Node."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from playwright.sync_api import Page

from fastpath.client import blocking
from tests.support.browser.node import in_node
from tests.support.browser.scripted import Scripted
from tests.support.obstacles import Obstacles
from tests.support.proxy import Proxy
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

pytestmark = pytest.mark.browser

OBSTACLES: dict[str, tuple[dict[str, Any], str]] = {
    "none": ({}, "websocket"),
    "refuses 400": ({"upgrades": 400}, "stream"),
    "refuses 403": ({"upgrades": 403}, "stream"),
    "refuses 502": ({"upgrades": 502}, "stream"),
    "swallows frames": ({"upgrades": "swallow"}, "stream"),
    "never answers": ({"upgrades": "ignore"}, "stream"),
    "refuses and buffers": ({"upgrades": 403, "buffers": True}, "poll"),
    "never answers and buffers": ({"upgrades": "ignore", "buffers": True}, "poll"),
}
OFTEN = ("refuses 403", "swallows frames", "refuses and buffers")
"""Those that are tried each time; the others are slow."""
CASES = [
    pytest.param(*case, id=name, marks=() if name in OFTEN else pytest.mark.slow) for name, case in OBSTACLES.items()
]
IN_NODE = [
    pytest.param(*case, id=name, marks=() if name == OFTEN[-1] else pytest.mark.slow)
    for name, case in OBSTACLES.items()
]
NUMBERS = count()
CONTENTS = [str(number) for number in range(20)]
QUICKLY = {"quickRetries": 0, "backoffSeconds": 0.2, "backoffSecondsMax": 0.3, "stepDownSeconds": 2}

CONVERSE = """
    const statuses = [];
    const contents = [];
    const onStatus = (status) => statuses.push(status.name);
    const client = connect({ ...argument.options, urls: argument.url, onStatus });
    const all = new Promise((done) => client.subscribe(argument.subject, ({ content }) => {
        contents.push(content);
        if (contents.length === argument.contents.length) done();
    }));
    await Promise.all(argument.contents.map((content) => client.publish(argument.subject, content)));
    await all;
    const { transport } = client;
    client.close();
    return { transport, contents, statuses: statuses.filter((name) => name !== "latency") };
"""


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """One for all tests here; each has subjects of its own."""
    with Sidecar(mode="none") as running:
        yield running


def asked(url: str, options: dict[str, Any]) -> dict[str, Any]:
    """The argument of a conversation in Node, with a subject that no other has."""
    return {"url": url, "options": options, "contents": CONTENTS, "subject": f"/obstacles/node{next(NUMBERS)}"}


def behind(page: Page, proxy: Proxy, **options: Any) -> Scripted:
    return Scripted(page, f"ws://{proxy.address}/ws", **QUICKLY, **options)


def converse(client: Scripted, subject: str) -> None:
    """What is published is read, in order, each once."""
    before = len(client.messages)
    client.subscribe(subject)
    client.do("Promise.all(argument[1].map((content) => client.publish(argument[0], content)))", [subject, CONTENTS])
    until(lambda: len(client.messages) - before >= len(CONTENTS))
    assert [message["content"] for message in client.messages[before:] if message["subject"] == subject] == CONTENTS


@pytest.mark.parametrize(("obstacles", "transport"), CASES)
def test_it_steps_down_to_what_works(page: Page, sidecar: Sidecar, obstacles: Any, transport: str) -> None:
    """The program hears of one connection, and the transport that it asks for says which it is."""
    with Obstacles(sidecar.client_url, **obstacles) as proxy:
        client = behind(page, proxy)
        assert client.wait("connected")["transport"] == client.do("client.transport") == transport
        converse(client, f"/obstacles/{list(OBSTACLES.values()).index((obstacles, transport))}")
        assert [each["name"] for each in client.statuses("connecting", "connected", "disconnected", "down")] == [
            "connecting", "connected"]  # fmt: skip


@pytest.mark.parametrize(("obstacles", "transport"), IN_NODE)
def test_it_steps_down_in_node(sidecar: Sidecar, obstacles: Any, transport: str) -> None:
    """The same in Node, which ends when its client is closed."""
    with Obstacles(sidecar.client_url, **obstacles) as proxy:
        options = {**QUICKLY, "form": "json"}
        told = in_node(CONVERSE, asked(f"ws://{proxy.address}/ws", options))
    assert told["transport"] == transport
    assert told["contents"][-len(CONTENTS) :] == CONTENTS
    assert told["statuses"] == ["connecting", "connected", "subscribed", "closed"]


def test_node_without_a_websocket_begins_below(sidecar: Sidecar) -> None:
    """Where there is no WebSocket, and none is passed, the others serve; where one was wished for it is an error."""
    script = f"delete globalThis.WebSocket; {CONVERSE}"
    told = in_node(script, asked(sidecar.client_url, {}))
    assert told["transport"] == "stream"
    script = "delete globalThis.WebSocket; try { connect(argument); } catch (error) { return String(error); }"
    assert "no means here" in in_node(script, {"urls": sidecar.client_url, "transports": ["websocket"]})


@pytest.mark.parametrize("transport", ["stream", pytest.param("poll", marks=pytest.mark.slow)])
def test_a_lost_connection_loses_nothing(page: Page, sidecar: Sidecar, transport: str) -> None:
    """What was published meanwhile is recovered, what was being published is stored once."""
    subject = f"/obstacles/lost/{transport}"
    with Proxy(sidecar.client_url) as proxy, blocking.connect(sidecar.client_url) as other:
        client = behind(page, proxy, transports=[transport])
        client.subscribe(subject)
        for number in range(6):
            client.do("void (window.answer = client.publish(...argument))", [subject, f"own {number}"])
            proxy.cut()
            other.publish(subject, f"other {number}")
            client.do("window.answer")
        until(lambda: len(client.messages) >= 12)
        assert sorted(client.contents) == sorted([*(f"own {n}" for n in range(6)), *(f"other {n}" for n in range(6))])
        assert [message["seq"] for message in client.messages] == list(range(1, 13))


@pytest.mark.parametrize("transport", [pytest.param("stream", marks=pytest.mark.slow), "poll"])
def test_an_answer_that_is_lost_on_its_way_loses_nothing(page: Page, sidecar: Sidecar, transport: str) -> None:
    """What was posted is posted again under its number, what was asked for is asked for again."""
    with Obstacles(sidecar.client_url, loses_every=3) as proxy:
        client = behind(page, proxy, transports=[transport])
        for number in range(3):
            converse(client, f"/obstacles/lossy/{transport}/{number}")
        assert client.statuses("disconnected") == []


def test_a_page_that_goes_says_so(page: Page, sidecar: Sidecar, files: str) -> None:
    """Whose answers are polled is gone for the server as soon as its page is left."""
    client = Scripted(page, sidecar.client_url, transports=["poll"])
    client.subscribe("/obstacles/leaving")
    gone = "transport=poll code=1000 name=by_client"
    before = sidecar.log.count(gone)
    page.goto(f"{files}/tests/browser/empty.html?again")
    until(lambda: sidecar.log.count(gone) > before)


def test_what_worked_is_remembered_over_pages_and_left_when_better_works_again(
    page: Page, sidecar: Sidecar, files: str
) -> None:
    """The next page begins where this one ended; the transports above are tried beside the connection."""
    with Obstacles(sidecar.client_url, upgrades=403, buffers=True) as proxy:
        behind(page, proxy).wait("connected")
        page.goto(f"{files}/tests/browser/empty.html?again")
        before = proxy.requests.count("GET /ws")
        behind(page, proxy).wait("connected")
        assert proxy.requests.count("GET /ws") == before
        page.evaluate("localStorage.clear()")
        page.goto(f"{files}/tests/browser/empty.html?more")
        client = behind(page, proxy, stepUpSeconds=1)
        client.subscribe("/obstacles/up")
        asked = proxy.requests.count("GET /ws")
        until(lambda: proxy.requests.count("GET /ws") > asked)
        assert client.do("client.transport") == "poll"
        proxy.upgrades = "pass"
        until(lambda: client.do("client.transport") == "websocket")
        client.wait("connected", 2)
        client.publish("/obstacles/up", "x")
        until(lambda: client.contents == ["x"])
        assert client.statuses("disconnected")[-1]["codeName"] == "step_up"


@pytest.mark.slow
@pytest.mark.parametrize("obstacles", [{"cut_bytes": 20_000}, {"idle_seconds": 0.8}], ids=["cuts", "ends idle ones"])
def test_what_ends_connections_again_and_again_is_got_round(page: Page, sidecar: Sidecar, obstacles: Any) -> None:
    """Three losses in a row, and the next transport is tried; nothing is lost on the way."""
    subject = f"/obstacles/{next(iter(obstacles))}"
    with Obstacles(sidecar.client_url, **obstacles) as proxy, blocking.connect(sidecar.client_url) as other:
        client = behind(page, proxy)
        client.subscribe(subject)
        sent = 0

        def polls() -> bool:
            nonlocal sent
            for _ in range(3 if "cut_bytes" in obstacles else 0):
                other.publish(subject, str(sent).zfill(200))
                sent += 1
            return bool(client.do("client.transport + client.state") == "pollconnected")

        until(polls, 30)
        converse(client, f"{subject}/after")
        until(lambda: len([one for one in client.messages if one["subject"] == subject]) >= sent)
        got = [one["content"] for one in client.messages if one["subject"] == subject]
        assert got == [str(number).zfill(200) for number in range(sent)]
