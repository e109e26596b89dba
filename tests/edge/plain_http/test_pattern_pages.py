"""History of what a pattern covers: by name and by pages, as far as it may be read, and behind what is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from fastpath.client.control.client import Control
from tests.support.edge.calling import HttpPeer
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint
from tests.support.waiting import until

MANY = [f"/many/{number:03}/x" for number in range(230)]


def ask(peer: HttpPeer, token: str = "", **query: Any) -> dict[str, Any]:
    """What is told."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = peer.ask("GET", f"/api/history?{urlencode(query, doseq=True)}", **headers)
    assert answer.status == 200, answer
    return dict(answer.json)


def answers(sidecar: Sidecar, path: str) -> bool:
    """Whether the rights have come to a worker."""
    with HttpPeer(sidecar) as peer:
        return peer.ask("GET", path).status == 200


def contents(told: dict[str, Any]) -> dict[str, list[str]]:
    """What the messages say, by subject."""
    return {one["subject"]: [message["content"] for message in one["messages"]] for one in told["subjects"]}


def pages(peer: HttpPeer, **query: Any) -> Iterator[dict[str, list[str]]]:
    """The pages of a pattern, each where the one before has ended."""
    told = ask(peer, **query)
    yield contents(told)
    while "next" in told:
        told = ask(peer, after=told["next"], **query)
        yield contents(told)


def test_only_what_the_caller_may_read_is_told() -> None:
    """On both workers; a wildcard stands for what it does in subscriptions."""
    rules = [
        {"id": 1, "who": "user:ann", "pattern": "/**", "action": "both", "allow": True},
        {"id": 2, "who": "user:bob", "pattern": "/stocks/**", "action": "subscribe", "allow": True},
        {"id": 3, "who": "user:bob", "pattern": "/stocks/us/secret", "action": "subscribe", "allow": False},
    ]
    with Sidecar(mode="rules", token_secret=SECRET, workers=2) as sidecar:
        with Control(sidecar.control) as control:
            control.rules_begin(1)
            control.rules_chunk(rules=rules)
            control.rules_commit(1)
        for _ in range(6):  # on either worker
            until(lambda: answers(sidecar, "/api/history?subject=/a/**"))
        subjects = ["/stocks/us/IBM", "/stocks/us/secret", "/stocks/de/SAP", "/news/one", "/__mqtt__/%2Fa"]
        with HttpPeer(sidecar) as peer:
            peer.publish([{"subject": one, "content": one} for one in subjects], Authorization=f"Bearer {mint('ann')}")
        for _ in range(6):  # some of them by the other worker
            with HttpPeer(sidecar) as peer:
                readable = {"/stocks/de/SAP": ["/stocks/de/SAP"], "/stocks/us/IBM": ["/stocks/us/IBM"]}
                for pattern in ("/stocks/**", "/**", "/*/*/*"):
                    told = ask(peer, mint("bob"), subject=pattern)
                    assert (contents(told), "next" in told) == (readable, False)
                assert list(contents(ask(peer, mint("bob"), subject="/stocks/us/*"))) == ["/stocks/us/IBM"]
                assert ask(peer, mint("eve"), subject="/**") == {"subjects": []}
                assert len(contents(ask(peer, mint("ann"), subject="/**"))) == 4
                both = ask(peer, mint("bob"), subject=["/news/one", "/stocks/*/IBM"])
                assert [one["status"] for one in both["subjects"]] == ["denied", "ok"]
        with Sidecar(mode="rules", token_secret=SECRET) as bare, HttpPeer(bare) as peer:
            assert peer.ask("GET", "/api/history?subject=/a/**").status == 503


