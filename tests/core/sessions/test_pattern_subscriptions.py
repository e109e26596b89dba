"""Subscriptions to patterns: rights, bounds, crowds, what waits and what resumes (protocol.md 3.8)."""

from __future__ import annotations

import pytest

from fastpath.core.auth.jwt_grants import JwtGrants
from fastpath.core.auth.rule_grants import RuleGrants
from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import Data, Message, Revoked, Subscribe, Subscribed, Token, Unsubscribe
from tests.support.core.rights import SECRET, change, fill, mint, rule
from tests.support.core.stage import Actor, Stage
from tests.support.tokens import mint_jwt


def results(actor: Actor) -> list[tuple[str, str, str]]:
    """Subject, pattern and error of all that ``subscribed`` told since the last look."""
    told = [one for one in actor.taken() if isinstance(one, Subscribed)]
    return [(one.subject, one.pattern, one.error) for event in told for one in event.results]


def found(actor: Actor) -> list[tuple[str, str, str]]:
    """The same without what was told of patterns themselves."""
    return [one for one in results(actor) if one[1]]


def test_only_what_may_be_read_is_told_and_rights_are_followed() -> None:
    """The names of other subjects are not told; a right that comes brings the subject, one that goes takes it."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage, rule(1, pattern="/s/**"), rule(2, pattern="/s/secret/*", allow=False))
    for subject in ("/s/1", "/s/secret/1"):
        stage.publish(subject, "x")
    ann = stage.enter("ann", mint())
    ann.say(Subscribe(id=1, subjects=["/s/**"]))
    assert results(ann) == [("/s/**", "", ""), ("/s/1", "/s/**", "")]
    stage.publish("/s/secret/2", "x")
    stage.publish("/s/secret/1", "x")
    assert ann.taken() == []
    change(stage, 1, removed=[2])
    assert sorted(found(ann)) == [("/s/secret/1", "/s/**", ""), ("/s/secret/2", "/s/**", "")]
    stage.publish("/s/secret/1", "y")
    assert len(ann.taken()) == 1
    change(stage, 2, rules=[rule(3, pattern="/s/secret/2", allow=False), rule(4, pattern="/s/secret/3", allow=False)])
    told = ann.taken()
    assert [one.subjects for one in told if isinstance(one, Revoked)] == [["/s/secret/2"]]
    stage.publish("/s/secret/2", "z")
    stage.publish("/s/secret/3", "z")
    assert ann.taken() == []
    change(stage, 3, removed=[3, 4])
    assert sorted(found(ann)) == [("/s/secret/2", "/s/**", ""), ("/s/secret/3", "/s/**", "")]
    ann.say(Unsubscribe(id=2, subjects=["/s/**"]))
    assert (stage.broker.counters.subscriptions, stage.broker.counters.waiting) == (0, 0)


def test_what_the_client_named_itself_is_told_also_when_it_is_denied() -> None:
    """In ``since`` it says what it has read: it learns that this is not its any more, and gets it when it is again."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage, rule(1, pattern="/s/*"), rule(2, pattern="/s/2", allow=False))
    for subject in ("/s/1", "/s/2"):
        stage.publish(subject, "x")
    ann = stage.enter("ann", mint())
    epoch = stage.broker.engine.epoch
    since = {"/s/*": (0, 0), "/s/1": (epoch, 1), "/s/2": (epoch, 1), "/t/1": (epoch, 1), "not a subject": (1, 1)}
    ann.say(Subscribe(id=1, subjects=["/s/*"], since=since))
    assert results(ann) == [("/s/*", "", ""), ("/s/1", "/s/*", ""), ("/s/2", "/s/*", "denied")]
    stage.publish("/s/2", "y")
    change(stage, 1, removed=[2])
    (whole, event, message) = ann.taken()
    assert isinstance(whole, Subscribed) and isinstance(event, Subscribed)
    assert (whole.results[0].subject, whole.results[0].rights) == ("/s/*", "")
    assert (event.results[0].pattern, event.results[0].recovery) == ("/s/*", "recovered")
    assert isinstance(message, Data)
    assert (message.seq, message.content, message.meta.kind) == (2, "y", "recovered")


def rights(ann: Actor) -> list[tuple[str, str, str]]:
    """What was told since of patterns: how much of each may be read, and why not all."""
    answers = [one for one in ann.taken() if isinstance(one, Subscribed)]
    return [(one.subject, one.rights, one.reason) for answer in answers for one in answer.results if not one.pattern]


def test_a_pattern_says_how_much_of_it_may_be_read() -> None:
    """Nothing or a part, with the reason, and again when rights come or go; who asks for it later is told the same."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage, rule(9, pattern="/elsewhere/*"))
    stage.publish("/s/1", "x")
    ann = stage.enter("ann", mint())
    ann.say(Subscribe(id=1, subjects=["/s/*"]))
    assert rights(ann) == [("/s/*", "denied", "no rule allows it")]
    change(stage, 1, rules=[rule(1, pattern="/s/1")])
    told = ann.taken()
    assert [(one.results[0].subject, one.results[0].rights) for one in told if isinstance(one, Subscribed)] == [
        ("/s/*", "partial"),
        ("/s/1", ""),
    ], "what has changed for the pattern comes before what it finds"
    change(stage, 2, rules=[rule(2, pattern="/s/*")])
    assert rights(ann) == [("/s/*", "", "")]
    change(stage, 3, rules=[rule(3, pattern="/s/2", allow=False)])
    assert rights(ann) == [("/s/*", "partial", "rule 3 denies it")]
    change(stage, 4, rules=[rule(8, pattern="/elsewhere/1")])
    assert rights(ann) == [], "nothing is told that is as it was"
    change(stage, 5, removed=[1, 2, 3])
    assert rights(ann) == [("/s/*", "denied", "no rule allows it")]
    bob = stage.enter("bob", mint())
    bob.say(Subscribe(id=1, subjects=["/s/*", "/s/**", "/elsewhere/**"]))
    assert rights(bob) == [
        ("/s/*", "denied", "no rule allows it"),
        ("/s/**", "denied", "no rule allows it"),
        ("/elsewhere/**", "partial", "no rule allows it"),
    ]


def test_everybody_in_a_group_is_told_when_rights_go() -> None:
    """Clients that share their place are followed once, and each is told."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage, rule(1, pattern="/s/*"))
    stage.publish("/s/1", "x")
    everybody = [stage.enter(f"c{number}", mint()) for number in range(5)]
    for one in everybody:
        one.say(Subscribe(id=1, subjects=["/s/*"]))
        assert ("/s/*", "", "") in rights(one)
    change(stage, 1, rules=[rule(2, pattern="/s/1", allow=False)])
    assert [rights(one) for one in everybody] == [[("/s/*", "partial", "rule 2 denies it")]] * 5
    change(stage, 2, rules=[rule(3, pattern="/s/*", allow=False)], removed=[1])
    assert [rights(one) for one in everybody] == [[("/s/*", "denied", "rule 3 denies it")]] * 5
    change(stage, 3, removed=[2, 3], rules=[rule(1, pattern="/s/*")])
    for one in everybody:
        assert ("/s/*", "", "") in rights(one)


def test_another_token_brings_other_rights() -> None:
    """Told as a change of the rules is."""
    stage = Stage(JwtGrants(SECRET))
    ann = stage.enter("ann", mint_jwt("ann", subscribe=["/t/*"], secret=SECRET))
    ann.say(Subscribe(id=1, subjects=["/s/*"]))
    assert rights(ann) == [("/s/*", "denied", "no permission in the token covers it")]
    ann.say(Token(id=2, token=mint_jwt("ann", subscribe=["/s/**"], secret=SECRET)))
    assert rights(ann) == [("/s/*", "", "")]


def test_before_the_rights_a_pattern_waits() -> None:
    """Told ``not_ready``; its subjects come with the rights."""
    stage = Stage(RuleGrants(SECRET))
    stage.publish("/s/1", "x")
    ann = stage.enter("ann", mint())
    ann.say(Subscribe(id=1, subjects=["/s/*"]))
    assert results(ann) == [("/s/*", "", "not_ready")]
    fill(stage, rule(1, pattern="/s/*"))
    assert results(ann) == [("/s/1", "/s/*", "")]


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("/s/**/x", "** only as the last segment"),
        ("/s/x*/*", "* must be a whole segment"),
        ("/*", "only one segment"),
        ("s/*", "no leading slash"),
        ("/s/*/", "last segment empty"),
        ("/{username}/*", "{username} is for rules: name the user"),
        ("/s" * 40 + "/*", "too many segments"),
    ],
)
def test_a_pattern_that_is_none(pattern: str, reason: str) -> None:
    """Refused by its name, and nothing is kept."""
    stage = Stage()
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=[pattern]))
    (_, answer) = ann.taken()
    assert isinstance(answer, Subscribed)
    assert (answer.results[0].error, answer.results[0].reason) == ("invalid", reason)
    assert ann.client.wilds is None


