"""Requests and replies of clients on the wire: rights, bounds, and what is none (protocol.md 3.11 to 3.13)."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from fastpath.client import blocking
from fastpath.client.control.client import Control
from tests.support.edge.wire import CLOSE, PONG, WireClient
from tests.support.rights import load_rights, rule
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint
from tests.support.waiting import until


def respond(client: WireClient, *patterns: str) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = client.ask("respond", "responding", patterns=list(patterns))["results"]
    return results


def failure(client: WireClient, subject: str, **keys: Any) -> str:
    """The error of a request that is to have one of the server's own."""
    answer = client.ask("request", "response", subject=subject, content="", **keys)
    assert answer["own"]
    assert answer["reason"]
    return str(answer["error"])


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_in_both_forms(shared: Sidecar, form: str) -> None:
    raw: Any = {"b": "gIE="} if form == "json" else b"\x80\x81"
    with WireClient(shared, form) as asking, WireClient(shared, "msgpack" if form == "json" else "json") as answering:
        respond(answering, "/forms/*")
        asked_id = asking.say("request", subject="/forms/x", content=raw, fields={"f": raw}, timeout=2000, replies=3)
        asked = answering.answer("asked")
        other: Any = b"\x80\x81" if form == "json" else {"b": "gIE="}
        assert (asked["content"], asked["fields"], asked["timeout"], asked["replies"]) == (other, {"f": other}, 2000, 3)
        assert asked["to"].startswith("/__sys__/inbox/")
        assert answering.ask("reply", "replied", to=asked["to"], content=other, more=True)["status"] == "ok"
        answering.ask("reply", "replied", to=asked["to"], error="no", reason="not today")
        assert asking.answer("response") == {"op": "response", "id": asked_id, "content": raw, "more": True}
        assert asking.answer("response") == {"op": "response", "id": asked_id, "error": "no", "reason": "not today"}


def test_a_mere_subscriber_is_no_responder_and_hears_nothing(shared: Sidecar) -> None:
    with WireClient(shared) as asking, WireClient(shared) as reading:
        reading.subscribe("/mere/x", "/mere/*")
        assert failure(asking, "/mere/x") == "no_responders"
        assert reading.quiet()


def test_nobody_reads_an_inbox_or_publishes_to_one(shared: Sidecar) -> None:
    with WireClient(shared) as asking, WireClient(shared) as answering, WireClient(shared) as other:
        respond(answering, "/inbox/x")
        number = asking.say("request", subject="/inbox/x", content="")
        to = answering.answer("asked")["to"]
        result = other.subscribe(to)[0]
        assert (result["error"], "sid" in result) == ("invalid", False)
        other.subscribe("/__sys__/inbox/*/*", "/__sys__/**")
        published = other.ask("publish", "published", subject=to, content="forged", closure="c")
        assert published["status"] == "denied"
        for forger in (other, asking):
            assert forger.ask("reply", "replied", to=to, content="forged")["status"] == "gone"
        respond(other, "/inbox/**")
        assert other.ask("reply", "replied", to=to, content="forged")["status"] == "gone", "it was not asked"
        answering.ask("reply", "replied", to=to, content="true")
        assert asking.answer("response", number)["content"] == "true"
        assert other.quiet()


def test_each_request_is_asked_of_one_in_turns(shared: Sidecar) -> None:
    with WireClient(shared) as asking, WireClient(shared) as one, WireClient(shared) as two:
        respond(one, "/turns/*")
        respond(two, "/turns/x", "/turns/**")
        for _ in range(4):
            asking.say("request", subject="/turns/x", content="")
        for client in (one, two):
            assert client.answer("asked")["to"] != client.answer("asked")["to"]
            assert client.quiet()
        respond(one)
        asking.say("request", subject="/turns/x", content="")
        two.answer("asked")
        assert one.quiet()


def test_a_reply_without_an_id_that_nobody_waits_for_is_told_as_over(shared: Sidecar) -> None:
    with WireClient(shared) as client:
        assert client.say("reply", id=None, to="/__sys__/inbox/x/1", content="")
        assert client.answer("error")["code"] == "invalid"
        client.frame(1, b'{"op":"reply","to":"/__sys__/inbox/x/1","content":""}')
        assert client.answer("over")["to"] == "/__sys__/inbox/x/1"


