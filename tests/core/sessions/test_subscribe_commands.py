"""Commands of many subjects in steps: each client is sent what it would be if they were done at once, in that order.

Two stages get the same of all others: on one the command is taken in steps, on the other it is done at once when the
first one is done with it. What is published meanwhile, what rights come and go, who else comes and goes, is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from fastpath.core.auth.grants import Grants
from fastpath.core.auth.hook_decisions import HookDecisions
from fastpath.core.auth.hook_grants import hooked
from fastpath.core.auth.hook_questions import HookReply, Verdict
from fastpath.core.auth.rules import SUBSCRIBE
from fastpath.core.protocol.codec import JSON, encode
from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import (
    AnyCommand,
    Connect,
    Data,
    Message,
    Ping,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
)
from fastpath.core.sessions import subscribe_commands
from fastpath.core.sessions.deferred_commands import DeferredCommands
from fastpath.core.sessions.subscribe_commands import CommandInSteps
from tests.support.core.refusing import Refusing
from tests.support.core.stage import START, Actor, Stage

SUBJECTS = [f"/a/{number}" for number in range(6)]
NAMES = ("ann", "bob")


class Half:
    """A stage, and what each of its clients was sent: sids, which count in another order, as subjects."""

    def __init__(self) -> None:
        self.grants = Refusing()
        self.stage = Stage(self.grants, Limits(cache_messages=3, cache_ms=1 << 40, subscriptions_max=5))
        self.sent: dict[str, list[Any]] = {}
        self.begun: dict[str, list[CommandInSteps]] = {name: [] for name in NAMES}
        for name in NAMES:
            self.enter(name)

    def enter(self, name: str) -> None:
        """A client comes, perhaps after another of that name."""
        self.stage.enter(name).say(Connect(id=0))
        self.sent.setdefault(name, []).append("new")

    def leave(self, name: str) -> None:
        """It goes."""
        self.read()
        self.stage.sessions.close(self.stage.actors[name].client)
        for _ in self.begun[name]:
            self.stage.sessions.long_commands.stopped()
        self.begun[name].clear()

    def take_steps(self) -> None:
        """From now on commands of many subjects are done in steps, when the test says so."""

        def begun(command: CommandInSteps) -> None:
            [name] = [name for name, actor in self.stage.actors.items() if actor.client is command.client]
            self.begun[name].append(command)

        self.stage.sessions.long_commands.run_by(begun)

    def step(self, name: str) -> bool:
        """A step of the client's command; whether it is done with that."""
        [command] = self.begun[name]
        if command.step(self.stage.now):
            return False
        self.begun[name].clear()
        self.stage.sessions.long_commands.stopped()
        self.stage.sessions.long_commands.ended(command, self.stage.now)
        self.stage.end()
        return True

    def read(self) -> None:
        """Everybody takes what came."""
        for name, actor in self.stage.actors.items():
            self.sent[name] += [named(actor, one) for one in actor.taken()]


def named(actor: Actor, value: object) -> Any:
    """What was sent, with subjects for sids."""
    told = msgspec.to_builtins(value)
    if isinstance(value, Subscribed):
        return [{key: one for key, one in row.items() if key != "sid"} for row in told["results"]], told.get("id")
    if isinstance(told, dict) and "sid" in told:
        return told | {"sid": actor.subjects[told["sid"]]}
    return told


