"""What clients do is counted as it is, whatever they do; and nothing is observed while nobody asks for it."""

from __future__ import annotations

import random
from collections import Counter

from fastpath.core.auth.grants import Grants, Principal
from fastpath.core.matching.pattern_set import PatternSet
from fastpath.core.presence.local_presence import LocalPresence
from fastpath.core.presence.replication import PresenceSender
from fastpath.core.presence.roster import present_key
from fastpath.core.protocol.errors import Close, Refused
from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import Connect, Subscribe, Token, Unsubscribe
from fastpath.core.protocol.options import OptionRow
from tests.support.core.stage import Actor, Stage


class Named(Grants):
    """The token is the user's name; ``closed`` are subjects that nobody may read, ``renamed`` users that were."""

    def __init__(self) -> None:
        self.closed: set[str] = set()
        self.renamed: dict[str, str] = {}
        self.gone: set[str] = set()

    def principal(self, token: str, now: int) -> Principal:
        del now
        return Principal(None, False, (), self.renamed.get(token, token))

    def refreshed(self, principal: Principal) -> Principal:
        if principal.user in self.gone:
            raise Refused(Close.REVOKED, "signed out")
        return self.principal(principal.user, 0)

    def check(self, principal: Principal, action: str, subject: str, now: int) -> str:
        del principal, action, now
        return "closed" if subject in self.closed else ""


class Kept:
    """A stage whose clients are counted."""

    def __init__(self, presence: str = "/chat/**", limits: Limits | None = None) -> None:
        self.grants = Named()
        self.stage = Stage(self.grants, limits)
        self.woken = 0
        self.speaker = PresenceSender("one", "life")
        self.attendance = LocalPresence(
            self.stage.broker, self.stage.sessions.clients, self.speaker, PatternSet.parse(presence), self.wake
        )
        self.stage.sessions.rights.options.watch(self.attendance.renew)

    def wake(self) -> None:
        """There is something to look at."""
        self.woken += 1

    def look(self) -> dict[str, int]:
        """All that is counted now."""
        while self.attendance.busy:
            self.attendance.step(3)
        return dict(self.speaker.counts)

    def recheck(self) -> None:
        """Rights have changed."""
        for actor in [one for one in self.stage.actors.values() if one.closed is None]:
            self.stage.sessions.rights.recheck(actor.client, self.stage.now)
        self.stage.end()


def subscribe(actor: Actor, *subjects: str, **keys: object) -> None:
    """Subscribe."""
    actor.say(Subscribe(id=1, subjects=list(subjects), **keys))


def test_users_are_counted_where_presence_is_kept() -> None:
    kept = Kept()
    ann, again, nobody = (kept.stage.enter(name, token) for name, token in (("1", "ann"), ("2", "ann"), ("3", "")))
    for actor in (ann, again, nobody):
        subscribe(actor, "/chat/a", "/news/a", "/__sys__/stats")
    assert kept.look() == {
        present_key("", "ann"): 2, present_key("", ""): 1,
        present_key("/chat/a", "ann"): 2, present_key("/chat/a", ""): 1,
    }  # fmt: skip
    nobody.say(Connect(id=2, token="bob"))
    again.say(Unsubscribe(id=2, subjects=["/chat/a", "/news/a"]))
    kept.stage.sessions.close(ann.client)
    assert kept.look() == {
        present_key("", "ann"): 1, present_key("", "bob"): 1, present_key("/chat/a", "bob"): 1}  # fmt: skip


def test_a_right_that_goes_and_comes_back_and_a_user_of_another_name() -> None:
    kept = Kept()
    ann = kept.stage.enter("1", "ann")
    subscribe(ann, "/chat/a")
    there = kept.look()
    kept.grants.closed.add("/chat/a")
    kept.recheck()
    assert kept.look() == {present_key("", "ann"): 1}
    kept.grants.closed.clear()
    kept.recheck()
    assert kept.look() == there
    kept.grants.renamed["ann"] = "anna"
    kept.recheck()
    assert kept.look() == {present_key("", "anna"): 1, present_key("/chat/a", "anna"): 1}
    kept.grants.gone.add("anna")
    kept.recheck()
    assert kept.look() == {}


