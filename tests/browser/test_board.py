"""The board and the monitoring page over a real site, with a publisher in place of Spark."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from playwright.sync_api import Browser, Page, expect

from entitlement.models import Effect, Rule
from tests.support.axe import assert_usable
from tests.support.browser.chromium import CHROMIUM, FLAGS
from tests.support.browser.stack import Stack, sign_in
from tests.support.ports import free_port
from tests.support.waiting import until

pytestmark = pytest.mark.browser

SYMBOLS = ("AAPL", "BAC", "GE")
SECONDS_MAX = 1.0
"""A change of a right must show by then (features.md E3)."""


class Prices:
    """Publishes prices as the Spark job does."""

    def __init__(self, stack: Stack) -> None:
        self._publisher = stack.feed()
        self._number = 0

    def tick(self, *symbols: str) -> str:
        """One more price for each symbol; the price."""
        self._number += 1
        price = f"{100 + self._number / 100:.2f}"
        fields = {
            "change": "1.50",
            "change_pct": "0.83",
            "volume": "1234567",
            "bid": "99.10",
            "ask": "99.20",
            "date": "2016-03-01",
            "simulated": "volume,bid,ask",
            "sent": str(int(time.time() * 1000)),
        }
        self._publisher.send_batch([[f"/stocks/us/{symbol}", price, fields] for symbol in symbols or SYMBOLS])
        self._publisher.flush()
        return price

    def publish(self, subject: str, content: str, **fields: str) -> None:
        """What another job does."""
        self._publisher.send_batch([[subject, content, fields, {"as_of": "Friday"}]])
        self._publisher.flush()

    def close(self) -> None:
        """End the connection."""
        self._publisher.close()


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """The site without Spark."""
    with Stack() as running:
        yield running


@pytest.fixture
def prices(stack: Stack) -> Iterator[Prices]:
    """A publisher."""
    running = Prices(stack)
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
        return page

    yield open_page
    for page in pages:
        page.context.close()
    assert not faults, faults


def row(page: Page, symbol: str) -> Any:
    """The row of an instrument."""
    return page.locator(f'[data-subject="/stocks/us/{symbol}"]')


def cell(page: Page, symbol: str, field: str = "price") -> Any:
    """One of its cells."""
    return row(page, symbol).locator(f'[data-field="{field}"]')


def connected(page: Page, seconds: float = 10) -> None:
    """Wait until the page has its connection."""
    page.wait_for_selector('html[data-connection="connected"]', timeout=seconds * 1000)


LEFT = """() => {
    // The next connection may be there before anybody looks again.
    const page = document.documentElement;
    window.left = false;
    const look = () => { window.left ||= page.dataset.connection === "reconnecting"; };
    new MutationObserver(look).observe(page, { attributes: true });
}"""


def reconnects(page: Page, end: Callable[[], object], seconds: float = 10) -> None:
    """The page says that its connection is gone, and has another one."""
    page.evaluate(LEFT)
    end()
    page.wait_for_function("left")
    connected(page, seconds)


FLASHED = """(selector) => {
    // A flash is over within a second: it is noted, so that nobody has to look at the right moment.
    const cell = document.querySelector(selector);
    window.flashed = false;
    const look = () => { window.flashed ||= cell.classList.contains("up"); };
    new MutationObserver(look).observe(cell, { attributes: true });
}"""


def test_waits_for_the_first_tick_then_moves(visit: Any, prices: Prices) -> None:
    """In words until something comes; then values, labels and flashes."""
    page = visit("alice")
    connected(page)
    expect(page.locator("#banner-text")).to_contain_text("Waiting for Spark’s first batch")
    prices.tick()
    price = prices.tick()
    expect(cell(page, "BAC")).to_have_text(price)
    expect(page.locator("#banner")).to_be_hidden()
    expect(row(page, "BAC")).to_have_attribute("data-state", "live")
    expect(cell(page, "BAC", "change")).to_have_text("+1.50")
    expect(cell(page, "BAC", "change_pct")).to_have_text("+0.83 %")
    expect(cell(page, "BAC", "volume")).to_have_text("1.23M")
    expect(cell(page, "BAC", "date")).to_have_text("2016-03-01")
    expect(page.locator("th .simulated:visible")).to_have_count(3)
    expect(page.locator(".board tbody tr")).to_have_count(20)
    expect(page.locator("#port")).to_contain_text("direct")
    expect(page.locator("#latency")).to_contain_text("ms")
    page.evaluate(FLASHED, '[data-subject="/stocks/us/BAC"] .price')
    prices.tick()
    page.wait_for_function("flashed")


@pytest.mark.slow
def test_candles_movers_and_alerts(visit: Any, prices: Prices) -> None:
    """What other jobs publish shows beside the prices, with as of when it is (test_board_market.py has the rest)."""
    prices.publish("/bars-1s/us/AAPL", "101.5", start="1000", open="101", high="102", low="100", final="1")
    prices.publish("/movers/us/GE", "3.25", price="9.5", window_start="0", window_end="60000")
    prices.publish("/alerts/us/GE", "GE rose", level="critical", symbol="GE")
    page = visit("alice")
    expect(page.locator("#candles-symbol")).to_have_text("AAPL")
    expect(page.locator('#readout [data-bar="high"]')).to_have_text("102.00")
    expect(page.locator("#candles-as-of")).to_have_text("Data as of Friday")
    expect(page.locator("#gainers li")).to_have_text(re.compile("GE.*9.50.*3.25 %"))
    expect(page.locator("#alert-list li")).to_contain_text("GE rose")


@pytest.mark.slow
@pytest.mark.mosquitto
def test_a_sensor_moves_beside_the_prices(visit: Any, stack: Stack, prices: Prices, django_db_blocker: Any) -> None:
    """As documented: by mosquitto_pub, as the user of things; with and without a slash in front it is one sensor, and
    what is retained is there for who comes later."""

    def publish(topic: str, *message: str) -> None:
        host, _, port = stack.mqtt.rpartition(":")
        where = ("-h", host, "-p", port, "-t", topic, "-q", "1", "-u", "sensor", "-P", "demo")
        subprocess.run(["mosquitto_pub", *where, *message], check=True)

    page = visit("bob")
    connected(page)
    sensors = page.locator("#sensor-list li")
    expect(page.locator("#sensors-note")).to_have_text("None so far.")
    publish("sensors/hall/temperature", "-m", "21.5")
    expect(sensors).to_have_count(1)
    expect(sensors.locator(".sensor")).to_have_text("hall · temperature")
    expect(sensors.locator(".value")).to_have_text("21.5")
    page.evaluate(FLASHED, "#sensor-list .value")
    unit = ("-V", "mqttv5", "-D", "publish", "user-property", "unit", "°C")
    publish("/sensors/hall/temperature", "-r", "-m", "22", *unit)
    expect(sensors.locator(".value")).to_have_text("22 °C")
    page.wait_for_function("flashed")
    publish("/sensors/cellar/door", "-m", "open")
    expect(sensors.locator(".sensor")).to_have_text(["cellar · door", "hall · temperature"])
    expect(cell(page, "BAC")).to_have_text(prices.tick())
    later = visit("alice")
    expect(later.locator("#sensor-list .value")).to_have_text(["22 °C"])
    assert_usable(later)
    publish("/sensors/hall/temperature", "-r", "-n")
    expect(sensors.locator(".sensor")).to_have_text(["cellar · door"])
    with django_db_blocker.unblock(), stack.orm() as alias:
        Rule.objects.using(alias).filter(pattern="/sensors/*/*", group__name="NYSE desk").delete()
    expect(page.locator("#sensors-note")).to_have_text("None so far.")


@pytest.mark.slow
def test_standing_still_is_said_and_unsaid(visit: Any, prices: Prices) -> None:
    """After the last tick, and away with the next."""
    page = visit("alice")
    connected(page)
    expect(cell(page, "BAC")).to_have_text(prices.tick())
    expect(page.locator("#banner")).to_be_hidden()
    page.wait_for_selector('#banner[data-state="still"]')
    expect(page.locator("#banner-text")).to_contain_text("no data from Spark")
    prices.tick()
    expect(page.locator("#banner")).to_be_hidden()


def test_each_user_sees_what_the_rules_say(visit: Any, prices: Prices) -> None:
    """bob has no right to the NASDAQ's instruments, alice has."""
    alice, bob = visit("alice"), visit("bob")
    connected(alice)
    connected(bob)
    price = prices.tick()
    expect(cell(alice, "AAPL")).to_have_text(price)
    expect(cell(bob, "BAC")).to_have_text(price)
    expect(row(bob, "AAPL")).to_have_attribute("data-state", "denied")
    expect(cell(bob, "AAPL", "note")).to_have_text("not entitled")
    expect(cell(bob, "AAPL")).to_have_text("–")
    expect(bob.locator("#summary")).to_have_text("15 of 20 instruments")


