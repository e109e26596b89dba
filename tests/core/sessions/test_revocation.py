"""Running subscriptions follow the rights: cut, start, wait, close; nothing revoked leaves the queue."""

import jwt
import pytest

from fastpath.core.auth import rule_grants
from fastpath.core.auth.jwt_grants import JwtGrants
from fastpath.core.auth.keys import Keys
from fastpath.core.auth.reasons import NOT_READY
from fastpath.core.auth.rule_grants import RuleGrants
from fastpath.core.auth.tokens import PASSWORD_CHANGED
from fastpath.core.delivery.wire import terms_of
from fastpath.core.protocol.errors import InvalidMessage, Refused
from fastpath.core.protocol.messages import Data, Published, Revoked, Subscribe, Subscribed, Token
from fastpath.core.protocol.messages import Publish as PublishCommand
from fastpath.core.wires.registry import wire_of
from tests.support.core.rights import SECRET, change, fill, mint, rule
from tests.support.core.stage import START, Actor, Stage


def enter(stage: Stage, *subjects: str, token: str | None = None) -> Actor:
    """Ann connects and subscribes."""
    ann = stage.enter("ann", mint() if token is None else token)
    ann.say(Subscribe(id=1, subjects=list(subjects)))
    return ann


def test_before_the_rules_nobody_is_denied_and_nothing_flows() -> None:
    """``not_ready`` with a time to retry; when the rules come it starts by itself, or is denied."""
    stage = Stage(RuleGrants(SECRET))
    ann = enter(stage, "/s/1", "/t/1")
    results = ann.taken()[1].results
    assert [(one.error, one.reason, one.retry_ms) for one in results] == [("not_ready", NOT_READY, 500)] * 2
    stage.publish("/s/1", "hidden")
    assert ann.taken() == []
    fill(stage, rule(1))
    answer, snapshot = ann.taken()
    assert [(one.subject, one.error) for one in answer.results] == [("/s/1", ""), ("/t/1", "denied")]
    assert answer.id != 1  # an event, not an answer: the id is unset
    assert snapshot.content == "hidden"


def test_a_rule_cuts_and_starts_a_running_subscription() -> None:
    """Told which subjects and why; the snapshot comes when the right comes back."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage, rule(1))
    ann = enter(stage, "/s/1", "/s/2")
    ann.taken()
    change(stage, 1, rules=[rule(2, pattern="/s/1", allow=False)])
    assert [(one.subjects, one.reason) for one in ann.taken()] == [(["/s/1"], "rule 2 denies it")]
    stage.publish("/s/1", "secret")
    stage.publish("/s/2", "open")
    assert ann.messages() == [("/s/2", 1, "open")]
    change(stage, 2, removed=[2])
    answer, snapshot = ann.taken()
    assert (answer.results[0].subject, answer.results[0].error, snapshot.content) == ("/s/1", "", "secret")
    stage.publish("/s/1", "live")
    assert ann.messages() == [("/s/1", 2, "live")]


@pytest.mark.parametrize("form", ["json", "msgpack"])
@pytest.mark.parametrize("window_bits", [0, 15])
def test_nothing_revoked_leaves_the_queue_of_a_stalled_client(form: str, window_bits: int) -> None:
    """What waits for the client is filtered, compressed or not; what is not revoked comes, in order."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage, rule(1))
    ann = stage.enter("ann", mint(), terms=terms_of(wire_of(form, window_bits, 1)))
    ann.say(Subscribe(id=1, subjects=["/s/1", "/s/2"]))
    ann.taken()
    ann.blocked = True
    for number in range(4):
        stage.publish("/s/1", f"secret {number}" * 50)
        stage.publish("/s/2", f"open {number}" * 50)
    assert all(bool(chunk[0] & 0x40) == bool(window_bits) for chunk in ann.client.queue.chunks)
    change(stage, 1, rules=[rule(2, pattern="/s/1", allow=False)])
    ann.unblock()
    got = ann.taken()
    assert [one.content for one in got if isinstance(one, Data)] == [f"open {number}" * 50 for number in range(4)]
    assert isinstance(got[-1], Revoked)


