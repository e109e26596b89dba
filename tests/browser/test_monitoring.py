"""The overview over a real site with two workers: charts, history, lists, limits, and who is refused what."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from playwright.sync_api import Browser, Locator, Page, expect

from fastpath.client.publisher.publisher import Publisher
from tests.support import axe
from tests.support.browser.chromium import new_context
from tests.support.browser.stack import Stack, sign_in
from tests.support.edge.wire import WireClient
from tests.support.waiting import until

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOT, COLD = "/stocks/us/AAPL", "/stocks/us/BAC"
BIG = "x" * 200_000


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """The site without Spark, and a sidecar of two workers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FASTPATH_WORKERS", "2")
        with Stack() as running:
            yield running


@pytest.fixture(scope="module")
def feed(stack: Stack) -> Iterator[Publisher]:
    """A publisher with the right of the Spark job."""
    with stack.feed() as running:
        yield running


@pytest.fixture(scope="module")
def sessions(browser: Browser, stack: Stack) -> dict[str, Any]:
    """The cookies of users who have signed in: passwords are slow to check."""
    found = {}
    for user in ("admin", "bob"):
        page = sign_in(browser, stack, user)
        found[user] = page.context.storage_state()
        page.context.close()
    return found


@pytest.fixture
def visit(browser: Browser, stack: Stack, sessions: dict[str, Any]) -> Iterator[Any]:
    """Pages of signed-in users, closed at the end; a fault in a page's script fails the test."""
    faults: list[str] = []
    with ExitStack() as closing:

        def open_page(user: str = "admin", path: str = "/monitoring/") -> Page:
            context = new_context(browser, viewport={"width": 1400, "height": 900}, storage_state=sessions[user])
            closing.callback(context.close)
            page = context.new_page()
            page.on("pageerror", lambda error: faults.append(str(error)))
            page.goto(f"{stack.url}{path}")
            return page

        yield open_page
    assert not faults, faults


def publish(feed: Publisher, subject: str, count: int, content: str = "1") -> None:
    """So many messages, acknowledged."""
    for _ in range(count):
        feed.send_batch([[subject, content]])
    feed.flush()


def words(page: Page, selector: str) -> str:
    """What is there to read, in one line."""
    return " ".join(page.locator(selector).inner_text().split())


def window(page: Page, name: str) -> Locator:
    """The choice of a window."""
    return page.get_by_role("radio", name=name, exact=True)


def row_of(page: Page, table: str, name: str) -> Locator:
    """The row of a table that is named so."""
    return page.locator(f"#{table} tbody tr").filter(has=page.get_by_role("rowheader", name=name)).first


def points(page: Page, name: str) -> int:
    """How many moments of a chart have a value."""
    return int(
        page.evaluate(
            """(name) => {
                const plot = document.querySelector(`[data-figure="${name}"] .uplot`);
                return plot ? monitoring.charts.drawn(name).filter((one) => one !== null).length : 0;
            }""",
            name,
        )
    )


def test_charts_of_each_indicator_over_the_chosen_window(visit: Any, feed: Publisher) -> None:
    """History is there at once, and grows by what comes live; the choice is in the address, and survives a reload."""
    page = visit(path="/monitoring/?window=5min")
    for name in ("connections", "connections_per_s", "disconnections_per_s", "messages_in_per_s", "bytes_out_per_s"):
        expect(page.locator(f'[data-figure="{name}"] canvas')).to_have_count(1)
    publish(feed, HOT, 3)
    until(lambda: words(page, '[data-field="connections"]') not in ("–", "0"))
    before = until(lambda: points(page, "connections"))
    until(lambda: points(page, "connections") >= before + 2)
    expect(page.locator("input[name=window]:checked")).to_have_value("5min")
    expect(page.locator("#lost-title")).to_have_text("Lost within 5 minutes")
    window(page, "15 hours").check()
    page.wait_for_url("**/monitoring/?window=15h")
    expect(page.locator("#lost-title")).to_have_text("Lost within 15 hours")
    page.reload()
    expect(window(page, "15 hours")).to_be_checked()
    expect(page.locator("#banner")).to_be_hidden()