def test_a_subscription_that_is_repeated_in_vain_has_ended() -> None:
    kept = Kept(limits=Limits(outbox_bytes_max=1 << 20))
    ann = kept.stage.enter("1", "ann")
    subscribe(ann, "/chat/a")
    kept.grants.closed.add("/chat/a")
    subscribe(ann, "/chat/a")
    assert kept.look() == {present_key("", "ann"): 1}


def test_what_is_advertised_is_wanted_while_it_has_subscribers() -> None:
    kept = Kept(presence="")
    one = kept.stage.enter("1")
    subscribe(one, "/stocks/a", "/bonds/a")
    assert kept.attendance not in kept.stage.broker.observers
    assert not kept.woken
    kept.attendance.follow(["/stocks/*"])
    assert kept.look() == {"/stocks/a": 1}
    subscribe(one, "/stocks/b", conflation=500)
    subscribe(one, "/stocks/c", slow="conflate")
    other = kept.stage.enter("2")
    subscribe(other, "/stocks/a", "/stocks/**", "/bonds/b", "/__sys__/stats")
    assert kept.look() == dict.fromkeys(("/stocks/a", "/stocks/b", "/stocks/c"), 1)
    kept.stage.sessions.close(one.client)
    assert kept.look() == {"/stocks/a": 1}
    kept.stage.publish("/stocks/z", "found by the pattern")
    assert kept.look() == {"/stocks/a": 1, "/stocks/z": 1}
    other.say(Unsubscribe(id=2, subjects=["/stocks/**", "/stocks/a"]))
    assert kept.look() == {}
    subscribe(other, "/stocks/a")
    assert kept.look() == {"/stocks/a": 1}
    kept.attendance.follow([])
    assert kept.look() == {}
    assert kept.attendance not in kept.stage.broker.observers


def test_who_lags_still_wants_it() -> None:
    kept = Kept(presence="", limits=Limits(outbox_bytes_max=4000))
    kept.attendance.follow(["/stocks/*"])
    slow = kept.stage.enter("1")
    subscribe(slow, "/stocks/a", slow="conflate")
    slow.blocked = True
    for number in range(50):
        kept.stage.publish("/stocks/a", f"{number} " + "x" * 50)
    assert slow.client.lag is not None and slow.client.lag.behind
    kept.attendance.follow(["/stocks/*", "/x/*"])
    assert kept.look() == {"/stocks/a": 1}
    kept.stage.sessions.close(slow.client)
    assert kept.look() == {}


def test_whatever_clients_do_the_counts_are_what_is_there() -> None:
    subjects = [f"/chat/{letter}" for letter in "abcde"]
    for seed in range(8):
        chance = random.Random(seed)
        kept = Kept(limits=Limits(subscriptions_max=4))
        kept.attendance.follow(["/chat/a", "/chat/b"])
        actors: list[Actor] = []
        for number in range(250):
            some = chance.sample(subjects, 2)
            actor = chance.choice(actors) if actors else None
            match chance.randrange(9):
                case 0 | 1:
                    actors.append(kept.stage.enter(str(number), chance.choice(("", "ann", "bob"))))
                case 2 | 3 | 4 if actor is not None:
                    subscribe(
                        actor, *some, conflation=chance.choice((0, 0, 300)), slow=chance.choice(("close", "conflate"))
                    )
                case 5 if actor is not None:
                    subscribe(actor, "/chat/*") if chance.random() < 0.5 else actor.say(
                        Unsubscribe(id=1, subjects=["/chat/*", some[0]])
                    )
                case 6 if actor is not None:
                    actor.say(Token(id=1, token=chance.choice(("ann", "bob"))))
                case 7:
                    kept.grants.closed = set(chance.sample(subjects, chance.randrange(2)))
                    kept.recheck()
                    kept.stage.publish(some[1], "x")
                case 8 if actor is not None:
                    actors.remove(actor)
                    kept.stage.sessions.close(actor.client)
            kept.stage.advance(chance.choice((0, 200)))
        expected: Counter[str] = Counter()
        for actor in actors:
            user = actor.client.principal.user
            expected[present_key("", user)] += 1
            for topic in actor.client.subscriptions:
                expected[present_key(topic.subject, user)] += 1
                if topic.subject in ("/chat/a", "/chat/b"):
                    expected[topic.subject] = 1
        assert kept.look() == expected, seed