def test_a_frame_begun_is_finished() -> None:
    """The socket took a part of a frame before its subject was revoked."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage, rule(1))
    ann = enter(stage, "/s/1")
    ann.taken()
    ann.blocked = True
    stage.publish("/s/1", "begun")
    stage.publish("/s/1", "never")
    queue = ann.client.queue
    whole = b"".join(queue.chunks)
    queue.advance(5)
    change(stage, 1, removed=[1])
    rest = b"".join(ann.client.queue.chunks)[ann.client.queue.sent :]
    begun = whole.index(b'"begun"]') + len(b'"begun"]')
    assert rest.startswith(whole[5:begun])
    assert b"never" not in rest
    assert queue.size == len(rest)


def test_users_and_sessions() -> None:
    """A changed user replaces what older tokens say; a signed-out session and an inactive user are closed."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage, rule(1, who="group:7"))
    ann = enter(stage, "/s/1", token=mint(groups=["7"]))
    assert ann.taken()[1].results[0].error == ""
    user = {"uid": "1", "user": "ann", "active": True, "superuser": False, "groups": [], "generation": 2}
    change(stage, 1, users=[user])
    assert isinstance(ann.taken()[0], Revoked)
    change(stage, 2, users=[user | {"superuser": True, "generation": 3}])
    assert isinstance(ann.taken()[0], Subscribed)
    change(stage, 3, users=[user | {"active": False, "generation": 4}])
    assert ann.closed == (4502, "revoked: the user is not active")
    with pytest.raises(Refused):
        stage.enter("ann", mint())
    assert stage.enter("ann", mint(gen=4)).closed is None
    bob = stage.enter("bob", mint("bob", "2", sid="s1"))
    change(stage, 4, sessions=[{"sid": "s1", "generation": 5}])
    assert bob.closed == (4502, "revoked: signed out")
    with pytest.raises(Refused):
        stage.enter("bob", mint("bob", "2", sid="s1"))


def test_validity_opens_and_closes() -> None:
    """Without any word from Django."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage, rule(1, start=START + 1000, end=START + 2000))
    ann = enter(stage, "/s/1")
    assert ann.taken()[1].results[0].error == "denied"
    stage.advance(1000)
    assert isinstance(ann.taken()[0], Subscribed)
    stage.advance(1000)
    assert isinstance(ann.taken()[0], Revoked)


def test_only_those_concerned_are_looked_at() -> None:
    """A change of one user's rules leaves the others alone."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage, rule(1), rule(2, who="user:2"))
    enter(stage, "/s/1")
    bob = stage.enter("bob", mint("bob", "2"))
    before = bob.client.principal
    change(stage, 1, rules=[rule(1, pattern="/t/*")])
    assert bob.client.principal is before


