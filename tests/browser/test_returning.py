"""A client that waits for its next attempt, and somebody who needs it now: a user who is back, the page itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.support.browser.scripted import Scripted
from tests.support.proxy import Proxy
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

pytestmark = pytest.mark.browser

LONG: dict[str, Any] = {"quickRetries": 0, "backoffSeconds": 3000, "backoffSecondsMax": 3000}
"""Whoever waits so long does so until the test is over."""


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """One without rights."""
    with Sidecar(mode="none") as running:
        yield running


REASONS = {
    "visibilitychange": "document.dispatchEvent(new Event('visibilitychange'))",
    "focus": "window.dispatchEvent(new Event('focus'))",
    "back": "window.dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))",
    "thawed": "document.dispatchEvent(new Event('resume'))",
    "online": "window.dispatchEvent(new Event('online'))",
    "subscribe": "void client.subscribe('/a/a', () => {})",
    "publish": "void client.publish('/a/a', 'x')",
    "request": "void client.request('/a/a', 'x').catch(() => {})",
    "reconnect": "client.reconnect()",
}


def test_who_is_needed_does_not_wait(page: Page, sidecar: Sidecar) -> None:
    with Proxy(sidecar.client_url) as proxy:
        for reason in REASONS.values():
            client = Scripted(page, f"ws://{proxy.address}/ws", **LONG)
            client.wait("connected")
            proxy.shut()
            client.wait("disconnected")
            proxy.open()
            client.do(reason)
            client.wait("connected", 2)
            client.do("client.close()")


def test_a_hidden_page_is_no_reason(page: Page, sidecar: Sidecar) -> None:
    with Proxy(sidecar.client_url) as proxy:
        client = Scripted(page, f"ws://{proxy.address}/ws", **LONG)
        client.wait("connected")
        proxy.shut()
        client.wait("disconnected")
        client.do("Object.defineProperty(document, 'visibilityState', { value: 'hidden', configurable: true })")
        client.do(REASONS["visibilitychange"])
        assert len(client.statuses("connecting")) == 1
        client.do("delete document.visibilityState")
        client.do(REASONS["visibilitychange"])
        assert len(client.statuses("connecting")) == 2


def test_a_page_that_is_kept_for_back(page: Page, sidecar: Sidecar) -> None:
    """It goes without its connection, which a browser would not keep, and misses nothing."""
    client = Scripted(page, sidecar.client_url, **LONG)
    client.subscribe("/b/b")
    client.do("window.dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))")
    assert client.do("client.state") == "paused"
    client.do(REASONS["back"])
    client.wait("connected", 2)
    client.publish("/b/b", "x")
    until(lambda: client.contents)  # it may come behind its acknowledgement
    assert client.contents == ["x"]


def test_a_closed_client_hears_nothing_of_its_page(page: Page, sidecar: Sidecar) -> None:
    client = Scripted(page, sidecar.client_url, **LONG)
    client.wait("connected")
    client.do("client.close()")
    for reason in ("visibilitychange", "focus", "back", "online", "reconnect"):
        client.do(REASONS[reason])
    assert client.do("client.state") == "closed"