ROWS = [
    OptionRow(1, "/chat/**", presence=True),
    OptionRow(2, "/chat/a", presence=False),
    OptionRow(3, "/chat/*", presence=False),
    OptionRow(4, "/news/b", presence=True),
    OptionRow(5, "/chat/**", cache_messages=1),
]


def test_options_say_of_which_subjects_it_is_known_and_count_for_who_is_there() -> None:
    kept = Kept()
    options = kept.stage.sessions.rights.options
    ann, bob = kept.stage.enter("1", "ann"), kept.stage.enter("2", "bob")
    subscribe(ann, "/chat/a", "/chat/b", "/news/b", "/__sys__/stats")
    subscribe(bob, "/chat/*", "/news/b", conflation=300)
    kept.stage.publish("/chat/a", "found by the pattern")
    online = {present_key("", "ann"): 1, present_key("", "bob"): 1}
    in_chat = {present_key("/chat/a", "ann"): 1, present_key("/chat/b", "ann"): 1, present_key("/chat/a", "bob"): 1}
    assert kept.look() == online | in_chat
    options.replace([ROWS[1], ROWS[3], OptionRow(6, "/**", presence=False)])
    assert kept.look() == online | {present_key("/news/b", "ann"): 1, present_key("/news/b", "bob"): 1}
    assert [kept.attendance.coverage.covers(one) for one in ("/chat/b", "/news/b", "/chat/a")] == [False, True, False]
    kept.woken = 0
    options.replace([])
    assert kept.woken
    assert kept.look() == online | in_chat


def test_where_the_setting_says_nothing_options_alone_begin_and_end_it() -> None:
    """With nothing to be known nothing is observed, as before."""
    kept = Kept(presence="")
    options = kept.stage.sessions.rights.options
    ann = kept.stage.enter("1", "ann")
    subscribe(ann, "/chat/a", "/chat/b")
    assert (kept.look(), kept.attendance in kept.stage.broker.observers) == ({}, False)
    options.replace(ROWS[:2])
    assert kept.look() == {present_key("", "ann"): 1, present_key("/chat/b", "ann"): 1}
    kept.stage.sessions.close(kept.stage.enter("2", "bob").client)
    options.replace([ROWS[1], ROWS[4]])
    assert (kept.look(), kept.attendance in kept.stage.broker.observers) == ({}, False)
    subscribe(ann, "/chat/c")
    options.replace(ROWS[:1])
    kept.stage.sessions.close(ann.client)
    assert kept.look() == {}


def test_clients_are_looked_at_in_slices_and_counted_as_before_until_then() -> None:
    """Whatever they do meanwhile, also while options change once more."""
    subjects = ["/chat/a", "/chat/b", "/news/b"]
    for seed in range(30):
        chance = random.Random(seed)
        kept = Kept(presence=chance.choice(("", "/chat/**")))
        options = kept.stage.sessions.rights.options
        actors = [kept.stage.enter(f"{number}", chance.choice("ab")) for number in range(12)]
        for number in range(120):
            actor = chance.choice(actors)
            match chance.randrange(7):
                case 0 | 1:
                    subscribe(actor, *chance.sample(subjects, 2))
                case 2:
                    actor.say(Unsubscribe(id=1, subjects=chance.sample(subjects, 2)))
                case 3:
                    actors.remove(actor)
                    kept.stage.sessions.close(actor.client)
                    actors.append(kept.stage.enter(f"{seed} {number}", chance.choice("ab")))
                case 4:
                    actor.say(Token(id=1, token=chance.choice("ab")))
                case 5:
                    options.replace(chance.sample(ROWS, chance.randrange(4)))
                case 6:
                    kept.attendance.step(1)
        counts = kept.look()
        expected: Counter[str] = Counter()
        for actor in actors:
            if kept.attendance.coverage:
                expected[present_key("", actor.client.principal.user)] += 1
            for topic in actor.client.subscriptions:
                if kept.attendance.coverage.covers(topic.subject):
                    expected[present_key(topic.subject, actor.client.principal.user)] += 1
        assert counts == expected, seed