def test_a_changed_rule_stops_and_starts_a_row(
    visit: Any, prices: Prices, stack: Stack, django_db_blocker: Any
) -> None:
    """By QuerySet.update and by the group's member list, with no reload."""
    page = visit("bob")
    connected(page)
    page.evaluate("window.sameDocument = true")
    expect(cell(page, "GE")).to_have_text(prices.tick())
    with django_db_blocker.unblock(), stack.orm() as alias:
        rule = Rule.objects.using(alias).filter(pattern="/*/us/GE")
        assert rule.update(effect=Effect.DENY) == 1
        row_becomes(page, "GE", "denied")
        expect(cell(page, "GE")).to_have_text("–")
        prices.tick()
        rule.update(effect=Effect.ALLOW)
        row_becomes(page, "GE", "live")
        expect(cell(page, "GE")).to_have_text(prices.tick())
        bob, desk = User.objects.using(alias).get(username="bob"), Group.objects.using(alias).get(name="NASDAQ desk")
        bob.groups.add(desk)
        row_becomes(page, "AAPL", "live")
        bob.groups.remove(desk)
        row_becomes(page, "AAPL", "denied")
    assert page.evaluate("window.sameDocument") is True


def row_becomes(page: Page, symbol: str, state: str) -> None:
    """When the right has changed."""
    page.wait_for_selector(f'[data-subject="/stocks/us/{symbol}"][data-state="{state}"]', state="attached")


