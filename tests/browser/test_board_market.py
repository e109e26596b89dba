"""The board's candles, movers and alerts over a real site, with a publisher in place of the Spark jobs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group
from playwright.sync_api import Browser, Page, expect

from entitlement.models import Action, Effect, Rule
from realtime.demo.instruments import instrument
from tests.support.axe import assert_usable
from tests.support.browser.stack import Stack, sign_in
from tests.support.waiting import until

pytestmark = [pytest.mark.browser, pytest.mark.slow]

START = 1_700_000_000_000
"""Of the first bar, in ms since 1970."""


class Jobs:
    """Publishes what the jobs do."""

    def __init__(self, stack: Stack) -> None:
        self._publisher = stack.feed()

    def send(self, subject: str, content: str, as_of: Any = None, qos: str = "", **fields: str) -> None:
        """One message."""
        meta = {name: value for name, value in (("as_of", as_of), ("qos", qos)) if value}
        self._publisher.send_batch([[subject, content, fields, meta]])
        self._publisher.flush()

    def bar(
        self, symbol: str, number: int, close: float, final: str = "1", interval: str = "1s", **options: Any
    ) -> None:
        """The bar of that number: it opens at 100."""
        step = {"1s": 1000, "1m": 60_000}[interval]
        start = START // step * step + number * step
        told = {
            "start": str(start),
            "end": str(start + step),
            "open": "100",
            "high": "110",
            "low": "90",
            "final": final,
        }
        told |= {"volume": "1500", "vwap": "100.1234", "ticks": "4", "simulated": "volume", "symbol": symbol}
        self.send(f"/bars-{interval}/us/{symbol}", f"{close:.2f}", **(told | options))

    def move(self, of: str, change: float, end: int = 300_000, as_of: Any = None, **more: str) -> None:
        """How much an instrument moved in the five minutes up to `end`, in ms."""
        told = {"price": str(100 + change), "window_start": str(end - 300_000), "window_end": str(end)} | more
        self.send(f"/movers/us/{of}", str(change), as_of, **told)

    def alert(self, symbol: str, text: str, at: int, level: str = "warning") -> None:
        """An alert of that time, in ms."""
        self.send(
            f"/alerts/us/{symbol}", text, symbol=symbol, kind="zscore", level=level, price="9", limit="3", time=str(at)
        )

    def close(self) -> None:
        """End the connection."""
        self._publisher.close()


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """The site without Spark."""
    with Stack() as running:
        yield running


@pytest.fixture(scope="module")
def jobs(stack: Stack) -> Iterator[Jobs]:
    """A publisher."""
    running = Jobs(stack)
    yield running
    running.close()


@pytest.fixture
def visit(browser: Browser, stack: Stack) -> Iterator[Any]:
    """Pages of signed-in users, closed at the end; a fault in a page's script fails the test."""
    pages: list[Page] = []
    faults: list[str] = []

    def open_page(user: str, **options: Any) -> Page:
        page = sign_in(browser, stack, user, **options)
        page.on("pageerror", lambda error: faults.append(str(error)))
        pages.append(page)
        page.wait_for_selector('html[data-connection="connected"]')
        return page

    yield open_page
    for page in pages:
        page.context.close()
    assert not faults, faults


def read(page: Page, name: str) -> Any:
    """A figure of the bar that is read."""
    return page.locator(f'#readout [data-bar="{name}"]')


def drawn(page: Page) -> int:
    """How many candles are on the canvas."""
    return int(page.locator("#chart canvas").get_attribute("data-candles") or 0)


def lines(page: Page, selector: str) -> list[str]:
    """The texts of elements, each on one line."""
    return [re.sub(r"\s+", " ", text).strip() for text in page.locator(selector).all_inner_texts()]


