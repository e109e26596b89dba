"""Nothing is said to a client whose token has ended, whatever comes first after the server stood still."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.core.auth.rule_grants import RuleGrants
from fastpath.core.broker.token_ends import NOTICE_MS, TokenEnds
from fastpath.core.delivery.audience import Client
from fastpath.core.protocol.messages import Connect, Connected, Data, Expiring, Message, Ping, Subscribe, Token
from tests.support.core.rights import SECRET, fill, mint, rule
from tests.support.core.stage import START, Actor, Stage
from tests.support.promises import BrokenPromise

LIFE = 1000
"""How long tokens last (s): far longer than what is kept in order."""

END = START + LIFE * 1000


class Scene:
    """Ann, whose token ends, and Bob, whose does not; both follow a subject, which is published to."""

    def __init__(self, seconds: int = LIFE) -> None:
        self.stage = Stage(RuleGrants(SECRET))
        fill(self.stage, rule(1, who="everyone"))
        self.ann = self.stage.enter("ann", mint(seconds=seconds))
        self.bob = self.stage.enter("bob", mint("bob", "2", seconds=10 * LIFE))
        for one in (self.ann, self.bob):
            one.say(Subscribe(id=1, subjects=["/s/1"]))
            one.taken()

    def publish(self) -> None:
        """Without the end of a turn: it is pending."""
        self.stage.broker.publish(None, [Message("/s/1", "x")], self.stage.now)

    def beat(self, awake: float | None = None) -> None:
        self.stage.sessions.beat(self.stage.now, awake)


def turn(scene: Scene) -> None:
    """The end of a turn that began before."""


FIRST: dict[str, Callable[[Scene], object]] = {
    "a publication": lambda scene: scene.publish(),
    "its own command": lambda scene: scene.ann.say(Ping(id=7)),
    "its own subscription": lambda scene: scene.ann.say(Subscribe(id=7, subjects=["/s/2"])),
    "its own new token": lambda scene: scene.ann.say(Token(id=7, token=mint(seconds=3 * LIFE))),
    "another one's command": lambda scene: scene.bob.say(Subscribe(id=7, subjects=["/s/2"])),
    "another one's own publication": lambda scene: scene.stage.publish("/s/1", "y"),
    "the second": lambda scene: scene.beat(),
    "the second of a server that has hardly run": lambda scene: scene.beat(0.1),
    "the end of the turn": turn,
}


@pytest.mark.parametrize("late", [0, 1, 999, 30_000, 10_000_000])
@pytest.mark.parametrize("first", FIRST.values(), ids=FIRST)
def test_what_comes_first_after_a_stand_still(first: Callable[[Scene], object], late: int) -> None:
    scene = Scene()
    scene.publish()  # which is not written before the server stands still
    scene.stage.now = END + late
    first(scene)
    scene.stage.end()
    assert scene.ann.taken() == []
    assert scene.ann.closed == (4007, "token_expired: get a new token, then reconnect")
    if late < 9 * LIFE * 1000:
        assert scene.bob.closed is None
        assert any(isinstance(one, Data) for one in scene.bob.taken()), "nobody else loses anything by it"


def test_what_waits_for_a_slow_client_is_not_sent_after_its_token() -> None:
    scene = Scene()
    scene.ann.blocked = True
    scene.stage.publish("/s/1", "x")
    scene.stage.now = END
    scene.stage.publish("/s/1", "y")
    scene.ann.unblock()
    assert (scene.ann.taken(), scene.ann.closed and scene.ann.closed[0]) == ([], 4007)


@pytest.mark.parametrize("first", FIRST.values(), ids=FIRST)
@pytest.mark.parametrize("early", [NOTICE_MS, NOTICE_MS - 1, 1])
def test_the_notice_comes_with_the_first_that_happens(first: Callable[[Scene], object], early: int) -> None:
    """Once, and not before its time."""
    scene = Scene()
    scene.stage.now = END - early - 1
    if early == NOTICE_MS:
        first(scene)
        scene.stage.end()
        assert not any(isinstance(one, Expiring) for one in scene.ann.taken())
    scene.stage.now = END - early
    for _ in range(3):
        scene.publish()
        scene.stage.end()
    assert [one for one in scene.ann.taken() if isinstance(one, Expiring)] == (
        [] if first is FIRST["its own new token"] and early == NOTICE_MS else [Expiring(expires=END)]
    )


def test_a_server_that_starves_tells_a_minute_ahead_and_ends_in_time() -> None:
    """A tenth of a second in each is its own, so that nobody is judged for silence."""
    scene = Scene()
    told = None
    for second in range(1, LIFE + 1):
        assert scene.ann.closed is None
        scene.stage.now = START + 1000 * second
        scene.ann.client.alive = scene.bob.client.alive = True  # they answer their pings
        scene.beat(second / 10)
        scene.stage.end()
        if any(isinstance(one, Expiring) for one in scene.ann.taken()):
            assert told is None
            told = second
    assert told == LIFE - 60
    assert scene.ann.closed is not None


def test_who_comes_with_a_token_that_ends_soon_is_told_behind_the_first_answer() -> None:
    scene = Scene()
    cid = scene.stage.enter("cid", mint("cid", "3", seconds=30))
    scene.stage.end()
    assert cid.taken() == []
    cid.say(Connect(id=1))
    assert [type(one) for one in cid.taken()] == [Connected, Expiring]
    mute = scene.stage.enter("mute", mint("mute", "4", seconds=30))
    scene.stage.now += 30_000
    scene.stage.end()
    assert [(one.taken(), one.closed and one.closed[0]) for one in (cid, mute)] == [([], 4007)] * 2


class Timed(Actor):
    """Ann, who looks at the time with each message."""

    ends = END

    def take(self, data: bytes) -> None:
        before = len(self.got)
        super().take(data)
        if len(self.got) > before and self._stage.now >= self.ends:
            raise BrokenPromise(f"{self.got[before:]} were sent {self._stage.now - self.ends} ms after the end")


STEPS = st.one_of(
    st.tuples(st.just("wait"), st.sampled_from([1, 50, 100, 1000, 25_000, 59_999, 60_000, 61_000, 200_000, 500_000])),
    st.tuples(
        st.sampled_from(["publish", "flush", "ping", "other", "beat", "starved", "block", "unblock"]), st.just(0)
    ),
    st.tuples(st.just("renew"), st.sampled_from([30, 90, 500, 2000])),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_whatever_happens_in_whatever_order(steps: list[tuple[str, int]]) -> None:
    scene = Scene()
    stage = scene.stage
    ann = Timed(stage, "ann", mint(seconds=LIFE), scene.ann.client.terms)
    ann.say(Subscribe(id=1, subjects=["/s/1", "/s/2"]))
    for what, number in steps:
        match what:
            case "wait":
                stage.now += number
            case "publish":
                scene.publish()
            case "flush":
                stage.end()
            case "ping":
                ann.say(Ping(id=2))
            case "other":
                scene.bob.say(Subscribe(id=2, subjects=["/s/1", "/s/3"]))
            case "beat":
                scene.beat()
            case "starved":
                scene.beat(0.0)
            case "block":
                ann.blocked = True
            case "unblock":
                stage.broker.pass_time(stage.now)  # as who has the socket does
                ann.unblock()
            case "renew" if ann.closed is None and stage.now < ann.ends:
                life = (stage.now - START) // 1000 + number
                ann.ends, before = START + life * 1000, ann.ends
                ann.say(Token(id=3, token=mint(seconds=life)))
                assert ann.client.principal.expires in (ann.ends, before)
        if ann.closed is not None:
            break
    stage.now = max(stage.now, ann.ends)
    stage.end()
    assert ann.closed is not None


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 2_000_000), max_size=30),
    st.lists(st.tuples(st.integers(1, 300_000), st.lists(st.tuples(st.integers(0, 29), st.integers(0, 2_000_000))))),
)
def test_each_is_told_once_and_ended_once(lives: list[int], steps: list[tuple[int, list[tuple[int, int]]]]) -> None:
    """Against a model that looks at everybody at all times; tokens are renewed, to a later or an earlier end."""
    slots: list[dict[Client, None]] = [{} for _ in range(4)]
    told: list[Client] = []
    ended: list[Client] = []

    def warn(client: Client, _: int) -> None:
        client.warned = True
        told.append(client)

    ends = TokenEnds(slots, 50_000, ended.append, warn)
    clients = []
    for number, life in enumerate(lives):
        client: Any = SimpleNamespace(
            number=number, slot_key=number, greeted=True, warned=False, principal=SimpleNamespace(expires=life)
        )
        client = cast(Client, type("One", (SimpleNamespace,), {"__hash__": object.__hash__})(**vars(client)))
        slots[number % 4][client] = None
        clients.append(client)
        ends.watch(client, 0)
    now = 0
    due = {client: client.principal.expires for client in clients}
    for wait, renewed in steps:
        told.clear()
        ended.clear()
        before = {client: client.warned for client in clients}
        now += wait
        ends.pass_time(now)
        gone = [client for client in clients if client in due and due[client] <= now]
        soon = [c for c in clients if c in due and now < due[c] <= now + NOTICE_MS and not before[c]]
        assert sorted(one.number for one in ended) == [one.number for one in gone]
        assert sorted(one.number for one in told) == [one.number for one in soon]
        assert ends.due > now
        for client in gone:
            del due[client], slots[client.slot_key % 4][client]
            ends.forget(client)
        for number, life in renewed:
            if number < len(clients) and clients[number] in due:
                client = clients[number]
                due[client] = now + 1 + life
                client.principal = SimpleNamespace(expires=now + 1 + life)  # type: ignore[assignment]
                client.warned = False
                ends.watch(client, now)
