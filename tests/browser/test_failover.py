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


def test_a_killed_server_is_left_for_the_other(page: Page, sidecar: Sidecar, other: Sidecar) -> None:
    """Subscriptions go on there, and what waits to be published is."""
    client = Scripted(page, sidecar.client_url, other.client_url)
    client.subscribe(SUBJECT)
    client.publish(SUBJECT, "here")
    until(lambda: client.contents == ["here"])  # it may be acknowledged before it is delivered
    used, left = (sidecar, other) if client.do("client.url") == sidecar.client_url else (other, sidecar)
    used.kill()
    client.wait("disconnected")
    answer = client.publish(SUBJECT, "published with no connection")
    assert client.wait("connected", 2)["url"] == left.client_url
    assert answer["seq"] == 1
    with Control(left.control) as control:
        assert control.snapshot(SUBJECT)["status"] == "found"
    # Each of these servers numbers for itself, so that nothing can be recovered, and that is told.
    assert client.wait("resynchronised")["subject"] == SUBJECT
    until(lambda: client.contents == ["here", "published with no connection"])
    assert client.statuses("down", "synchronised") == []


def test_a_drained_server_is_left_at_once(page: Page, sidecar: Sidecar, other: Sidecar) -> None:
    """For a server that only the drained one names, with no wait."""
    client = Scripted(page, sidecar.client_url)
    client.subscribe(SUBJECT)
    with Control(sidecar.control) as control:
        control.drain(servers=[[other.client_url, 100]])
    assert client.wait("connected", 2)["url"] == other.client_url
    [end] = client.statuses("disconnected")
    assert (end["code"], end["retryMs"], end["final"]) == (4000, 0, False)


def test_publications_wait_for_a_restarted_server(page: Page, sidecar: Sidecar) -> None:
    """In their order; one that is too many is refused at once."""
    client = Scripted(page, sidecar.client_url, publishQueueMessages=3)
    client.subscribe(SUBJECT)
    sidecar.kill()
    client.wait("disconnected")
    client.do(
        """void (window.answers = ["a", "b", "c", "d"].map((closure) =>
            client.publish(argument, closure, { closure }).then((answer) => answer.seq, (error) => error.status)))""",
        SUBJECT,
    )
    assert client.wait("publishFailed")["status"] == "queue_full"
    client.wait("down")
    sidecar.start()
    assert client.do("Promise.all(answers)") == [1, 2, 3, "queue_full"]
    assert [status["closure"] for status in client.statuses("published")] == ["a", "b", "c"]
    until(lambda: client.contents == ["a", "b", "c"])


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