def test_the_bound_on_subscriptions_is_told_once() -> None:
    """A pattern that finds more than a connection may have: what fits runs, and the client knows."""
    stage = Stage(limits=Limits(subscriptions_max=4))
    for number in range(6):
        stage.publish(f"/s/{number}", "x")
    ann, bob = stage.enter("ann"), stage.enter("bob")
    ann.say(Subscribe(id=1, subjects=["/s/*"]))
    bob.say(Subscribe(id=1, subjects=["/s/5", "/s/6"]))
    told = results(ann)
    assert told[:4] == [("/s/*", "", ""), *((f"/s/{number}", "/s/*", "") for number in range(3))]
    assert told[4:] == [("/s/*", "", "limit")]
    stage.publish("/s/6", "x")
    stage.publish("/s/7", "x")
    assert ann.taken() == []
    assert ann.client.count == 4
    assert len([one for one in bob.taken() if isinstance(one, Data)]) == 2
    ann.say(Unsubscribe(id=2, subjects=["/s/*"]))
    assert ann.client.count == 0


def test_a_cohort_that_is_full_is_told_and_the_subject_stays() -> None:
    """Clients that follow a pattern together reach the bound by a subject that comes to be; its messages are kept."""
    stage = Stage(limits=Limits(subscriptions_max=3))
    actors = [stage.enter(name) for name in ("ann", "bob")]
    for actor in actors:
        actor.say(Subscribe(id=1, subjects=["/s/*"]))
    for number in range(4):
        assert stage.publish(f"/s/{number}", "x") == 1
    for actor in actors:
        told = results(actor)
        assert told == [("/s/*", "", ""), ("/s/0", "/s/*", ""), ("/s/1", "/s/*", ""), ("/s/*", "", "limit")]
    assert stage.publish("/s/2", "y") == 2
    stage.enter("cid").say(Subscribe(id=1, subjects=["/s/2"], history=9))
    assert [seq for _, seq, _ in stage.actors["cid"].messages()] == [1, 2]


