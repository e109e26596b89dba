"""A hook decides who may connect, read and publish, on a real sidecar (docs/develop/hooks.md, protocol.md 8.7)."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import msgspec
import pytest

from fastpath.client.control.client import Control
from fastpath.client.errors import ControlRefused
from fastpath.edge.hooks.gateway import read_reply
from tests.support.edge.sessions import KINDS, client_of
from tests.support.edge.wire import TEXT, Ended, WireClient, WirePublisher, masked
from tests.support.hook import Answering, Reply, denying, enter, named, no, yes
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS

SECONDS = 3
"""How long the sidecar waits for an answer here."""


@pytest.fixture(scope="module")
def custom() -> Iterator[Sidecar]:
    """Mode ``custom``: the hook decides alone."""
    with Sidecar(mode="custom", hook_seconds=SECONDS) as running:
        yield running
        assert "Traceback" not in running.log, running.log


@pytest.fixture
def hook(custom: Sidecar) -> Iterator[Answering]:
    """It allows everything, and a token is the name of its bearer."""
    with Answering(custom.control, named) as answering:
        yield answering


def test_one_verdict_that_is_none_denies_its_subject_alone() -> None:
    """Of several; the other subjects of the same answer have theirs."""
    reply = read_reply({"verdicts": [[True], ["yes"], [False, "x" * 2000], 7, [True, "", 5]]})
    assert [(one.allow, one.reason, one.seconds) for one in reply.verdicts] == [
        (True, "", None),
        (False, "the hook's verdict is none", 0),
        (False, "the hook's verdict is none", 0),
        (False, "the hook's verdict is none", 0),
        (True, "", 5),
    ]


def test_connect_asks_who_it_is(custom: Sidecar, hook: Answering) -> None:
    """The hook sees the address, the token and the request's headers, and may say something to the client."""
    hook.rule = lambda question: yes(question, user="Ann", notices=["welcome back"])
    with WireClient(custom, headers="X-Tenant: acme\r\nCookie: sessionid=1\r\n") as client:
        answer = client.ask("connect", "connected", token="secret of ann")
        assert answer["user"] == "Ann"
        notice = client.answer("notice")
        assert (notice["code"], notice["text"]) == ("hook", "welcome back")
        question = hook.wait("connect")
        assert question["token"] == "secret of ann"
        assert (question["kind"], question["address"], question["again"]) == ("client", "127.0.0.1", False)
        assert question["headers"] == {"host": "localhost", "x-tenant": "acme", "cookie": "sessionid=1"}
    gone = hook.wait("disconnect")
    assert (gone["connection"], gone["user"], gone["code"]) == (question["connection"], "Ann", 1006)


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_over_http_is_asked_about_as_a_socket_is(custom: Sidecar, hook: Answering, kind: str) -> None:
    """What is posted meanwhile waits, and its answer with it."""
    hook.rule = lambda question: yes(question, user="Ann") if question["kind"] == "client" else named(question)
    with client_of(custom, kind) as client:
        assert client.ask("connect", "connected", token="secret of ann")["user"] == "Ann"
        assert hook.wait("connect")["token"] == "secret of ann"
        hook.rule = denying("publish")
        answer = client.ask("publish", "published", subject="/p/no", content="1", closure="c")
        assert (answer["status"], answer["reason"]) == ("denied", "not today")
    with client_of(custom, kind) as client:
        hook.rule = lambda question: {"disconnect": "you again"}
        client.say("connect", token="eve")
        assert client.closed() == (4506, "closed_by_operator")


def test_headers_are_bounded(custom: Sidecar, hook: Answering) -> None:
    """What does not fit into 4 KiB is left out."""
    with enter(custom, headers=f"X-First: {'a' * 3000}\r\nX-Second: {'b' * 3000}\r\n"):
        assert set(hook.wait("connect")["headers"]) == {"host", "x-first"}


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ({"verdicts": [[False, "not today"]]}, (4503, "denied: not today")),
        ({"disconnect": "you again"}, (4506, "closed_by_operator: you again")),
        ({"failed": "the hook failed"}, (4005, "not_ready: the hook failed")),
        ({"verdicts": []}, (4005, "not_ready: the hook has not answered in time")),
        ({"verdicts": "nonsense"}, (4005, "not_ready: the hook's answer is none")),
        ({"verdicts": [[True]] * 1001}, (4005, "not_ready: the hook's answer is none")),
    ],
)
def test_connect_is_refused(custom: Sidecar, hook: Answering, reply: Reply, code: tuple[int, str]) -> None:
    hook.rule = lambda question: reply
    with WireClient(custom) as client:
        client.say("connect", token="eve")
        with pytest.raises(Ended) as ended:
            client.next()
        assert (ended.value.code, ended.value.reason) == code
        assert not hook.about("disconnect", connection=hook.wait("connect")["connection"]), "it was never let in"