def test_the_charts_of_one_worker(visit: Any, stack: Stack) -> None:
    """Each node and worker can be chosen; the table has a row for each, and their figures differ from the sum."""
    page = visit()
    until(lambda: page.locator("#nodes .worker").count() == 2)
    assert words(page, "#nodes .worker >> nth=1").startswith("worker 1, process ")
    scopes = until(lambda: (found := page.locator("#scope option").all_inner_texts()[1:])[2:] and found)
    assert [one.rpartition("fastpath.sock")[2] for one in scopes] == ["", " worker 0", " worker 1"]
    page.select_option("#scope", label=scopes[2])
    page.locator('[data-figure="memory_bytes"]').scroll_into_view_if_needed()
    expect(page.locator("#chart-legend")).to_contain_text("worker 1: what came since this page was opened")
    page.locator('[data-figure="memory_bytes"]').scroll_into_view_if_needed()  # what nobody sees is not drawn
    until(lambda: points(page, "memory_bytes") >= 2)
    # Both change each second, and a sum may show the digits of one for a moment.
    until(lambda: words(page, '[data-field="memory_bytes"]') not in words(page, "#nodes tbody tr >> nth=0"))


def test_statistics_over_the_twelve_windows(visit: Any) -> None:
    """Average, maximum and standard deviation of each indicator."""
    page = visit()
    until(lambda: page.locator("#statistics tbody tr").count() == 7)
    row = row_of(page, "statistics", "Connections")
    until(lambda: len(row.locator("td").all_inner_texts()) == 12 and "–" not in row.inner_text())
    for name, number in (("Maximum", "maximum"), ("Standard deviation", "deviation"), ("Average", "average")):
        page.get_by_label(name, exact=True).check()
        told = page.evaluate("async () => (await fetch('/api/stats/')).json()")["connections"]["15mo"][number]
        until(lambda told=told: abs(float(row.locator("td").last.inner_text()) - told) < 0.5)


def test_a_slow_client_is_named_with_the_reason(visit: Any, stack: Stack, feed: Publisher) -> None:
    """Who, from where, how much waits, since when, for what; it leads to the client's own page."""
    page = visit()
    expect(page.locator("#slow")).to_contain_text("nobody is slow")
    with WireClient(stack.client_url, receive_bytes=4096) as slow:
        slow.say("connect", token=stack.manage("realtime_token", "alice").strip())
        slow.subscribe(COLD)
        publish(feed, COLD, 15, BIG)
        row = row_of(page, "slow", "alice")
        expect(row).to_contain_text(COLD)
        expect(row).to_contain_text("127.0.0.1")
        expect(row.locator("td").nth(1)).to_contain_text("MiB")
        expect(row.locator("td").nth(2)).to_have_text(re.compile(r" s$"))
        expect(page.locator("#slow-total")).to_have_text("1")
        until(lambda: words(page, '[data-field="slow_clients"]') == "1")
        row.get_by_role("link").click()
        expect(page.locator("main")).to_contain_text(COLD)
        page.go_back()
    expect(page.locator("#slow")).to_contain_text("nobody is slow")


def test_the_hot_subject_comes_first(visit: Any, stack: Stack, feed: Publisher) -> None:
    """By messages, by bytes and by subscribers; and who publishes, with what is not acknowledged."""
    with WireClient(stack.client_url) as one, WireClient(stack.client_url) as other:
        for client in (one, other):
            client.say("connect", token=stack.manage("realtime_token", "alice").strip())
            client.subscribe(COLD)
        page = visit()
        publish(feed, COLD, 2, BIG)
        publish(feed, HOT, 200)
        first = page.locator("#top tbody tr th").first
        until(lambda: first.inner_text() == HOT)
        expect(page.locator("#publishers tbody")).to_contain_text("spark")
        with Publisher(stack.publishers, stack.manage("realtime_token", "spark").strip(), publisher="brief") as brief:
            publish(brief, COLD, 3)
        expect(page.locator("#senders")).to_contain_text("brief")
        page.select_option("#by", "bytes")
        until(lambda: first.inner_text() == COLD)
        page.select_option("#by", "subscribers")
        until(lambda: first.inner_text() == COLD)
        expect(row_of(page, "top", COLD).locator("td").nth(2)).to_have_text("2")


def test_what_was_lost_is_counted_and_timed(visit: Any, stack: Stack, feed: Publisher) -> None:
    """Nothing at first, as far as is known of a young site; refused publications are no loss; a client that is closed
    for being slow is."""
    page = visit(path="/monitoring/?window=15h")
    partly = re.compile(r"^Nothing was lost in the .+ that are known\. Of 1[45] h nothing is known\.$")
    expect(page.locator("#lost-verdict")).to_have_text(partly)
    expect(page.locator("#lost-verdict")).to_have_attribute("data-state", "partial")
    with stack.feed() as other:
        other.send_batch([["/not/allowed", "1"]])
        other.flush(raise_refused=False)
    told(page, "publications_refused_per_s")
    row = row_of(page, "lost", "Publications refused")
    expect(row.locator("td").first).to_have_text("1")
    assert ":" in row.locator("td").nth(1).inner_text(), "when"
    expect(page.locator("#lost-verdict")).to_have_text(partly)
    with WireClient(stack.client_url, receive_bytes=4096) as slow:
        slow.say("connect", token=stack.manage("realtime_token", "alice").strip())
        slow.subscribe(COLD)
        publish(feed, COLD, 30, BIG)
        told(page, "slow_closed_per_s")
    expect(row_of(page, "lost", "Slow clients closed").locator("td").first).to_have_text("1")
    expect(page.locator("#lost-verdict")).to_contain_text("Something was lost: see below.")