def test_candles_move_and_stay(visit: Any, jobs: Jobs) -> None:
    """The cached bars first; the last one moves until it is final; it says as of when it is, and what is simulated."""
    for number in range(3):
        jobs.bar("AMD", number, 101 + number)
    page = visit("alice", path="/%23AMD/1s")
    expect(page.locator("#candles")).to_have_attribute("data-state", "live")
    until(lambda: drawn(page) == 3)
    expect(read(page, "close")).to_have_text("103.00")
    expect(page.locator("#readout-state")).to_have_text("complete")
    for close in (99.0, 98.5):
        as_of = {"time": START + 500, "batch": 7, "job": "bars"}
        jobs.bar("AMD", 3, close, final="0", qos="standard", as_of=as_of)
        expect(read(page, "close")).to_have_text(f"{close:.2f}")
    expect(page.locator("#readout-state")).to_have_text("so far")
    expect(page.locator("#readout")).to_have_attribute("data-trend", "down")
    expect(page.locator("#candles-as-of")).to_contain_text("Data as of 14 Nov 2023")
    expect(page.locator("#candles-as-of")).to_have_attribute("title", re.compile("^14 Nov 2023.*, batch 7 of bars$"))
    expect(page.locator("#readout .simulated:visible")).to_have_count(1)
    expect(read(page, "volume")).to_have_text("1.5K")
    expect(read(page, "vwap")).to_have_text("100.12")
    jobs.bar("AMD", 3, 97)
    expect(page.locator("#readout-state")).to_have_text("complete")
    jobs.bar("AMD", 3, 55, final="0")
    jobs.bar("AMD", 4, 104, as_of=START - 86_400_000)
    expect(read(page, "close")).to_have_text("104.00")
    expect(page.locator("#candles-as-of")).to_contain_text("Data as of 14 Nov 2023")
    page.focus("#chart")
    page.keyboard.press("ArrowLeft")
    expect(read(page, "close")).to_have_text("97.00")


def test_a_bar_is_read_by_keys_and_by_pointer(visit: Any, jobs: Jobs) -> None:
    """The chart is a slider over its bars; beyond its end it follows the newest again."""
    for number in range(30):
        jobs.bar("MSFT", number, 100 + number)
    page = visit("alice", path="/%23MSFT/1s")
    until(lambda: drawn(page) == 30)
    chart = page.locator("#chart")
    expect(chart).to_have_attribute("aria-valuetext", "the newest bar")
    chart.focus()
    for key, close, place in (
        ("ArrowLeft", 128, 29), ("ArrowDown", 127, 28), ("PageDown", 117, 18), ("Home", 100, 1), ("PageDown", 100, 1),
        ("ArrowUp", 101, 2), ("ArrowRight", 102, 3), ("PageUp", 112, 13), ("End", 129, 30),
    ):  # fmt: skip
        page.keyboard.press(key)
        expect(read(page, "close")).to_have_text(f"{close}.00")
        assert chart.get_attribute("aria-valuenow") == str(place)
    expect(page.locator("#readout-state")).to_have_text("chosen")
    assert "open 100.00, high 110.00, low 90.00, close 129.00" in (chart.get_attribute("aria-valuetext") or "")
    jobs.bar("MSFT", 30, 131)
    until(lambda: drawn(page) == 31)
    expect(read(page, "close")).to_have_text("129.00")
    page.keyboard.press("Escape")
    expect(read(page, "close")).to_have_text("131.00")
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 70, box["y"] + 40)
    expect(page.locator("#readout-state")).to_have_text("chosen")
    expect(read(page, "close")).not_to_have_text("131.00")
    page.mouse.move(box["x"] + 10, box["y"] - 80)
    expect(read(page, "close")).to_have_text("131.00")


