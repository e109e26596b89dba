"""The JavaScript client in Node against a real sidecar: what is asked of it at awkward moments, and with odd values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.support.browser.node import CLIENT, in_node
from tests.support.sidecar import Sidecar

pytestmark = pytest.mark.browser

NUMBERS = count()
TRANSPORTS = ("websocket", "stream", "poll")

EACH = """
    const all = [];
    for (const [transport, subject] of argument.each) all.push(await (async () => {{ {script} }})());
    return all;
"""
BEGIN = """
    const { url } = argument;
    const names = [];
    const onStatus = ({ name, codeName }) => { if (name !== "latency") names.push(codeName ?? name); };
    const opened = (more) => connect({ urls: url, transports: [transport], quickSeconds: 0.05, onStatus, ...more });
    const client = opened(argument.options);
    const when = (name) => new Promise((resolve) => client.on(name, resolve));
    const outcome = (promise) => promise.then((value) => value, ({ status }) => status);
"""


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """One without rights."""
    with Sidecar(mode="none") as sidecar:
        yield sidecar


def told(sidecar: Sidecar, script: str, *transports: str, **more: Any) -> list[Any]:
    """What a script says of its ``client`` over each of the transports, with a ``subject`` that no other has."""
    each = [(name, f"/{name}/{next(NUMBERS)}") for name in transports or TRANSPORTS]
    argument = {"url": sidecar.client_url, "client": CLIENT, "each": each}
    return list(in_node(EACH.format(script=BEGIN + script), argument | more))


def test_what_looks_like_half_a_character_is_none(sidecar: Sidecar) -> None:
    """What is written as an escape is left alone."""
    texts = ["\\ud83d \\\\ud83d", "😀"]
    script = """
        const got = [];
        const all = new Promise((resolve) => client.subscribe(subject, (message) => {
            if (got.push([message.content, message.fields.f]) === argument.texts.length) resolve();
        }));
        await when("subscribed");
        for (const text of argument.texts) await client.publish(subject, text, { fields: { f: text } });
        await all;
        return [got, names];
    """
    for got, names in told(sidecar, script, texts=texts):
        assert got == [[text, text] for text in texts]
        assert names == ["connecting", "connected", "subscribed"]


def test_a_refused_token_is_told_over_every_transport() -> None:
    """The goodbye is heard though the session is gone for what is posted: one fresh token is tried, then it ends."""
    script = """
        let asked = 0;
        client.close();
        const other = opened({ token: () => { asked += 1; return "none of ours"; } });
        await new Promise((resolve) => other.on("disconnected", (status) => { if (status.final) resolve(); }));
        return [asked, other.state, names.filter((name) => name !== "closed")];
    """
    with Sidecar(mode="rules", token_secret="s" * 32) as sidecar:
        for asked, state, names in told(sidecar, script, *TRANSPORTS * 3):
            assert (asked, state) == (2, "disconnected")
            assert names == ["connecting", "bad_token"] * 2


def test_a_request_is_answered_though_the_client_leaves(sidecar: Sidecar) -> None:
    """What is asked in the very turn in which the client lets go of its connection is told as never sent."""
    script = """
        await when("connected");
        const asked = outcome(client.request(subject, "x", { timeout: 5000 }));
        client[argument.leave]();
        return Promise.race([asked, new Promise((resolve) => setTimeout(resolve, 500, "nothing"))]);
    """
    for leave in ("pause", "close"):
        assert told(sidecar, script, leave=leave) == ["not_connected"] * 3


def test_the_trace_of_a_message_goes_with_it(sidecar: Sidecar) -> None:
    """As whoever published it says, also this client; "" where nobody does."""
    script = """
        const got = [];
        client.subscribe(subject, ({ traceparent }) => got.push(traceparent));
        await when("subscribed");
        await client.publish(subject, "x", { traceparent: argument.sent });
        await client.publish(subject, "y");
        while (got.length < 2) await new Promise((resolve) => setTimeout(resolve, 10));
        return got;
    """
    sent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    for form in ("msgpack", "json"):
        assert told(sidecar, script, "websocket", options={"form": form}, sent=sent) == [[sent, ""]]


def test_a_result_that_is_no_reply_fails(sidecar: Sidecar) -> None:
    """Who asks is told that the responder failed, and the console why, instead of an empty reply."""
    script = """
        const said = [];
        globalThis.reportError = (error) => said.push(String(error));
        const results = { number: 42, list: ["a"], map: { price: "5" }, empty: {}, fields: { fields: { a: "1" } } };
        await client.respond(subject + "/*", ({ subject }) => results[subject.split("/").at(-1)]);
        const answers = {};
        for (const name of [...Object.keys(results), "nothing"]) {
            answers[name] = await outcome(client.request(`${subject}/${name}`, ""));
        }
        return [answers, said.length];
    """
    empty = {"content": "", "fields": {}}
    for answers, said in told(sidecar, script):
        assert answers == {
            **dict.fromkeys(("number", "list", "map"), "error"),
            **dict.fromkeys(("empty", "nothing"), empty),
            "fields": {"content": "", "fields": {"a": "1"}},
        }
        assert said == 3


def test_an_error_of_a_responder_needs_no_reason(sidecar: Sidecar) -> None:
    """An error with a status alone is a reply like others, and nothing of it ends the process."""
    script = """
        const { RealtimeError } = await import(argument.client);
        await client.respond(subject, ({ content }) => { throw new RealtimeError(content); });
        return [await outcome(client.request(subject, "none_left")), await outcome(client.request(subject, ""))];
    """
    assert told(sidecar, script, "websocket") == [["none_left", "error"]]


def test_a_publication_is_what_it_was_when_published(sidecar: Sidecar) -> None:
    """A buffer and a map that the program uses again, while its publications wait, change none of these."""
    script = """
        const buffer = new Uint8Array(1), fields = {}, waiting = [], got = [];
        for (let number = 1; number <= 3; number += 1) {
            buffer[0] = number;
            fields.number = String(number);
            waiting.push(client.publish(subject, buffer, { fields }));
        }
        await Promise.all(waiting);
        client.subscribe(subject, ({ content, fields }) => got.push([content[0], fields.number]), { history: 3 });
        while (got.length < 3) await new Promise((resolve) => setTimeout(resolve, 10));
        return got;
    """
    assert told(sidecar, script) == [[[1, "1"], [2, "2"], [3, "3"]]] * 3


def test_a_fault_of_an_asynchronous_handler_stops_nothing(sidecar: Sidecar) -> None:
    """What the handlers of messages and statuses promise and do not keep is reported, as what they throw."""
    script = """
        const said = [], contents = [];
        globalThis.reportError = ({ message }) => said.push(message);
        client.on("subscribed", async () => { throw new Error("status"); });
        client.subscribe(subject, async ({ content }) => { contents.push(content); throw new Error("message"); });
        await client.publish(subject, "1");
        await client.publish(subject, "2");
        while (contents.length < 2) await new Promise((resolve) => setTimeout(resolve, 10));
        return [contents, said];
    """
    assert told(sidecar, script, "websocket") == [[["1", "2"], ["status", "message", "message"]]]


def test_no_error_of_a_socket_is_unheard(sidecar: Sidecar) -> None:
    """Classes for Node raise an error that nobody hears: while it opens, when it is given up, and beside it."""
    script = """
        const events = [];
        class Strict extends WebSocket {
            constructor(...given) {
                super(...given);
                this.addEventListener("error", () => events.push(this.onerror ? "heard" : "unheard"));
            }
        }
        const strict = (more) => opened({ WebSocket: Strict, ...more });
        const given = strict();
        await new Promise((resolve) => given.on("connecting", resolve));
        given.close();
        const nobody = strict({ urls: "ws://127.0.0.1:1/ws" });
        await new Promise((resolve) => nobody.on("disconnected", resolve));
        nobody.close();
        const probing = strict({ urls: url, transports: ["websocket", "stream"], WebSocket: class extends Strict {
            constructor(address, protocols) { super("ws://127.0.0.1:1/ws", protocols); }
        }, stepUpSeconds: 0.05 });
        while (events.length < 5) await new Promise((resolve) => setTimeout(resolve, 10));
        return [...new Set(events)];
    """
    assert told(sidecar, script, "websocket") == [["heard"]]


def test_what_is_no_address_is_a_server_that_fails(sidecar: Sidecar) -> None:
    """On a page, too, where addresses are compared with its own: the next one in the list is tried."""
    script = """
        client.close();
        globalThis.location = { href: "http://127.0.0.1:1/page", host: "127.0.0.1:1" };
        const used = [];
        for (const bad of ["ws://host:99999/ws", "ws://[::1/ws", "http://", ""]) {
            const other = opened({ urls: [bad, { url, weight: 0 }], transports: ["websocket"] });
            await new Promise((resolve) => other.on("connected", resolve));
            used.push(other.url === url);
        }
        return used;
    """
    assert told(sidecar, script, "websocket") == [[True] * 4]


def test_a_handler_whose_responder_nobody_got_answers_nothing(sidecar: Sidecar) -> None:
    """Where the connection is lost before the answer the handler is forgotten, and the others stay."""
    script = """
        await when("connected");
        await client.respond(subject + "/other", () => "other");
        const failed = outcome(client.respond(subject + "/alone", () => "alone"));
        client.pause();
        client.resume();
        const ask = (name) => outcome(client.request(`${subject}/${name}`, ""));
        return [await failed, await ask("alone"), (await ask("other")).content];
    """
    assert told(sidecar, script) == [["unknown", "no_responders", "other"]] * 3