class Commands(RuleBasedStateMachine):
    """The machine: every rule is for both halves, but that commands of many are later in one."""

    @initialize()
    def begin(self) -> None:
        """Two servers at the same time."""
        self.steps, self.whole = Half(), Half()
        self.steps.take_steps()
        self.waits: dict[str, AnyCommand] = {}
        self.number = 0

    names = st.sampled_from(NAMES)
    some = st.lists(st.sampled_from(SUBJECTS), min_size=1, max_size=9)

    def both(self) -> Iterator[Half]:
        """Each of them, and the end of a tick in it."""
        for half in (self.steps, self.whole):
            yield half
            half.stage.end()
            half.read()

    def say(self, name: str, command: AnyCommand) -> None:
        """The client says it; behind what it has said before."""
        if name not in self.waits:
            self.steps.stage.actors[name].say(command)
            if self.steps.begun[name]:
                self.waits[name] = command
            else:
                self.whole.stage.actors[name].say(command)

    @rule(
        name=names,
        subjects=some,
        history=st.sampled_from((0, 0, 2)),
        conflation=st.sampled_from((0, 0, 200)),
        slow=st.sampled_from(("close", "conflate")),
        since=st.dictionaries(st.sampled_from(SUBJECTS), st.tuples(st.just(START), st.integers(0, 5)), max_size=3),
        pattern=st.booleans(),
    )
    def subscribe(
        self,
        name: str,
        subjects: list[str],
        history: int,
        conflation: int,
        slow: str,
        since: dict[str, tuple[int, int]],
        pattern: bool,
    ) -> None:
        """Many or few, in whatever way, some that nobody can have, a pattern perhaps."""
        self.number += 1
        asked = [*subjects, "/no//subject", *(["/a/*"] if pattern else [])]
        command = Subscribe(
            id=self.number, subjects=asked, history=history, conflation=conflation, slow=slow, since=since
        )
        self.say(name, command)
        for _ in self.both():
            pass

    @rule(name=names, count=st.integers(1, 4))
    def step(self, name: str, count: int) -> None:
        """Some steps of what the client has said."""
        for _ in range(count):
            if name in self.waits and self.steps.step(name):
                self.whole.stage.actors[name].say(self.waits.pop(name))
        for _ in self.both():
            pass

    @rule(
        subject=st.sampled_from(SUBJECTS),
        count=st.integers(1, 3),
        retained=st.booleans(),
        qos=st.sampled_from(("guaranteed", "guaranteed", "standard")),
        fields=st.booleans(),
    )
    def publish(self, subject: str, count: int, retained: bool, qos: str, fields: bool) -> None:
        """Messages come."""
        for _ in range(count):
            self.number += 1
            more = {f"f{self.number % 3}": str(self.number)} if fields else None
            for half in self.both():
                half.stage.publish(subject, str(self.number), more, retained=retained, qos=qos)

    @rule(subject=st.sampled_from(SUBJECTS))
    def remove(self, subject: str) -> None:
        """A subject ends."""
        for half in self.both():
            half.stage.remove(subject)

    @rule(subject=st.sampled_from(SUBJECTS), yes=st.booleans())
    def permit(self, subject: str, yes: bool) -> None:
        """A right comes or goes."""
        for half in self.both():
            _permit(half, subject, yes)

    @rule(subject=st.sampled_from(SUBJECTS))
    def begin_epoch(self, subject: str) -> None:
        """The subject stands elsewhere, whatever was delivered of it."""
        for half in self.both():
            _begin_epoch(half, subject)

    @rule(name=names, subjects=some)
    def end(self, name: str, subjects: list[str]) -> None:
        """An operator ends subscriptions; the client is told."""
        for half in self.both():
            half.stage.sessions.end_subscriptions(half.stage.actors[name].client, subjects, "ended", half.stage.now)

    @rule(name=names)
    def reconnect(self, name: str) -> None:
        """A client goes, whatever it has said last, and another comes."""
        self.waits.pop(name, None)
        for half in self.both():
            half.leave(name)
            half.enter(name)

    @precondition(lambda self: not any(getattr(one, "conflation", 0) for one in self.waits.values()))
    @rule(ms=st.sampled_from((1, 100, 61_000)))
    def wait(self, ms: int) -> None:
        """Time passes: intervals end, the zero of message times moves."""
        for half in self.both():
            half.stage.advance(ms)

    def teardown(self) -> None:
        """Everybody was sent the same; when all have gone nothing is left of what they wanted."""
        if not hasattr(self, "steps"):
            return
        for name in NAMES:
            while name in self.waits:
                self.step(name, 1)
        assert self.steps.sent == self.whole.sent
        left = []
        for half in self.both():
            for name in NAMES:
                half.leave(name)
            topics = half.stage.broker.interest.topics
            assert all(topic.feed is None and not topic.conflated for topic in topics.values())
            assert not half.stage.sessions.broker.counters.subscriptions
            assert not half.stage.sessions.broker.counters.waiting
            left.append(set(topics))
        assert left[0] <= left[1], "a command that begins nothing may forget a subject that has nothing, too"


def _move_base(half: Half) -> None:
    half.stage.advance(61_000)
    half.stage.publish("/z/1", "moves the base of times")


def _permit(half: Half, subject: str, yes: bool) -> None:
    (half.grants.denied.discard if yes else half.grants.denied.add)(subject)
    half.grants.changes += 1
    for actor in half.stage.actors.values():
        half.stage.sessions.rights.recheck(actor.client, half.stage.now)


def _begin_epoch(half: Half, subject: str) -> None:
    """The subject stands elsewhere, whatever was delivered of it."""
    topic = half.stage.broker.interest.topics.get(subject)
    if topic is not None and topic.seq:
        half.stage.broker.reset_topic(topic, topic.epoch + 1, topic.seq, topic.snapshot)