BAD = (
    ("request", {}),
    ("request", {"subject": "/a/b"}),
    ("request", {"subject": "/a/b", "content": 1}),
    ("request", {"subject": "/a/b", "content": "", "timeout": 0}),
    ("request", {"subject": "/a/b", "content": "", "timeout": 300_001}),
    ("request", {"subject": "/a/b", "content": "", "timeout": "1"}),
    ("request", {"subject": "/a/b", "content": "", "replies": 0}),
    ("request", {"subject": "/a/b", "content": "", "replies": 1001}),
    ("request", {"subject": "/a/b", "content": "", "fields": {"": "x"}}),
    ("request", {"subject": "/a/b", "content": "", "fields": {"x": 1}}),
    ("reply", {}),
    ("reply", {"to": "x", "content": None}),
    ("reply", {"to": "x", "error": "e" * 65}),
    ("reply", {"to": "x", "error": "e", "reason": "r" * 1025}),
    ("reply", {"to": "x", "reason": "r"}),
    ("respond", {}),
    ("respond", {"patterns": "/a/b"}),
    ("respond", {"patterns": ["/a/b"] * 1001}),
)


@pytest.mark.parametrize(("op", "keys"), BAD)
def test_what_is_no_command_is_answered_with_an_error(shared: Sidecar, op: str, keys: dict[str, Any]) -> None:
    with WireClient(shared) as client:
        assert client.ask(op, "error", **keys)["code"] in ("invalid", "limit")
        assert failure(client, "/bad/x") == "no_responders"


def test_what_cannot_be_asked_or_answered(shared: Sidecar) -> None:
    with WireClient(shared) as client:
        for subject, code in (("bad", "invalid"), ("/a/*", "invalid"), ("/__sys__/x", "denied")):
            assert failure(client, subject) == code
        results = respond(client, "/own/x", "bad", "/__sys__/x", "/a/**/b")
        assert [result.get("error", "") for result in results] == ["", "invalid", "denied", "invalid"]
        large = "x" * ((1 << 20) + 1)
        assert client.ask("request", "response", subject="/own/x", content=large)["error"] == "too_large"
        number = client.say("request", subject="/own/x", content="")
        to = client.answer("asked")["to"]
        assert client.ask("reply", "replied", to=to, content=large)["status"] == "too_large"
        again = client.say("reply", to=to, content="small")
        assert client.answer("response", number)["content"] == "small"
        assert client.answer("replied", again)["status"] == "ok"


def test_who_waits_for_too_much_is_told(shared: Sidecar) -> None:
    with WireClient(shared) as asking, WireClient(shared) as answering:
        respond(answering, "/much/x")
        for _ in range(1000):
            asking.say("request", subject="/much/x", content="")
        assert failure(asking, "/much/x") == "limit"
        with WireClient(shared) as another:
            assert failure(another, "/much/x") == "busy", "all that one responder may owe"
        to = answering.answer("asked")["to"]
        answering.ask("reply", "replied", to=to, content="")
        asking.say("request", subject="/much/x", content="last")
        until(lambda: answering.answer("asked")["content"] == "last")


def test_a_flood_to_one_that_never_answers_is_bounded_and_each_request_is_told_once() -> None:
    """Beside it others are answered; whoever asks and leaves owes nothing and is owed nothing."""
    with Sidecar(mode="none") as sidecar, ExitStack() as stack:
        silent, prompt, leaves = (stack.enter_context(WireClient(sidecar)) for _ in range(3))
        respond(silent, "/silent/x")
        respond(prompt, "/prompt/x")
        for number in range(50):
            leaves.say("request", subject="/silent/x", content=f"leaves {number}")
        for _ in range(50):
            silent.answer("asked")
        leaves.sock.close()
        assert {silent.answer("over")["reason"] for _ in range(50)} == {"whoever asked is gone"}
        crowd = [stack.enter_context(WireClient(sidecar)) for _ in range(4)]
        asked = [
            [one.say("request", subject="/silent/x", content=str(number), timeout=4000) for number in range(400)]
            for one in crowd
        ]
        for number in range(20):
            answer = crowd[0].say("request", subject="/prompt/x", content=str(number))
            prompt.say("reply", to=prompt.answer("asked")["to"], content=f"done {number}")
            asked[0].append(answer)
        told: dict[str, int] = {}
        for one, numbers in zip(crowd, asked, strict=True):
            found = [one.answer("response") for _ in numbers]
            assert sorted(each["id"] for each in found) == numbers, "each once"
            for each in found:
                error = each.get("error", "answered")
                told[error] = told.get(error, 0) + 1
        # As many as one responder may owe are handed to it, and are over in time; all others are told at once.
        assert told["answered"] == 20
        assert told["timeout"] >= 1000
        assert told == {"answered": 20, "timeout": told["timeout"], "busy": 1600 - told["timeout"]}
        with Control(sidecar.control) as control:
            until(lambda: control.stats()["requests_open"] == 0)
        over = [silent.answer("over") for _ in range(told["timeout"])]
        assert {each["reason"] for each in over} == {"the time for it is over"}
        crowd[0].say("request", subject="/silent/x", content="later")
        assert until(lambda: silent.answer("asked")["content"] == "later")


