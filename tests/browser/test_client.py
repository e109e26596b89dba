"""The JavaScript client against a real sidecar: what applications rely on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from playwright.sync_api import Page

from fastpath.client.control.client import Control
from fastpath.client.publisher.publisher import Publisher
from tests.support.browser.scripted import Scripted
from tests.support.proxy import Proxy
from tests.support.rights import load_rights, rule
from tests.support.sidecar import Sidecar
from tests.support.tokens import mint
from tests.support.waiting import until

pytestmark = pytest.mark.browser

SUBJECT = "/stocks/us/IBM"


NUMBERS = count()


@pytest.fixture(scope="module")
def shared() -> Iterator[Sidecar]:
    """One for the tests that have a subject of their own."""
    with Sidecar(mode="none") as running:
        yield running


@pytest.fixture
def subject() -> str:
    """One that no other test has."""
    return f"/stocks/{next(NUMBERS)}"


@pytest.fixture
def proxy(sidecar: Sidecar) -> Iterator[Proxy]:
    """A proxy before the client port, to cut connections."""
    with Proxy(sidecar.client_url) as running:
        yield running


@pytest.mark.parametrize("form", ["msgpack", "json"])
def test_publish_and_subscribe(page: Page, shared: Sidecar, subject: str, form: str) -> None:
    """Text, fields and bytes arrive as they were, with their position, in both forms."""
    client = Scripted(page, shared.client_url, form=form)
    client.subscribe(subject)
    answer = client.publish(subject, "193.20 é", fields={"bid": "193.19"})
    assert answer["seq"] == 1
    client.do("client.publish(argument, new Uint8Array([0, 255]), { fields: { raw: new Uint8Array([1]) } })", subject)
    until(lambda: len(client.messages) == 2)
    first, second = client.messages
    assert first["content"] == "193.20 é"
    assert first["fields"] == {"bid": "193.19"}
    assert (first["epoch"], first["seq"], first["kind"]) == (answer["epoch"], 1, "update")
    assert first["qos"] == "guaranteed"
    assert second["content"] == {"bytes": [0, 255]}
    assert second["fields"] == {"raw": {"bytes": [1]}}


@pytest.mark.parametrize("form", ["msgpack", "json"])
def test_a_listener_that_compresses_and_collects(page: Page, form: str) -> None:
    """The browser offers compression by itself; small, large and stored messages are what they were."""
    contents = ["short", "é" * 50_000, "", "x" * 300]
    with Sidecar(listen="clients://127.0.0.1:0?deflate=100&batch_ms=20,publishers://127.0.0.1:0") as sidecar:
        ask = "(url) => new Promise((tell) => { const it = new WebSocket(url); it.onopen = () => tell(it.extensions) })"
        assert page.evaluate(ask, sidecar.client_url).startswith("permessage-deflate")
        client = Scripted(page, sidecar.client_url, form=form)
        client.subscribe(SUBJECT)
        for content in contents:
            client.publish(SUBJECT, content)
        until(lambda: len(client.messages) == len(contents))
        assert client.contents == contents
        client.do("void messages.splice(0)")
        client.subscribe(SUBJECT, history=4)
        until(lambda: len(client.messages) == len(contents))
        assert client.contents == contents


def test_snapshot_history_and_standard_quality(page: Page, shared: Sidecar, subject: str) -> None:
    """A plain subscription begins with the snapshot, one with history with the newest messages."""
    client = Scripted(page, shared.client_url)
    for number in range(5):
        client.publish(subject, str(number), fields={f"f{number}": "x"})
    client.subscribe(subject)
    until(lambda: client.messages)
    [snapshot] = client.messages
    assert (snapshot["content"], snapshot["kind"]) == ("4", "snapshot")
    assert set(snapshot["fields"]) == {f"f{number}" for number in range(5)}
    client.do("subscription.unsubscribe()")
    client.do("void messages.splice(0)")
    client.subscribe(subject, history=3)
    client.publish(subject, "live", qos="standard")
    until(lambda: len(client.messages) == 4)
    assert client.contents == ["2", "3", "4", "live"]
    assert [message["kind"] for message in client.messages] == ["historical"] * 3 + ["update"]
    assert client.messages[-1]["qos"] == "standard"
    client.publish(subject, "new", fields={"own": "x"}, replace=True)
    client.do("void messages.splice(0)")
    client.subscribe(subject)
    until(lambda: client.messages and client.messages[-1]["kind"] == "snapshot")
    assert client.messages[-1]["fields"] == {"own": "x"}


@pytest.mark.parametrize("form", ["msgpack", "json"])
def test_a_subject_is_removed(page: Page, shared: Sidecar, subject: str, form: str) -> None:
    """Who is subscribed is told; whoever comes later finds nothing."""
    client = Scripted(page, shared.client_url, form=form)
    client.subscribe(subject)
    client.publish(subject, "1", fields={"a": "1"})
    done = client.do("client.remove(argument, { closure: 'mine' })", subject)
    assert (done["seq"], done["closure"]) == (2, "mine")
    assert client.do("client.remove(argument, { qos: 'standard' })", subject)["seq"] == 0
    until(lambda: len(client.messages) == 3)
    assert [(one["content"], one["removed"], one["seq"]) for one in client.messages] == [
        ("1", False, 1),
        ("", True, 2),
        ("", True, 0),
    ]
    assert (client.messages[1]["fields"], client.messages[1]["closure"]) == ({}, "mine")
    with Control(shared.control) as control:
        assert control.snapshot(subject)["status"] == "none"


def publish_directly(page: Page, sidecar: Sidecar, contents: list[str]) -> None:
    """Publish over a connection of its own, which no proxy cuts."""
    page.evaluate(
        """async ([url, subject, contents]) => {
            const { connect } = await import("/realtime/static/realtime/client.js");
            const other = connect({ urls: url });
            for (const content of contents) await other.publish(subject, content);
            other.close();
        }""",
        [sidecar.client_url, SUBJECT, contents],
    )


@pytest.mark.slow
def test_a_backlog_beyond_the_outgoing_queue_is_recovered(page: Page) -> None:
    """However much it is, the client gets all of it, each message once and in order."""
    count = 20_000
    with Sidecar(mode="none", outbox_bytes_max=256 << 10, cache_messages=2 * count) as sidecar:
        client = Scripted(page, sidecar.client_url)
        client.subscribe(SUBJECT)
        client.wait("subscribed")
        client.do("client.pause()")
        with Publisher(sidecar.publisher_url) as publisher:
            for start in range(0, count, 1000):
                publisher.send_batch([[SUBJECT, str(number)] for number in range(start, start + 1000)])
            publisher.flush()
        client.do("client.resume()")
        until(lambda: len(client.contents) >= count, 60)
        assert client.contents == [str(number) for number in range(count)]
        assert client.statuses("subscribed")[-1]["recovery"] == "recovered"


def test_what_was_acknowledged_and_died_with_the_server_is_told_and_holds_up_nothing(
    page: Page, sidecar: Sidecar, proxy: Proxy
) -> None:
    """It never was on its way to this client, whose next message comes all the same."""
    client = Scripted(page, f"ws://{proxy.address}/ws")
    client.subscribe(SUBJECT)
    client.wait("subscribed")
    proxy.shut()
    client.wait("disconnected")
    publish_directly(page, sidecar, ["before"])
    sidecar.kill()
    sidecar.start()
    proxy.open()
    until(lambda: len(client.statuses("subscribed")) == 2)
    assert client.statuses("subscribed")[-1]["recovery"] == "resynchronised"
    publish_directly(page, sidecar, ["after"])
    until(lambda: client.contents == ["after"])


def last_resort(url: str) -> dict[str, Any]:
    """A server that is tried when no other is left, as the relay of the web port."""
    return {"url": url, "weight": 0}


def test_the_first_address_again_at_a_reconnection(page: Page, shared: Sidecar) -> None:
    """The next one is used while the first is closed; whatever served last, the sidecar's own port is tried first."""
    with Proxy(shared.client_url) as proxy:
        proxy.shut()
        client = Scripted(page, f"ws://{proxy.address}/ws", last_resort(shared.client_url))
        connected = client.wait("connected")
        assert (connected["url"], connected["via"]) == (shared.client_url, "relay")
        assert client.do("[client.url, client.via]") == [shared.client_url, "relay"]
        proxy.open()
        client.do("client.pause()")
        client.do("client.resume()")
        assert client.wait("connected", 2)["via"] == "direct"


