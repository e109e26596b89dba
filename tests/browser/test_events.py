"""A browser's own EventSource, with nothing of ours in the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.support.edge.wire import WirePublisher
from tests.support.proxy import Proxy
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

pytestmark = pytest.mark.browser

SUBJECTS = "/stocks/us/IBM,/chat/**"
LISTEN = """(url) => {
    window.heard = [];
    window.events = new EventSource(url);
    window.events.onmessage = ({ data }) => window.heard.push(JSON.parse(data).content);
    for (const name of ["recovered", "resynchronised", "denied"]) {
        window.events.addEventListener(name, ({ data }) => window.heard.push(`${name} ${JSON.parse(data).subject}`));
    }
}"""


@pytest.fixture
def proxy(sidecar: Sidecar) -> Iterator[Proxy]:
    """A proxy before the client port, to cut connections."""
    with Proxy(sidecar.client_url) as running:
        yield running


def heard(page: Page) -> list[Any]:
    return list(page.evaluate("window.heard"))


def test_it_goes_on_by_itself_where_it_was(page: Page, sidecar: Sidecar, proxy: Proxy) -> None:
    """From a page of another origin; what is published while it is away comes once, in order."""
    with WirePublisher(sidecar) as publisher:
        publisher.publish(["/stocks/us/IBM", "193"])
        page.evaluate(LISTEN, f"http://{proxy.address}/events?subjects={SUBJECTS}")
        until(lambda: heard(page) == ["193"])
        publisher.publish(["/chat/a", "hello"], ["/stocks/us/IBM", "194"])
        until(lambda: heard(page) == ["193", "hello", "194"])
        proxy.cut()
        publisher.publish(["/stocks/us/IBM", "195"], ["/stocks/us/IBM", "196"], ["/chat/a", "still there?"])
        until(lambda: len(heard(page)) >= 8, 20)
        told = heard(page)[3:]
        assert [text for text in told if text in ("195", "196")] == ["195", "196"]
        assert told.count("still there?") == 1
        assert {"recovered /stocks/us/IBM", "recovered /chat/a"} <= set(told)
        publisher.publish(["/chat/b", "a new one"])
        until(lambda: heard(page)[-1] == "a new one")
    page.evaluate("window.events.close()")