def told(page: Page, name: str) -> None:
    """Wait until the history has it, then have the page look at once instead of in a while."""
    total = (
        f"async () => (await (await fetch('/api/stats/series/?indicator={name}&window=15h')).json())['{name}'].total"
    )
    until(lambda: page.evaluate(total), 20)
    page.reload()


def test_how_near_to_the_limits(visit: Any) -> None:
    """Each with what is used, the bound and the share; the cache with its hits, misses and evictions."""
    page = visit()
    for name in (
        "Connections",
        "Open files",
        "Memory of the sidecar",
        "Processor, busiest worker",
        "Loop lag",
        "Cache",
    ):
        row = row_of(page, "limits", name)
        until(lambda row=row: "%" in row.inner_text())
        assert row.get_by_role("meter", name=name).count() == 1
    assert "256 MiB" in words(page, "#cache tbody")
    assert "Evicted for lack of room" in words(page, "#cache tbody")


LIMITS = """async () => {
    const { Limits } = await import("/static/realtime/monitoring/panels.js");
    const node = (name, connections, lag) => ({
        node: name, workers: [], figures: { connections, connections_max: 100, loop_lag_ms: lag, cpu_percent: 7 },
    });
    new Limits().show([node("a", 20, 75), node("b", 95, 1)]);
    return [...document.querySelectorAll("#limits tbody tr")].map((row) => [
        row.dataset.level, ...[...row.cells].map((cell) => cell.textContent), row.querySelector("meter").value,
    ]);
}"""


def test_of_each_limit_the_node_that_is_nearest_is_told(visit: Any) -> None:
    """With its name; from 70 and 90 percent on it is marked; what is not known is a dash."""
    rows = {row[1]: row for row in visit().evaluate(LIMITS)}
    assert rows["Connections"] == ["full", "Connections", "95", "100", "95 %", "b", 0.95]
    assert rows["Loop lag"] == ["high", "Loop lag", "75 ms", "100 ms", "75 %", "a", 0.75]
    assert rows["Processor, busiest worker"][0] == ""
    assert rows["Cache"][2:6] == ["–", "–", "–", ""]


SCOPES = """() => {
    const { charts } = monitoring, scope = document.querySelector("#scope"), began = Date.now() + 1e6;
    const add = (number, nodes) => charts.add(began + 1000 * number, { connections: number }, nodes);
    for (let number = 0; number < 400; number++) {
        add(number, [{ node: "x", figures: { connections: number }, workers: [] }]);
    }
    scope.value = "x";
    scope.dispatchEvent(new Event("change", { bubbles: true }));
    const drawn = charts.drawn("connections");
    scope.value = "";
    scope.dispatchEvent(new Event("change", { bubbles: true }));
    add(400, []);
    return [drawn.length, drawn[0], drawn.at(-1), [...scope.options].map((option) => option.value)];
}"""


def test_of_one_node_the_last_five_minutes_are_kept(visit: Any) -> None:
    """Not more, however long the page is open; a node that is no more is not offered any more."""
    assert visit().evaluate(SCOPES) == [300, 100, 399, [""]]


def test_without_a_right_to_live_figures(visit: Any, stack: Stack, django_db_blocker: Any) -> None:
    """The page says which rule is missing, offers its form to who may add it, and shows figures all the same."""
    with django_db_blocker.unblock(), stack.orm() as alias:
        bob = User.objects.using(alias).get(username="bob")
        bob.user_permissions.add(Permission.objects.using(alias).get(codename="view_monitoring"))
    page = visit("bob")
    expect(page.locator("#banner-text")).to_contain_text("a rule that lets you subscribe to /__sys__/cluster")
    expect(page.locator("#add-rule")).to_be_hidden()
    until(lambda: words(page, '[data-field="connections"]') not in ("–", "0"))
    until(lambda: page.locator("#limits tbody tr").count() > 5)
    with django_db_blocker.unblock(), stack.orm() as alias:
        bob.is_staff = True
        bob.save(using=alias)
        for name in ("add_rule", "view_rule"):
            bob.user_permissions.add(Permission.objects.using(alias).get(codename=name))
    page.reload()
    page.get_by_role("link", name="Add the rule").click()
    expect(page.locator("#id_pattern")).to_have_value("/__sys__/cluster")
    page.locator("input[name=_save]").click()
    page.goto(f"{stack.url}/monitoring/")
    until(lambda: page.evaluate("document.documentElement.dataset.monitoring") == "live")
    expect(page.locator("#banner")).to_be_hidden()


