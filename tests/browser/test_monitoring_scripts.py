"""What the scripts of the monitoring pages share, in a page without a site."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]


SCRIPTS = """async () => {
    const common = await import("/realtime/static/realtime/monitoring/common.js");
    const { bytes, count, duration, milliseconds, percent } = common;
    return {
        count: [0, 1.26, 99.9, 1234.5, 9999, 12_345, 5e7, null, undefined, NaN].map(count),
        bytes: [0, 1023, 1536, 2.5 * 2 ** 20, 300 * 2 ** 30, 5 * 2 ** 40, null].map(bytes),
        times: [[0, 119, 120, 7200, 172_800].map(duration), [0.26, 12.3, 9999, 65_000].map(milliseconds)],
        percent: [0, 1.26, 99.6, undefined].map(percent),
    };
}"""


def test_numbers_in_words(page: Page) -> None:
    """Short, with units, and a dash for what is not known."""
    told = page.evaluate(SCRIPTS)
    assert told["count"] == ["0", "1.3", "99.9", "1,235", "9,999", "12.3K", "50M", "–", "–", "–"]
    assert told["bytes"] == ["0 B", "1,023 B", "1.5 KiB", "2.5 MiB", "300 GiB", "5 TiB", "–"]
    assert told["times"] == [["0 s", "119 s", "2 min", "2 h", "2 days"], ["0.3 ms", "12 ms", "10 s", "65 s"]]
    assert told["percent"] == ["0 %", "1.3 %", "100 %", "–"]


ROWS = """async () => {
    const { Rows, number } = await import("/realtime/static/realtime/monitoring/common.js");
    const table = document.createElement("table");
    table.innerHTML = "<thead><tr><th>a</th><th>b</th></tr></thead><tbody></tbody>";
    const rows = new Rows(table.tBodies[0], "nothing");
    const touched = [];
    const show = async (...given) => {
        const observer = new MutationObserver((records) => touched.push(records.length));
        observer.observe(table, { subtree: true, childList: true, characterData: true, attributes: true });
        const before = touched.length;
        rows.show(given);
        await Promise.resolve();
        observer.disconnect();
        return [table.tBodies[0].innerHTML, touched.length > before];
    };
    const one = [{ text: "<b>", href: "/x", title: "t" }, number("1")];
    const two = ["plain", "2"];
    return [await show(), await show(), await show(one), await show(one), await show(two, one), await show()];
}"""


def test_a_table_is_touched_only_where_its_words_change(page: Page) -> None:
    """Texts are texts, whatever they hold; rows come and go; what is the same again is left alone."""
    told = page.evaluate(ROWS)
    empty = '<tr><td colspan="2" class="empty">nothing</td></tr>'
    one = '<tr><th scope="row" title="t"><a href="/x">&lt;b&gt;</a></th><td class="number">1</td></tr>'
    assert told[:4] == [[empty, True], [empty, False], [one, True], [one, False]]
    assert told[4][0].startswith('<tr><th scope="row" title="">plain</th>')
    assert told[4][0].endswith(one)
    assert told[5] == [empty, True]


POLL = """async () => {
    const { poll, Refused, fetchJson } = await import("/realtime/static/realtime/monitoring/common.js");
    const told = [];
    let asked = 0, finish = null;
    const ask = async () => {
        asked += 1;
        if (asked === 2) throw new Refused("not now", 503);
        if (asked === 4) await new Promise((resolve) => { finish = resolve; });
    };
    const waitFor = async (there) => { while (!there()) await new Promise((resolve) => setTimeout(resolve, 5)); };
    const now = poll(ask, 10, (error) => told.push(error?.message ?? "good"));
    await waitFor(() => finish);
    now();  // while the fourth is under way: once more right after it
    now();
    finish();
    await waitFor(() => asked >= 6);
    const refusals = [];
    for (const url of ["/tests/browser/empty.html", "/nowhere"]) {
        await fetchJson(url).catch((error) => refusals.push([error instanceof Refused, error.status]));
    }
    return [told.slice(0, 4), refusals];
}"""


def test_asking_goes_on_after_a_refusal(page: Page) -> None:
    """One question at a time; each failure is told, and that it works again."""
    assert page.evaluate(POLL) == [["good", "not now", "good", "good"], [[True, 404]]]


LOST = """async () => {
    document.body.innerHTML = '<p id="lost-verdict"></p><table id="lost"><thead></thead><tbody></tbody></table>';
    const { Lost, LOST } = await import("/realtime/static/realtime/monitoring/panels.js");
    const lost = new Lost(), verdict = document.getElementById("lost-verdict");
    const said = (seconds, sampled, total, name = LOST[0]) => {
        const nothing = { maximum: [null], total: sampled ? 0 : null, sampled };
        const series = Object.fromEntries(LOST.map((each) => [each, each === name ? { ...nothing, total } : nothing]));
        lost.show({ window: "15h", t: [0], seconds, ...series }, "15h");
        return [verdict.dataset.state, verdict.textContent];
    };
    const refused = "publications_refused_per_s";
    return [said(54_030, 0, null), said(54_030, 54_023, 0), said(54_030, 54_030, 9, refused), said(54_030, 30, 0),
        said(54_030, 25_230, 0), said(54_030, 54_030, 2), said(54_030, 25_230, 2)];
}"""


def test_nothing_was_lost_is_said_of_what_is_known(page: Page) -> None:
    """Of a window of which a part was not sampled that part is named; a few seconds are not worth a word."""
    assert page.evaluate(LOST) == [
        ["", "There is no history of this window yet."],
        ["good", "Nothing was lost."],
        ["good", "Nothing was lost."],
        ["partial", "Nothing was lost in the 30 s that are known. Of 15 h nothing is known."],
        ["partial", "Nothing was lost in the 7 h that are known. Of 8 h nothing is known."],
        ["bad", "Something was lost: see below."],
        ["bad", "Something was lost: see below. Of 8 h nothing is known."],
    ]


CHARTS = """async () => {
    document.body.innerHTML = `<form><input type="radio" name="window" value="15min" checked><select name="scope">
        <option value=""></option></select></form><ul id="charts"></ul><ul id="more-charts"></ul>
        <p id="history-problem"></p><p id="chart-legend"></p>`;
    const { Charts } = await import("/realtime/static/realtime/monitoring/history.js");
    const began = 1_800_000_000_000, form = document.querySelector("form"), scope = form.elements.scope;
    let newest = began, asked = 0;
    globalThis.fetch = async () => {
        asked += 1;
        const connections = { average: [1, 1], maximum: [1, 1] };
        return new Response(JSON.stringify({ window: "15min", t: [newest - 1000, newest], connections }));
    };
    let told = 0;
    const charts = new Charts({ series_url: "/series" }, form, () => { told += 1; });
    const waitFor = async (there) => { while (!there()) await new Promise((resolve) => setTimeout(resolve, 5)); };
    const add = (at, value) => charts.add(at, { connections: value }, [
        { node: "n", figures: { connections: value }, workers: [] },
    ]);
    const drawn = () => charts.drawn("connections");
    const ofNode = () => {
        const change = (to) => { scope.value = to; form.dispatchEvent(new Event("change")); scope.dispatchEvent(
            new Event("change", { bubbles: true })); };
        change("n");
        const found = drawn();
        change("");
        return found;
    };
    const ask = async () => { const before = told; charts.ask(); await waitFor(() => told > before); };
    await waitFor(() => told);
    const found = {};
    for (let second = 2; second < 5; second++) add(began + 1000 * second, 10 * second);
    found.live = drawn();
    await ask();
    found.kept = drawn();
    const before = asked;
    newest -= 3_600_000;
    add(began - 3_600_000 + 5000, 50);  // an hour back
    found.back = drawn();
    found.node = ofNode();
    found.asked = asked > before;
    await waitFor(() => told > 2);
    found.again = drawn();
    add(began - 3_600_000 + 6000, 60);
    add(began - 3_600_000 + 5900, 59);  // a moment: no clock was set
    found.on = drawn();
    add(began, 70);  // forward again
    found.forward = drawn();
    await ask();  // the history is not there yet: what came is of another time
    found.apart = drawn();
    return found;
}"""


def test_charts_go_with_a_clock_that_is_set(page: Page) -> None:
    """Back: what lies ahead is dropped, and the history asked for anew. Forward: what is too old is dropped."""
    assert page.evaluate(CHARTS) == {
        "live": [1, 1, 20, 30, 40],
        "kept": [1, 1, 20, 30, 40],
        "back": [],
        "node": [50],
        "asked": True,
        "again": [1, 1],
        "on": [1, 1, 60],
        "forward": [70],
        "apart": [1, 1],
    }