def test_ten_thousand_subjects_come_in_slices_and_wait_for_room() -> None:
    """No turn of the loop starts more than a slice, and the outgoing queue is not overrun."""
    stage = Stage(limits=Limits(outbox_bytes_max=40_000))
    for number in range(2_000):
        stage.publish(f"/s/{number}", "x" * 100)
    ann = stage.enter("ann")
    ann.blocked = True
    stage.sessions.receive(ann.client, b'{"op":"subscribe","id":1,"subjects":["/s/*"]}', stage.now)
    stage.broker.flush()
    assert 0 < len(ann.client.subscriptions) <= 200
    for _ in range(40):
        stage.sessions.rights.step(stage.now)
        stage.broker.flush()
    assert ann.client.queue is not None
    assert ann.client.queue.size < 30_000
    for _ in range(30):
        ann.unblock()
        ann.blocked = True
        stage.advance(100)
    assert len(ann.client.subscriptions) == 2_000
    assert ann.closed is None


def test_a_thousand_clients_of_one_pattern_stay_one_group() -> None:
    """A new subject changes one group and encodes one answer, however many clients want it."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage, rule(1, who="everyone", pattern="/s/**"), rule(2, who="user:7", pattern="/s/odd", allow=False))
    actors = [stage.enter(f"client {number}", mint(uid=str(number), user=f"u{number}")) for number in range(1000)]
    for actor in actors:
        actor.say(Subscribe(id=1, subjects=["/s/*", "/s/**"]))
    stage.publish("/s/1", "x")
    groups = stage.broker.interest.groups
    assert sorted(map(len, groups.values())) == [1, 999]  # one of them is under another rule
    before = set(groups.values())
    stage.publish("/s/2", "x")
    stage.publish("/s/odd", "x")
    assert set(groups.values()) == before
    assert len({id(actor.client.subscriptions) for actor in actors}) == 2
    fill(stage, rule(1, who="everyone", pattern="/s/**"), generation=2)
    stage.publish("/s/3", "x")
    assert sorted(map(len, groups.values())) == [1000]
    for actor in actors:
        told = [one.content for one in actor.taken() if isinstance(one, Data) and not one.meta.kind]
        assert told == ["x"] * (4 if actor is not actors[7] else 3)


def test_what_a_cohort_may_read_is_not_what_its_first_member_may() -> None:
    """A rule with a user's name comes while all follow one pattern together: before anybody is looked at again, the
    first message of one's own subject goes to nobody else."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage, rule(1, who="everyone", pattern="/s/**"))
    actors = [stage.enter(f"u{number}", mint(uid=str(number), user=f"u{number}")) for number in range(3)]
    for actor in actors:
        actor.say(Subscribe(id=1, subjects=["/**"]))
    own = rule(2, who="everyone", pattern="/inbox/{username}/*")
    stage.sessions.rights.change(1, 2, [own], [], [], [], stage.now)
    stage.broker.publish(None, [Message("/inbox/u0/1", "secret")], stage.now)
    stage.end()
    for actor in actors[1:]:
        assert actor.messages() == []
    assert [content for _, _, content in actors[0].messages()] == ["secret"]


