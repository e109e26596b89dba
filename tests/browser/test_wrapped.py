"""The client behind proxies, which frameworks make of all that their data holds: Vue's reactive, Alpine's x-data."""

from __future__ import annotations

from typing import Any

from tests.support.browser.node import in_node
from tests.support.sidecar import Sidecar

DEEP = """
    // As Vue does: plain objects, arrays and instances of classes, however deep; not what the platform has.
    const kept = new WeakMap();
    const deep = (value) => {
        if (typeof value !== "object" || value === null || !Object.isExtensible(value)) return value;
        const kind = Object.prototype.toString.call(value).slice(8, -1);
        if (!["Object", "Array", "Map", "Set"].includes(kind)) return value;
        if (!kept.has(value)) kept.set(value, new Proxy(value, {
            get: (target, key, receiver) => deep(Reflect.get(target, key, receiver)),
            set: (target, key, now, receiver) => Reflect.set(target, key, now, receiver),
        }));
        return kept.get(value);
    };
"""

EVERYTHING = """
    const tried = [];
    const until = (name, client) => new Promise((done) => { const off = client.on(name, () => { off(); done(); }); });
    const data = deep({
        options: { urls: [{ url: argument.url, weight: 100 }], transports: ["websocket"] },
        subjects: [`${argument.at}/a`, `${argument.at}/b`], since: {},
        fields: { one: "1", raw: new Uint8Array([1, 2]) }, messages: [],
    });
    data.client = connect(data.options);
    const { client } = data;
    await until("connected", client);
    const { state, url, via, transport, user, latency } = client;
    tried.push([state, url === argument.url, via, transport, user, latency !== undefined]);

    const heard = (count) => new Promise((done) => {
        data.check = () => { if (data.messages.length === count) done(); };
    });
    data.subscription = client.subscribe(data.subjects, (message, subscription) => {
        data.messages.push(message);
        tried.push([message.content, message.json("one"), subscription.subjects.length]);
        data.check();
    }, deep({ history: 2, since: data.since }));
    await until("subscribed", client);
    let got = heard(1);
    const published = await client.publish(data.subjects[0], "x", deep({ fields: data.fields, closure: "mine" }));
    await got;
    tried.push([published.seq, published.closure]);
    await data.subscription.unsubscribe([data.subjects[0]]);
    data.others = [client.subscribe(data.subjects[1], () => {}), client.subscribe(data.subjects[1], () => {})];
    await data.others[0].unsubscribe();
    got = heard(2);
    await client.remove(data.subjects[1]);
    await got;
    await data.subscription.unsubscribe();

    data.responder = await client.respond("/ask/*", async (request) => {
        data.request = request;
        data.request.reply("first");
        return { content: "last", fields: data.fields };
    });
    data.replies = await client.request("/ask/a", "?", deep({ replies: 2, timeout: 9000 }));
    tried.push(data.replies.map(({ content, fields }) => [content, Object.keys(fields).length]));
    await data.responder.close();
    tried.push(await client.request("/ask/a", "?").catch((error) => { data.error = error; return data.error.status; }));

    tried.push((await client.advertise(data.subjects, () => {})).map(({ error }) => error));
    tried.push(await client.presence(data.subjects[0]).catch(({ status }) => status));
    tried.push(await client.renew("any").then(({ user }) => user, ({ status }) => status));
    client.pause();
    client.resume();
    await until("connected", client);
    client.reconnect();
    client.pause();
    client.reconnect();
    await until("connected", client);
    client.close();
    tried.push(client.state);
    return tried;
"""


def test_everything_works_behind_proxies(sidecar: Sidecar) -> None:
    """The same as without."""
    url = sidecar.client_url
    behind: Any = in_node(DEEP + EVERYTHING, {"url": url, "at": "/behind"})
    assert behind == in_node("const deep = (value) => value;" + EVERYTHING, {"url": url, "at": "/plain"})
    assert behind[:3] == [["connected", True, "direct", "websocket", "", True], ["x", 1, 2], [1, "mine"]]
    assert behind[-1] == "closed"