def test_differences_must_fit() -> None:
    """A difference from another generation, what is no list of records, a chunk out of place."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage, generation=7)
    with pytest.raises(InvalidMessage, match="stale: generation 7 is in force, not 5"):
        change(stage, 5)
    with pytest.raises(InvalidMessage, match="invalid: records of kind rule: Expected `array`"):
        change(stage, 7, rules={"id": 3})
    with pytest.raises(InvalidMessage, match="rules_begin comes first"):
        stage.sessions.rights.commit(8, stage.now)
    with pytest.raises(InvalidMessage, match="mode none, not rules"):
        change(Stage(), 0, rules=[rule(3)])


UNREADABLE_RULES = {
    "no slash": rule(3, pattern="s/*"),
    "an empty segment": rule(3, pattern="/s//1"),
    "too long": rule(3, pattern="/" + "\u4fa1" * 400),
    "half a character": rule(3, pattern="/s/\ud83d"),
    "** in the middle": rule(3, pattern="/s/**/1"),
    "unknown action": rule(3) | {"action": "read"},
    "no holder": rule(3) | {"who": None},
    "no effect": rule(3) | {"allow": None},
    "a time that is none": rule(3) | {"start": "yesterday"},
    "a member is missing": {"id": 3, "who": "user:1"},
    "said to be unreadable": {"id": 3, "unreadable": "the database has no date", "denies": True},
}


@pytest.mark.parametrize("bad", UNREADABLE_RULES.values(), ids=UNREADABLE_RULES)
def test_a_rule_that_cannot_be_read_stops_no_other(bad: dict) -> None:
    """In a difference and in a full set: all others count, it allows nothing, and it is named until it is gone."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage, rule(1), rule(3, pattern="/t/*"))
    ann = enter(stage, "/s/1", "/s/2", "/t/1")
    ann.taken()
    rights = stage.sessions.rights
    change(stage, 1, rules=[rule(2, pattern="/s/1", allow=False), bad])
    assert sorted(subject for one in ann.taken() for subject in one.subjects) == ["/s/1", "/t/1"]
    assert list(rights.left_out.faults) == [("rule", 3)]
    assert "rule 3 (" in rights.left_out.text()
    change(stage, 2, users=[{"uid": "2", "user": "bob", "active": False, "superuser": False} | GROUPLESS])
    assert list(rights.left_out.faults) == [("rule", 3)], "a later change does not mend it"
    fill(stage, bad, rule(1), rule(2, pattern="/s/2", allow=False), generation=4)
    results = ann.taken()
    assert [one.subjects for one in results if isinstance(one, Revoked)] == [["/s/2"]]
    assert list(rights.left_out.faults) == [("rule", 3)]
    change(stage, 4, removed=[3])
    assert (rights.left_out.text(), rights.left_out.denying) == ("", 0)


GROUPLESS = {"groups": [], "generation": 2}


def test_what_was_denied_by_an_unreadable_rule_is_an_alarm() -> None:
    """And one that was good, and is known by its effect to have allowed, is none."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage, rule(1), rule(2, pattern="s/1", allow=False), rule(4, pattern="s/1"), rule(5, pattern="/s/**"))
    assert stage.sessions.rights.left_out.denying == 1
    assert stage.sessions.rights.left_out.text() == (
        "left out, as they cannot be read: rule 2 (no leading slash), rule 4 (no leading slash); "
        "1 of them may have denied something"
    )


@pytest.mark.parametrize("bad", [{"user": None}, {"groups": [7]}, {"superuser": "no"}, {"unreadable": "why"}])
def test_a_user_who_cannot_be_read_is_not_active(bad: dict) -> None:
    """What ends a right does so; the other users of the same difference follow."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage, rule(1, who="everyone"))
    ann, bob, eve = (stage.enter(name, mint(name, uid)) for name, uid in (("ann", "1"), ("bob", "2"), ("eve", "3")))
    change(
        stage,
        1,
        users=[
            {"uid": "1", "user": "ann", "active": True, "superuser": False} | GROUPLESS | bad,
            {"uid": "2", "user": "bob", "active": False, "superuser": False} | GROUPLESS,
        ],
    )
    assert [one.client.closed for one in (ann, bob, eve)] == [True, True, False]
    assert list(stage.sessions.rights.left_out.faults) == [("user", "1")]
    change(stage, 2, users=[{"uid": "1", "user": "ann", "active": True, "superuser": False} | GROUPLESS])
    assert stage.sessions.rights.left_out.text() == ""
    assert not stage.enter("ann", mint()).client.closed


def test_other_records_that_cannot_be_read() -> None:
    """A session whose name is known is revoked; one without stops no other; options are left out."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage, rule(1, who="everyone"))
    ann, bob = stage.enter("ann", mint(sid="a")), stage.enter("bob", mint("bob", "2", sid="b"))
    options = [{"id": 1, "pattern": "/s/*", "retained": 7}, {"id": 2, "pattern": "/t/*", "retained": False}]
    stage.sessions.rights.change(
        1, 2, [], [], [], [{"sid": "a", "generation": "?"}, 7, {"sid": "b", "generation": 2}], stage.now, options
    )
    stage.end()
    assert (ann.client.closed, bob.client.closed) == (True, True)
    assert [row.id for row in stage.broker.interest.options.rows] == [2]
    assert set(stage.sessions.rights.left_out.faults) == {("session", "a"), ("session", ""), ("options", 1)}
    stage.sessions.rights.change(2, 3, [], [], [], [], stage.now, options[1:])
    assert set(stage.sessions.rights.left_out.faults) == {("session", "a"), ("session", "")}


def test_who_is_in_no_set_of_a_database_that_began_anew_is_nobody() -> None:
    """The record without a key stands for every user whose token is older, and of whom nothing else is told."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage, rule(1, who="everyone"))
    root = stage.enter("root", mint("root", "9", su=True))
    ann, late = stage.enter("ann", mint()), stage.enter("late", mint("late", "3", gen=5))
    others = {"uid": "", "user": "", "active": False, "superuser": False, "groups": [], "generation": 5}
    known = {"uid": "1", "user": "ann", "active": True, "superuser": False, "groups": [], "generation": 6}
    change(stage, 1, users=[others, known])
    assert [one.client.closed for one in (root, ann, late)] == [True, False, False]
    rights = stage.sessions.rights
    rights.begin()
    rights.add([rule(1, who="everyone")], [others], [])
    rights.commit(7, stage.now)
    stage.end()
    assert [one.client.closed for one in (ann, late)] == [True, False]


def test_a_token_is_renewed_and_ends() -> None:
    """Renewal adopts the new rights; another user's token is refused; after the end the client is closed."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage, rule(1, who="group:7"))
    ann = enter(stage, "/s/1", token=mint(seconds=100))
    ann.taken()
    ann.say(Token(id=2, token=mint("bob", "2")))
    ann.say(Token(id=3, token=mint(groups=["7"], seconds=200)))
    refused, started, renewed = ann.taken()[:3]
    assert (refused.code, refused.reason) == ("bad_token", "the token is another user's")
    assert (started.results[0].error, renewed.user) == ("", "ann")
    for second in range(201):
        assert ann.closed is None, second
        stage.now += 1000
        ann.client.alive = True
        stage.sessions.beat(stage.now)
        stage.end()
        if second == 150:
            assert [one.expires for one in ann.taken()] == [START + 200_000]
        if ann.closed:
            break
    assert ann.closed is not None
    assert ann.closed[0] == 4007
    assert stage.now - START in range(200_000, 202_000)


def test_a_client_without_a_sign_of_life_is_closed() -> None:
    """Pinged every 25 s, closed at the second time."""
    stage = Stage()
    ann = stage.enter("ann")
    for _ in range(24 + 26):
        stage.sessions.beat(stage.now)
        stage.end()
    assert ann.closed == (4002, "ping_timeout: no sign of life")


def test_time_in_which_the_server_did_not_run_is_no_silence_of_its_clients() -> None:
    """Pinged as ever, but judged by the time that the server had: here a tenth of what passes."""
    stage = Stage()
    ann = stage.enter("ann")
    for second in range(1, 10 * 24):
        stage.sessions.beat(stage.now + 1000 * second, second / 10)
        stage.end()
        assert ann.closed is None, second
    for second in range(10 * 24, 10 * 80):
        stage.sessions.beat(stage.now + 1000 * second, second / 10)
        stage.end()
    assert ann.closed == (4002, "ping_timeout: no sign of life")


def test_the_claims_of_an_outside_issuer() -> None:
    """Mode jwt: patterns for sub, pub and all; without a token nothing."""
    stage = Stage(JwtGrants(SECRET))
    permissions = {"sub": ["/s/*"], "pub": ["/p/**"], "all": ["/both/x"]}
    token = jwt.encode({"sub": "x", "exp": START // 1000 + 60, "permissions": permissions}, SECRET, "HS256")
    ann = enter(stage, "/s/1", "/p/1", "/both/x", token=token)
    assert [one.error for one in ann.taken()[1].results] == ["", "denied", ""]
    for subject in ("/s/1", "/p/1/2", "/both/x"):
        ann.say(PublishCommand(subject=subject, content="x", closure="c"))
    answers = [one for one in ann.taken() if isinstance(one, Published)]
    assert [one.status for one in answers] == ["denied", "ok", "ok"]
    bob = enter(stage, "/s/1", token="")
    assert bob.taken()[1].results[0].reason == "a token is needed"


@pytest.mark.parametrize(
    "token",
    [
        "garbage",
        mint() + "x",
        jwt.encode({"aud": "fastpath", "sub": "ann"}, SECRET, "HS256"),
        jwt.encode({"aud": "other", "sub": "ann", "exp": START}, SECRET, "HS256"),
        jwt.encode({"aud": "fastpath", "sub": "ann", "exp": START // 1000 + 60}, None, "none"),
        jwt.encode({"aud": "fastpath", "sub": "ann", "exp": START // 1000 + 60}, SECRET + "!", "HS256"),
        jwt.encode({"aud": "fastpath", "sub": "ann", "exp": START // 1000 + 60, "groups": 5}, SECRET, "HS256"),
        mint(seconds=-1),
    ],
)
def test_bad_tokens_are_refused(token: str) -> None:
    """Signature, audience, algorithm, form, time."""
    with pytest.raises(Refused) as caught:
        RuleGrants(SECRET).principal(token, START)
    assert int(caught.value.code) in (4501, 4007)


def session(sid: str, until: int = 0) -> dict:
    """A revoked session or token as Django sends it (protocol.md 8.3)."""
    return {"sid": sid, "generation": 2, "until": until}


def person(**more: object) -> dict:
    """Ann as Django sends her (protocol.md 8.3)."""
    plain = {"uid": "1", "user": "ann", "active": True, "superuser": False, "groups": [], "generation": 2}
    return plain | more


@pytest.mark.parametrize(
    ("changes", "code", "reason"),
    [
        ({"sessions": [session("jti:t1")]}, 4502, "the token was revoked"),
        ({"sessions": [session("s1")]}, 4502, "signed out"),
        ({"users": [person(active=False)]}, 4502, "the user is not active"),
        ({"users": [person(since=2)]}, 4007, PASSWORD_CHANGED),
        # What comes together: the hardest that cannot be helped by a new token, else that one helps.
        ({"users": [person(since=2)], "sessions": [session("s1")]}, 4007, PASSWORD_CHANGED),
        ({"users": [person(since=2)], "sessions": [session("jti:t1")]}, 4502, "the token was revoked"),
        ({"users": [person(since=2, active=False)]}, 4502, "the user is not active"),
        ({"sessions": [session("t1"), session("jti:s1")], "users": [person(since=1)]}, 0, ""),
    ],
)
def test_what_ends_a_connection(changes: dict, code: int, reason: str) -> None:
    """And with which code: after 4007 the client comes back with another token, after 4502 it does not."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage, rule(1))
    token = mint(jti="t1", sid="s1")
    ann = enter(stage, "/s/1", token=token)
    ann.taken()
    change(stage, 1, **changes)
    while stage.sessions.rights.busy:
        stage.sessions.rights.step(stage.now)
    stage.end()
    if not code:
        assert ann.taken() == []
        return
    assert ann.taken() == [Revoked(subjects=["/s/1"], reason=reason)]
    with pytest.raises(Refused) as caught:
        stage.broker.grants.principal(token, stage.now)
    assert (int(caught.value.code), caught.value.reason) == (code, reason)


def test_revoked_sessions_are_forgotten_when_no_token_of_them_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sidecar runs for months; one without an end is kept."""
    monkeypatch.setattr(rule_grants, "SESSIONS_KEPT", 10)
    stage = Stage(RuleGrants(SECRET))
    fill(stage, rule(1))
    change(stage, 1, sessions=[session("for ever")])
    for generation in range(2, 102):
        change(stage, generation, sessions=[session(f"s{generation}", stage.now + 1000)])
        stage.now += 100
    assert isinstance(stage.broker.grants, RuleGrants)
    kept = {one.sid for one in stage.broker.grants.contents()[2]}
    assert len(kept) <= 30
    assert {"for ever", *(f"s{generation}" for generation in range(93, 102))} <= kept


def test_a_key_that_is_gone_ends_who_came_with_it() -> None:
    """In slices, like any change of rights; anonymous clients came without one."""
    keys = Keys(SECRET)
    stage = Stage(RuleGrants(keys))
    fill(stage, rule(1), rule(2, "everyone", "/open/*"))
    ann, nobody = enter(stage, "/s/1"), enter(stage, "/open/x", token="")
    ann.taken(), nobody.taken()
    other = Keys("another secret of more than thirty-two bytes")
    stage.broker.grants.keys = other
    stage.sessions.rights.keys_changed()
    assert stage.sessions.rights.busy
    stage.sessions.rights.step(stage.now)
    stage.end()
    assert [type(one) for one in ann.taken()] == [Revoked]
    assert nobody.taken() == []


@pytest.mark.parametrize(
    "changes",
    [
        {"users": [person(active=False)]},
        {"users": [person(since=2)]},
        {"sessions": [session("s1")]},
        {"sessions": [session("jti:t1")]},
    ],
    ids=["deactivated", "password", "signed out", "revoked"],
)
def test_a_question_about_a_right_does_not_make_the_principal_look_fresh(changes: dict) -> None:
    """Who advertises is asked about each time that something is wanted, between a change and the look at it."""
    stage = Stage(RuleGrants(SECRET))
    grants = stage.broker.grants
    fill(stage, rule(1, action="publish"))
    ann = grants.principal(mint(jti="t1", sid="s1"), stage.now)
    known = grants.publishable(ann)
    assert known is not None
    known.add("/s/1")
    assert grants.publishable(ann) == {"/s/1"}
    change(stage, 1, **changes)
    assert grants.check(ann, "publish", "/s/2", stage.now) == ""
    assert grants.publishable(ann) == set(), "what was known before the change"
    assert grants.check(ann, "publish", "/s/1", stage.now) == ""
    with pytest.raises(Refused):
        grants.current(ann)


@pytest.mark.parametrize("by_name", [True, False])
def test_those_who_may_read_the_same_but_for_their_names(by_name: bool) -> None:
    """Two who hold the same rules follow them alike, and each keeps what is its own when a rule about it goes."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage, rule(1, "everyone", "/s/*"), rule(2, "everyone", "/user/*/x"))
    stage.publish("/user/ann/x", "1")
    stage.publish("/user/bob/x", "1")
    actors = {}
    for uid, name in enumerate(("ann", "bob"), 1):
        actors[name] = actor = stage.enter(name, mint(name, str(uid)))
        actor.say(Subscribe(id=1, subjects=["/s/*", "/user/ann/x" if by_name else "/user/*/x"]))
        stage.end()
        assert any(content == "1" for _, _, content in actor.messages())
    change(stage, 1, removed=[2])
    stage.publish("/user/ann/x", "for ann")
    stage.publish("/user/ann/y/x", "no pattern of these")
    stage.publish("/s/new", "for both")
    assert actors["ann"].messages() == [("/user/ann/x", 2, "for ann"), ("/s/new", 1, "for both")]
    assert actors["bob"].messages() == [("/s/new", 1, "for both")]


