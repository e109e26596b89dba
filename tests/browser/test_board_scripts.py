"""What the scripts of the board make of messages, in a page without a site."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

pytestmark = pytest.mark.browser

AS_OF = """async () => {
    const { asOfDetails, asOfTime, asOfWords, newerAsOf } = await import("/realtime/static/realtime/pages/asof.js");
    const now = new Date(2026, 4, 17, 12, 0, 0).getTime();
    const at = new Date(2026, 4, 17, 10, 12, 5).getTime();
    const told = [
        at, at - 86_400_000, new Date(at).toISOString(), "2026-13-99", "Friday", 17, 1e300, null, undefined, {},
        { time: at }, { time: at, batch: 0, job: "bars", version: 3 }, { batch: 17, job: "bars" }, { job: "bars" },
        { version: 2 }, { time: "Friday" },
    ];
    const pairs = [
        [null, at], [at, null], [at, at - 1], [at - 1, { time: at }],
        ["Friday", "Monday"], [at, "Monday"], ["Friday", at],
    ];
    return {
        told: told.map((each) => [asOfWords(each, now), asOfDetails(each, now), asOfTime(each) && asOfTime(each) - at]),
        newer: pairs.map(([before, each]) => newerAsOf(before, each)),
        at,
    };
}"""


def test_as_of_in_words(page: Page) -> None:
    """The time of today, the day as well of any other; else the publisher's own words, or the batch."""
    answer = page.evaluate(AS_OF)
    assert answer["told"] == [
        ["10:12:05", "10:12:05", 0],
        ["16 May 2026, 10:12:05", "16 May 2026, 10:12:05", -86_400_000],
        ["10:12:05", "10:12:05", 0],
        ["2026-13-99", "2026-13-99", None],
        ["Friday", "Friday", None],
        ["17", "17", None],
        ["1e+300", "1e+300", None],
        ["", "", None],
        ["", "", None],
        ["", "", None],
        ["10:12:05", "10:12:05", 0],
        ["10:12:05", "10:12:05, batch 0 of bars, version 3", 0],
        ["batch 17 of bars", "batch 17 of bars", None],
        ["bars", "bars", None],
        ["version 2", "version 2", None],
        ["Friday", "Friday", None],
    ]
    at = answer["at"]
    assert answer["newer"] == [at, at, at, {"time": at}, "Monday", at, at]


BARS = """async () => {
    const { barOf, Bars } = await import("/realtime/static/realtime/board/bars.js");
    const fields = (start, final, more) => ({ start: String(start), open: "1", high: "3", low: "0.5", final, ...more });
    const bar = (start, final, close) => barOf({ content: close, fields: fields(start, final) });
    const bars = new Bars();
    const put = [
        [2000, "0", "1"], [2000, "0", "2"], [4000, "1", "1"], [3000, "1", "1"], [2000, "1", "2.5"], [2000, "0", "9"],
        [2000, "1", "2.75"],
    ].map((each) => bars.put(bar(...each)));
    const told = bars.all.map(({ start, close, isFinal }) => [start, close, isFinal]);
    for (let start = 10_000; start < 10_600; start++) bars.put(bar(start, "1", "1"));
    const ends = [bars.all.length, bars.all[0].start, bars.all[499].start, bars.put(bar(1, "1", "1"))];
    const wrong = [{ open: "x" }, { start: "" }, { low: undefined }, { high: "1e999" }, { start: "9e15" }];
    const more = { end: "2000", volume: "7", vwap: "1.25", ticks: "3", simulated: "volume" };
    return {
        put, told, ends,
        none: wrong.map((each) => barOf({ content: "1", fields: fields(1000, "1", each) })),
        bytes: barOf({ content: new Uint8Array([49]), fields: fields(1000, "1") }),
        whole: barOf({ content: "1.5", fields: fields(1000, "1", more) }),
        bare: barOf({ content: "1.5", fields: fields(1000, undefined) }),
    };
}"""


def test_bars_are_kept_in_the_order_of_their_times(page: Page) -> None:
    """A later word replaces an earlier one, but nothing replaces a final bar except another final one; 500 are kept."""
    told = page.evaluate(BARS)
    assert told["put"] == [True, True, True, True, True, False, True]
    assert told["told"] == [[2000, 2.75, True], [3000, 1, True], [4000, 1, True]]
    assert told["ends"] == [500, 10_100, 10_599, False]
    assert told["none"] == [None] * 5
    assert told["bytes"] is None
    bar = {"start": 1000, "open": 1, "high": 3, "low": 0.5, "close": 1.5}
    assert told["whole"] == bar | {
        "end": 2000, "volume": 7, "vwap": 1.25, "ticks": 3, "isFinal": True, "simulated": "volume"
    }  # fmt: skip
    assert told["bare"] == bar | {
        "end": 1000, "volume": None, "vwap": None, "ticks": None, "isFinal": False, "simulated": ""
    }  # fmt: skip


