"""Who is there, and who is told: presence and interactive publishing on a real sidecar (protocol.md 3.9, 3.10)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec
import pytest

from fastpath.core.auth.reasons import ASKED
from tests.support.edge.presence import PRESENCE, event, present
from tests.support.edge.rules import Rules, rule, ruled
from tests.support.edge.wire import TEXT, Ended, Socket, WireClient, WirePublisher, masked, request
from tests.support.hook import Answering, named, no, yes
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint, mint_jwt
from tests.support.waiting import until

_rooms = count()


@pytest.fixture(scope="module")
def kept() -> Iterator[Rules]:
    """Presence is kept in chat rooms; everybody may read them, and alice alone may publish prices."""
    rules = [
        rule(1, "/chat/**", "everyone"), rule(2, "/chat/**", "anonymous"), rule(3, "/prices/**", "everyone"),
        rule(4, "/prices/**", action="publish"), rule(5, PRESENCE, "user:admin"),
    ]  # fmt: skip
    with ruled(*rules, presence="/chat/**, /secret/*") as rights:
        yield rights
        assert "Traceback" not in rights.sidecar.log, rights.sidecar.log


@pytest.fixture
def room() -> str:
    """A room that no other test uses."""
    return f"/chat/{next(_rooms)}"


def refused(client: WireClient, **keys: Any) -> tuple[str, str]:
    """Why a question is not answered."""
    answer = client.ask("presence", "error", **keys)
    return answer["code"], answer["reason"]


def test_users_join_with_the_first_connection_and_leave_after_the_last(kept: Rules, room: str) -> None:
    with kept.client("watcher", form="msgpack") as watcher:
        watcher.subscribe(PRESENCE + room)
        ann, again, bob = kept.client("ann"), kept.client("ann"), kept.client("bob")
        for client in (ann, again):
            client.subscribe(room)
        place, what, who = event(watcher)
        assert (place, what, who["user"]) == (room, "join", "ann")
        assert who["connections"] in ("1", "2"), "the second one may come a moment later"
        until(lambda: present(watcher, room) == ({"ann": 2}, 0))
        with kept.client("") as nobody:
            nobody.subscribe(room)
            bob.subscribe(room)
            assert event(watcher)[1:] == ("join", {"user": "bob", "connections": "1"})
            until(lambda: present(watcher, room) == ({"ann": 2, "bob": 1}, 1))
            ann.sock.close()
            until(lambda: present(watcher, room) == ({"ann": 1, "bob": 1}, 1))
            # ann goes and is back before bob has left: of her nothing is told.
            again.ask("unsubscribe", "unsubscribed", subjects=[room])
            until(lambda: present(watcher, room)[0]["ann"] == 0)
            bob.sock.close()
            again.subscribe(room)
        left = "leave", {"user": "bob", "connections": "0"}
        told = []
        while (one := event(watcher)[1:]) != left:
            told.append(one)
        # Unless it took longer than a page needs to load again: then both is told.
        assert told in (
            [],
            [("leave", {"user": "ann", "connections": "0"}), ("join", {"user": "ann", "connections": "1"})],
        )
        assert present(watcher, room) == ({"ann": 1}, 0)
        again.sock.close()


def test_all_who_are_online(kept: Rules) -> None:
    with kept.client("admin") as admin, kept.client("zoe") as zoe:
        admin.subscribe(PRESENCE)
        until(lambda: present(admin)[0].get("zoe") == 1)
        assert refused(zoe) == ("denied", "no rule allows it")
        assert zoe.subscribe(PRESENCE)[0]["error"] == "denied"
        with kept.client("") as late:
            late.ask("token", "renewed", token=mint("late"))
            while event(admin) != ("", "join", {"user": "late", "connections": "1"}):
                pass


def test_who_may_read_a_subject_may_see_who_is_there(kept: Rules, room: str) -> None:
    with kept.client("eve") as eve:
        assert refused(eve, subject="/secret/1") == ("denied", "no rule allows it")
        assert eve.subscribe(PRESENCE + "/secret/1")[0]["error"] == "denied"
        kept.change(rule(6, "/secret/*", "user:eve"))
        assert eve.answer("subscribed")["results"][0]["subject"] == PRESENCE + "/secret/1"
        assert present(eve, "/secret/1") == ({}, 0)
        kept.change(removed=[6])
        assert eve.answer("revoked")["subjects"] == [PRESENCE + "/secret/1"]
        assert refused(eve, subject="/secret/1")[0] == "denied"
        kept.change(rule(7, PRESENCE + "/secret/1", "user:eve"))
        assert present(eve, "/secret/1") == ({}, 0), "also who may see that alone"
        kept.change(removed=[7])


def test_questions_without_an_answer(kept: Rules) -> None:
    with kept.client("ann") as client:
        assert refused(client, subject="/prices/a") == ("invalid", "presence is not kept for this subject")
        assert refused(client, subject="/chat") == ("invalid", "only one segment")
        assert refused(client, subject="/__sys__/stats")[0] == "invalid"
        with WirePublisher(kept.sidecar, mint("alice")) as publisher:
            publisher.packet("advertise", 1, [7])
            with pytest.raises(Ended):
                publisher.next()


def test_pattern_subscriptions_to_joins_find_new_rooms(kept: Rules, room: str) -> None:
    with kept.client("watcher") as watcher, kept.client("ann") as ann:
        watcher.subscribe(PRESENCE + "/chat/**")
        long = "/chat/" + "x" * 500
        ann.subscribe(long, room)
        until(lambda: present(watcher, long)[0])  # but where it would be told is no subject
        while event(watcher) != (room, "join", {"user": "ann", "connections": "1"}):
            pass


def test_what_nobody_listens_to_leaves_no_subject_behind(kept: Rules, room: str) -> None:
    with kept.client("watcher") as watcher, kept.client("ann") as ann:
        before = kept.control.stats()["subjects"]
        ann.subscribe(room)
        until(lambda: present(watcher, room)[0])
        watcher.subscribe(PRESENCE + room)
        watcher.ask("unsubscribe", "unsubscribed", subjects=[PRESENCE + room])
        assert kept.control.stats()["subjects"] == before + 1


def test_who_advertises_is_told_of_the_first_subscriber_and_the_last(kept: Rules) -> None:
    with WirePublisher(kept.sidecar, mint("alice")) as publisher, kept.client("alice") as client:
        with kept.client("bob") as bob, kept.client("carl") as carl, kept.client("bob") as denied:
            bob.subscribe("/prices/a")
            publisher.packet("advertise", 1, ["/prices/*", "/prices"])
            assert publisher.next() == ["advertised", 1, [0, ["invalid", "only one segment"]]]
            assert publisher.next() == ["interest", ["/prices/a"], True]
            assert client.ask("advertise", "advertised", patterns=["/prices/a", "/chat/*"])["results"] == [
                {"pattern": "/prices/a"}, {"pattern": "/chat/*"}]  # fmt: skip
            assert client.answer("interest") == {"op": "interest", "subjects": ["/prices/a"], "wanted": True}
            denied.ask("advertise", "advertised", patterns=["/prices/*"])
            carl.subscribe("/prices/a", "/prices/b", "/chat/x")
            assert publisher.next() == ["interest", ["/prices/b"], True]
            assert denied.quiet(), "who may not publish there is told nothing"
            kept.change(rule(8, "/prices/b", action="publish", allow=False))
            assert publisher.next() == ["interest", ["/prices/b"], False]
            kept.change(removed=[8])
            assert publisher.next() == ["interest", ["/prices/b"], True]
            publisher.packet("ping", 1)
            assert publisher.next() == ["pong", 1], "one who comes second is not told of"
        assert client.answer("interest") == {"op": "interest", "subjects": ["/prices/a"], "wanted": False}
        gone: list[str] = []
        while len(gone) < 2:
            kind, subjects, wanted = publisher.next()
            assert (kind, wanted) == ("interest", False)
            gone += subjects
        assert sorted(gone) == ["/prices/a", "/prices/b"]


def test_outside_tokens_and_no_presence_at_all() -> None:
    with Sidecar(mode="jwt", token_secret=SECRET) as sidecar, WireClient(sidecar) as client:
        client.ask("connect", "connected", token=mint_jwt("ann", subscribe=["/a/b"], publish=["/a/*"]))
        assert [one.get("error", "") for one in client.subscribe(PRESENCE + "/a/b", PRESENCE + "/a/c")] == [
            "",
            "denied",
        ]
        assert refused(client, subject="/a/b") == ("invalid", "this server does not keep presence")
        client.ask("advertise", "advertised", patterns=["/a/*"])
        client.subscribe("/a/b")
        assert client.answer("interest")["subjects"] == ["/a/b"]
        client.ask("advertise", "advertised", patterns=[])


@pytest.mark.slow
def test_a_crowd_that_comes_and_goes_stalls_nobody(kept: Rules) -> None:
    crowd = 3000
    names = [f"user{number}" for number in range(crowd)]
    tokens = [mint(name, generation=kept.generation) for name in names]
    with kept.client("watcher") as watcher, kept.client("probe") as probe:
        watcher.subscribe(PRESENCE + "/chat/crowd")
        waits = []

        def wait() -> None:
            """How long a ping takes just now."""
            began = time.perf_counter()
            probe.ask("ping", "pong")
            waits.append(time.perf_counter() - began)

        sockets = []
        for number, token in enumerate(tokens):
            peer = Socket(kept.sidecar.client_url)
            commands = [
                {"op": "connect", "id": 1, "token": token},
                {"op": "subscribe", "id": 2, "subjects": ["/chat/crowd"]},
            ]
            peer.send(request() + b"".join(masked(TEXT, msgspec.json.encode(command)) for command in commands))
            sockets.append(peer)
            if number % 100 == 0:
                wait()
        assert sorted(event(watcher)[2]["user"] for _ in names) == sorted(names)
        answer = watcher.ask("presence", "present", subject="/chat/crowd")
        assert (len(answer["users"]), answer["more"]) == (1000, crowd - 1000)
        for peer in sockets:
            peer.sock.close()
        gone = []
        while len(gone) < crowd:
            wait()
            gone += [event(watcher)[2]["user"] for _ in range(100)]
        assert sorted(gone) == sorted(names)
        assert sorted(waits)[len(waits) // 2] < 0.1, waits
        assert max(waits) < 1, max(waits)


def test_a_hook_gives_the_names_and_decides_who_may_see_them() -> None:
    with Sidecar(mode="custom", presence="/chat/**") as sidecar, Answering(sidecar.control, named) as hook:
        hook.rule = lambda question: (
            yes(question, user="Ann") if question["event"] == "connect" else
            no(question, "hidden") if "/__sys__/presence/chat/hidden" in question.get("subjects", ()) else yes(question)
        )  # fmt: skip
        with WireClient(sidecar) as client:
            client.ask("connect", "connected", token="secret of ann")
            client.subscribe("/chat/a")
            assert client.answer("subscribed")["results"][0]["subject"] == "/chat/a"
            until(lambda: present(client, "/chat/a") == ({"Ann": 1}, 0))
            assert refused(client, subject="/chat/hidden") == ("denied", "hidden")
            assert refused(client, subject="/chat") == ("invalid", "only one segment")
            hook.rule = lambda question: None
            number = client.say("presence", subject="/chat/b")
            question = hook.wait("subscribe", subjects=[PRESENCE + "/chat/b"])
            client.say("ping")
            assert client.silent(0.1), "what comes behind it waits as well"
            hook.answer(question, {"failed": "out of order"})
            assert client.next() == {"op": "error", "id": number, "code": "not_ready", "reason": ASKED}
            assert client.next()["op"] == "pong"