def test_a_sidecar_that_is_away_is_said_and_unsaid(visit: Any, stack: Stack) -> None:
    """In words, which tell since when; the lists say what could not be asked."""
    page = visit()
    until(lambda: page.evaluate("document.documentElement.dataset.monitoring") == "live")
    with stack.stopped(stack.sidecar_pid):
        page.wait_for_selector('#banner[data-state="away"]')
        expect(page.locator("#banner-text")).to_contain_text("s: the sidecar does not answer (no answer")
        expect(page.locator("#attention-problem")).to_contain_text("no answer within")
        expect(page.locator("#nodes [data-state]")).to_contain_text("away: no answer within")
    until(lambda: page.evaluate("document.documentElement.dataset.monitoring") == "live")
    expect(page.locator("#banner")).to_be_hidden()
    expect(page.locator("#attention-problem")).to_be_hidden()
    expect(page.locator("#nodes [data-state]")).to_have_text("up")


def test_a_worker_that_hangs_is_blamed_and_not_the_collector(visit: Any, stack: Stack) -> None:
    """The page's own worker is stopped: the rest is there and shown, and the average is that of the statistics."""

    def at_worker_1() -> tuple[Page, int] | None:
        page = visit(path="/monitoring/?window=15h")
        until(lambda: page.evaluate("document.documentElement.dataset.monitoring") == "live")
        found = page.evaluate("async () => (await fetch('/monitoring/clients/?user=admin')).text()")
        pids = re.findall(r'href="/monitoring/clients/0/1\.(\d+)\.\d+/"', found)
        return (page, int(pids[0])) if pids else None

    page, pid = until(at_worker_1, 30)
    until(lambda: words(page, '[data-figure="connections"] .detail').startswith("average "))
    with stack.stopped(pid):
        page.wait_for_selector('#banner[data-state="silent"]')
        expect(page.locator("#banner-text")).to_contain_text(
            "the worker that this page is connected to does not answer"
        )
    until(lambda: page.evaluate("document.documentElement.dataset.monitoring") == "live", 20)


def test_without_the_chart_library(visit: Any) -> None:
    """Where the set-up has not brought it: said in words, and all figures and tables are there."""
    page = visit("admin", path="/console/")
    page.route("**/uPlot.iife.js", lambda route: route.fulfill(status=404))
    page.goto(page.url.replace("/console/", "/monitoring/"))
    expect(page.locator("#banner-text")).to_contain_text("run make setup")
    until(lambda: words(page, '[data-field="connections"]') not in ("–", "0"))
    until(lambda: page.locator("#limits tbody tr").count() > 5)


POLICY = "default-src 'self'; connect-src 'self' ws: wss: http: https:"


def test_under_a_strict_content_security_policy(visit: Any) -> None:
    """The charts and all the rest work without inline scripts and styles (docs/operate/monitoring.md)."""
    refused: list[str] = []

    def with_policy(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, headers=answer.headers | {"content-security-policy": POLICY})

    page = visit()
    page.on("console", lambda message: refused.append(message.text) if "Content Security" in message.text else None)
    page.route("**/monitoring/", with_policy)
    page.reload()
    until(lambda: points(page, "connections") > 0)
    until(lambda: page.locator("#limits tbody tr").count() > 5)
    assert not refused


def test_keyboards_and_screen_readers(visit: Any) -> None:
    """axe finds nothing serious, light and dark, on a phone and on a desk; arrow keys choose the window."""
    page = visit()
    until(lambda: page.locator("#nodes .worker").count() == 2 and page.locator("#statistics tbody tr").count() == 7)
    axe.assert_usable(page)
    window(page, "15 minutes").focus()
    page.keyboard.press("ArrowRight")
    expect(window(page, "1 hour")).to_be_checked()


def test_the_page_stays_small(visit: Any, feed: Publisher) -> None:
    """With thousands of subjects it has as many elements as with few, and figures that come add none."""
    page = visit()
    until(lambda: page.locator("#statistics tbody tr").count() == 7)
    feed.send_batch([[f"/many/us/{number}", "1"] for number in range(5000)])
    feed.flush()
    until(lambda: page.locator("#top tbody tr").count() == 15)
    count, before = page.evaluate("document.querySelectorAll('*').length"), points(page, "connections")
    until(lambda: points(page, "connections") >= before + 2)
    assert page.evaluate("document.querySelectorAll('*').length") <= count + 5