OTHERS = """async () => {
    const { ticksBetween } = await import("/realtime/static/realtime/board/bars.js");
    const { moveOf, rank, windowOf } = await import("/realtime/static/realtime/board/movers.js");
    const { alertOf } = await import("/realtime/static/realtime/board/alerts.js");
    const round = (values) => values.map((value) => Math.round(value * 1e6) / 1e6);
    const message = { subject: "/alerts/us/BAC", content: "fell", epoch: 7, seq: 3, time: 5000, asOf: null };
    const alert = (fields, more) => alertOf({ ...message, fields, ...more });
    const whole = { symbol: "BAC", level: "critical", kind: "zscore", time: "4000", price: "9.5", limit: "3" };
    const ranges = [[99.2, 104.9, 5], [0, 1, 4], [1.001, 1.009, 3], [5, 5, 3], [5, 4, 3], [99, 101, 0]];
    const window = { window_start: "0", window_end: "60000" };
    const about = { subject: "/movers/us/A", asOf: null };
    const move = (content, fields) => moveOf({ ...about, content, fields: { ...window, ...fields } });
    const unlike = [
        ["x"], [""], [new Uint8Array([49])], ["1", { window_start: "60000" }], ["1", { window_end: "soon" }],
    ];
    const named = (...given) => {
        const moves = given.map(([symbol, change, end = 60_000]) => ({ symbol, change, start: end - 60_000, end }));
        const { gainers, losers } = rank(moves);
        return [gainers, losers].map((each) => each.map(({ symbol }) => symbol));
    };
    const windows = [[0, 300_000], [0, 90_000], [0, 7_200_000], [5, 5]];
    return {
        ticks: ranges.map((given) => round(ticksBetween(...given))),
        none: unlike.map((given) => move(...given)),
        moves: [
            move("1.5", { price: "3.456" }), move("-2", { symbol: "<b>", name: "B", price: "n/a" }), move("0", {}),
        ],
        ranked: [
            named(["B", 1], ["C", -1], ["A", 1], ["D", 2], ["E", 0], ["F", -5]),
            named(["old", 9], ["near", 8, 100_000], ["new", 1, 120_000]),
            named(...Array(30).fill(["A", 1])).map((each) => each.length), named(),
        ],
        windows: windows.map(([start, end]) => windowOf({ start, end })),
        alerts: [
            alert(whole, { asOf: { batch: 5, job: "alerts" } }), alert({ level: "deadly", time: "1e99" }),
            alert({}, { seq: 0 }),
        ],
    };
}"""


def test_movers_alerts_and_axes(page: Page) -> None:
    """What is no move is none, what is unknown has a default, the newest windows count, steps of an axis are round."""
    told = page.evaluate(OTHERS)
    assert told["ticks"] == [[100, 102, 104], [0, 0.5, 1], [1.005], [], [], [100]]
    assert told["none"] == [None] * 5
    window = {"start": 0, "end": 60_000, "asOf": 60_000}
    assert told["moves"] == [
        window | {"symbol": "A", "name": "", "price": "3.46", "change": 1.5},
        window | {"symbol": "<b>", "name": "B", "price": "n/a", "change": -2},
        window | {"symbol": "A", "name": "", "price": "–", "change": 0},
    ]
    assert told["ranked"] == [[["D", "A", "B"], ["F", "C"]], [["near", "new"], []], [10, 0], [[], []]]
    assert told["windows"] == ["5 min", "90 s", "2 h", ""]
    whole, unknown, standard = told["alerts"]
    assert whole == {
        "key": "/alerts/us/BAC 7/3", "subject": "/alerts/us/BAC", "symbol": "BAC", "text": "fell", "level": "critical",
        "kind": "zscore", "at": 4000, "details": "price 9.5, limit 3, data as of batch 5 of alerts",
    }  # fmt: skip
    assert (unknown["level"], unknown["symbol"], unknown["at"]) == ("notice", "BAC", 5000)
    assert standard["key"] == "/alerts/us/BAC at 5000"


