"""The JavaScript client in Node against a real sidecar: a wrong argument fails its own call, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.browser.node import CLIENT, in_node
from tests.support.sidecar import Sidecar

pytestmark = pytest.mark.browser

FORMS = ("json", "msgpack")

BEGIN = """
    const names = [], said = [];
    globalThis.reportError = (error) => said.push(String(error));
    const onStatus = (status) => {
        if (status.name === "refused") names.push(`refused ${status.code}`);
        else if (["disconnected", "error", "connected"].includes(status.name)) names.push(status.name);
    };
    const { url, form, transport } = argument;
    const client = connect({ urls: url, form, transports: [transport ?? "websocket"], quickSeconds: 0.05, onStatus });
    const cut = "party \\u{1F389}".slice(0, 7), tail = cut.slice(-1);
    const got = [];
    client.subscribe("/wrong/heard", ({ content }) => got.push(content));
    await new Promise((resolve) => client.on("subscribed", resolve));
    const outcome = async (call) => {
        try { await call(); return "done"; } catch (error) { return error.status ?? error.name; }
    };
    // What was asked before and after, on the same connection.
    const works = async () => {
        const one = await client.publish("/wrong/heard", "fine");
        while (got.length < 1) await new Promise((resolve) => setTimeout(resolve, 5));
        got.length = 0;
        return one.seq > 0;
    };
"""

HALVES = """
    return {
        content: await outcome(() => client.publish("/wrong/a", cut)),
        value: await outcome(() => client.publish("/wrong/a", "x", { fields: { v: cut } })),
        name: await outcome(() => client.publish("/wrong/a", "x", { fields: { [tail]: "v" } })),
        subject: await outcome(() => client.publish("/wrong/" + tail, "x")),
        replyTo: await outcome(() => client.publish("/wrong/a", "x", { replyTo: "/r/" + tail })),
        closure: await outcome(() => client.publish("/wrong/a", "x", { closure: tail })),
        removed: await outcome(() => client.remove("/wrong/" + tail)),
        presence: await outcome(() => client.presence("/wrong/" + tail)),
        advertise: await outcome(() => client.advertise("/wrong/" + tail)),
        respond: await outcome(() => client.respond("/wrong/" + tail, () => "")),
        request: await outcome(() => client.request("/wrong/" + tail, "")),
        requested: await outcome(() => client.request("/wrong/a", cut)),
        field: await outcome(() => client.request("/wrong/a", "", { fields: { v: cut } })),
        subscribe: await outcome(() => client.subscribe(["/wrong/" + tail, "/wrong/b", "/*/" + tail], () => {})),
        since: await outcome(() => client.subscribe("/**", () => {}, { since: { ["/wrong/" + tail]: [1, 1] } })),
        again: (client.pause(), client.resume(),
            await new Promise((resolve) => client.on("subscribed", resolve)), "on"),
        works: await works(), names,
    };
"""

WRONG = """
    const values = [undefined, null, 0, -1, 1.5, NaN, Infinity, 2 ** 53, 10n, true, "", "x", "/", "/a", "/a/b/", "a/b",
        "/a//b", "/a/\\0", "/" + "é".repeat(300), "/a/" + "b/".repeat(40), "x".repeat(70_000), [], [[]],
        [1], {}, { a: 1 }, () => 1, Symbol("s"), new Date(NaN), new Uint8Array(1), new Map([[1, 2]]),
        Object.create(null), new Proxy({}, {})];
    const optional = ["history", "conflation", "slow", "since", "fields", "retained", "qos", "replyTo", "closure",
        "replace", "traceparent", "timeout", "replies"];
    const calls = [];
    for (const value of values) {
        calls.push(() => client.subscribe(value, () => {}), () => client.subscribe(["/wrong/z", value], () => {}),
            () => client.subscribe("/wrong/c", () => {}, value), () => client.subscribe("/wrong/d", value),
            () => client.subscribe("/wrong/e", () => {}).unsubscribe(value), () => client.publish(value, "x"),
            () => client.publish("/wrong/a", value), () => client.publish("/wrong/a", "x", value),
            () => client.publish("/wrong/a", "x", { fields: { v: value } }), () => client.remove(value),
            () => client.remove("/wrong/r", value), () => client.presence(value), () => client.advertise(value, value),
            () => client.advertise([value]), () => client.request(value, "x"), () => client.request("/wrong/q", value),
            () => client.respond(value, () => ""), () => client.respond("/wrong/" + typeof value, value),
            () => client.on(value, value), () => client.renew(value));
        for (const name of optional) {
            calls.push(() => client.subscribe("/wrong/f", () => {}, { [name]: value }),
                () => client.publish("/wrong/a", "x", { [name]: value }),
                () => client.remove("/wrong/r", { [name]: value }),
                () => client.request("/wrong/q", "x", { timeout: 5, [name]: value }));
        }
    }
    const within = (promise) => Promise.race([promise, new Promise((resolve) => setTimeout(resolve, 20_000, "late"))]);
    const outcomes = await Promise.all(calls.map((call) => within(outcome(call))));
    const before = await works();
    client.pause();
    client.resume();
    await new Promise((resolve) => client.on("connected", resolve));
    await new Promise((resolve) => setTimeout(resolve, 200));
    return { before, after: await works(), names: names.filter((name) => !name.startsWith("refused")),
        outcomes: outcomes.reduce((all, one) => ({ ...all, [one]: (all[one] ?? 0) + 1 }), {}) };
