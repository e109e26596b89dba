"""The script of the page Trace, over answers of its own: when it stops asking."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAGE = """<script type="application/json" id="realtime-config">CONFIG</script><div id="trace">
<b id="count"></b><b id="left"></b><b id="trace-state">begun</b><button id="stop">Stop</button>
<button id="download"></button>
<input id="filter"><select id="kind"><option value=""></option></select><input type="checkbox" id="hold">
<b id="trace-outcome"></b><ol id="events"></ol><p id="none"></p><input name="csrfmiddlewaretoken" value="x"></div>
<script type="module" src="/realtime/static/realtime/monitoring/trace.js"></script>"""

RUNS = {"events": [], "dropped": {}, "ended": {}, "seconds_left": 30, "errors": []}
AWAY = {"errors": [{"node": 1, "name": "b", "error": "no answer within 2 s"}]}
ENDED = {"ended": {"0": "its time is over"}, "seconds_left": 0}


class Site:
    """Answers the page's questions with ``status`` and ``answer``, and counts them; its clock is the test's."""

    def __init__(self, page: Page) -> None:
        self.page, self.asked = page, 0
        self.status, self.answer = 200, dict[str, Any](RUNS)
        config = {"traces": ["0:x-1", "1:y-1"], "nodes": ["a", "b"], "what": "user", "name": "bob"}
        config |= {"data_url": "/data", "stop_url": "/stop"}
        html = PAGE.replace("CONFIG", json.dumps(config))
        page.clock.install()
        page.route("**/trace.html", lambda route: route.fulfill(body=html, content_type="text/html"))
        page.route("**/data?*", self._answer)
        page.route("**/stop", lambda route: route.fulfill(json={"errors": []}))
        with page.expect_response("**/data?*"):
            page.goto(page.url.replace("empty.html", "trace.html"))
        # An installed clock also goes by itself, and a loaded machine's seconds are not the test's: it stands now.
        page.clock.pause_at(page.evaluate("Date.now()") + 20_000)
        self.pass_ms(1000)  # the last answer, from which the page counts, is of now

    def _answer(self, route: Route) -> None:
        self.asked += 1
        if self.status:
            route.fulfill(status=self.status, json=self.answer if self.status == 200 else {"detail": "why"})
        else:
            route.abort()

    def pass_ms(self, ms: int) -> int:
        """Let time pass; the number of questions meanwhile, of which each is answered."""
        before = self.asked
        for _ in range(ms // 500):
            self.page.clock.run_for(500)
            self.page.evaluate("() => fetch('/tests/browser/empty.html')")  # what was asked before is answered
        return self.asked - before


@pytest.fixture
def site(page: Page) -> Site:
    """A trace that runs on two nodes."""
    return Site(page)


@pytest.mark.parametrize(("status", "words"), [(401, "ended: you are signed out"), (403, "ended: why")])
def test_nothing_more_is_asked_by_who_may_not(site: Site, status: int, words: str) -> None:
    assert site.pass_ms(2000) >= 3
    site.status = status
    site.pass_ms(1000)
    expect(site.page.locator("#trace-state")).to_have_text(words)
    expect(site.page.locator("#stop")).to_have_count(0)
    assert site.pass_ms(3000) == 0


@pytest.mark.parametrize("stopped", [False, True])
def test_a_node_that_is_gone_is_given_up_after_the_end(site: Site, stopped: bool) -> None:
    """Not before: it may come back, with what happened meanwhile."""
    site.answer = RUNS | AWAY
    assert site.pass_ms(2000) >= 3
    if stopped:
        site.page.click("#stop")
    site.answer = RUNS | AWAY | ENDED
    assert site.pass_ms(8000 if stopped else 36_000) > 10
    expect(site.page.locator("#trace-state")).to_have_text("begun")
    site.pass_ms(5000)
    expect(site.page.locator("#trace-state")).to_have_text("ended: its time is over; no answer within 2 s")
    assert site.pass_ms(3000) == 0


def test_a_site_that_is_gone_is_given_up_after_the_end(site: Site) -> None:
    site.status = 0
    site.pass_ms(30_000)
    expect(site.page.locator("#trace-outcome")).to_have_text("the web server does not answer; trying again")
    site.pass_ms(15_000)
    expect(site.page.locator("#trace-state")).to_have_text("ended: the web server does not answer")
    assert site.pass_ms(3000) == 0