MEANWHILE: dict[str, Callable[[Half], object]] = {
    "nothing": lambda half: None,
    "a message": lambda half: half.stage.publish("/a/1", "new"),
    "one that is not retained": lambda half: half.stage.publish("/a/1", "new", retained=False),
    "one of standard quality": lambda half: half.stage.publish("/a/1", "new", qos="standard"),
    "one of a subject without any": lambda half: half.stage.publish("/a/4", "new"),
    "a message of each": lambda half: [half.stage.publish(subject, "new") for subject in SUBJECTS],
    "a removal": lambda half: half.stage.remove("/a/1"),
    "a right that goes": lambda half: _permit(half, "/a/1", False),
    "a right that comes": lambda half: _permit(half, "/a/3", True),
    "an epoch": lambda half: _begin_epoch(half, "/a/1"),
    "another zero of times": _move_base,
    "a subscription that ends": lambda half: half.stage.sessions.end_subscriptions(
        half.stage.actors["ann"].client, ["/a/0"], "ended", half.stage.now
    ),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("history", [0, 2])
@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_what_happens_between_two_steps_counts(meanwhile: str, history: int) -> None:
    """Each subject has been looked at when it happens."""
    halves = Half(), Half()
    command = Subscribe(id=2, subjects=SUBJECTS[:5], history=history, since={"/a/2": (START, 1)})
    for half in halves:
        half.grants.denied.add("/a/3")
        for subject in SUBJECTS[:4]:
            for text in "xy":
                half.stage.publish(subject, text, {text: text})
        half.stage.actors["ann"].say(Subscribe(id=1, subjects=["/a/0"]))
    steps, whole = halves
    steps.take_steps()
    steps.stage.actors["ann"].say(command)
    assert not any(steps.step("ann") for _ in range(5)), "all subjects have been looked at"
    for half in halves:
        half.stage.now += 1
        MEANWHILE[meanwhile](half)
        half.read()
    finish(steps, "ann")
    whole.stage.actors["ann"].say(command)
    for half in halves:
        for subject in SUBJECTS:
            half.stage.publish(subject, "later")
        half.read()
    assert steps.sent == whole.sent
    assert len(steps.sent["ann"]) > 5


def finish(half: Half, name: str) -> int:
    """Take all steps that are left of what the client has said; how many."""
    return next(count for count in range(1, 1000) if half.step(name))


@pytest.mark.usefixtures("small")
def test_what_a_client_says_behind_a_command_is_done_behind_it() -> None:
    half = Half()
    half.take_steps()
    ann = half.stage.actors["ann"]
    ann.say(Subscribe(id=1, subjects=SUBJECTS[:5]))
    for command in (Ping(id=2), Unsubscribe(id=3, subjects=SUBJECTS[:4]), Ping(id=4)):
        half.stage.sessions.receive(ann.client, encode(command, JSON), half.stage.now)
    half.read()
    assert half.sent["ann"][2:] == [], "nothing is answered before"
    finish(half, "ann")
    finish(half, "ann")
    half.read()
    assert [told[1] if isinstance(told, tuple) else told["id"] for told in half.sent["ann"][2:]] == [1, 2, 3, 4]
    assert [topic.subject for topic in ann.client.subscriptions] == SUBJECTS[4:5]


@pytest.mark.usefixtures("small")
def test_subscriptions_that_end_in_steps_are_told_together_and_nothing_of_them_follows() -> None:
    half = Half()
    half.take_steps()
    ann = half.stage.actors["ann"]
    ann.say(Subscribe(id=1, subjects=SUBJECTS[:5]))
    finish(half, "ann")
    half.grants.denied.add("/a/5")
    ann.say(Subscribe(id=2, subjects=["/a/5"]))  # waits, and is over the bound
    ann.taken()
    ann.say(Unsubscribe(id=3, subjects=[*SUBJECTS[:4], "/a/never", "/a/0"]))
    assert not half.step("ann")
    for subject in SUBJECTS[:5]:
        half.stage.publish(subject, "x")
    went_on = [subject for subject, _, _ in ann.messages()]
    assert went_on == SUBJECTS[2:5], "two have ended"
    finish(half, "ann")
    for subject in SUBJECTS[:5]:
        half.stage.publish(subject, "y")
    answer, message = ann.taken()
    assert answer == Unsubscribed(id=3, subjects=SUBJECTS[:4])
    assert isinstance(message, Data) and ann.subjects[message.sid] == "/a/4"


@pytest.mark.usefixtures("small")
def test_a_hook_is_asked_when_the_command_takes_effect() -> None:
    """It is asked about nothing that nobody wants yet, and what it says meanwhile counts."""
    asking = HookDecisions((SUBSCRIBE,), 5)
    stage = Stage(hooked(Grants, asking)())
    ann, begun = stage.enter("ann"), list[CommandInSteps]()
    DeferredCommands(stage.sessions, asking, ann.client, "", {})
    stage.sessions.long_commands.run_by(begun.append)

    def answers(*reasons: str) -> list[str]:
        """What the hook says of each subject that it is asked about; these."""
        [question] = asking.step(stage.now)[0]
        verdicts = [Verdict(not reason, reason) for reason in reasons]
        assert asking.answer(question.number, HookReply(verdicts=verdicts), stage.now)
        stage.end()
        return list(question.about["subjects"])

    ann.say(Subscribe(id=1, subjects=SUBJECTS[:2]))
    assert answers("", "no") == SUBJECTS[:2]
    ann.taken()
    ann.say(Subscribe(id=2, subjects=SUBJECTS[:4]))
    [command] = begun
    for _ in range(4):
        assert command.step(stage.now)
        assert asking.step(stage.now) == ([], False)
    assert not command.step(stage.now)
    stage.sessions.long_commands.ended(command, stage.now)
    stage.end()
    [answer] = ann.taken()
    assert isinstance(answer, Subscribed)
    assert [(one.subject, one.error) for one in answer.results] == [
        ("/a/0", ""),
        ("/a/1", "denied"),
        ("/a/2", "not_ready"),
        ("/a/3", "not_ready"),
    ]
    assert answers("", "") == SUBJECTS[2:4]
    assert [topic.subject for topic in ann.client.subscriptions] == ["/a/0", "/a/2", "/a/3"]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("patterns", [["/a/*"], ["/a/*", "/b/*"], ["/b/*", "/**"]])
@pytest.mark.parametrize("conflation", [0, 200])
@pytest.mark.parametrize("slow", ["close", "conflate"])
def test_what_goes_on_by_a_pattern_is_told_behind_the_answer(patterns: list[str], conflation: int, slow: str) -> None:
    """Also while an operator ends the pattern; what comes between is missed by nobody, nor doubled."""
    for ends in (False, True):
        halves = Half(), Half()
        for half in halves:
            ann = half.stage.actors["ann"]
            for subject in SUBJECTS[:3]:
                half.stage.publish(subject, "x", {"x": "x"})
            ann.say(Subscribe(id=1, subjects=SUBJECTS[:2], conflation=conflation, slow=slow))
            ann.say(Subscribe(id=2, subjects=patterns))
        steps, whole = halves
        steps.take_steps()
        command = Unsubscribe(id=3, subjects=[*SUBJECTS, "/b/*"])
        steps.stage.actors["ann"].say(command)
        assert not steps.step("ann")
        for half in halves:
            half.stage.publish("/a/1", "between")
            if ends:
                client = half.stage.actors["ann"].client
                half.stage.sessions.end_subscriptions(client, ["/a/*"], "ended", half.stage.now)
        finish(steps, "ann")
        whole.stage.actors["ann"].say(command)
        for half in halves:
            half.stage.publish("/a/1", "later")
            half.stage.advance(1000)
            half.read()
        assert steps.sent == whole.sent
        answer = next(at for at, told in enumerate(steps.sent["ann"]) if isinstance(told, dict) and told.get("id") == 3)
        behind = [told.get("content") for told in steps.sent["ann"][answer:] if isinstance(told, dict)]
        goes_on = "/**" in patterns or not ends
        assert ("later" in behind) == goes_on
        topics = {topic.subject for topic in steps.stage.actors["ann"].client.subscriptions}
        assert topics == (set(SUBJECTS[:3]) if goes_on else set())


@pytest.mark.parametrize("denied", ["", "/b/1"])
def test_what_waits_is_written_before_it_is_told_that_a_subject_goes_on_by_a_pattern(denied: str) -> None:
    """Whether the client is in a group that shares its patterns or, as it waits for a right, is not."""
    half = Half()
    stage, (ann, bob) = half.stage, (half.stage.actors[name] for name in NAMES)
    half.grants.denied.add(denied)
    stage.publish("/a/1", "first")
    for actor in (ann, bob):
        actor.say(Subscribe(id=1, subjects=["/a/1", "/b/1"]))
    ann.say(Subscribe(id=2, subjects=["/a/*"]))
    ann.taken()
    stage.broker.publish(None, [Message("/a/1", "waits")], stage.now)
    stage.sessions.receive(ann.client, encode(Unsubscribe(id=3, subjects=["/a/1"]), JSON), stage.now)
    stage.publish("/a/1", "later")
    waited, answer, goes_on, later = ann.taken()
    assert isinstance(waited, Data) and waited.content == "waits"
    assert answer == Unsubscribed(id=3, subjects=["/a/1"])
    assert isinstance(goes_on, Subscribed)
    [result] = goes_on.results
    assert (result.pattern, result.seq, result.recovery, result.messages) == ("/a/*", 2, "recovered", 0)
    assert isinstance(later, Data) and later.content == "later"
    assert [one[2] for one in bob.messages()] == ["first", "waits", "later"]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("steps", range(7))
def test_who_goes_in_the_middle_leaves_nothing(steps: int) -> None:
    half = Half()
    half.take_steps()
    ann = half.stage.actors["ann"]
    half.stage.publish("/a/1", "x")
    ann.say(Subscribe(id=1, subjects=SUBJECTS, conflation=200 * (steps % 2)))
    [command] = half.begun["ann"]
    assert not any(half.step("ann") for _ in range(steps))
    half.stage.sessions.receive(ann.client, encode(Ping(id=2), JSON), half.stage.now)
    half.leave("ann")
    assert not command.step(half.stage.now), "it is over"
    half.stage.sessions.long_commands.ended(command, half.stage.now)
    topics = half.stage.broker.interest.topics
    assert list(topics) == ["/a/1"]
    assert topics["/a/1"].feed is None
    assert not topics["/a/1"].conflated
    assert not len(half.stage.broker.grid)
    assert not half.stage.broker.counters.subscriptions


@pytest.mark.usefixtures("small")
def test_where_more_changes_than_can_be_read_again_the_command_does_not_wait_for_ever() -> None:
    half = Half()
    half.take_steps()
    ann = half.stage.actors["ann"]
    ann.say(Subscribe(id=1, subjects=SUBJECTS[:5]))
    for number in range(1000):
        for subject in SUBJECTS[:5]:
            half.stage.publish(subject, str(number))
        if half.step("ann"):
            break
    assert number < 100
    answer, *snapshots = ann.taken()[1:]
    assert isinstance(answer, Subscribed)
    assert [one.seq for one in answer.results] == [number + 1] * 5
    assert [one.content for one in snapshots if isinstance(one, Data)] == [str(number)] * 5


@pytest.mark.usefixtures("small")
def test_more_than_a_few_wait_in_line_where_nothing_is_read_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscribe_commands, "UNDER_WAY_MAX", 1)
    half = Half()
    half.take_steps()
    topics, names = half.stage.broker.interest.topics, ["ann", "bob", "cem", "dan"]
    for name in names:
        half.begun[name] = []
        half.enter(name)
        half.stage.actors[name].say(Subscribe(id=1, subjects=[f"/{name}/{at}" for at in range(3)]))
    assert [name for name in names if half.begun[name]] == ["ann"]
    assert not any(half.step("ann") for _ in range(3))
    assert all(subject.startswith("/ann/") for subject in topics)
    half.leave("bob")
    assert [name for name in names if half.begun[name]] == ["ann"], "who goes while it waits takes no turn"
    half.leave("ann")
    assert not topics
    assert [name for name in names if half.begun[name]] == ["cem"]
    finish(half, "cem")
    assert [name for name in names if half.begun[name]] == ["dan"]
    finish(half, "dan")
    assert {topic.subject for topic in topics.values()} == {f"/{name}/{at}" for name in names[2:] for at in range(3)}
    half.stage.actors["cem"].say(Unsubscribe(id=2, subjects=[f"/cem/{at}" for at in range(3)]))
    finish(half, "cem")
    assert len(topics) == 3


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that few subjects are many steps."""
    for name, value in {
        "AT_ONCE_MAX": 2,
        "POSITIONS_AT_ONCE_MAX": 2,
        "STEP_SUBJECTS": 1,
        "CHANGED_MAX": 1,
        "STEP_POSITIONS": 2,
        "STEP_ENDED": 2,
        "STEP_COVERED": 1,
    }.items():
        monkeypatch.setattr(subscribe_commands, name, value)


@pytest.mark.usefixtures("small")
def test_in_steps_each_client_is_sent_what_it_would_be_at_once() -> None:
    run_state_machine_as_test(Commands, settings=settings(max_examples=60, stateful_step_count=30, deadline=None))
