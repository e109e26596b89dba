"""Widgets of one page that subscribe to the same: each is a subscription of its own, over one on the wire."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.browser.node import in_node
from tests.support.sidecar import Sidecar

SCRIPT = """
    const { url, name } = argument;
    const subject = name.replace("*", "x");
    const client = connect({ urls: url });
    const told = [];
    let heard = () => {};
    const widget = (called, options) => client.subscribe(name, ({ kind, content }) => {
        told.push(`${called} ${kind} ${content}`);
        heard();
    }, options);
    const subscribed = (of) => new Promise((done) => {
        const off = client.on("subscribed", (status) => { if (status.subject === of) { off(); done(); } });
    });
    // And wait until so many have got it.
    const publish = async (content, readers) => {
        const got = new Promise((done) => { heard = () => {
            if (told.filter((line) => line.endsWith(content)).length >= readers) done();
        }; heard(); });
        await client.publish(subject, content);
        await got;
    };
    let live = subscribed(name);
    const one = widget("one");
    await live;
    await publish("1", 1);
    live = subscribed(subject);
    const two = widget("two");
    const three = widget("three", { history: 5 });
    await live;
    await publish("2", 3);
    await two.unsubscribe();
    await publish("3", 2);
    await one.unsubscribe();
    await publish("4", 1);
    await three.unsubscribe();
    await publish("5", 0);
    client.close();
    return told;
"""


@pytest.mark.parametrize("name", ["/a/b", "/p/*"])
def test_each_has_its_own_beginning_and_its_own_end(sidecar: Sidecar, name: str) -> None:
    told: Any = in_node(SCRIPT, {"url": sidecar.client_url, "name": name})
    of: dict[str, list[str]] = {}
    for widget, _, what in (line.partition(" ") for line in told):
        of.setdefault(widget, []).append(what)
    assert of["one"] == ["update 1", "update 2", "update 3"]
    assert of["two"] == ["snapshot 1", "update 2"]
    # What it begins with has come before or behind what was published meanwhile.
    assert of["three"] in (
        ["historical 1", "update 2", "update 3", "update 4"],
        ["historical 1", "historical 2", "update 3", "update 4"],
    )
