"""The JavaScript client's time limits, its surroundings, and much at a time, over the pure state machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.support.browser.chromium import new_context
from tests.support.client.amounts import PATTERNS, SUBJECTS

pytestmark = pytest.mark.browser

BEGIN = """async (urls) => {
    const { complete } = await import("/realtime/static/realtime/client/connection/options.js");
    const { Session } = await import("/realtime/static/realtime/client/session/session.js");
    const world = { pick: () => 0, wait: () => 0, via: () => "direct", memory: { load: () => null, save: () => {} } };
    window.session = new Session(complete({ urls, form: "json", transports: ["websocket"] }), world);
    session.start();
    session.prepared(0, "");
    // Time passes until `end`; what the client wants done, in words.
    window.until = (end) => {
        while (session.nextAt <= end) session.tick(session.nextAt);
        return session.effects.splice(0).map(({ type, status, url, data }) =>
            (status ? [status.name, status.codeName ?? ""] : [type, url ?? data ?? ""]).join(" ").trim());
    };
    window.server = (now, frame) => session.receive(now, JSON.stringify(frame));
    window.up = (now) => {
        session.opened(now, "json");
        server(now, { op: "connected", id: 1, server: "s", epoch: 1, time: 0, base: 0, ping_ms: 1 });
    };
}"""


@pytest.fixture(scope="module")
def page(browser: Browser, files: str) -> Iterator[Page]:
    """One for all: each test begins with a session of its own."""
    empty = new_context(browser).new_page()
    empty.goto(f"{files}/tests/browser/empty.html")
    yield empty
    empty.close()


@pytest.fixture
def session(page: Page) -> Any:
    """``session(urls, script)``: what the script answers when the first address is being tried."""

    def run(urls: list[Any], script: str) -> Any:
        page.evaluate(BEGIN, urls)
        return page.evaluate(f"() => {{ const first = until(0); {script} }}")

    return run


def test_an_address_that_does_not_open(session: Any) -> None:
    """Two seconds where there is another, ten for the last; then the round has failed."""
    effects = session(
        ["ws://a/ws", "ws://b/ws"], "return [first, until(1999), until(2000), until(11999), until(12000)]"
    )
    assert effects[0] == ["prepare", "connecting", "open ws://a/ws"]
    assert effects[1] == []
    assert effects[2] == ["drop", "connecting", "open ws://b/ws"]
    assert effects[3] == []
    assert effects[4] == ["drop", "disconnected unreachable", "down"]


def test_a_server_that_does_not_answer(session: Any) -> None:
    """It opens and says nothing for twelve seconds."""
    effects = session(["ws://a/ws"], "session.opened(0, 'json'); return [until(11999), until(12000)]")
    assert len(effects[0]) == 1
    assert effects[1] == ["drop", "lost", "disconnected handshake_timeout", "down"]


def test_a_connection_without_a_sign_of_life(session: Any) -> None:
    """Pinged every five seconds; given up when nothing has come for ten. Whatever comes is a sign."""
    script = """
        up(0);
        until(0);
        const pings = until(9999).length;
        server(9999, { op: "base", base: 5 });
        return [pings, until(19999).length, until(20000)];
    """
    assert session(["ws://a/ws"], script) == [1, 2, ["drop", "lost", "disconnected ping_timeout"]]


def test_a_page_whose_timers_are_late(session: Any) -> None:
    """A hidden page may run once a minute: that it asked late is no silence of the server, no answer to a ping is."""
    script = """
        up(0);
        server(30, { op: "base", base: 5 });
        until(0);
        session.tick(60000);
        const late = until(60000).length;
        session.tick(120000);
        return [late, until(120000)];
    """
    assert session(["ws://a/ws"], script) == [1, ["drop", "lost", "disconnected ping_timeout"]]


def test_latency_is_half_a_round_trip(session: Any) -> None:
    """Of the last ping; none without a connection."""
    script = """
        up(0);
        const { id } = JSON.parse(until(0).at(-1).slice("send ".length));
        server(30, { op: "pong", id, time: 1000 });
        const told = session.effects.at(-1).status;
        const known = session.latency;
        session.closed(40, 1006, "");
        return [told, known, session.latency, session.url, session.state];
    """
    told, *rest = session(["ws://a/ws"], script)
    assert told == {"name": "latency", "ms": 15, "serverTime": 1015}
    assert rest == [15, None, "", "connecting"]


def test_what_is_no_frame_ends_the_connection(session: Any) -> None:
    """It is told, and the client comes back."""
    script = "up(0); until(0); session.receive(0, 'no frame'); return until(0)"
    assert session(["ws://a/ws"], script) == ["error", "drop", "lost", "disconnected bad_message"]


def test_a_network_that_is_back_ends_the_wait(session: Any) -> None:
    """Only a wait: what is being tried or stands is left alone."""
    script = """
        session.online();
        const trying = until(0);
        session.refused(0, "no");
        until(0);
        session.online();
        const waiting = until(0);
        session.prepared(0, "");
        up(0);
        until(0);
        session.online();
        return [trying, waiting, until(0), session.state];
    """
    assert session(["ws://a/ws"], script) == [[], ["prepare"], [], "connected"]


def test_a_token_that_cannot_be_had(session: Any) -> None:
    """Is tried for again after a wait, unless the error is final; one that comes too late is ignored."""
    script = """
        session.pause();
        session.resume();
        session.prepared(0, "", new Error("Django is away"));
        const away = until(0).slice(-2);
        until(5000);
        session.prepared(5000, "", Object.assign(new Error("signed out"), { final: true }));
        const out = until(5000).at(-1);
        session.resume();
        session.pause();
        session.prepared(5000, "late");
        return [away, out, until(1e6).at(-1), session.state];
    """
    away = ["disconnected unreachable", "down"]
    assert session(["ws://a/ws"], script) == [away, "disconnected unreachable", "paused", "paused"]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ("{}", "urls"),
        ("{ urls: [] }", "urls"),
        ("{ urls: [5] }", "server"),
        ("{ urls: { url: 'ws://a/ws', weight: 101 } }", "weight"),
        ("{ urls: { url: 'ws://a/ws', weight: -1 } }", "weight"),
        ("{ urls: 'ws://a/ws', form: 'xml' }", "form"),
        ("{ urls: 'ws://a/ws', quickSeconds: 'soon' }", "quickSeconds"),
        ("{ urls: 'ws://a/ws', publishQueueBytes: -1 }", "publishQueueBytes"),
    ],
)
def test_options_that_make_no_sense(page: Page, options: str, word: str) -> None:
    """Are refused at once, by name."""
    page.evaluate("import('/realtime/static/realtime/client.js').then((it) => { window.connect = it.connect; })")
    assert word in page.evaluate(
        f"() => {{ try {{ connect({options}); return ''; }} catch (error) {{ return String(error); }} }}"
    )


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ("'/a/b', 5", "content"),
        ("'/a/b', 'x', { fields: { a: 5 } }", "field"),
        ("5, 'x'", "subject"),
        ("'/a/b', 'x', { replyTo: 5 }", "replyTo"),
        ("'/a/b', 'x', { traceparent: 5 }", "traceparent"),
        ("'/a/b', 'x', { qos: 'best' }", "qos"),
    ],
)
def test_what_cannot_be_published(page: Page, arguments: str, word: str) -> None:
    """Is refused at once, and never waits in the queue."""
    page.evaluate("import('/realtime/static/realtime/client.js').then((it) => { window.connect = it.connect; })")
    script = f"""async () => {{
        const client = connect({{ urls: 'ws://127.0.0.1:9/ws' }});
        const told = await client.publish({arguments}).catch(String);
        client.close();
        return told;
    }}"""
    told = page.evaluate(script)
    assert told.startswith("TypeError")
    assert word in told


def test_the_patterns_over_a_subject_are_those_that_cover_it(page: Page) -> None:
    """In the order in which they came, also when some have gone."""
    script = """async ([patterns, subjects]) => {
        const { WantedList, covers } = await import("/realtime/static/realtime/client/session/wanted.js");
        const wanted = new WantedList();
        const options = { history: 0, conflation: 0, slow: "close", since: {} };
        for (const name of patterns) wanted.putPattern(name, "owner", options);
        for (const name of patterns.filter((_, at) => at % 3 === 0)) wanted.forget(wanted.patterns.get(name));
        for (const name of patterns.filter((_, at) => at % 6 === 0)) wanted.putPattern(name, "owner", options);
        return subjects.filter((subject) => {
            const those = [...wanted.patterns.keys()].filter((name) => covers(name, subject));
            return JSON.stringify(those) !== JSON.stringify(wanted.over(subject).map((one) => one.subject));
        });
    }"""
    assert page.evaluate(script, [PATTERNS, SUBJECTS]) == []


def test_a_reconnection_with_many_patterns(page: Page) -> None:
    """Each pattern with its subjects: 200 of them with 2000 in all."""
    script = """async () => {
        const { Following } = await import("/realtime/static/realtime/client/session/following.js");
        const commands = [];
        const following = new Following((command) => commands.push(command));
        const numbers = [...Array(200).keys()];
        const options = { history: 0, conflation: 0, slow: "close", since: {} };
        following.subscribe("owner", numbers.map((number) => `/stocks/g${number}/*`), options);
        for (let one = 0; one < 10; one++) {
            for (const number of numbers) following.wanted.find(`/stocks/g${number}/${one}`, { position: [1, 1] });
        }
        following.open();
        return commands.map(({ since }) => Object.keys(since).length);
    }"""
    assert page.evaluate(script) == [10] * 200


def test_interest_in_many_subjects_is_not_walked_for_each_that_comes(page: Page) -> None:
    """5000 subjects, each in a frame of its own."""
    script = """async () => {
        const { ClientState } = await import("/realtime/static/realtime/client/session/protocol.js");
        const state = new ClientState("json");
        state.offer(["/prices/**"]);
        const subjects = [...Array(5000).keys()].map((number) => `/prices/${number}`);
        let told = 0;
        for (const wanted of [true, false]) {
            for (const one of subjects) {
                const events = state.receive(JSON.stringify({ op: "interest", subjects: [one], wanted }));
                told += events.length;
            }
        }
        return told;
    }"""
    assert page.evaluate(script) == 10_000


def test_a_message_says_what_it_has_in_json(session: Any) -> None:
    """Its content, or a field, as text or bytes; what is none throws."""
    script = """
        up(0);
        session.subscribe("me", ["/a/b"], { history: 0, conflation: 0, slow: "close", since: {} });
        const { id } = JSON.parse(until(0).filter((one) => one.includes("subscribe")).at(-1).slice("send ".length));
        server(0, { op: "subscribed", id, results: [{ subject: "/a/b", sid: 1, epoch: 1, seq: 0 }] });
        session.effects.splice(0);
        server(0, [1, 1, 0, JSON.stringify({ n: 1 }), { f: "[2]", g: "no", b: { b: "Mw==" } }]);
        const { message } = session.effects.find(({ type }) => type === "message");
        let fault = "";
        try { message.json("g"); } catch (error) { fault = error.name; }
        return [message.json(), message.json("f"), message.json("b"), message.json("none") === undefined, fault];
    """
    assert session(["ws://a/ws"], script) == [{"n": 1}, [2], 3, True, "SyntaxError"]
