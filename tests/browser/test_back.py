"""A page that the browser itself keeps, and brings back with "Back": Chromium's own back/forward cache."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.support.browser.chromium import CHROMIUM, FLAGS, new_context
from tests.support.browser.scripted import Scripted
from tests.support.edge.wire import WirePublisher
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

pytestmark = pytest.mark.browser

OFF = "--disable-back-forward-cache"
"""What Playwright says to every Chromium."""

ON = "--enable-features=BackForwardCache,BackForwardCacheMemoryControls:memory_threshold_for_back_forward_cache_in_mb/0"
"""However little memory there is."""


@pytest.fixture(scope="module")
def keeping() -> Iterator[Browser]:
    """A browser that keeps pages."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, ON], ignore_default_args=[OFF])
        yield running
        running.close()


@pytest.fixture
def page(keeping: Browser, files: str) -> Iterator[Page]:
    """An empty page."""
    context = new_context(keeping)
    empty = context.new_page()
    empty.goto(f"{files}/tests/browser/empty.html")
    yield empty
    context.close()


@pytest.mark.parametrize("transport", ["websocket", "stream", "poll"])
def test_back_brings_the_page_and_what_it_has_missed(page: Page, files: str, sidecar: Sidecar, transport: str) -> None:
    """The very page, as no open connection keeps the browser from keeping it; and nothing twice."""
    client = Scripted(page, sidecar.client_url, transports=[transport])
    client.subscribe("/a/a", history=10)
    page.evaluate("""() => {
        window.marks = [];
        for (const name of ["pagehide", "pageshow"]) {
            addEventListener(name, ({ persisted }) => marks.push([name, persisted]));
        }
    }""")
    with WirePublisher(sidecar) as publisher:
        publisher.publish(["/a/a", "before"])
        until(lambda: client.contents == ["before"])
        page.goto(f"{files}/tests/browser/empty.html?elsewhere")
        assert page.evaluate("typeof client") == "undefined"
        publisher.publish(["/a/a", "meanwhile"])
        page.go_back(wait_until="commit")
        until(lambda: page.evaluate("globalThis.marks ?? null") == [["pagehide", True], ["pageshow", True]])
        client.wait("connected", 2)
        publisher.publish(["/a/a", "after"])
        until(lambda: client.contents == ["before", "meanwhile", "after"])
    assert [status["name"] for status in client.statuses("paused")] == ["paused"]
