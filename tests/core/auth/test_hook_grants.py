"""What a hook adds to the grants of a mode."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fastpath.core.auth.basic_grants import BasicGrants
from fastpath.core.auth.grants import Grants, Principal
from fastpath.core.auth.hook_decisions import HookDecisions
from fastpath.core.auth.hook_grants import CustomGrants, hooked
from fastpath.core.auth.hook_questions import CONNECT, HookReply, Verdict
from fastpath.core.auth.keys import Key
from fastpath.core.auth.reasons import ASKED
from fastpath.core.auth.rules import PUBLISH, SUBSCRIBE
from fastpath.core.auth.tokens import Claims
from fastpath.core.broker.observers import ConnectionListener
from fastpath.core.delivery.audience import Client
from fastpath.core.protocol.messages import Connect, Connected, Error, Publish, Published, Revoked, Subscribe, Token
from fastpath.core.sessions.deferred_commands import DeferredCommands, facts_of
from tests.support.core.stage import Stage

NOW = 1_700_000_000_000


def test_without_a_hook_a_mode_is_what_it_was() -> None:
    assert hooked(Grants, None) is Grants


@pytest.mark.parametrize(
    ("kind", "arguments", "token"),
    [(Grants, (), ""), (BasicGrants, ("secret",), "secret"), (CustomGrants, (frozenset((PUBLISH,)),), "any")],
)
def test_the_hook_is_asked_after_a_yes(kind: type[Grants], arguments: tuple[Any, ...], token: str) -> None:
    """Each connection for itself, and nothing is known for good."""
    grants = hooked(kind, HookDecisions((PUBLISH,), 5))(*arguments)
    assert isinstance(grants, kind)
    assert grants.mode == kind.mode
    one, other = grants.principal(token, NOW), grants.principal(token, NOW)
    assert one is not other
    assert grants.rights_key(one) != grants.rights_key(other)
    assert grants.rights_proxy(one) is one
    assert grants.check(one, PUBLISH, "/a/b", NOW) == ASKED
    assert grants.publishable(one) == set()


def test_it_is_not_asked_after_a_no() -> None:
    basic = hooked(BasicGrants, HookDecisions((PUBLISH,), 5))("secret")
    assert basic.check(basic.principal("", NOW), PUBLISH, "/a/b", NOW) == "the publish token is needed"
    assert basic.check(basic.principal("", NOW), SUBSCRIBE, "/a/b", NOW) == ""
    custom = hooked(CustomGrants, HookDecisions((PUBLISH,), 5))(frozenset((PUBLISH,)))
    assert custom.check(custom.principal("", NOW), SUBSCRIBE, "/a/b", NOW) == "the hook is not asked about subscribe"
    assert custom.holds(custom.principal("", NOW), "/a/b", NOW) == "the hook is not asked about subscribe"


def test_a_token_that_the_hook_is_not_asked_about_is_refused() -> None:
    asking = HookDecisions((PUBLISH,), 5)
    stage = Stage(hooked(CustomGrants, asking)(frozenset((PUBLISH,))))
    actor = stage.enter("ann")
    DeferredCommands(stage.sessions, asking, actor.client, "", {})
    actor.say(Connect(id=1))
    actor.taken()
    actor.say(Token(id=2, token="any"))
    assert actor.taken() == [Error(id=2, code="denied", reason="the hook is not asked about token")]


def test_who_has_been_let_in_stays_while_nobody_answers() -> None:
    """Asked again, no ends it; no answer does not."""
    asking = HookDecisions((CONNECT,), 5)
    stage = Stage(hooked(CustomGrants, asking)(frozenset((CONNECT,))))
    actor = stage.enter("ann")
    parked = DeferredCommands(stage.sessions, asking, actor.client, "", {})
    actor.say(Connect(id=1, token="any"))
    assert (actor.taken(), parked.waits) == ([], True)

    def answer(reply: HookReply) -> None:
        [question] = asking.step(stage.now)[0]
        asking.answer(question.number, reply, stage.now)
        stage.end()

    answer(HookReply(verdicts=[Verdict(True)], user="ann"))
    assert [type(one) for one in actor.taken()] == [Connected]
    asking.recheck(parked.asked)
    answer(HookReply(failed="late"))
    assert actor.closed is None
    asking.recheck(parked.asked)
    answer(HookReply(verdicts=[Verdict(False, "not today")]))
    assert actor.closed == (4503, "denied: not today")


@pytest.mark.parametrize("material", [b"the secret of all tokens", object()])
def test_the_hook_is_told_the_claims_and_not_the_key(material: object) -> None:
    """A secret would let whoever reads a log of questions mint tokens; a public key is no value of the packets."""
    claims = Claims("ann", 5, groups=("3",), key=Key("k", "HS256", material, "members"))
    told = facts_of(Principal(claims, False, ()), "", "jwt")["claims"]
    assert set(told) == {name for name in Claims.__struct_fields__ if name != "key"}
    assert (told["user"], told["expires"], told["groups"]) == ("ann", 5, ("3",))
    assert msgspec.msgpack.encode(told)


def test_who_becomes_another_user_is_asked_about_anew() -> None:
    """What the one before was allowed is asked again at once: it ends when it is denied."""
    asking = HookDecisions((CONNECT, SUBSCRIBE, PUBLISH), 5)
    stage = Stage(hooked(CustomGrants, asking)(asking.events))
    actor = stage.enter("ann")
    DeferredCommands(stage.sessions, asking, actor.client, "", {})

    def answer(user: str | None = None) -> list[str]:
        """Ann may, and nobody else; the events that were asked about."""
        asked = []
        while questions := asking.step(stage.now)[0]:
            [question] = questions
            event = question.about["event"]
            asked.append(event)
            may = event == CONNECT or question.about["user"] == "ann"
            verdict = Verdict(may, "not hers", 60 if event == CONNECT else None)
            asking.answer(question.number, HookReply(verdicts=[verdict], user=user), stage.now)
            stage.end()
        return asked

    actor.say(Connect(id=1, token="ann"))
    answer("ann")
    actor.say(Subscribe(id=2, subjects=["/a/b"]))
    answer()
    publication = Publish(id=3, subject="/a/c", content="1", closure="c")
    actor.say(publication)
    answer()
    actor.say(publication)
    assert [one.status for one in actor.taken() if isinstance(one, Published)] == ["ok", "ok"]
    actor.say(Connect(id=4, token="bob"))
    assert answer("bob") == [CONNECT, SUBSCRIBE]
    assert [one.subjects for one in actor.taken() if isinstance(one, Revoked)] == [["/a/b"]]
    actor.say(publication)
    assert answer() == [PUBLISH]
    assert [one.status for one in actor.taken() if isinstance(one, Published)] == ["denied"]
    actor.say(Connect(id=5, token="ann"))
    answer("ann")
    stage.now += 60_000
    asking.tick(stage.now)
    assert answer("eve") == [CONNECT, SUBSCRIBE], "the hook itself says that it is somebody else"
    assert [one.subjects for one in actor.taken() if isinstance(one, Revoked)] == [["/a/b"]]


def test_an_observer_that_raises_keeps_no_client() -> None:
    """The other observers are told, and the client's subscriptions are gone."""

    class Faulty(ConnectionListener):
        def disconnected(self, client: Client) -> None:
            raise ValueError("a fault")

    class Told(ConnectionListener):
        count = 0

        def disconnected(self, client: Client) -> None:
            self.count += len(client.subscriptions)

    stage, told = Stage(), Told()
    stage.broker.observers += [Faulty(), told]
    actor = stage.enter("ann")
    actor.say(Subscribe(id=1, subjects=["/a/b"]))
    with pytest.raises(ValueError, match="a fault"):
        stage.sessions.close(actor.client)
    assert (told.count, stage.broker.counters.subscriptions, actor.client.closed) == (1, 0, True)