def test_a_token_may_not_be_endless(custom: Sidecar, hook: Answering) -> None:
    with WireClient(custom) as client:
        client.say("connect", token="x" * 65_537)
        assert client.closed() == (4501, "bad_token")
    assert not hook.asked


def test_a_first_command_without_connect_waits_as_well(custom: Sidecar, hook: Answering) -> None:
    """And so does what comes behind it; the token in the address counts."""
    hook.rule = lambda question: None
    with WireClient(custom, path="/ws?token=tom") as client, Control(custom.control) as control:
        client.say("ping")
        client.say("ping")
        question = hook.wait("connect", token="tom")
        control.call("recheck", {"user": "tom"})  # he may be
        assert client.silent(0.1)
        hook.answer(question, named(question))
        assert [client.next()["op"] for _ in range(3)] == ["base", "pong", "pong"]
        hook.wait("connect", token="tom", again=True)


def test_subscriptions_start_by_themselves(custom: Sidecar, hook: Answering) -> None:
    """One question for all subjects of a command; a reason comes with what is denied."""
    hook.rule = lambda question: (
        {"verdicts": [["no" not in one, "no such room", None] for one in question["subjects"]]}
        if question["event"] == "subscribe"
        else named(question)
    )
    with enter(custom) as client:
        results = client.subscribe("/a/one", "/a/no", "/a/two", "no subject")
        assert [one["error"] for one in results] == ["not_ready", "not_ready", "not_ready", "invalid"]
        results = client.answer("subscribed")["results"]
        assert [(one["subject"], one.get("error")) for one in results] == [
            ("/a/one", None),
            ("/a/no", "denied"),
            ("/a/two", None),
        ]
        assert results[1]["reason"] == "no such room"
        client.ask("publish", "published", subject="/a/two", content="x", closure="c")
        assert client.subscribe("/a/two")[0]["messages"] == 1, "the answer counts as long as the connection"
        assert len(hook.about("subscribe")) == 1
        assert hook.about("subscribe")[0]["user"] == "ann"
        assert "token" not in hook.about("subscribe")[0], "it may be long"


def test_publications_wait_in_order(custom: Sidecar, hook: Answering) -> None:
    """What comes behind one, in the same write too, waits for its answer; nobody else does."""
    hook.rule = lambda question: None if "/p/slow" in question.get("subjects", ()) else named(question)
    with enter(custom) as client, enter(custom, "bob") as other:
        client.say("publish", subject="/p/slow", content="1", closure="one")
        client.say("publish", subject="/p/quick", content="2", closure="two")
        client.say("ping")
        question = hook.wait("publish", subjects=["/p/slow"])
        other.ask("publish", "published", subject="/p/quick", content="3", closure="three")
        assert client.silent(0.1)
        hook.answer(question, yes(question))
        first, second, third = client.next(), client.next(), client.next()
        assert [first["closure"], second["closure"], third["op"]] == ["one", "two", "pong"]
        assert (first["status"], second["status"]) == ("ok", "ok")
        again = client.ask("publish", "published", subject="/p/slow", content="4", closure="four")
        assert again["status"] == "ok", "known by now"
        hook.rule = denying("publish")
        denied = client.ask("publish", "published", subject="/p/no", content="5", closure="five")
        assert (denied["status"], denied["reason"]) == ("denied", "not today")
        invalid = client.ask("publish", "published", subject="//", content="6", closure="six")
        assert invalid["status"] == "invalid"
        system = client.ask("publish", "published", subject="/__sys__/x", content="7", closure="seven")
        assert system["status"] == "denied"
        asked = {subject for question in hook.about("publish") for subject in question["subjects"]}
        assert asked == {"/p/slow", "/p/quick", "/p/no"}


def test_a_client_that_waits_is_not_read_from(custom: Sidecar, hook: Answering) -> None:
    """What it sends on stays with it, but for what the kernel takes; all of it is handled in the end."""
    hook.rule = lambda question: None if question["event"] == "publish" else named(question)
    with enter(custom) as client:
        number = client.say("publish", subject="/flood/one", content="x")
        question = hook.wait("publish")
        ping, sent = masked(TEXT, msgspec.json.encode({"op": "ping", "id": number, "filling": "x" * 60_000})), 0
        client.sock.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            while sent < 500:
                client.send(ping)
                sent += 1
        assert sent < 500, "30 MB"
        hook.answer(question, yes(question))
        client.sock.settimeout(PATIENCE_SECONDS)
        assert [client.next()["op"] for _ in range(sent)] == ["pong"] * sent