"""

TOO_LARGE = """
    const large = "x".repeat(100_000), escaped = "\\u0001".repeat(80_000), bytes = new Uint8Array(100_000);
    const patterns = Array.from({ length: 200 }, (_, at) => `/wrong/${at}/` + "y".repeat(480));
    await client.respond("/wrong/whole", () => large);
    await client.respond("/wrong/part", ({ reply }) => { reply(large); return ""; });
    const ask = (name) => client.request(`/wrong/${name}`, "").then(() => "done", ({ status }) => status);
    const found = {
        content: await outcome(() => client.publish("/wrong/a", large)),
        bytes: await outcome(() => client.publish("/wrong/a", bytes)),
        escaped: await outcome(() => client.publish("/wrong/a", escaped)),
        field: await outcome(() => client.publish("/wrong/a", "x", { fields: { v: large } })),
        name: await outcome(() => client.publish("/wrong/a", "x", { fields: { [large]: "v" } })),
        replyTo: await outcome(() => client.publish("/wrong/a", "x", { replyTo: "/" + large })),
        subject: await outcome(() => client.publish("/" + large, "x")),
        standard: await outcome(() => client.publish("/wrong/a", large, { qos: "standard" })),
        removed: await outcome(() => client.remove("/wrong/" + large)),
        request: await outcome(() => client.request("/wrong/a", large)),
        advertise: await outcome(() => client.advertise(patterns)),
        reply: await ask("whole"),
    };
    const part = await ask("part");
    // Subjects and patterns, and where they were read to, go in as many commands as it takes.
    const many = client.subscribe(patterns, () => {});
    const wide = client.subscribe("/wrong/*/*", () => {});
    await client.publish(patterns[199], "found");
    client.pause();
    const early = outcome(() => client.publish("/wrong/a", large));
    client.advertise(patterns);
    client.resume();
    found.early = await early;
    await many.unsubscribe();
    await wide.unsubscribe();
    return { found, part, works: await works(), names };
"""

KNOWN = {"done", "TypeError", "invalid", "limit", "too_large", "no_responders", "bad_token"}
WRONG_TYPES = 705
"""Calls above that the client itself refuses, whatever the server is: by the type of an argument alone."""


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """One without rights."""
    with Sidecar(mode="none") as sidecar:
        yield sidecar


def told(sidecar: Sidecar, script: str, **more: Any) -> Any:
    """What the script says of its ``client``."""
    return in_node(BEGIN + script, {"url": sidecar.client_url} | more)


@pytest.mark.parametrize("form", FORMS)
def test_half_a_character_is_rejected(sidecar: Sidecar, form: str) -> None:
    """In content, fields, names and subjects of whichever call, alike in both forms; the others go on."""
    found = told(sidecar, HALVES, form=form)
    assert found.pop("names") == ["connected", "refused invalid", "refused invalid", "connected"]
    assert {found.pop(name) for name in ("subscribe", "since")} == {"done"}
    assert (found.pop("again"), found.pop("works")) == ("on", True)
    assert found == dict.fromkeys(found, "invalid")
    assert len(found) == 13


@pytest.mark.parametrize("form", FORMS)
def test_no_wrong_argument_ends_the_connection(sidecar: Sidecar, form: str) -> None:
    """Nor is it kept and said again on the next one: the connection stands, and the next one as well."""
    found = told(sidecar, WRONG, form=form)
    assert (found["before"], found["after"]) == (True, True)
    assert found["names"] == ["connected", "connected"]
    assert set(found["outcomes"]) <= KNOWN, "each call has an answer that is explained, and none is without one"
    assert found["outcomes"]["TypeError"] == WRONG_TYPES


def test_over_http_as_well(sidecar: Sidecar) -> None:
    """What is polled: a stream posts in the same way."""
    found = told(sidecar, WRONG, form="json", transport="poll")
    assert (found["before"], found["after"], found["names"]) == (True, True, ["connected", "connected"])


@pytest.mark.parametrize(
    ("form", "transport"), [("json", "websocket"), ("msgpack", "websocket"), ("json", "stream"), ("json", "poll")]
)
def test_what_passes_the_servers_frame_fails_alone(form: str, transport: str) -> None:
    """Each call with `too_large`, however the server is reached; what may be cut into several commands is."""
    with Sidecar(mode="none", message_bytes_max=1000) as small:
        found = told(small, TOO_LARGE, form=form, transport=transport)
    assert found["found"] == dict.fromkeys(found["found"], "too_large")
    assert (found["part"], found["works"]) == ("too_large", True)
    assert found["names"] == ["connected", "connected", "error"], "the second time it advertised too much"


@pytest.mark.parametrize("form", FORMS)
def test_a_handler_that_replies_with_a_half_has_failed(sidecar: Sidecar, form: str) -> None:
    """Who asks is told so; errors are cut to whole characters."""
    script = """
        const { RealtimeError } = await import(argument.client);
        await client.respond("/wrong/reply", () => cut);
        await client.respond("/wrong/part", ({ reply }) => { reply("x", { v: cut }); return ""; });
        await client.respond("/wrong/error", () => { throw new RealtimeError("e" + tail, "\\u{1F389}".repeat(600)); });
        const ask = (name) => client.request(`/wrong/${name}`, "")
            .then(() => "done", ({ status, reason }) => [status, reason]);
        return [await ask("reply"), await ask("part"), await ask("error"), await works(), names];
    """
    reply, part, error, works, names = told(sidecar, script, form=form, client=CLIENT)
    assert reply == part == ["error", "the responder failed"]
    assert error == ["e\ufffd", "🎉" * 512]
    assert works and names == ["connected"]