def test_choosing_an_instrument_and_an_interval(visit: Any, jobs: Jobs) -> None:
    """By its row, its symbol or a mover; the address keeps it; nothing of the one before is left."""
    jobs.bar("KO", 0, 61)
    jobs.bar("PG", 0, 81)
    jobs.bar("PG", 0, 82, interval="1m")
    jobs.move("KO", 2.5)
    jobs.move("PG", 1, symbol="??")
    page = visit("bob")
    expect(page.locator("#candles-symbol")).to_have_text("BAC")  # the first that he may see
    expect(page.locator('[data-subject="/stocks/us/BAC"]')).to_have_class("chosen")
    page.click('[data-subject="/stocks/us/PG"] .price')
    expect(read(page, "close")).to_have_text("81.00")
    expect(page.get_by_role("button", name="PG", pressed=True)).to_have_count(1)
    page.click("label:has-text('1m')")
    expect(read(page, "close")).to_have_text("82.00")
    assert page.url.endswith("#PG/1m")
    page.reload()
    expect(read(page, "close")).to_have_text("82.00")
    expect(page.locator("#candles-name")).to_have_text("Procter & Gamble")
    expect(page.locator("#gainers button:disabled")).to_have_text("??")
    page.click("#gainers button:has-text('KO')")
    expect(page.locator("#candles-note")).to_contain_text("Waiting for the first bar")  # there is none of a minute
    page.check("input[value='1s']", force=True)
    expect(read(page, "close")).to_have_text("61.00")
    page.focus('[data-subject="/stocks/us/AAPL"] button.symbol')
    page.keyboard.press("Enter")
    expect(page.locator("#candles-note")).to_have_text("You are not entitled to these bars.")
    expect(page.locator("#chart")).to_be_hidden()


def test_movers(visit: Any, jobs: Jobs) -> None:
    """Ranked on the page, of what the user may see, as long as the windows overlap; nonsense changes nothing."""
    for symbol, change in (("BAC", 1.25), ("KO", 2.5), ("GE", -3), ("CVX", -3.5), ("HD", 0), ("MSFT", 9)):
        jobs.move(symbol, change, end=900_000, as_of=START)
    alice, page = visit("alice"), visit("bob")
    expect(alice.locator("#gainers li")).to_have_count(3)
    assert lines(alice, "#gainers li")[0] == "MSFT Microsoft 109.00 +9.00 %"
    expect(page.locator("#gainers li")).to_have_count(2)
    expect(page.locator("#losers li")).to_have_count(2)
    assert lines(page, "#gainers li") == ["KO Coca-Cola 102.50 +2.50 %", "BAC Bank of America 101.25 +1.25 %"]
    assert lines(page, "#losers li") == ["CVX Chevron 96.50 −3.50 %", "GE GE Aerospace 97.00 −3.00 %"]
    expect(page.locator("#movers-window")).to_have_text("of the last 5 min")
    expect(page.locator("#movers-as-of")).to_contain_text("Data as of 14 Nov 2023")
    jobs.send("/movers/us/GE", "nonsense", window_start="0", window_end="999999")
    jobs.send("/movers/us/GE", "5", window_start="900000", window_end="900000")
    jobs.move("HD", 3, end=905_000)
    expect(page.locator("#gainers li")).to_have_count(3)
    assert [line.split()[0] for line in lines(page, "#gainers li")] == ["HD", "KO", "BAC"]
    assert [line.split()[0] for line in lines(page, "#losers li")] == ["CVX", "GE"]
    jobs.move("HD", 0, end=1_300_000)
    expect(page.locator("#gainers-note")).to_have_text("Nothing moved.")
    expect(page.locator("#gainers li, #losers li")).to_have_count(0)


