"""Requests of the JavaScript client, and its handlers, against a real sidecar and beside the Python client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page

from fastpath.client import NoResponders, Reply, Request, ResponderError, ResponderGone, blocking
from tests.support.browser.scripted import Scripted
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

pytestmark = pytest.mark.browser

ASK = """(() => {
    const plain = (value) => value instanceof Uint8Array ? { bytes: [...value] } : value;
    const shown = ({ content, fields }) => ({ content: plain(content),
        fields: Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, plain(value)])) });
    return client.request(...argument).then(
        (found) => Array.isArray(found) ? found.map(shown) : shown(found),
        ({ status, reason, subject, own, replies }) =>
            ({ status, reason, subject, own, replies: replies?.map(shown) }));
})()"""


@pytest.fixture(scope="module")
def answering() -> Iterator[tuple[Sidecar, blocking.BlockingClient]]:
    """A sidecar, and a Python client that answers below ``/py``."""

    def answer(request: Request) -> Reply | str:
        if request.subject == "/py/error":
            request.reply("before")
            raise ResponderError("no_such_stock", "there is no ZZZ")
        if request.subject == "/py/three":
            request.reply("1")
            request.reply("2", {"n": "two"})
        return Reply(request.content, request.fields)

    with Sidecar(mode="none") as sidecar, blocking.connect(sidecar.client_url) as client:
        client.respond("/py/*", answer)
        yield sidecar, client


@pytest.mark.parametrize("form", ["msgpack", "json"])
def test_requests(page: Page, answering: tuple[Sidecar, object], form: str) -> None:
    """A reply, several, a responder's error, and nobody at all; asked before the client is connected."""
    client = Scripted(page, answering[0].client_url, form=form)

    def ask(*arguments: Any) -> Any:
        return client.do(ASK, list(arguments))

    assert ask("/py/echo", "é", {"fields": {"a": "1"}}) == {"content": "é", "fields": {"a": "1"}}
    assert client.do(
        "client.request('/py/echo', new Uint8Array([0, 255])).then(({ content }) => [...content])", None
    ) == [0, 255]
    assert ask("/py/three", "3", {"replies": 5}) == [
        {"content": "1", "fields": {}},
        {"content": "2", "fields": {"n": "two"}},
        {"content": "3", "fields": {}},
    ]
    error = ask("/py/error", "", {"replies": 2})
    assert (error["status"], error["reason"], error["own"]) == ("no_such_stock", "there is no ZZZ", False)
    assert error["replies"] == [{"content": "before", "fields": {}}]
    nobody = ask("/nobody/here", "")
    assert (nobody["status"], nobody["own"], nobody["subject"]) == ("no_responders", True, "/nobody/here")
    assert ask("/py/echo", "", {"timeout": 400_000})["status"] == "invalid"
    assert client.do("client.request('/py/echo', 'after').then(({ content }) => content)") == "after"


RESPOND = """(async () => {
    const { RealtimeError } = await import("/realtime/static/realtime/client.js");
    window.aborted = [];
    window.responder = await client.respond(argument, async (request) => {
        if (request.content === "own") throw new RealtimeError("denied", "not yours");
        if (request.content === "fault") throw new Error("a secret");
        if (request.content === "bad") return { content: 7 };
        if (request.content === "wait") {
            window.asked = request.subject;
            await new Promise((resolve) => request.signal.addEventListener("abort", resolve));
            window.aborted.push(request.subject);
        }
        request.reply("first");
        return { content: request.content, fields: { user: request.user, subject: request.subject } };
    });
})()"""


@pytest.mark.parametrize("form", ["msgpack", "json"])
def test_responding(page: Page, answering: tuple[Sidecar, blocking.BlockingClient], form: str) -> None:
    """Handlers answer, fail and are told that nobody waits any more."""
    sidecar, asking = answering
    client = Scripted(page, sidecar.client_url, form=form)
    client.wait("connected")
    client.do("void (window.faults = [], window.reportError = (error) => faults.push(String(error)))")
    client.do(RESPOND, "/js/*")
    assert asking.request("/js/a", b"\xff", replies=2) == [
        Reply("first"),
        Reply(b"\xff", {"user": "", "subject": "/js/a"}),
    ]
    for content, error in (
        ("own", "denied: not yours"),
        ("fault", "the responder failed"),
        ("bad", "responder failed"),
    ):
        with pytest.raises(ResponderError, match=error):
            asking.request("/js/a", content, replies=2)
    with pytest.raises(TimeoutError):
        asking.request("/js/late", "wait", timeout=1.5)
    until(lambda: client.do("aborted") == ["/js/late"])
    assert client.do("faults[0]") == "Error: a secret"
    refused = client.do("client.respond('/js/**/x', () => '').catch(({ status, subject }) => [status, subject])")
    assert refused == ["invalid", "/js/**/x"]
    client.do("responder.close()")
    assert client.do(ASK, ["/js/a", ""])["status"] == "no_responders"


@pytest.mark.slow
def test_a_reconnection_responds_again(page: Page) -> None:
    """What was asked on the old connection is over, and the new one is asked."""
    with Sidecar(mode="none") as sidecar:
        client = Scripted(page, sidecar.client_url)
        client.wait("connected")
        client.do(RESPOND, "/js/*")
        pending = (
            "void (window.outcome = '', client.request('/js/x', 'wait', { timeout: 60000 })"
            ".catch(({ status }) => { window.outcome = status; }))"
        )
        client.do(pending)
        until(lambda: client.do("window.asked") == "/js/x")
        sidecar.kill()
        until(lambda: client.do("outcome") == "unknown")
        until(lambda: client.do("aborted") == ["/js/x"])
        sidecar.start()
        client.wait("connected", 2)
        with blocking.connect(sidecar.client_url) as asking:

            def answered() -> bool:
                try:
                    return asking.request("/js/y", "again", replies=2)[-1].content == "again"
                except (NoResponders, ResponderGone):  # it may go while it is asked
                    return False

            until(answered)
            client.do("client.pause()")
            until(lambda: not answered())