def test_not_ready_then_denied_then_granted_then_revoked(page: Page, rules_sidecar: Sidecar) -> None:
    """A subscription waits for its right, begins when it comes, and stops when it goes."""
    client = Scripted(page, rules_sidecar.client_url, tokens=(mint("ann"),))
    client.do("void client.subscribe(argument, hear)", [SUBJECT, "/stocks/us/AAPL"])
    assert client.wait("notReady", 2)["retryMs"] > 0
    load_rights(rules_sidecar.control, rule(1, "user:ann", SUBJECT), generation=1)
    until(lambda: [status["subject"] for status in client.statuses("subscribed")] == [SUBJECT])
    client.wait("denied")
    assert client.publish(SUBJECT, "one")["seq"] == 1
    load_rights(rules_sidecar.control, rule(1, "user:ann", "/stocks/**"), generation=2)
    until(lambda: "/stocks/us/AAPL" in [status["subject"] for status in client.statuses("granted")])
    load_rights(rules_sidecar.control, rule(1, "user:ann", "/stocks/us/AAPL"), generation=3)
    assert client.wait("revoked")["subject"] == SUBJECT
    assert "denied" in client.publish(SUBJECT, "two")
    until(lambda: client.contents == ["one"])


def test_a_client_that_does_not_keep_up_is_conflated_and_told(page: Page) -> None:
    """With `slow: "conflate"`: it skips what it could not take, says so, and is live again."""
    with Sidecar(outbox_bytes_max=400_000) as sidecar, Proxy(sidecar.client_url) as proxy:
        client = Scripted(page, f"ws://{proxy.address}/ws")
        client.subscribe(SUBJECT, slow="conflate")
        proxy.stall()
        count = 0
        with Control(sidecar.control) as control, Publisher(sidecar.publisher_url) as publisher:
            while not control.stats()["slow_conflated"]:
                publisher.send_batch([[SUBJECT, "x" * 4000]] * 10)
                count += 10
            publisher.send_batch([[SUBJECT, str(number)] for number in range(50)])
            publisher.flush()
            proxy.flow()
            client.wait("caughtUp")
            publisher.send_batch([[SUBJECT, "live"]])
        until(lambda: client.contents[-1] == "live")
        positions = [message["seq"] for message in client.messages]
        assert positions[-2:] == [count + 50, count + 51]
        assert positions[:-2] == list(range(1, len(positions) - 1))
        assert [status["subject"] for status in client.statuses("lagging", "caughtUp")] == [SUBJECT, SUBJECT]
        assert client.statuses("gap") == []


