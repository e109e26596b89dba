"""The JavaScript client's subscriptions to patterns, presence, interest and tokens, with a real sidecar."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page

from fastpath.client.control.client import Control
from tests.support.browser.scripted import Scripted
from tests.support.proxy import Proxy
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint_jwt
from tests.support.waiting import until

pytestmark = pytest.mark.browser

ANN = mint_jwt("ann", both=["/**"])


@pytest.fixture(scope="module")
def shared() -> Iterator[Sidecar]:
    """One for all tests here; each has subjects of its own."""
    with Sidecar(mode="jwt", token_secret=SECRET, presence="/room/**") as running:
        yield running


def publish(sidecar: Sidecar, *messages: tuple[str, str]) -> None:
    """Publish past the client."""
    with Control(sidecar.control) as control:
        control.publish([[subject, content] for subject, content in messages])


def pairs(messages: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    return [(message["subject"], message["content"]) for message in messages]


@pytest.mark.parametrize("form", ["msgpack", "json"])
def test_a_pattern_follows_its_subjects_over_a_cut(page: Page, shared: Sidecar, form: str) -> None:
    """What is there, what comes to be, and what came while it was away: each message once, in its subject's order."""
    root = f"/{form}"
    publish(shared, (f"{root}/a", "old"))
    with Proxy(shared.client_url) as proxy:
        client = Scripted(page, f"ws://{proxy.address}/ws", form=form, tokens=(ANN,))
        client.do("void client.subscribe(argument, hear, { conflation: 0 })", f"{root}/**")
        until(lambda: pairs(client.messages) == [(f"{root}/a", "old")])
        assert client.messages[0]["kind"] == "snapshot"
        publish(shared, (f"{root}/b/c", "1"), (f"{root}/a", "2"), ("/elsewhere/a", "no"))
        until(lambda: len(client.messages) == 3)
        assert {(each["subject"], each.get("pattern")) for each in client.statuses("subscribed")} == {
            (name, f"{root}/**") for name in (f"{root}/**", f"{root}/a", f"{root}/b/c")
        }
        proxy.shut()
        client.wait("disconnected")
        publish(shared, (f"{root}/a", "3"), (f"{root}/new", "4"), (f"{root}/new", "5"))
        proxy.open()
        client.wait("synchronised")
        until(lambda: len(client.messages) == 6)
        assert sorted(pairs(client.messages[3:])) == [(f"{root}/a", "3"), (f"{root}/new", "4"), (f"{root}/new", "5")]
        assert [each["seq"] for each in client.messages if each["subject"] == f"{root}/a"] == [1, 2, 3]


def test_who_is_there_and_what_is_wanted(page: Page, shared: Sidecar) -> None:
    """Presence is asked for; interest is told, and anew after a reconnection."""
    with Proxy(shared.client_url) as proxy:
        client = Scripted(page, f"ws://{proxy.address}/ws", tokens=(ANN,))
        client.wait("connected")
        client.do("void (window.wanted = [])")
        offers = client.do("client.advertise(['/room/*', '/x'], (subjects, is) => wanted.push([subjects, is]))")
        assert offers[0] == {"pattern": "/room/*", "error": "", "reason": ""}
        assert (offers[1]["error"], client.wait("notAdvertised")["subject"]) == ("invalid", "/x")
        client.subscribe("/room/1")
        until(lambda: client.do("wanted") == [[["/room/1"], True]])
        present = {"users": [{"user": "ann", "connections": 1}], "anonymous": 0, "more": 0, "stale": False}
        assert client.do("client.presence('/room/1')") == present
        assert "not kept" in client.do("client.presence('/other/1').catch(String)")
        proxy.cut()
        until(lambda: len(client.do("wanted")) == 3)
        assert client.do("wanted.slice(1)") == [[["/room/1"], False], [["/room/1"], True]]
    client.do("client.pause()")
    assert "not_connected" in client.do("client.presence().catch(String)")