@pytest.mark.parametrize("slow", ["close", "conflate"])
def test_a_subject_that_comes_to_be_is_its_users_alone(slow: str) -> None:
    """Also for those who follow the same pattern and hold the same rules, together or each for itself."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage, rule(1, "everyone", "/s/*"))
    actors = [stage.enter(name, mint(name, str(uid))) for uid, name in enumerate(("ann", "bob"), 1)]
    for actor in actors:
        actor.say(Subscribe(id=1, subjects=["/user/**"], slow=slow))
        stage.end()
        actor.taken()
    stage.publish("/user/ann/x", "for ann")
    stage.publish("/user/bob/x", "for bob")
    assert [actor.messages() for actor in actors] == [
        [("/user/ann/x", 1, "for ann")],
        [("/user/bob/x", 1, "for bob")],
    ]


def permitted(*patterns: str, name: str = "ann", uid: str = "1") -> str:
    """A token that permits these to be read."""
    return mint(name, uid, permissions={"sub": list(patterns)})


def test_a_renewed_token_without_a_permission_stops_the_data() -> None:
    """At once, also what waits in the client's queue; and a permission that the new one has begins."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage)
    ann = enter(stage, "/o/1", "/o/2", token=permitted("/o/1"))
    assert [(one.subject, one.reason) for one in ann.taken()[1].results] == [
        ("/o/1", ""),
        ("/o/2", "neither a rule nor the token allows it"),
    ]
    stage.publish("/o/1", "before")
    assert ann.messages() == [("/o/1", 1, "before")]
    ann.say(Token(id=2, token=permitted("/o/2")))
    stage.end()
    revoked = next(one for one in ann.taken() if isinstance(one, Revoked))
    assert (revoked.subjects, revoked.reason) == (["/o/1"], "neither a rule nor the token allows it")
    stage.publish("/o/1", "after")
    stage.publish("/o/2", "after")
    assert ann.messages() == [("/o/2", 1, "after")]


