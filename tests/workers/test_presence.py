"""Presence and interest over two workers: one view, whoever asks, also after one of them has died."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.support.edge.presence import PRESENCE, event, present
from tests.support.edge.rules import rule as rule_of
from tests.support.edge.rules import ruled
from tests.support.edge.spread import figures_by_worker, kill_worker, spread
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.rights import load_rights, rule
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint
from tests.support.waiting import until

RULES = [rule(1, "everyone", "/chat/**"), rule(2, "everyone", "/prices/**")]


@pytest.fixture(scope="module")
def pair() -> Iterator[Sidecar]:
    """Two workers that keep presence."""
    with Sidecar(mode="rules", token_secret=SECRET, presence="/chat/**", workers=2) as sidecar:
        load_rights(sidecar.control, *RULES)
        yield sidecar
        assert "Traceback" not in sidecar.log, sidecar.log


def test_one_user_on_both_workers_is_one(pair: Sidecar) -> None:
    with spread(pair, 2, token=mint("ann")) as ann, spread(pair, 2, token=mint("bob")) as bob:
        for client in bob.all:
            client.subscribe(PRESENCE + "/chat/a")
        for client in ann.all:
            client.subscribe("/chat/a")
        for client in bob.all:
            place, what, who = event(client)
            assert (place, what, who["user"]) == ("/chat/a", "join", "ann")
            until(lambda client=client: present(client, "/chat/a") == ({"ann": 2}, 0))
        ann.others[0].sock.close()
        for client in bob.all:
            until(lambda client=client: present(client, "/chat/a") == ({"ann": 1}, 0))
            assert client.quiet(), "she is still there"


def test_interest_crosses_the_workers(pair: Sidecar) -> None:
    with spread(pair, 2, token=mint("ann")) as ann, WirePublisher(pair, mint("bob")) as feed:
        other = ann.others[0]
        for patterns in (["/prices/*"], ["/prices/*", "/more/*"]):
            assert len(other.ask("advertise", "advertised", patterns=patterns)["results"]) == len(patterns)
        ann.first.subscribe("/prices/a")
        assert other.answer("interest") == {"op": "interest", "subjects": ["/prices/a"], "wanted": True}
        feed.packet("advertise", 1, ["/prices/**"])
        assert feed.next() == ["advertised", 1, [0]]
        assert feed.next() == ["interest", ["/prices/a"], True]
        other.subscribe("/prices/b", "/prices/a")
        assert feed.next() == ["interest", ["/prices/b"], True]
        assert other.answer("interest")["subjects"] == ["/prices/b"]


@pytest.mark.slow
def test_a_question_that_the_first_worker_does_not_answer_may_be_asked_again(pair: Sidecar) -> None:
    with spread(pair, 2, token=mint("ann")) as ann:
        (other,) = ann.others
        (first,) = (int(one["pid"]) for one in figures_by_worker(pair) if one["worker"] == 0)
        os.kill(first, signal.SIGSTOP)
        try:
            assert other.ask("presence", "error", subject="/chat/d")["code"] == "not_ready"
        finally:
            os.kill(first, signal.SIGCONT)
        assert present(other, "/chat/d") == ({}, 0)


@pytest.mark.slow
def test_the_users_of_a_worker_that_dies_leave_unless_they_come_back(pair: Sidecar) -> None:
    with spread(pair, 2, token=mint("ann")) as ann, spread(pair, 2, token=mint("bob")) as bob:
        watcher = ann.first
        watcher.subscribe(PRESENCE + "/chat/b")
        bob.first.subscribe("/chat/b")
        bob.others[0].subscribe("/chat/b")
        ann.others[0].subscribe("/chat/b")
        assert {event(watcher)[2]["user"], event(watcher)[2]["user"]} == {"ann", "bob"}
        kill_worker(pair, 1, 2)
        assert event(watcher) == ("/chat/b", "leave", {"user": "ann", "connections": "0"})
        assert present(watcher, "/chat/b") == ({"bob": 1}, 0)


@pytest.mark.slow
def test_a_new_first_worker_learns_it_all_and_tells_no_wrong_news(pair: Sidecar) -> None:
    with spread(pair, 2, token=mint("ann")) as ann:
        (other,) = ann.others
        other.subscribe(PRESENCE + "/chat/c", "/chat/c", "/prices/c")
        assert event(other)[2]["user"] == "ann"
        other.ask("advertise", "advertised", patterns=["/prices/*"])
        assert other.answer("interest")["wanted"]
        kill_worker(pair, 0, 2)
        while other.answer("notice")["code"] != "fresh":
            pass
        with publisher_of(pair) as feed:
            feed.packet("advertise", 1, ["/prices/*"])
            assert feed.next()[0] == "advertised"
            until(lambda: present(other, "/chat/c") == ({"ann": 1}, 0))
            assert feed.next() == ["interest", ["/prices/c"], True]
            until(lambda: not other.ask("presence", "present", subject="/chat/c").get("stale"))
            assert other.quiet(), "nobody joined, nobody left, nothing is less wanted"
            with WireClient(pair) as bob:
                bob.ask("connect", "connected", token=mint("bob"))
                bob.subscribe("/chat/c")
                assert event(other)[2]["user"] == "bob"


def publisher_of(sidecar: Sidecar) -> WirePublisher:
    """One that may publish, as soon as the port is open again."""

    def connected() -> WirePublisher | None:
        try:
            return WirePublisher(sidecar, mint("bob"))
        except OSError:
            return None

    return until(connected)


def test_options_begin_and_end_it_on_every_worker_while_everybody_is_there() -> None:
    """Nothing in the settings asks for it. Who listens is told of all who are there, and in the end that they left."""
    with ruled(rule_of(1, "/chat/**", "everyone"), workers=2) as rules:
        ann_token, bob_token = (mint(name, generation=rules.generation) for name in ("ann", "bob"))
        with spread(rules.sidecar, 2, token=ann_token) as ann, spread(rules.sidecar, 2, token=bob_token) as bob:
            for client in ann.all:
                client.subscribe("/chat/a", "/chat/b")
            for client in bob.all:
                client.subscribe(PRESENCE + "/chat/a", PRESENCE + "/chat/b")
                assert refused(client, "/chat/a") == "this server does not keep presence"
            known = {"id": 1, "pattern": "/chat/**", "presence": True}
            rules.change(options=[known, {"id": 2, "pattern": "/chat/b", "presence": False}])
            for client in bob.all:
                place, what, who = event(client)
                assert (place, what, who["user"]) == ("/chat/a", "join", "ann")
                until(lambda client=client: present(client, "/chat/a") == ({"ann": 2}, 0))
                assert refused(client, "/chat/b") == "presence is not kept for this subject"
            rules.change(options=[])
            for client in bob.all:
                place, what, who = event(client)
                assert (place, what, who["user"]) == ("/chat/a", "leave", "ann")
                assert refused(client, "/chat/a") == "this server does not keep presence"


def refused(client: WireClient, subject: str) -> str:
    """Why a question who is on the subject is not answered."""
    return str(client.ask("presence", "error", subject=subject)["reason"])
