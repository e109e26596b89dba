"""A page's own functions, for the token and the list of servers, that never answer: the client goes on without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.browser.node import in_node
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint_jwt


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """One without rights."""
    with Sidecar(mode="none") as running:
        yield running


UNTIL = """
    const told = [];
    const until = (name, client) => new Promise((done) => client.on(name, done));
    const never = () => new Promise(() => {});
    let asked = 0;
    const begin = (url, token, more) => connect({ urls: url, token, tokenSeconds: 0.1, quickRetries: 0,
        backoffSeconds: 0.1, ...more,
        onStatus: ({ name, reason }) => name !== "latency" && told.push([name, reason ?? ""]) });
"""


def names(told: list[list[str]]) -> list[str]:
    """What was told, without how a connection comes about."""
    return [name for name, _ in told if name not in ("connecting", "expiring")]


def test_at_the_start_it_is_told_and_asked_again(sidecar: Sidecar) -> None:
    """As if it had failed, also where what was thrown is nothing at all."""
    script = """
        const answers = [never, () => Promise.reject(), () => { throw "no"; }, () => "any"];
        const client = begin(argument, () => answers[asked++]());
        await until("connected", client);
        return told;
    """
    told: Any = in_node(UNTIL + script, sidecar.client_url)
    assert names(told) == ["disconnected", "down", "disconnected", "disconnected", "connected"]
    assert told[0][1] == "the token: no answer within 0.1 s"
    assert [reason for name, reason in told if name == "disconnected"][1:] == ["undefined", "no"]


def test_at_a_reconnection_the_last_one_serves(sidecar: Sidecar) -> None:
    script = """
        const client = begin(argument, () => asked++ ? never() : "any");
        await until("connected", client);
        client.pause();
        client.resume();
        await until("connected", client);
        return [asked, told];
    """
    asked, told = in_node(UNTIL + script, sidecar.client_url)
    assert asked == 2
    assert names(told) == ["connected", "paused", "connected"]


def test_at_a_renewal_it_is_told_and_asked_again() -> None:
    """The connection lives on meanwhile."""
    script = """
        const { url, soon, late } = argument;
        let renewed;
        const again = new Promise((done) => { renewed = done; });
        const answers = [() => soon, never, () => { renewed(); return late; }];
        const client = begin(url, () => answers[asked++]());
        await again;
        return [told, client.state];
    """
    soon, late = mint_jwt("ann", both=["/**"], hours=4 / 3600), mint_jwt("ann", both=["/**"])
    with Sidecar(mode="jwt", token_secret=SECRET) as sidecar:
        told, state = in_node(UNTIL + script, {"url": sidecar.client_url, "soon": soon, "late": late})
    assert names(told) == ["connected", "error"]
    assert told[-1][1] == "Error: the token: no answer within 0.1 s"
    assert state == "connected"


def test_a_list_of_servers_that_does_not_come(sidecar: Sidecar) -> None:
    """The servers that are known serve."""
    script = """
        const client = begin(argument, undefined, { serversUrl: never });
        await until("connected", client);
        client.pause();
        client.resume();
        await until("connected", client);
        return told;
    """
    assert names(in_node(UNTIL + script, sidecar.client_url)) == ["connected", "paused", "error", "connected"]
