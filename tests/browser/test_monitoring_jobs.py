"""The panel of Spark jobs on the overview: what they report, what is silent, and what failed."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from fastpath.client.publisher.reporting import Reporter
from tests.support import axe
from tests.support.browser.stack import Stack, sign_in

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """The site without Spark: the test reports."""
    with Stack() as running:
        yield running


@pytest.fixture
def page(browser: Browser, stack: Stack) -> Iterator[Page]:
    """The overview of a superuser."""
    page = sign_in(browser, stack, "admin")
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(f"{stack.url}/monitoring/")
    yield page
    page.context.close()
    assert not faults, faults


def cells(page: Page, job: str) -> list[str]:
    row = page.locator("#jobs tbody tr").filter(has=page.get_by_role("rowheader", name=job, exact=True)).first
    expect(row).to_be_visible(timeout=15_000)
    return [" ".join(text.split()) for text in row.locator("td").all_inner_texts()]


def test_jobs_are_shown_with_what_they_report(page: Page, stack: Stack) -> None:
    """A running one with its figures, a failed one with its error, which comes first; as text, whatever it is."""
    expect(page.locator("#jobs")).to_contain_text("no job has reported")
    newest = round(time.time() * 1000) - 1000
    with Reporter(stack.publishers, stack.manage("realtime_token", "spark").strip()) as reporter:
        reporter.report(
            "bars",
            {
                "state": "running",
                "run": "a1",
                "host": "worker-7",
                "pid": "41",
                "batch": "12345",
                "batch_ms": "240",
                "rows_in_per_s": "50.0",
                "rows_done_per_s": "1200.0",
                "lag_ms": "1234",
                "behind": "7",
                "state_rows": "60",
                "newest": str(newest),
            },
        )
        reporter.report("bars", {"state": "running", "run": "b2", "batch": "12346", "batch_ms": "none"})
        reporter.report("movers", {"state": "failed", "error": "<b>row 18</b> was refused"})
        none_yet = {"newest": "0", "watermark": "0"}
        reporter.report(
            "alerts", {"state": "running", "host": "worker-7", "batch": "2", "rows_in_per_s": "50.0", **none_yet}
        )
    expect(page.locator("#jobs tbody th")).to_have_text(["movers", "alerts", "bars"])
    assert cells(page, "movers")[0] == "failed"
    assert cells(page, "movers")[-1] == "<b>row 18</b> was refused"
    alerts = cells(page, "alerts")
    assert alerts[:4] == ["running", "50", "–", "2"]
    assert alerts[7] == "–", "0 is no time of 1970"
    bars = cells(page, "bars")
    assert bars[3:5] == ["12346", "–"], "what is no number is a dash"
    assert bars[9] == "1", "its run has changed"
    expect(page.locator("#jobs th[title*='worker-7']")).to_have_text("alerts")
    expect(page.locator("#jobs-total")).to_have_text("3")


def test_the_panel_is_usable_on_a_phone_and_by_keyboard(page: Page) -> None:
    expect(page.locator("#jobs tbody tr")).to_have_count(3)
    axe.assert_usable(page)
    for width in (400, 900, 1400):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