SILENT = """async ([url, token, subjects, names]) => {
    const { connect } = await import("/realtime/static/realtime/client.js");
    const client = connect({ urls: [url], token, quickSeconds: 0.1 });
    for (const name of names) client.on(name, () => {});
    client.subscribe(subjects, () => {});
    window.silent = client;
    await new Promise((resolve) => client.on("latency", resolve));  // what was asked before has its answer
}"""


def test_what_is_missing_is_told_on_the_console_where_nobody_listens(page: Page, rules_sidecar: Sidecar) -> None:
    """Once for each subject, however often the client reconnects; a page that listens handles it itself."""
    warned: list[str] = []
    page.on("console", lambda message: warned.append(message.text) if message.type == "warning" else None)
    load_rights(rules_sidecar.control, rule(1, "user:ann", "/stocks/us/AAPL"))
    for names, told in (([], 2), (["connected"], 2), (["denied"], 0), (["status"], 0)):
        warned.clear()
        subjects = ["/stocks/us/AAPL", SUBJECT, "/stocks/us/HP"]
        page.evaluate(SILENT, [rules_sidecar.client_url, mint("ann"), subjects, names])
        page.evaluate("() => { silent.pause(); silent.resume(); return new Promise((go) => silent.on('latency', go)) }")
        page.evaluate("silent.close()")
        found = [subject for line in warned for subject in (SUBJECT, "/stocks/us/HP", "/AAPL") if subject in line]
        assert found == [SUBJECT, "/stocks/us/HP"][:told], names
        assert all("no right" in line and 'client.on("denied"' in line for line in warned)