def test_a_rule_that_denies_wins_at_once_over_a_permission() -> None:
    """However general it is; when it goes the permission counts again."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage)
    ann = enter(stage, "/o/1", token=permitted("/o/1"))
    ann.taken()
    change(stage, 1, rules=[rule(3, "everyone", "/**", allow=False)])
    assert [(one.subjects, one.reason) for one in ann.taken()] == [(["/o/1"], "rule 3 denies it")]
    stage.publish("/o/1", "hidden")
    assert ann.messages() == []
    change(stage, 2, removed=[3])
    stage.publish("/o/1", "seen")
    assert [content for _, _, content in ann.messages()] == ["hidden", "seen"]


def test_those_who_follow_a_pattern_together_have_permissions_of_their_own() -> None:
    """Who has a new token leaves those who may read otherwise: a subject that comes to be is for whom it is."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage)
    tokens = {"ann": permitted("/o/**"), "bob": permitted("/o/**", name="bob", uid="2")}
    actors = {name: stage.enter(name, token) for name, token in tokens.items()}
    eve = stage.enter("eve", permitted("/o/eves", name="eve", uid="3"))
    for actor in (*actors.values(), eve):
        actor.say(Subscribe(id=1, subjects=["/o/*"]))
        stage.end()
        actor.taken()
    stage.publish("/o/1", "both")
    assert [actor.messages() for actor in (*actors.values(), eve)] == [[("/o/1", 1, "both")]] * 2 + [[]]
    actors["bob"].say(Token(id=2, token=permitted("/o/1", "/o/bobs", name="bob", uid="2")))
    stage.end()
    actors["bob"].taken()
    for subject in ("/o/1", "/o/2", "/o/bobs", "/o/eves"):
        stage.publish(subject, "x")
    assert [subject for subject, _, _ in actors["ann"].messages()] == ["/o/1", "/o/2", "/o/bobs", "/o/eves"]
    assert [subject for subject, _, _ in actors["bob"].messages()] == ["/o/1", "/o/bobs"]
    assert [subject for subject, _, _ in eve.messages()] == ["/o/eves"]