def test_alerts(visit: Any, jobs: Jobs) -> None:
    """By their times, the newest first, of the instruments that the user may see; a new one is told once."""
    now = int(time.time() * 1000)
    jobs.alert("BAC", "second", now - 2000, "critical")
    jobs.alert("CVX", "first", now - 3000)
    jobs.alert("AAPL", "not for bob", now - 1000)
    page = visit("bob")
    expect(page.locator("#alert-list li")).to_have_count(2)
    assert [text.split()[-1] for text in lines(page, "#alert-list li")] == ["second", "first"]
    assert lines(page, "#alert-list .level") == ["critical", "warning"]
    expect(page.locator("#alert-announcement")).to_be_empty()
    jobs.alert("GE", "<b>third</b>", now)
    expect(page.locator("#alert-list li").first).to_contain_text("<b>third</b>")
    expect(page.locator("#alert-announcement")).to_have_text("warning, GE: <b>third</b>")
    expect(page.locator("#alert-count")).to_have_text("3")
    expect(page.locator("#alert-list p").first).to_have_attribute("title", "price 9, limit 3")
    for number in range(60):
        jobs.alert("GE", f"more {number}", now + number)
    expect(page.locator("#alert-count")).to_have_text("50+")
    expect(page.locator("#alert-list li")).to_have_count(50)
    expect(page.locator("#alert-list li").first).to_contain_text("more 59")
    page.set_viewport_size({"width": 900, "height": 900})
    page.click("#alert-jump a")
    expect(page.locator("#alert-list li").first).to_be_in_viewport()


def test_rights_that_change(visit: Any, jobs: Jobs, stack: Stack, django_db_blocker: Any) -> None:
    """One denial takes an instrument's price, candles, move and alerts away; they come back with the right."""
    jobs.bar("XOM", 0, 99)
    jobs.send("/stocks/us/XOM", "98.76", change="1", change_pct="1")
    jobs.move("XOM", -1, end=2_000_000)
    jobs.move("KO", -2, end=2_000_000)
    jobs.alert("XOM", "of exxon", int(time.time() * 1000) + 60_000)
    page = visit("bob", path="/%23XOM/1s")
    expect(read(page, "close")).to_have_text("99.00")
    exxon = page.locator("#alert-list li", has_text="of exxon")
    price = page.locator('[data-subject="/stocks/us/XOM"] .price')
    expect(exxon).to_have_count(1)
    expect(price).to_have_text("98.76")
    expect(page.locator("#losers li")).to_have_count(2)
    with django_db_blocker.unblock(), stack.orm() as alias:
        desk = Group.objects.using(alias).get(name="NYSE desk")
        denial = Rule.objects.using(alias).create(
            group=desk, pattern=instrument("XOM"), action=Action.SUBSCRIBE, effect=Effect.DENY
        )
        expect(page.locator("#candles-note")).to_have_text("You are not entitled to these bars.")
        expect(page.locator("#losers li")).to_have_count(1)
        assert [line.split()[0] for line in lines(page, "#losers li")] == ["KO"]
        expect(exxon).to_have_count(0)
        expect(price).to_have_text("–")
        denial.delete()
        expect(read(page, "close")).to_have_text("99.00")
        expect(page.locator("#losers li")).to_have_count(2)
        expect(exxon).to_have_count(1)
        expect(price).to_have_text("98.76")
    other = page.context.new_page()
    other.goto(page.url)
    other.click("text=Sign out")
    expect(page.locator("#candles-note")).to_have_text("Signed out.")
    expect(page.locator("#alerts-note")).to_have_text("Signed out.")
    expect(page.locator("#losers-note")).to_have_text("Signed out.")
    expect(page.locator("#alert-list li, #losers li")).to_have_count(0)


def test_it_is_usable(visit: Any, jobs: Jobs) -> None:
    """With all panels full, at three widths and in both schemes (WCAG 2.1 as far as axe sees)."""
    for number in range(120):
        jobs.bar("AAPL", number, 100 + number % 7)
    for symbol, change in (("KO", 2.5), ("BAC", 1.25), ("GE", -3)):
        jobs.move(symbol, change, end=3_000_000)
    jobs.alert("AAPL", "x" * 200, int(time.time() * 1000), "critical")
    jobs.send("/stocks/us/AAPL", "100", START, change="1", change_pct="1", volume="5", bid="99", ask="101")
    page = visit("alice")
    until(lambda: drawn(page) > 50)
    expect(page.locator("#as-of")).to_contain_text("Data as of 14 Nov 2023")
    expect(page.locator('[data-subject="/stocks/us/AAPL"] .price')).to_have_attribute(
        "title", re.compile("14 Nov 2023")
    )
    assert_usable(page)