@pytest.mark.slow
def test_signing_out_elsewhere_ends_the_board(visit: Any, prices: Prices, browser: Browser) -> None:
    """The other tab says so, shows nothing any more, and offers to sign in."""
    page = visit("alice")
    connected(page)
    expect(cell(page, "BAC")).to_have_text(prices.tick())
    other = page.context.new_page()
    other.goto(page.url)
    other.click("text=Sign out")
    page.wait_for_selector('html[data-connection="signed-out"]')
    expect(page.locator("#signed-out")).to_contain_text("You are signed out")
    expect(cell(page, "BAC")).to_have_text("–")
    page.click("text=Sign in again")
    expect(page.locator("h1")).to_have_text("Sign in")


@pytest.fixture
def outside(browser: Browser, stack: Stack) -> Iterator[Browser]:
    """A browser behind a firewall: whatever it sends to the sidecar's port goes to one where nobody listens."""
    direct = stack.client_url.removeprefix("ws://").removesuffix("/ws")
    one = browser.browser_type.launch(
        executable_path=CHROMIUM, args=[*FLAGS, f"--host-resolver-rules=MAP {direct} 127.0.0.1:{free_port()}"]
    )
    yield one
    one.close()


@pytest.mark.slow
def test_where_only_the_web_port_is_open(outside: Browser, prices: Prices, stack: Stack) -> None:
    """The page goes through the relay, and says so."""
    page = sign_in(outside, stack, "alice")
    connected(page)
    expect(page.locator("#port")).to_contain_text("relay")
    expect(cell(page, "BAC")).to_have_text(prices.tick())
    reconnects(page, lambda: os.kill(stack.sidecar_pid, signal.SIGKILL))
    expect(cell(page, "BAC")).to_have_text(prices.tick())


@pytest.mark.slow
def test_django_restarts_under_both_kinds_of_page(outside: Browser, visit: Any, prices: Prices, stack: Stack) -> None:
    """The direct page's socket stays open; the relayed page reconnects and gets exactly what it missed."""
    direct, relayed = visit("alice"), sign_in(outside, stack, "alice")
    for page in (direct, relayed):
        connected(page)
        expect(cell(page, "BAC")).to_have_text(prices.tick())
        page.evaluate(
            """() => {
                window.ends = 0;
                window.recoveries = [];
                realtime.client.on("disconnected", () => { window.ends += 1; });
                realtime.client.on("subscribed", ({ subject, recovery }) => {
                    if (!subject.includes("*")) window.recoveries.push([subject, recovery]);
                });
            }"""
        )
    stack.program.process.send_signal(signal.SIGHUP)
    relayed.wait_for_selector('html[data-connection="reconnecting"]')
    missed = prices.tick()
    expect(cell(direct, "BAC")).to_have_text(missed)
    connected(relayed, 60)  # Django has to start again
    expect(cell(relayed, "BAC")).to_have_text(missed)
    expect(relayed.locator("#port")).to_contain_text("relay")
    recoveries = dict(relayed.evaluate("window.recoveries"))
    assert recoveries["/stocks/us/BAC"] == "recovered"
    # What was asked for just now, and never before, had nothing to be recovered.
    assert set(recoveries.values()) <= {"recovered", ""}
    assert direct.evaluate("window.ends") == 0
    assert not any(recovery for _, recovery in direct.evaluate("window.recoveries"))
    expect(cell(relayed, "BAC")).to_have_text(prices.tick())


