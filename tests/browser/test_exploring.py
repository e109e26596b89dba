"""The monitoring pages that explore, in a browser over a real site: clients, one client, traces, subjects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from playwright.sync_api import Browser, Page, expect

from tests.support.axe import assert_usable
from tests.support.browser.stack import Stack, sign_in
from tests.support.edge.wire import WireClient

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SIBLINGS = 10_000


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """The site without Spark, with many subjects side by side."""
    with Stack() as running, running.feed() as feed:
        for start in range(0, SIBLINGS, 5000):
            feed.send_batch([[f"/wide/us/{number:05}", "1"] for number in range(start, start + 5000)])
        feed.send_batch([["/stocks/us/GE", "1", {"bid": "0.9"}]])
        yield running


@pytest.fixture(scope="module")
def admin(browser: Browser, stack: Stack) -> Iterator[Page]:
    """A page of the superuser's."""
    page = sign_in(browser, stack, "admin")
    yield page
    page.context.close()


@pytest.fixture
def page(admin: Page, stack: Stack) -> Iterator[Page]:
    """The same; a fault in a script fails the test."""
    faults: list[str] = []

    def fault(error: object) -> None:
        faults.append(str(error))

    admin.on("pageerror", fault)
    yield admin
    admin.remove_listener("pageerror", fault)
    assert not faults, faults


@contextmanager
def bobs_page(browser: Browser, stack: Stack) -> Iterator[Page]:
    """The board of a user, connected."""
    page = sign_in(browser, stack, "bob")
    page.wait_for_selector('html[data-connection="connected"]')
    yield page
    page.context.close()


@contextmanager
def slow_client(stack: Stack) -> Iterator[WireClient]:
    """One of alice's that reads nothing of what waits for it."""
    with WireClient(stack.client_url, receive_bytes=4096) as client, stack.feed() as feed:
        client.ask("connect", "connected", token=stack.manage("realtime_token", "alice").strip())
        assert "sid" in client.subscribe("/stocks/us/GE")[0]
        feed.send_batch([["/stocks/us/GE", "x" * 20_000] for _ in range(100)])
        yield client


def open_client(page: Page, stack: Stack, query: str) -> None:
    """Search, and open the first that is found."""
    page.goto(f"{stack.url}/monitoring/clients/?{query}")
    page.locator("tbody a").first.click()
    expect(page).to_have_url(re.compile(r"/clients/0/[^/]+/$"))
    page.wait_for_load_state()  # its scripts have run


def test_a_slow_client_is_found_and_why(page: Page, stack: Stack) -> None:
    """The list has it alone; its page names the subject that waits, and follows until it is gone."""
    with slow_client(stack):
        page.goto(f"{stack.url}/monitoring/clients/")
        page.check('[name="slow"]')
        page.get_by_role("button", name="Search").click()
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.locator("tbody tr")).to_contain_text("alice")
        page.locator("tbody a").click()
        expect(page.locator("#slow")).to_contain_text("taken nothing for")
        expect(page.locator("#queued")).to_contain_text("/stocks/us/GE")
        row = page.locator("#subscriptions tbody tr", has_text="/stocks/us/GE")
        expect(row).to_contain_text("queued")
        expect(row).to_have_class("warned")
        assert_usable(page)
        link = row.get_by_role("link", name="Why may it read /stocks/us/GE")
        link.focus()
        began = page.inner_text("#refreshed-text")
        expect(page.locator("#refreshed-text")).not_to_have_text(began)
        expect(link).to_be_focused()
    expect(page.locator("#gone")).to_be_visible()
    expect(page.get_by_role("button", name="Ping")).to_be_disabled()
    expect(page.locator("#live")).to_be_disabled()


def test_ping_and_disconnect_with_a_reason(page: Page, stack: Stack, browser: Browser, django_db_blocker: Any) -> None:
    """Without leaving the page; the user's page says the reason, and the admin's log who did it."""
    with bobs_page(browser, stack) as bob:
        open_client(page, stack, "user=BOB&subject=/stocks/us/GE")
        page.get_by_role("button", name="Ping").click()
        expect(page.locator("#ping-outcome")).to_have_text(re.compile(r"^[\d.]+ ms$"))
        page.get_by_role("button", name="Ping").click()
        expect(page.locator("#ping-outcome")).to_have_text(re.compile(r"^[\d.]+ ms; before: [\d.]+ ms$"))
        page.get_by_role("link", name="Why may it read /stocks/us/GE").click()
        expect(page.locator("body")).to_contain_text("bob may subscribe /stocks/us/GE")
        page.go_back()
        page.locator("#disconnect summary").press("Enter")
        page.fill("#reason", "the desk moves")
        page.get_by_label("all connections of bob").check()
        page.get_by_role("button", name="Disconnect now").click()
        expect(page.locator(".banner")).to_contain_text("user bob: 1 connection closed")
        expect(bob.locator("html")).to_have_attribute("data-connection", "stopped")
        expect(bob.locator("#state")).to_contain_text("the desk moves")
    with django_db_blocker.unblock(), stack.orm() as alias:
        noted = LogEntry.objects.using(alias).values_list("object_repr", "change_message", "user__username")
        assert noted.order_by("-pk")[0] == ("user bob", "disconnected 1 connection: the desk moves", "admin")


