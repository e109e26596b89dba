"""Who advertises is told of what is wanted, as far as it may publish there, and once."""

from __future__ import annotations

import pytest

from fastpath.core.auth.grants import Grants, Principal
from fastpath.core.auth.hook_decisions import HookDecisions
from fastpath.core.auth.hook_grants import hooked
from fastpath.core.auth.hook_questions import LATE, HookReply, Verdict
from fastpath.core.auth.reasons import NOT_READY
from fastpath.core.auth.rules import PUBLISH
from fastpath.core.presence import advertisements
from fastpath.core.presence.advertisements import (
    ADVERTISERS_MAX,
    PATTERNS_MAX,
    PATTERNS_PER_ADVERTISER_MAX,
    Advertisers,
)
from tests.support.core.hooks import Connection

PRINCIPAL = Principal(None, False, ())


class Closed(Grants):
    """Subjects that nobody may publish to, and why not."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}
        self.changes = 0

    @property
    def version(self) -> int:
        return self.changes

    def check(self, principal: Principal, action: str, subject: str, now: int) -> str:
        assert action == "publish"
        return self.reasons.get(subject, "")


class Peer:
    """One that advertises, and notes what it is told."""

    def __init__(self) -> None:
        self.over = self.full = False
        self.principal: Principal | None = PRINCIPAL
        self.heard: list[tuple[str, bool]] = []

    def tell(self, subjects: list[str], wanted: bool) -> None:
        self.heard += [(subject, wanted) for subject in subjects]


class Market:
    """Advertisers, and what they are told."""

    def __init__(self, grants: Grants | None = None) -> None:
        self.grants = Closed()
        self.advertisers = Advertisers(grants or self.grants)
        self.patterns: dict[str, int] = {}
        self.advertisers.follow(self.patterns.__setitem__)

    def heard(self, peer: Peer) -> list[tuple[str, bool]]:
        """What it is told now."""
        while self.advertisers.step(0, 2):
            pass
        heard, peer.heard = peer.heard, []
        return heard


def test_it_is_told_of_what_is_wanted_now_and_of_changes() -> None:
    market, peer, other = Market(), Peer(), Peer()
    market.advertisers.change("/a/b", True)
    assert market.advertisers.advertise(peer, ["/a/*"])[0].error == ""
    market.advertisers.advertise(other, ["/c/*"])
    assert market.patterns == {"/a/*": 1, "/c/*": 1}
    assert market.heard(peer) == [("/a/b", True)]
    market.advertisers.change("/a/b", True)
    market.advertisers.change("/a/c", True)
    market.advertisers.change("/b/b", True)
    assert market.heard(peer) == [("/a/c", True)]
    market.advertisers.change("/a/b", False)
    assert market.heard(peer) == [("/a/b", False)]
    market.advertisers.change("/a/c", False)
    market.advertisers.change("/a/c", True)
    assert market.heard(peer) == [], "what is undone before it is told"
    assert not other.heard


def test_another_list_replaces_the_one_before() -> None:
    market, peer = Market(), Peer()
    for subject in ("/a/b", "/b/b"):
        market.advertisers.change(subject, True)
    market.advertisers.advertise(peer, ["/a/*"])
    assert market.heard(peer) == [("/a/b", True)]
    market.advertisers.advertise(peer, ["/a/b", "/b/b"])
    assert market.heard(peer) == [("/b/b", True)], "the other it knows"
    assert market.patterns == {"/a/*": 0, "/a/b": 1, "/b/b": 1}
    market.advertisers.advertise(peer, ["/b/b"])
    market.advertisers.advertise(peer, ["/a/b", "/b/b"])
    assert market.heard(peer) == [("/a/b", True)], "of that it was told nothing meanwhile"
    market.advertisers.advertise(peer, [])
    market.advertisers.change("/a/b", False)
    assert market.heard(peer) == []
    assert len(market.advertisers) == 0
    assert set(market.patterns.values()) == {0}


def test_only_where_it_may_publish_and_as_soon_as_it_may() -> None:
    market, peer = Market(), Peer()
    market.grants.reasons = {"/a/b": "no rule allows it", "/a/c": NOT_READY}
    for subject in ("/a/b", "/a/c", "/a/d"):
        market.advertisers.change(subject, True)
    market.advertisers.advertise(peer, ["/a/*"])
    assert market.heard(peer) == [("/a/d", True)]
    del market.grants.reasons["/a/c"]
    market.advertisers.sweep()
    assert market.heard(peer) == [("/a/c", True)], "it was only not known yet"
    market.grants.reasons = {"/a/d": "rule 7 denies it"}
    market.advertisers.sweep()
    assert market.heard(peer) == [], "nobody said that rights have changed"
    market.grants.changes += 1
    market.advertisers.sweep()
    assert sorted(market.heard(peer)) == [("/a/b", True), ("/a/d", False)]
    peer.principal = None
    market.grants.changes += 1
    market.advertisers.sweep()
    assert sorted(market.heard(peer)) == [("/a/b", False), ("/a/c", False)]


def test_who_is_full_is_told_later_and_who_is_gone_no_more() -> None:
    market, peer, other = Market(), Peer(), Peer()
    peer.full = True
    for one in (peer, other):
        market.advertisers.advertise(one, ["/a/*"])
    for number in range(10):
        market.advertisers.change(f"/a/{number}", True)
        assert market.heard(peer) == []
    market.advertisers.change("/a/0", False)
    assert market.advertisers.busy
    peer.full = False
    assert sorted(market.heard(peer)) == [(f"/a/{number}", True) for number in range(1, 10)]
    peer.over = True
    market.advertisers.change("/a/1", False)
    market.advertisers.sweep()
    assert market.heard(peer) == []
    assert (market.patterns, len(market.advertisers)) == ({"/a/*": 1}, 1)
    assert other.heard[-1] == ("/a/1", False)


def test_what_one_does_not_take_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advertisements, "PENDING_MAX", 5)
    market, peer = Market(), Peer()
    market.advertisers.advertise(peer, ["/a/*"])
    market.advertisers.change("/a/0", True)
    assert market.heard(peer) == [("/a/0", True)]
    peer.full = True
    for number in range(100):
        market.advertisers.change(f"/a/{number}", number > 3)
        assert market.heard(peer) == []
        assert len(market.advertisers._adverts[peer].pending) <= 6
    peer.full = False
    assert sorted(market.heard(peer)) == sorted(
        [("/a/0", False), *((f"/a/{number}", True) for number in range(4, 100))]
    )
    assert not market.advertisers.busy


def test_no_more_is_told_than_can_be_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advertisements, "TOLD_MAX", 3)
    market, peer, other = Market(), Peer(), Peer()
    for number in range(5):
        market.advertisers.change(f"/a/{number}", True)
    market.advertisers.advertise(peer, ["/a/*"])
    market.advertisers.advertise(other, ["/a/*"])
    assert len(market.heard(peer)) == 3
    market.advertisers.advertise(peer, ["/a/*", "/b/*"])
    market.advertisers.advertise(other, ["/a/*"])
    assert market.heard(peer) == []
    assert other.heard == []
    market.advertisers.advertise(peer, [])
    market.advertisers.advertise(other, ["/a/1", "/a/2"])
    assert sorted(market.heard(other)) == [("/a/1", True), ("/a/2", True)]


def test_what_cannot_be_advertised_is_said() -> None:
    market = Market()
    errors = [
        one.error for one in market.advertisers.advertise(Peer(), ["/a", "/a/**/b", "/a/{username}", "/__sys__/*"])
    ]
    assert errors == ["invalid", "invalid", "invalid", "denied"]
    many = [f"/a/{number}" for number in range(PATTERNS_PER_ADVERTISER_MAX + 1)]
    offers = market.advertisers.advertise(Peer(), [*many, many[0]])
    assert [one.error for one in offers[-3:]] == ["", "limit", ""]
    for start in range(1, PATTERNS_MAX // 100 + 1):
        offers = market.advertisers.advertise(Peer(), [f"/a/{start * 1000 + number}" for number in range(100)])
    assert {one.error for one in offers} == {"limit"}
    assert sum(market.patterns.values()) == PATTERNS_MAX
    market = Market()
    for _ in range(ADVERTISERS_MAX):
        assert market.advertisers.advertise(peer := Peer(), ["/a/*"])[0].error == ""
    assert market.advertisers.advertise(Peer(), ["/a/*"])[0].error == "limit"
    assert market.advertisers.advertise(peer, ["/b/*"])[0].error == "", "who is in may change"


def test_interest_follows_what_a_hook_answers() -> None:
    """It is asked again when it says that something has changed; until it has answered, and when it does not, what was
    told stays. An answer that counts once decides, and is not asked for each second."""
    asking = HookDecisions((PUBLISH,), 5)
    market, peer = Market(hooked(Grants, asking)()), Peer()
    peer.principal = Principal(None, False, ())
    party = Connection(asking)
    peer.principal.asked = party.asked
    now = 0

    def sweep(reply: HookReply | None = None) -> tuple[int, list[tuple[str, bool]]]:
        """How many questions there were in this second, and what was told then."""
        market.advertisers.sweep()
        heard = market.heard(peer)
        questions = asking.step(now)[0]
        for question in questions if reply is not None else ():
            asking.answer(question.number, reply, now)
        market.advertisers.sweep()
        return len(questions), heard + market.heard(peer)

    def verdict(allow: bool, seconds: float | None = None) -> HookReply:
        return HookReply(verdicts=[Verdict(allow, "no", seconds)])

    market.advertisers.change("/a/b", True)
    market.advertisers.advertise(peer, ["/a/*"])
    assert sweep(verdict(True, 0)) == (1, [("/a/b", True)])
    assert [sweep() for _ in range(3)] == [(0, [])] * 3, "that was for once, and is enough"
    asking.recheck(party.asked)
    asking.step(now)
    assert sweep(HookReply(failed=LATE)) == (1, [])
    assert sweep(verdict(False)) == (1, [("/a/b", False)])
    assert sweep() == (0, [])
    asking.recheck(party.asked)
    asking.step(now)
    assert sweep(verdict(True, 60)) == (1, [("/a/b", True)])
    now += 60_000
    asking.tick(now)
    asking.step(now)
    assert sweep(verdict(False, 0)) == (1, [("/a/b", False)])
