"""A hook beside Django's rules: the rules decide first, and it can only deny more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fastpath.client.control.client import Control
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.hook import Answering, Question, Reply, no, yes
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint
from tests.support.waiting import until

ALICE = {"id": 1, "who": "user:5", "pattern": "/open/**", "action": "both", "allow": True}


@pytest.fixture(scope="module")
def beside() -> Iterator[Sidecar]:
    """One rule, and a hook about everything but who may connect."""
    with Sidecar(mode="rules", token_secret=SECRET, hooks="subscribe, publish,token", hook_seconds=3) as running:
        yield running
        assert "Traceback" not in running.log, running.log


def quiet(question: Question) -> Reply:
    """Nothing about secrets."""
    return {"verdicts": [["secret" not in one, "hush"] for one in question.get("subjects") or [""]]}


def test_the_rules_decide_first(beside: Sidecar) -> None:
    """Also whether there are any; then the hook sees the claims. A superuser is asked about as well."""
    with (
        Answering(beside.control, quiet) as hook,
        Control(beside.control) as control,
        WireClient(beside) as alice,
        WireClient(beside) as root,
    ):
        assert hook.settings == {"events": ["publish", "subscribe", "token"], "seconds": 3, "mode": "rules"}
        alice.ask("connect", "connected", token=mint("alice", "5"))
        assert alice.subscribe("/open/one")[0]["reason"].startswith("the rights have not arrived")
        assert not hook.asked
        control.rules_begin(7)
        control.rules_chunk(rules=[ALICE])
        control.rules_commit(7)
        assert "error" not in alice.answer("subscribed")["results"][0]
        results = alice.subscribe("/open/secret", "/closed/one")
        assert [(one["error"], one["reason"][:4]) for one in results] == [("not_ready", "Djan"), ("denied", "no r")]
        assert alice.answer("subscribed")["results"][0]["reason"] == "hush"
        first = hook.about("subscribe")[0]
        assert (first["subjects"], first["user"], "token" in first) == (["/open/one"], "alice", False)
        assert (first["claims"]["uid"], first["again"]) == ("5", True)
        assert "key" not in first["claims"]
        assert control.check("/open/one", "publish", mint("alice", "5"))["allowed"]
        assert control.check("/open/secret", "publish", mint("alice", "5"))["reason"] == "hush"
        root.ask("connect", "connected", token=mint("root", "1", superuser=True))
        root.subscribe("/any/secret")
        assert root.answer("subscribed")["results"][0]["reason"] == "hush"
        for subject, status in (("/any/one", "ok"), ("/any/secret", "denied")):
            assert root.ask("publish", "published", subject=subject, content="x", closure="c")["status"] == status
        with WirePublisher(beside, mint("alice", "5")) as publisher:
            answers = publisher.publish(["/open/two", "1"], ["/open/secret", "2"], ["/closed/one", "3"])
            assert answers == [1, ["denied", "hush"], ["denied", "no rule allows it"]]
        assert not [one for one in hook.asked if "/closed/one" in one.get("subjects", ())]


def test_a_change_of_rules_keeps_what_the_hook_has_said(beside: Sidecar) -> None:
    """Whom it names anew, too; what the rules take away and give again is started by what is known."""
    with (
        Answering(beside.control, quiet) as hook,
        Control(beside.control) as control,
        WireClient(beside) as alice,
        WirePublisher(beside, mint("alice", "5")) as publisher,
    ):
        alice.ask("connect", "connected", token=mint("alice", "5"))
        alice.subscribe("/open/keeps")
        alice.answer("subscribed")
        publisher.publish(["/open/keeps", "1"])
        count = len(hook.asked)
        for generation, rule in ((8, ALICE | {"allow": False}), (9, ALICE)):
            control.rules_diff(generation - 1, generation, rules=[rule])
        assert alice.answer("revoked")["reason"] == "rule 1 denies it"
        assert "error" not in alice.answer("subscribed")["results"][0]
        assert publisher.publish(["/open/keeps", "2"]) == [2]
        assert len(hook.asked) == count


def test_tokens_are_checked_before_the_hook_sees_them(beside: Sidecar) -> None:
    with Answering(beside.control, yes) as hook, WireClient(beside) as alice:
        alice.ask("connect", "connected", token=mint("alice", "5"))
        assert alice.ask("token", "error", token="nonsense")["code"] == "bad_token"
        assert alice.ask("token", "error", token=mint("bob", "6"))["code"] == "bad_token"
        alice.ask("publish", "published", subject="/open/one", content="x", closure="c")
        assert (hook.asked[-1]["event"], hook.asked[-1]["user"]) == ("publish", "alice"), "as it was"
        hook.rule = no
        assert alice.ask("token", "error", token=mint("alice", "5"))["code"] == "denied"
        assert hook.about("token")[-1]["claims"]["user"] == "alice"
        hook.rule = yes
        assert alice.ask("token", "renewed", token=mint("alice", "5"))["user"] == "alice"


def test_another_token_asks_anew(beside: Sidecar) -> None:
    """Also where the hook is not asked about it; of another user what ran ends when the hook says no to that one. What
    a user is called does not break a line of the log."""
    with Answering(beside.control, yes) as hook, WireClient(beside) as client:
        client.ask("connect", "connected", token=mint("root", "1", superuser=True))
        client.subscribe("/another/one")
        client.answer("subscribed")
        client.ask("publish", "published", subject="/another/one", content="x", closure="c")
        hook.rule = lambda question: no(question) if question["user"] != "root" else yes(question)
        client.ask("connect", "connected", token=mint("bob\nFATAL all is lost", "2", superuser=True))
        assert client.answer("revoked")["subjects"] == ["/another/one"]
        answer = client.ask("publish", "published", subject="/another/one", content="x", closure="c")
        assert (answer["status"], answer["reason"]) == ("denied", "not today")
        client.send(b"\x83\x80abcd")
        client.closed()
    until(lambda: 'user="bob\\nFATAL all is lost"' in beside.log)


def test_a_runner_that_was_late_is_asked_again_when_it_answers(beside: Sidecar) -> None:
    def once(question: Question) -> Reply:
        return {"verdicts": [[True, "", 0]]}

    with (
        Answering(beside.control, once),
        Answering(beside.control, lambda question: None) as late,
        WireClient(beside) as client,
    ):
        client.ask("connect", "connected", token=mint("root", "1", superuser=True))

        def publish() -> str:
            return client.ask("publish", "published", subject="/late/one", content="x", closure="c")["status"]

        assert sorted(publish() for _ in range(6)) == ["denied"] + ["ok"] * 5
        assert len(late.asked) == 1
        late.rule = once
        late.answer(late.asked[0], once(late.asked[0]))
        until(lambda: publish() == "ok" and len(late.asked) > 1)
