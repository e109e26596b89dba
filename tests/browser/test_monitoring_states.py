"""What the overview says of nodes, workers and itself, and the words along its charts, in a page without a site."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FOLDER = "/realtime/static/realtime"

AXES = """async (folder) => {
    const { axisWords, bytes, count, milliseconds, percent } = await import(`${folder}/monitoring/common.js`);
    return [
        axisWords(milliseconds, [0, 5000, 10_000]), axisWords(milliseconds, [0, 2.5, 5]),
        axisWords(bytes, [0, 2 ** 19, 2 ** 20]), axisWords(bytes, [0, 512]),
        axisWords(count, [0, 5000, 10_000]), axisWords(count, [0, 500_000, 1e6]), axisWords(count, [0, 0.5, 1]),
        axisWords(percent, [0, 50]),
    ];
}"""


def test_an_axis_has_one_unit(page: Page) -> None:
    """That of its largest number."""
    assert page.evaluate(AXES, FOLDER) == [
        ["0 s", "5 s", "10 s"],
        ["0 ms", "2.5 ms", "5 ms"],
        ["0 MiB", "0.5 MiB", "1 MiB"],
        ["0 B", "512 B"],
        ["0", "5K", "10K"],
        ["0", "0.5M", "1M"],
        ["0", "0.5", "1"],
        ["0 %", "50 %"],
    ]


AVERAGES = """async (folder) => {
    const { Chart } = await import(`${folder}/monitoring/charts.js`);
    const { count } = await import(`${folder}/monitoring/common.js`);
    const chart = new Chart("connections", "Connections", count);
    const said = (...given) => {
        chart.set([1, 2, 3], [10, 20, null], [12, 40, null], ...given);
        return chart.detail.textContent;
    };
    return [said(), said(undefined), said(19.5), said(0)];
}"""


def test_the_average_of_a_chart_is_that_of_its_window(page: Page) -> None:
    """Buckets hold different numbers of seconds: the statistics know the average, the points do not."""
    ours = [f"average {average}, maximum 40" for average in (15, 15, 19.5, 0)]
    assert page.evaluate(AVERAGES, FOLDER) == ours


BANNER = """async ([folder, cases]) => {
    const { banner, away } = await import(`${folder}/monitoring/banner.js`);
    const usual = { now: 100_000, connection: "connected", denied: "", cluster: "/c", openedAt: 1000, lastAt: 100_000,
        asked: null, collecting: null, hasCharts: true };
    const a = { node: "a", error: "" }, gone = { node: "b", error: "gone" };
    return [cases.map((each) => banner({ ...usual, ...each })), away([a, gone]), away([gone]), away([a, a])];
}"""


def asked(at: int = 99_000, **more: Any) -> dict[str, Any]:
    """An answer over HTTP."""
    return {"at": at, "error": "", "nodes": [{"node": "a", "error": "", "reasons": {}}]} | more


def test_the_part_that_is_away_is_blamed(page: Page) -> None:
    """After three seconds of silence: the worker, the collector, the nodes or the web server, by what HTTP says."""
    silent = {"lastAt": 95_000}
    gone = [{"node": "a", "error": "no answer within 2 s"}, {"node": "b", "error": "refused"}]
    full = [{"node": "a", "error": "", "reasons": {"full": "60 of 60"}}, gone[1]]
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({}, "", ""),
        ({"lastAt": 97_001}, "", ""),
        ({"hasCharts": False}, "incomplete", "make setup"),
        ({"lastAt": 0, "openedAt": 99_000}, "waiting", "Waiting for the first figures…"),
        (silent, "waiting", "No live figures for 5 s; asking why…"),
        (silent | {"asked": asked(94_000), "collecting": False}, "waiting", "asking why"),
        (silent | {"asked": asked()}, "waiting", "asking why"),
        (silent | {"collecting": True}, "silent", "the worker that this page is connected to does not"),
        (silent | {"asked": asked(), "collecting": False}, "away", "the collector is away"),
        (silent | {"asked": asked(nodes=gone)}, "away", "no node answers (no answer within 2 s)"),
        (silent | {"asked": asked(nodes=gone[:1])}, "away", "the sidecar does not answer (no answer within 2 s)"),
        (silent | {"asked": asked(nodes=[], error="you are signed out")}, "away", "asked for: you are signed out"),
        ({"lastAt": 0, "connection": "connecting"}, "waiting", "Connecting to the sidecar…"),
        (silent | {"connection": "reconnecting"}, "waiting", "lost 5 s ago"),
        ({"connection": "connecting", "asked": asked(nodes=full)}, "full", "a is full (60 of 60)"),
        ({"connection": "connecting", "asked": asked(nodes=[*full, {"node": "c"}])}, "waiting", "reconnecting"),
        ({"connection": "connecting", "asked": asked(nodes=gone)}, "waiting", "reconnecting"),
        ({"connection": "signed-out", "denied": "no"}, "signed-out", "You are signed out"),
        ({"denied": "no rule"}, "denied", "a rule that lets you subscribe to /c"),
    ]
    found, away, one, none = page.evaluate(BANNER, [FOLDER, [case for case, _, _ in cases]])
    for (case, state, words), (found_state, found_words) in zip(cases, found, strict=True):
        assert (found_state, words in found_words, bool(found_words)) == (state, True, bool(words)), (case, found_words)
    assert away == "b is away: gone. The others’ figures and lists are shown."
    assert (one, none) == ("", "")


NODES = """async (folder) => {
    const body = (name) => `<tbody data-node="${name}"><tr><th>${name}</th><td data-state>up</td>
        <td class="number" data-cell="connections">7</td></tr></tbody>`;
    document.body.innerHTML = `<table id="nodes">${body("a")}${body("b")}</table>`;
    const { Nodes } = await import(`${folder}/monitoring/panels.js`);
    const nodes = new Nodes();
    const worker = (number, silent_s) => ({ worker: number, pid: 1, connections: 3, silent_s });
    const a = { node: "a", error: "", figures: { connections: 6 }, workers: [worker(0, 0), worker(1, 4.2)] };
    const b = { ...a, node: "b", workers: [worker(0, 0), worker(1, 0)] };
    const said = () => [...document.querySelectorAll("#nodes tr")].map((row) =>
        [row.parentElement.className, row.className, ...[...row.cells].map((cell) => cell.textContent)].join("|"));
    const found = [];
    const show = (...each) => { nodes.show({}, each); found.push(said()); };
    show(a, b);
    show(a, { node: "b", error: "gone", figures: {}, workers: [] });
    nodes.states([{ ...a, reasons: { full: "60 of 60" } }, { ...b, draining: true, reasons: { draining: "x" } }]);
    show({ ...a, workers: [] }, { ...b, workers: [] });
    nodes.states([{ ...a, error: "Django cannot" }, b]);
    found.push(said());
    show({ ...a, workers: [] }, { ...b, workers: [] });
    nodes.states([a, { ...b, starved: [0, 2] }]);
    show({ ...a, workers: [] }, { ...b, workers: [] });
    return found;
}"""


def test_nodes_that_are_away_or_not_ready_and_silent_workers(page: Page) -> None:
    """An away node has no figures, old ones least of all; a hung worker is said to be silent; reasons are said."""
    assert page.evaluate(NODES, FOLDER) == [
        [
            "||a|up|6",
            "|worker|worker 0, process 1||3",
            "|worker silent|worker 1, process 1|silent 4 s|3",
            "||b|up|6",
            "|worker|worker 0, process 1||3",
            "|worker|worker 1, process 1||3",
        ],
        [
            "||a|up|6",
            "|worker|worker 0, process 1||3",
            "|worker silent|worker 1, process 1|silent 4 s|3",
            "away||b|away: gone|–",
        ],
        ["||a|not ready: 60 of 60|6", "||b|draining|6"],
        ["away||a|away: Django cannot|–", "||b|up|6"],
        ["away||a|away: Django cannot|–", "||b|up|6"],
        ["||a|up|6", "||b|starved of CPU: worker 0, 2|6"],
    ]
