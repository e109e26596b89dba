"""The lists of senders and publishers' connections on the overview: what is staged, and what has no answer."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import pytest
from playwright.sync_api import Browser, expect

from fastpath.client.publisher.transactions import Attempt, Stager
from tests.support import axe
from tests.support.browser.stack import Stack, sign_in
from tests.support.edge.wire import WirePublisher

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HEADS = ["Name", "As", "Messages", "Per second", "Not acknowledged", "Uncommitted", "Last"]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """The site without Spark: the test stages."""
    with Stack() as running:
        yield running


def test_rows_that_wait_for_their_commit_are_shown_with_their_age(browser: Browser, stack: Stack) -> None:
    """And stay when the task that staged them has gone; as long as it is there its connection says that it stages."""
    page = sign_in(browser, stack, "admin")
    page.goto(f"{stack.url}/monitoring/")
    assert page.locator("#senders thead th").all_inner_texts() == HEADS
    rows = msgspec.msgpack.encode([["/stocks/us/BAC", ("1", "2", "3")]])
    row = page.locator("#senders tbody tr").filter(has_text="nightly")
    token = stack.manage("realtime_token", "spark").strip()
    with Stager(stack.publishers, token, Attempt("nightly", 0, 0, 1)) as stager:
        stager.stage(3, rows, None)
        stager.flush()
        expect(page.locator("#publishers tbody tr").filter(has_text="stages")).to_be_visible(timeout=15_000)
    expect(page.locator("#publishers tbody")).to_contain_text("no publisher is connected")
    expect(row.locator("td").nth(0)).to_have_text("transaction")
    expect(row.locator("td").nth(3)).to_have_text("0")
    expect(row.locator("td").nth(4)).to_have_text(re.compile(r"^3, \d+(\.\d+)? m?s$"))
    axe.assert_usable(page)
    page.context.close()


def test_who_only_reads_is_a_connection_and_no_sender(browser: Browser, stack: Stack) -> None:
    """And has no rate, until it publishes."""
    page = sign_in(browser, stack, "admin")
    page.goto(f"{stack.url}/monitoring/")
    token = stack.manage("realtime_token", "spark").strip()
    with WirePublisher(stack.publishers, token, publisher="quiet") as quiet:
        row = page.locator("#publishers tbody tr").filter(has=page.locator("[title*='quiet']"))
        expect(row.locator("td").nth(1)).to_have_text("reads or reports")
        expect(page.locator("#senders tbody")).not_to_contain_text("quiet")
        quiet.publish(["/stocks/us/BAC", "27.10"])
        expect(row.locator("td").nth(1)).to_have_text(re.compile(r"^[\d.]+$"))
        expect(page.locator("#senders tbody tr").filter(has_text="quiet").locator("td").nth(1)).to_have_text("1")
    page.context.close()