@pytest.mark.slow
def test_a_killed_sidecar_comes_back(visit: Any, prices: Prices, stack: Stack) -> None:
    """The page reconnects by itself and moves again."""
    page = visit("alice")
    connected(page)
    expect(cell(page, "BAC")).to_have_text(prices.tick())
    # Through the relay, where the port was not open again at the first try.
    reconnects(page, lambda: os.kill(stack.sidecar_pid, signal.SIGKILL))
    expect(cell(page, "BAC")).to_have_text(prices.tick())
    expect(page.locator("#banner")).to_be_hidden()


CORNER = """async () => {
    const ids = ["connection", "state", "port", "latency", "user"];
    document.body.innerHTML = ids.map((id) => `<i id="${id}"></i>`).join("");
    const { Corner } = await import("/realtime/static/realtime/pages/page.js");
    const { Listeners } = await import("/realtime/static/realtime/client/session/listeners.js");
    const client = new Listeners();
    new Corner(client);
    const at = { url: "ws://a:1/ws", via: "direct", user: "" };
    const lost = { code: 1006, codeName: "lost", final: false };
    const told = [
        ["connecting", at], ["connected", at], ["notice", { code: "stale" }], ["notice", { code: "fresh" }],
        ["disconnected", lost], ["connecting", at], ["disconnected", lost], ["down", {}], ["connecting", at],
        ["disconnected", lost], ["connected", at], ["disconnected", { ...lost, codeName: "not_ready" }],
    ];
    return told.map(([name, details]) => {
        client.emit(name, details);
        return [document.documentElement.dataset.connection, document.getElementById("state").textContent];
    });
}"""


def test_the_corner_says_what_is_the_matter(page: Page) -> None:
    """A lost connection, a server that is away, and one that gets nothing new are three things."""
    assert page.evaluate(CORNER) == [
        ["connecting", "Connecting…"],
        ["connected", "Live"],
        ["stale", "Connected, nothing new arrives"],
        ["connected", "Live"],
        ["reconnecting", "Reconnecting…"],
        ["reconnecting", "Reconnecting…"],
        ["reconnecting", "Reconnecting…"],
        ["reconnecting", "Server away, retrying…"],
        ["reconnecting", "Server away, retrying…"],
        ["reconnecting", "Server away, retrying…"],
        ["connected", "Live"],
        ["reconnecting", "Not ready yet, retrying…"],
    ]


def test_on_a_phone(visit: Any, prices: Prices) -> None:
    """Nothing sticks out at 400 pixels, and the numbers are there."""
    page = visit("bob", width=400)
    connected(page)
    expect(cell(page, "BAC")).to_have_text(prices.tick())
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    expect(cell(page, "BAC", "bid")).to_be_visible()
    expect(cell(page, "BAC", "change_pct")).to_be_visible()


@pytest.mark.slow
def test_monitoring(visit: Any, prices: Prices, stack: Stack) -> None:
    """Live figures; nobody without the permission gets the page."""
    page = visit("admin", path="/monitoring/")
    connected(page)
    figure = page.locator('[data-field="connections"]')
    until(lambda: figure.inner_text() not in ("–", "0"))
    prices.tick()
    until(lambda: int(page.locator('[data-field="subjects"]').inner_text()) >= len(SYMBOLS))
    answer = visit("bob").goto(f"{stack.url}/monitoring/")
    assert answer.status == 403


def test_the_pages_have_names_and_contrast_enough(visit: Any) -> None:
    """The state is a live region, the table has headers, and the text is readable in both schemes (WCAG 1.4.3)."""
    page = visit("bob")
    connected(page)
    assert page.locator("table caption").count() == 1
    assert page.locator("thead th[scope=col]").count() == 10
    assert page.locator("tbody th[scope=row]").count() == 20
    assert page.locator("#state[role=status]").count() == 1
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(LOW_CONTRAST) == []


LOW_CONTRAST = """() => {
    const light = ([r, g, b]) => [r, g, b].map((part) => part / 255)
        .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
    const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const ground = (element) => {
        for (; element; element = element.parentElement) {
            const colour = getComputedStyle(element).backgroundColor;
            const [r, g, b, alpha = 1] = numbers(colour);
            if (colour.startsWith("rgb") && alpha === 1) return [r, g, b];
        }
        return [255, 255, 255];
    };
    const low = [];
    for (const element of document.querySelectorAll("body *")) {
        const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        if (!own || !element.checkVisibility() || element.closest("script, .hidden, caption")) continue;
        const [a, b] = [light(numbers(getComputedStyle(element).color)), light(ground(element))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) low.push(`${element.tagName} ${element.textContent}: ${ratio.toFixed(2)}`);
    }
    return low;
}"""
