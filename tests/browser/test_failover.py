"""The JavaScript client over lost servers: it goes elsewhere, comes back, and what it publishes is stored once."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from fastpath.client.control.client import Control
from fastpath.client.publisher.publisher import Publisher
from tests.support.browser.scripted import Scripted
from tests.support.proxy import Proxy
from tests.support.redis_servers import RedisServer
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

pytestmark = pytest.mark.browser

SUBJECT = "/stocks/us/IBM"

DEAF = """() => {
    // Hears nothing while window.deaf is set: answers are lost, commands arrive; `unheard` are the frames.
    const text = new TextDecoder();
    const Real = globalThis.WebSocket;
    globalThis.WebSocket = class extends Real {
        set onmessage(hear) { super.onmessage = hear && ((event) => {
            if (globalThis.deaf) (globalThis.unheard ||= []).push(text.decode(event.data));
            else hear(event);
        }); }
    };
}"""


@pytest.fixture
def other() -> Iterator[Sidecar]:
    """A second sidecar, which knows nothing of the first."""
    with Sidecar(mode="none") as running:
        yield running


@pytest.fixture
def proxy(sidecar: Sidecar) -> Iterator[Proxy]:
    """A proxy before the client port, to cut connections."""
    with Proxy(sidecar.client_url) as running:
        yield running


def test_a_publication_whose_answer_was_lost_is_stored_once(page: Page, sidecar: Sidecar, proxy: Proxy) -> None:
    """It goes again with the same number over the next connection, and gets the first position as its answer."""
    page.evaluate(DEAF)
    client = Scripted(page, f"ws://{proxy.address}/ws")
    client.wait("connected")
    client.do("{ window.deaf = true; window.answer = client.publish(argument, 'once'); }", SUBJECT)
    with Control(sidecar.control) as control:
        until(lambda: control.snapshot(SUBJECT)["status"] == "found")
        until(lambda: page.evaluate("(window.unheard ?? []).some((frame) => frame.includes('published'))"))
        client.do("{ window.deaf = false; }")
        proxy.cut()
        answer = client.do("answer")
        with Publisher(sidecar.publisher_url) as publisher:
            publisher.send_batch([[SUBJECT, "next"]])
        until(lambda: control.snapshot(SUBJECT)["message"]["content"] == "next")
    assert answer["seq"] == 1
    assert len(client.statuses("connected")) == 2
    client.subscribe(SUBJECT, history=10)
    until(lambda: len(client.messages) == 2)
    assert [(message["seq"], message["content"]) for message in client.messages] == [(1, "once"), (2, "next")]


def test_the_list_of_servers_comes_from_the_web(page: Page, sidecar: Sidecar, other: Sidecar) -> None:
    """It is asked for at the start where there is no other, and again at each reconnection."""
    servers = [sidecar.client_url]
    page.route(
        "**/api/servers/",
        lambda route: route.fulfill(body=json.dumps({"servers": [{"url": url, "weight": 100} for url in servers]})),
    )
    client = Scripted(page, serversUrl="/api/servers/")
    assert client.wait("connected")["url"] == sidecar.client_url
    servers[:] = [other.client_url]
    sidecar.kill()
    assert client.wait("connected", 2)["url"] == other.client_url


@pytest.mark.redis
def test_a_killed_node_of_a_cluster_is_left_without_loss(page: Page) -> None:
    """Two nodes on one Redis: kill -9, and the other one goes on exactly where the client was."""
    with RedisServer() as redis:
        engine = "redis://{}:{}".format(*redis.address)
        with Sidecar(engine=engine) as one, Sidecar(engine=engine) as two:
            client = Scripted(page, one.client_url, two.client_url)
            client.subscribe(SUBJECT)
            used, left = (one, two) if client.do("client.url") == one.client_url else (two, one)
            with Publisher(left.publisher_url) as publisher:
                publisher.send_batch([[SUBJECT, "1"], [SUBJECT, "2"]])
                until(lambda: client.contents == ["1", "2"])
                used.kill()
                publisher.send_batch([[SUBJECT, "3"], [SUBJECT, "4"]])
                publisher.flush()
                client.publish(SUBJECT, "5")
                until(lambda: len(client.messages) == 5)
    assert client.contents == ["1", "2", "3", "4", "5"]
    assert [message["seq"] for message in client.messages] == [1, 2, 3, 4, 5]
    assert client.statuses("connected")[1]["url"] == left.client_url
    assert len(client.statuses("synchronised")) == 1
    assert client.statuses("resynchronised", "gap") == []