def test_resuming_before_the_rights_misses_nothing() -> None:
    """What came to be while the client was away is given from its first message on, also when the rights come later."""
    stage = Stage(RuleGrants(SECRET))
    for content in ("1", "2"):
        stage.publish("/s/new", content)
    ann = stage.enter("ann", mint())
    ann.say(Subscribe(id=1, subjects=["/s/*"], since={"/s/*": (0, 0)}))
    stage.advance(300)
    fill(stage, rule(1, pattern="/s/*"))
    told = ann.taken()
    recoveries = [one.recovery for event in told if isinstance(event, Subscribed) for one in event.results if one.sid]
    assert recoveries == ["recovered"]
    assert [one.content for one in told if isinstance(one, Data)] == ["1", "2"]


def test_what_was_pending_is_not_lost_when_a_pattern_takes_over() -> None:
    """A conflated subscription by name ends within its interval: by the pattern the newest comes at once."""
    stage = Stage()
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=["/s/*"]))
    stage.publish("/s/1", "1")
    ann.say(Subscribe(id=2, subjects=["/s/1"], conflation=1000))
    stage.publish("/s/1", "2")
    ann.taken()
    ann.say(Unsubscribe(id=3, subjects=["/s/1"]))
    assert [content for _, _, content in ann.messages()] == ["2"]
    stage.publish("/s/1", "3")
    assert [content for _, _, content in ann.messages()] == ["3"]


def test_a_search_that_finds_nothing_is_cut_as_well() -> None:
    """Places of the tree that are passed through count: no turn of the loop walks all of it."""
    stage = Stage()
    for number in range(5000):
        stage.publish(f"/s{number}/a", "x")
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=["/s1/a"]))
    stage.sessions.receive(ann.client, b'{"op":"subscribe","id":2,"subjects":["/*/no","/*/nor"]}', stage.now)
    steps = 0
    while stage.sessions.rights.busy:
        stage.sessions.rights.step(stage.now)
        steps += 1
    assert steps >= 4


def test_patterns_have_a_bound_of_their_own() -> None:
    """Told by name; one that is there already may be subscribed to in another way."""
    stage = Stage(limits=Limits(patterns_max=2))
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=["/a/*", "/b/*", "/c/*", "/d/e"]))
    told = results(ann)
    assert told == [("/a/*", "", ""), ("/b/*", "", ""), ("/c/*", "", "limit"), ("/d/e", "", "")]
    ann.say(Subscribe(id=2, subjects=["/a/*"], conflation=500))
    assert results(ann) == [("/a/*", "", "")]
    assert stage.broker.counters.limited["patterns"] == 1


@pytest.mark.parametrize("count", [3, 30])
def test_the_first_pattern_that_covers_a_subject_has_it(count: int) -> None:
    """However many there are, and when it ends the next one does."""
    stage = Stage()
    ann = stage.enter("ann")
    patterns = ["/s/**", *(f"/x{number}/*" for number in range(count)), "/*/1", "/s/*"]
    ann.say(Subscribe(id=1, subjects=patterns))
    ann.taken()
    stage.publish("/s/1", "1")
    for number, (ended, following) in enumerate([("/s/**", "/*/1"), ("/*/1", "/s/*")]):
        ann.say(Unsubscribe(id=number + 2, subjects=[ended]))
        assert ("/s/1", following, "") in results(ann)


def test_who_waits_follows_the_pattern_as_it_is_now() -> None:
    """A pattern subscribed to in another way holds for what waits for its right, too; its name is not ended by name."""
    stage = Stage(RuleGrants(SECRET))
    fill(stage, rule(1, pattern="/s/*"))
    stage.publish("/s/1", "x")
    ann = stage.enter("ann", mint())
    ann.say(Subscribe(id=1, subjects=["/s/*"], slow="conflate"))
    change(stage, 1, rules=[rule(2, pattern="/s/1", allow=False)])
    ann.say(Subscribe(id=2, subjects=["/s/*"], conflation=1000))
    ann.say(Unsubscribe(id=3, subjects=["/s/1"]))
    assert ann.taken()[-1].subjects == []
    change(stage, 2, removed=[2])
    (whole, event) = [one for one in ann.taken() if isinstance(one, Subscribed)]
    assert (whole.results[0].subject, whole.results[0].rights) == ("/s/*", "")
    assert event.results[0].conflation == 1000