CANDLES = """async () => {
    const { Candles, barTime } = await import("/realtime/static/realtime/board/candles.js");
    const colours = { up: "#00f000", down: "#f00000", line: "#888", soft: "#888", surface: "#fff" };
    const canvas = document.createElement("canvas");
    canvas.style.cssText = "display: block; width: 856px; height: 200px";
    for (const [name, colour] of Object.entries(colours)) canvas.style.setProperty(`--${name}`, colour);
    document.body.replaceChildren(canvas);
    const candles = new Candles(canvas);
    const bar = (number) => ({
        start: number * 1000, open: 100 + number % 2, high: 103, low: 99, close: 101 - number % 2, volume: number,
    });
    const frames = async () => { for (let n = 0; n < 3; n++) await new Promise(requestAnimationFrame); };
    const pixels = () => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    let texts = [];
    canvas.getContext("2d").fillText = (text) => { texts.push(text); };
    const shown = async (count, apart = 1) => {
        texts = [];
        candles.show(Array.from({ length: count }, (_, index) => bar((index + 1) * apart)), 1000);
        await frames();
        const starts = [799, 1, 850].map((x) => candles.at(x)?.start);
        return [Number(canvas.dataset.candles), candles.visible.length, ...starts];
    };
    const kind = (red, green) => green > 200 && red < 50 ? "up" : red > 200 && green < 50 ? "down" : "";
    const drawn = () => {
        const data = pixels();
        const found = new Set();
        for (let at = 0; at < data.length; at += 4) {
            if (data[at + 3] === 255) found.add(kind(data[at], data[at + 1]));
        }
        return [found.has("up"), found.has("down")];
    };
    const few = await shown(3);
    const many = await shown(300);
    const labels = [...new Set(texts)]; // it may be drawn more than once
    const both = drawn();
    const before = canvas.toDataURL();
    candles.point(290_000);
    await frames();
    const isMarked = canvas.toDataURL() !== before;
    await shown(100, 7);
    const apart = [...new Set(texts)];
    const none = await shown(0);
    const noon = new Date(2026, 4, 17, 12, 30, 5).getTime();
    const times = [1000, 60_000, 86_400_000].map((interval) => barTime(noon, interval));
    return { few, many, none, both, isMarked, isEmpty: !pixels().some(Boolean), times, labels, apart };
}"""


def test_candles_are_drawn_as_far_as_there_is_room(page: Page) -> None:
    """The newest at the right; which one stands at a place; both colours; nothing when there are none."""
    told = page.evaluate(CANDLES)
    assert told["few"] == [3, 3, 3000, 1000, None]
    assert told["many"] == [100, 100, 300_000, 201_000, None]
    assert told["none"][:2] == [0, 0]
    assert (told["both"], told["isMarked"], told["isEmpty"]) == ([True, True], True, True)
    assert told["times"] == ["12:30:05", "12:30", "17 May 2026"]
    times = [text for text in told["labels"] if ":" in text]
    assert len(times) in range(6, 12)
    assert all(text.endswith("0") for text in times), "each at a round time"
    # The newest price stands in the place of one of the axis, on a ground of its own.
    assert [text for text in told["labels"] if ":" not in text] == ["99", "100", "102", "103", "101.00"]
    assert len([text for text in told["apart"] if ":" in text]) in range(6, 12), "bars that miss every round time"


READINGS = """async () => {
    const { readingOf } = await import("/realtime/static/realtime/board/sensors.js");
    const reading = (content, fields, subject) => readingOf({
        subject: subject ?? "/sensors/hall/temperature", content, fields: fields ?? {}, time: 17,
    });
    return [
        reading("21.5"), reading("-3", { unit: "°C" }), reading("open"), reading(" "), reading(""), reading(null),
        reading(new Uint8Array([1])), reading("x".repeat(99)), reading("1", {}, "/__mqtt__/sensors/a/b"),
    ].map((one) => one && [one.name, one.text, one.value]);
}"""


def test_what_a_thing_says_is_a_reading(page: Page) -> None:
    """A number if it is one; what nothing is left of is none. The topic may have a slash in front or not."""
    name = "hall · temperature"
    assert page.evaluate(READINGS) == [
        [name, "21.5", 21.5],
        [name, "-3 °C", -3],
        [name, "open", None],
        [name, " ", None],
        None,
        None,
        [name, "(bytes)", None],
        [name, "x" * 40 + "…", None],
        ["a · b", "1", 1],
    ]