def test_a_hook_that_does_not_answer_in_time(custom: Sidecar, hook: Answering) -> None:
    """A publication is denied, a snapshot may be asked for again, a subscription goes on waiting."""
    hook.rule = lambda question: named(question) if question["event"] == "connect" else None
    with enter(custom) as client, enter(custom, "bob") as other, Control(custom.control) as control:
        other.subscribe("/late/one")
        client.say("publish", subject="/late/one", content="1", closure="c")
        assert control.snapshot("/late/one", "ann")["status"] == "not_ready"
        hook.rule = named
        answer = client.answer("published")
        assert (answer["status"], answer["reason"]) == ("denied", "the hook has not answered in time")
        assert other.answer("subscribed")["results"][0]["subject"] == "/late/one"


def test_without_a_hook_nobody_is_denied_and_nobody_let_in(custom: Sidecar) -> None:
    with Answering(custom.control, named):
        client, other = enter(custom), enter(custom, "bob")
    with client, other, WireClient(custom) as stranger, WirePublisher(custom, hello=False) as publisher:
        stranger.say("connect", token="ann")
        publisher.packet("hello", {"version": 1, "token": "ann"})
        other.subscribe("/away/one")
        answer = client.ask("publish", "published", subject="/away/one", content="1", closure="c")
        assert (answer["status"], answer["reason"]) == ("not_ready", "no hook is connected; retry")
        assert stranger.closed() == (4005, "not_ready")
        assert publisher.closed()[0] == 4005
        with Answering(custom.control, named), Control(custom.control) as control:
            assert other.answer("subscribed")["results"][0]["subject"] == "/away/one"
            figures = control.stats()
            assert (figures["hook_runners"], figures["hook_open"]) == (1, 0)
            assert figures["hook_asked"] >= 3
            assert figures["hook_late"] >= 2


def test_recheck_asks_again_at_once(custom: Sidecar, hook: Answering) -> None:
    """Of one user or of all; running subscriptions end, and who may not be here any more goes."""
    with enter(custom) as ann, enter(custom, "bob") as bob, Control(custom.control) as control:
        for client in (ann, bob):
            client.subscribe("/again/one")
            client.answer("subscribed")
        hook.rule = denying("subscribe")
        assert control.call("recheck", {"user": "ann"}) == {}
        assert ann.answer("revoked")["subjects"] == ["/again/one"]
        assert hook.about("connect", user="ann", again=True)
        assert bob.quiet()
        hook.rule = named
        control.call("recheck")
        assert ann.answer("subscribed")["results"][0]["seq"] == 0
        hook.rule = denying("connect")
        control.call("recheck")
        assert ann.closed() == bob.closed() == (4503, "denied")
        with pytest.raises(ControlRefused, match="user is a name"):
            control.call("recheck", {"user": 5})


def test_a_token_on_the_live_connection(custom: Sidecar, hook: Answering) -> None:
    """The hook decides; it is the same user's, and all else is asked again."""
    with enter(custom) as client:
        client.subscribe("/renewed/one")
        client.answer("subscribed")
        assert client.ask("token", "error", token="bob")["code"] == "bad_token"
        hook.rule = denying("token")
        error = client.ask("token", "error", token="ann")
        assert (error["code"], error["reason"]) == ("denied", "not today")
        hook.rule = lambda question: named(question) if question["event"] == "token" else no(question)
        assert client.ask("token", "renewed", token="ann")["user"] == "ann"
        assert (hook.about("token")[-1]["token"], hook.about("token")[-1]["user"]) == ("ann", "ann")
        assert client.answer("revoked")["subjects"] == ["/renewed/one"]


def test_disconnect_as_an_answer_to_anything(custom: Sidecar, hook: Answering) -> None:
    hook.rule = lambda question: {"disconnect": "enough"} if question["event"] == "publish" else named(question)
    with enter(custom) as client:
        client.say("publish", subject="/end/one", content="1", closure="c")
        assert client.closed() == (4506, "closed_by_operator")
    with WirePublisher(custom, "ann") as publisher:
        publisher.packet("batch", 1, [["/end/one", "1"]])
        assert publisher.closed() == (4506, "closed_by_operator: enough")
    with Control(custom.control) as control:
        assert control.snapshot("/end/one", "ann")["status"] == "none"