def test_pages_by_name(shared: Sidecar) -> None:
    """Each subject once, in the order of the names, at most a hundred at a time; what is named comes in its place."""
    with HttpPeer(shared) as peer:
        peer.publish([{"subject": one, "content": one} for one in reversed(MANY)])
        found = list(pages(peer, subject="/many/**"))
        assert [len(page) for page in found] == [100, 100, 30]
        assert [subject for page in found for subject in page] == MANY
        assert list(contents(ask(peer, subject="/many/**", after=MANY[228]))) == [MANY[229]]
        named = ask(peer, subject=[MANY[7], "/many/**", MANY[3]], limit=1)
        assert list(contents(named)) == [
            MANY[7],
            *(one for one in MANY[:100] if one not in (MANY[3], MANY[7])),
            MANY[3],
        ]


def test_pages_by_size(shared: Sidecar) -> None:
    """An answer has no more than it has room for, and the next one goes on with what had none."""
    with HttpPeer(shared) as peer:
        for subject in ("/size/a", "/size/b", "/size/c"):
            peer.publish([{"subject": subject, "content": f"{number:050000}"} for number in range(4)])
        found = list(pages(peer, subject="/size/*"))
        assert len(found) > 1
        assert all(len(text) * sum(map(len, page.values())) <= 256 << 10 for page in found for text in ["x" * 50_000])
        assert [subject for page in found for subject in page] == ["/size/a", "/size/b", "/size/c"]
        assert all(texts for page in found for texts in page.values())


def test_what_is_new_of_a_pattern(shared: Sidecar) -> None:
    """Behind the positions of what is known, and from the first message on of what is not."""
    with HttpPeer(shared) as peer:
        peer.publish([{"subject": "/new/a", "content": "1"}])
        (known,) = ask(peer, subject="/new/*")["subjects"]
        peer.publish([{"subject": "/new/a", "content": "2"}, {"subject": "/new/b", "content": "3"}])
        peer.publish([{"subject": "/new/b", "content": "4"}])
        since = [f"{known['epoch']},{known['seq']}", "0,0"]
        told = ask(peer, subject=["/new/a", "/new/*"], since=since)
        assert contents(told) == {"/new/a": ["2"], "/new/b": ["3", "4"]}
        assert {one["recovery"] for one in told["subjects"]} == {"recovered"}


def test_snapshots_have_no_more_room_than_messages() -> None:
    """Where the cache does not reach back to the beginning."""
    with Sidecar(cache_messages=1) as sidecar, HttpPeer(sidecar) as peer:
        for subject in ("/gone/a", "/gone/b", "/gone/c"):
            peer.publish([{"subject": subject, "content": "x" * 100_000, "fields": {"n": str(n)}} for n in range(2)])
        found = list(pages(peer, subject="/gone/**", since="0,0"))
        assert [list(page) for page in found] == [["/gone/a", "/gone/b"], ["/gone/c"]]
        assert {one["recovery"] for one in ask(peer, subject="/gone/**", since="0,0")["subjects"]} == {"resynchronised"}


REFUSED = [
    ("subject=/a/*&subject=/b/*", "one pattern"),
    ("subject=/a/b&after=/a/a", "after goes with"),
    ("subject=/a/*&since=1,2", "since of a pattern is 0,0"),
    ("subject=/a/*&since=0,0&wait=1", "no pattern"),
    ("subject=/a/**/b", "** only as the last segment"),
    ("subject=/a/x*&subject=/a/*x/*", "* must be a whole segment"),
]


@pytest.mark.parametrize(("query", "reason"), REFUSED)
def test_what_does_not_belong_together(shared: Sidecar, query: str, reason: str) -> None:
    with HttpPeer(shared) as peer:
        answer = peer.ask("GET", f"/api/history?{query}")
        assert answer.status == 400
        assert reason in answer.json["detail"]


def test_where_a_hook_decides_subjects_are_named() -> None:
    with Sidecar(hooks="subscribe") as sidecar, HttpPeer(sidecar) as peer:
        answer = peer.ask("GET", "/api/history?subject=/a/*")
        assert (answer.status, answer.json["detail"]) == (
            400,
            "at most 10 subjects, and no pattern: a hook is asked for each",
        )