def test_what_is_a_users_own_is_no_question_in_mode_custom() -> None:
    """It ends when the connection comes to be another user's; a hook beside another mode is asked."""
    asking = HookDecisions((CONNECT, SUBSCRIBE), 5)
    stage = Stage(hooked(CustomGrants, asking)(asking.events))
    actor = stage.enter("ann")
    DeferredCommands(stage.sessions, asking, actor.client, "", {})

    def named(user: str) -> None:
        [question] = asking.step(stage.now)[0]
        assert question.about["event"] == CONNECT
        asking.answer(question.number, HookReply(verdicts=[Verdict(True)], user=user), stage.now)
        stage.end()

    actor.say(Connect(id=1, token="ann"))
    named("ann")
    actor.say(Subscribe(id=2, subjects=["/user/ann/x", "/user/bob/x"]))
    stage.publish("/user/ann/x", "for ann")
    assert asking.step(stage.now)[0] == []
    assert actor.messages() == [("/user/ann/x", 1, "for ann")]
    actor.say(Connect(id=3, token="bob"))
    named("bob")
    assert [one.subjects for one in actor.taken() if isinstance(one, Revoked)] == [["/user/ann/x"]]
    stage.publish("/user/ann/x", "for ann")
    stage.publish("/user/bob/x", "for bob")
    assert actor.messages() == [("/user/bob/x", 1, "for bob")]
    beside = hooked(Grants, HookDecisions((SUBSCRIBE,), 5))()
    assert beside.check(beside.principal("", NOW), SUBSCRIBE, "/user/ann/x", NOW) == ASKED