def test_rights_of_who_asks_and_who_answers() -> None:
    with Sidecar(mode="rules", token_secret=SECRET) as sidecar:
        rules = [rule(1, "user:ann", "/q/**", action="publish"), rule(2, "user:bob", "/q/*", action="subscribe")]
        load_rights(sidecar.control, *rules)
        with WireClient(sidecar) as ann, WireClient(sidecar) as bob:
            ann.ask("connect", "connected", token=mint("ann"))
            bob.ask("connect", "connected", token=mint("bob"))
            assert failure(bob, "/q/a") == "denied"
            respond(ann, "/q/**")
            assert failure(ann, "/q/a") == "no_responders", "ann may not read it"
            respond(bob, "/**")
            assert failure(ann, "/q/a/b") == "no_responders", "nor may bob read that"
            assert failure(ann, "/r/a") == "denied"
            number = ann.say("request", subject="/q/a", content="", timeout=30_000)
            asked = bob.answer("asked")
            assert asked["user"] == "ann"
            load_rights(sidecar.control, rules[0], generation=2)
            over = bob.answer("over")
            assert (over["to"], over["reason"]) == (asked["to"], "the right to read the subject is gone")
            assert ann.answer("response", number)["error"] == "responder_gone"
            assert bob.ask("reply", "replied", to=asked["to"], content="")["status"] == "gone"
            assert failure(ann, "/q/a") == "no_responders"
            load_rights(sidecar.control, rules[1], generation=3)
            assert failure(ann, "/q/a") == "denied"


def test_who_responds_to_nothing_more_owes_its_replies_for_as_long_as_it_may_read() -> None:
    with Sidecar(mode="rules", token_secret=SECRET) as sidecar:
        rules = [rule(1, "user:ann", "/q/**", action="publish"), rule(2, "user:bob", "/q/*", action="subscribe")]
        load_rights(sidecar.control, *rules)
        with WireClient(sidecar) as ann, WireClient(sidecar) as bob:
            ann.ask("connect", "connected", token=mint("ann"))
            bob.ask("connect", "connected", token=mint("bob"))
            respond(bob, "/**")
            number = ann.say("request", subject="/q/a", content="", timeout=30_000)
            asked = bob.answer("asked")
            respond(bob)
            load_rights(sidecar.control, rules[0], generation=2)
            assert bob.answer("over")["to"] == asked["to"]
            assert ann.answer("response", number)["error"] == "responder_gone"
            assert bob.ask("reply", "replied", to=asked["to"], content="")["status"] == "gone"


def test_addresses() -> None:
    with Sidecar(mode="none", publish_from="10.0.0.0/8") as sidecar, WireClient(sidecar) as client:
        respond(client, "/q/a")
        assert failure(client, "/q/a") == "denied"
        assert client.ask("reply", "error", to="/__sys__/inbox/x/1", content="")["code"] == "denied"


@pytest.mark.slow
def test_rates() -> None:
    with Sidecar(mode="none", publications_per_second_max=2) as sidecar, WireClient(sidecar) as client:
        for _ in range(8):
            client.say("request", subject="/q/nobody", content="")
        with WireClient(sidecar) as other:
            respond(other, "/q/a")
            client.say("request", subject="/q/a", content="")
            assert other.quiet(), "it is not read yet, nor for three seconds"
            assert [client.answer("response")["error"] for _ in range(8)] == ["no_responders"] * 8
            assert other.answer("asked")


def left_idle(client: WireClient) -> int:
    """The code with which a client is closed that answers pings and does nothing else."""
    while True:
        opcode, payload = client.next_frame()
        if opcode == CLOSE:
            return int.from_bytes(payload[:2])
        client.frame(PONG, payload)


@pytest.mark.slow
def test_an_idle_responder_is_not_idle() -> None:
    with (
        Sidecar(mode="none", idle_seconds=1, ping_seconds=1) as sidecar,
        blocking.connect(sidecar.client_url) as client,
        WireClient(sidecar) as idle,
    ):
        client.respond("/q/a", lambda request: "here")
        assert left_idle(idle) == 4507
        assert client.connected
        assert client.request("/q/a", "").content == "here"