def test_publishers(custom: Sidecar, hook: Answering) -> None:
    """A hello, and the subjects of a batch at once; what comes behind waits."""
    hook.rule = lambda question: (
        {"verdicts": [["no" not in one, "closed", None] for one in question["subjects"]]}
        if question["event"] == "publish"
        else named(question)
    )
    with WirePublisher(custom, "spark") as publisher:
        assert publisher.welcome["user"] == "spark"
        assert hook.about("connect", kind="publisher", user="")[-1]["address"] == "127.0.0.1"
        first = publisher.publish(["/b/one", "1"], ["/b/no", "2"], ["/b/one", "3"], ["//", "4"])
        assert first[0] + 1 == first[2]
        assert (first[1], first[3][0]) == (["denied", "closed"], "invalid")
        assert publisher.publish(["/b/one", "5"]) == [first[2] + 1]
        assert sorted(hook.about("publish")[-1]["subjects"]) == ["/b/no", "/b/one"]
        hook.rule = lambda question: None if question["event"] == "publish" else named(question)
        publisher.packet("batch", 3, [["/b/slow", "6"]])
        publisher.packet("ping", 1)
        question = hook.wait("publish", subjects=["/b/slow"])
        with Control(custom.control) as control:
            control.call("recheck")
        assert publisher.silent(0.1)
        hook.answer(question, {"verdicts": [[True, "", 0]]})
        assert publisher.next()[0] == "ack"
        assert publisher.next() == ["pong", 1]
        publisher.batch = 3
        hook.rule = denying("publish", seconds=0)
        assert publisher.publish(["/b/slow", "7"]) == [["denied", "not today"]], "that was for once"
        hook.rule = named
        rows = [[f"/b/{number}", "x"] for number in range(9500)]
        hook.asked.clear()
        publisher.packet("batch", 5, rows)
        assert publisher.next()[3] == [1] * 9500
        assert [len(one["subjects"]) for one in hook.about("publish")] == [1000] * 9 + [500]
    assert hook.wait("disconnect", kind="publisher")["user"] == "spark"
    hook.rule = denying("connect")
    with WirePublisher(custom, hello=False) as publisher:
        publisher.packet("hello", {"version": 1, "token": "eve"})
        assert publisher.closed() == (4503, "denied: not today")


def test_snapshots_and_checks_are_asked_too(custom: Sidecar, hook: Answering) -> None:
    with Control(custom.control) as control:
        control.publish([["/snap/one", "1"]])
        assert control.snapshot("/snap/one", "ann")["message"]["content"] == "1"
        assert hook.about("subscribe", kind="request")[-1]["user"] == "ann"
        hook.rule = denying("subscribe")
        assert control.snapshot("/snap/one", "ann")["reason"] == "not today"
        assert control.check("/snap/one", "publish", "ann") == {"allowed": True, "reason": ""}
        hook.rule = denying("connect")
        assert control.check("/snap/one", "publish", "ann") == {"allowed": False, "reason": "not today"}
        assert control.snapshot("no subject")["status"] == "invalid"


def test_patterns_tell_only_what_the_hook_allows(custom: Sidecar, hook: Answering) -> None:
    """Subjects that are there, and those that come to be; the others are not told at all."""
    hook.rule = lambda question: (
        {"verdicts": [["secret" not in one, "", 0.3] for one in question["subjects"]]}
        if question["event"] == "subscribe"
        else named(question)
    )
    with enter(custom) as client, Control(custom.control) as control:
        control.publish([["/wild/one", "1"], ["/wild/secret", "2"]])
        client.subscribe("/wild/*")
        results = client.answer("subscribed")["results"]
        assert [(one["subject"], one["pattern"]) for one in results] == [("/wild/one", "/wild/*")]
        assert client.message()[3] == "1"
        control.publish([["/wild/secret2", "3"], ["/wild/two", "4"]])
        results = client.answer("subscribed")["results"]
        assert [one["subject"] for one in results] == ["/wild/two"]
        assert client.message()[3] == "4"
        assert client.quiet()
        hook.rule = named
        secrets = set()
        while len(secrets) < 2:
            secrets |= {one["subject"] for one in client.answer("subscribed")["results"]}
        assert secrets == {"/wild/secret", "/wild/secret2"}, "the denial has ended"


def test_a_fault_of_one_is_not_the_others(custom: Sidecar, hook: Answering) -> None:
    """A client that goes while the hook thinks, and answers that nobody waits for or that are none."""
    hook.rule = lambda question: None if question.get("token") == "gone" else named(question)
    with enter(custom, "watcher") as watcher:
        with WireClient(custom) as client:
            client.say("connect", token="gone")
            question = hook.wait("connect", token="gone")
        hook.answer(question, named(question))
        hook.answer({"ask": 123456}, yes({}))
        hook.answer({"ask": "x"}, yes({}))
        with WireClient(custom) as client, WirePublisher(custom, "p") as publisher:
            client.say("connect", token="gone")
            hook.wait("connect", 2, token="gone")
            publisher.packet("batch", 1, [["/fault/one", "1"]])
            client.sock.shutdown(socket.SHUT_RDWR)
            assert publisher.next()[0] == "ack"
        assert watcher.quiet()