def test_a_trace_of_a_user(page: Page, stack: Stack, browser: Browser, tmp_path: Path) -> None:
    """Events as they happen, newest first; filtered, downloaded as JSON lines, stopped."""
    page.goto(f"{stack.url}/monitoring/trace/")
    page.select_option("#what", "user")
    page.fill("#name", "bob")
    page.get_by_role("button", name="Trace").click()
    expect(page.locator("#left")).to_contain_text("s left")
    with bobs_page(browser, stack), stack.feed() as feed:
        feed.send_batch([["/stocks/us/GE", "traced"]])
        for event in ("connected", "subscribed", "denied", "message"):
            expect(page.locator(f'#events [data-event="{event}"]').first).to_be_visible()
        expect(page.locator('#events [data-event="message"]').first).to_contain_text("/stocks/us/GE")
        expect(page.locator("#events")).to_contain_text(re.compile(r"\d+/\d+ · 6 B · sent · (within 1|after \d+) ms"))
    expect(page.locator("#events li").first).to_have_attribute("data-event", "closed")
    assert_usable(page)
    page.select_option("#kind", "subscribed")
    page.fill("#filter", "us/ge")
    expect(page.locator("#events li")).to_have_count(1)
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#trace-state")).to_contain_text("ended")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert re.fullmatch(r"trace-user-bob-[\dT-]+\.jsonl", download.value.suggested_filename)
    download.value.save_as(tmp_path / "trace.jsonl")
    events = [json.loads(line) for line in (tmp_path / "trace.jsonl").read_text().splitlines()]
    assert len(events) == int(page.inner_text("#count").split()[0])
    assert {"connected", "subscribed", "denied", "message", "closed"} <= {event["event"] for event in events}
    assert all(event["user"] == "bob" and "words" not in event for event in events if event["event"] == "message")
    assert [event["n"] for event in events] == sorted({event["n"] for event in events})


def test_the_tree_of_many_subjects(page: Page, stack: Stack) -> None:
    """By keyboard: a place opens where it stands, its segments come by the page, and are found by their beginning."""
    page.goto(f"{stack.url}/monitoring/subjects/")
    for place in ("/wide", "/wide/us"):
        page.get_by_role("link", name=f"Below {place}", exact=True).press("Enter")
    wide = page.locator('[data-prefix="/wide/us"]')
    expect(wide.locator(".segment")).to_have_count(100)
    expect(wide.locator(".turn")).to_contain_text("100 of 10000")
    wide.get_by_role("button", name="Next").press("Enter")
    expect(wide.locator(".segment").first).to_have_text("00100")
    expect(wide.locator(".segment").first).to_be_focused()
    wide.get_by_role("button", name="First").click()
    expect(wide.locator(".segment").first).to_have_text("00000")
    wide.get_by_role("searchbox").press_sequentially("0777")
    expect(wide.locator(".segment")).to_have_count(10)
    expect(wide.get_by_role("searchbox")).to_be_focused()
    assert_usable(page)
    wide.get_by_role("link", name="07774").click()
    expect(page.locator("#subject-title")).to_have_text("/wide/us/07774")
    expect(page.locator("#tree [aria-current]")).to_have_text("07774")
    page.get_by_role("link", name="Below /wide/us", exact=True).press("Enter")
    expect(page.locator('[data-prefix="/wide/us"]')).to_have_count(0)


def test_a_subject_and_a_test_message(page: Page, stack: Stack) -> None:
    """What is published by hand is there at once; the page follows what comes, and has older messages by the page."""
    subject = "/wide/us/00042"
    page.goto(f"{stack.url}/monitoring/subjects/?subject={subject}")
    expect(page.locator("#position")).to_contain_text("/1")
    page.fill("#content", "by hand")
    page.fill("#fields", "bid=7\nask=8")
    page.get_by_label("retained").check()
    page.get_by_role("button", name="Publish").click()
    expect(page.locator(".banner")).to_contain_text(f"Published to {subject} as")
    expect(page.locator("#snapshot-content")).to_have_text("by hand")
    with stack.feed() as feed:
        feed.send_batch([[subject, f"{number} " + "x" * 200] for number in range(30)])
    expect(page.locator("#position")).to_contain_text("/32")
    expect(page.locator("#snapshot-content")).to_contain_text("29 x")
    expect(page.locator("#snapshot .fields")).to_contain_text("bid")
    page.locator("#history summary").first.click()
    with stack.feed() as feed:
        feed.send_batch([[subject, "newest"]])
    expect(page.locator("#position")).to_contain_text("/33")
    expect(page.locator("#history details[open]")).to_have_count(1)
    page.get_by_role("link", name="Older").click()
    expect(page.locator("#history tbody tr").last).to_contain_text("/1")
    assert_usable(page)
    page.goto(f"{stack.url}/monitoring/clients/")
    assert_usable(page)
