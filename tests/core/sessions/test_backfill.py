"""What is cached goes out in slices, as the client takes it; what ends or changes a recovery in the middle."""

from __future__ import annotations

import pytest

from fastpath.core.auth.grants import Grants, Principal
from fastpath.core.delivery.backlogs import SLICE_BYTES, SLICE_MESSAGES
from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import Data, Epoch, Message, Revoked, Subscribe, Subscribed, Unsubscribe
from tests.support.core.stage import START, Actor, Stage

A = "/a/b"
MANY = 3 * SLICE_MESSAGES
CONTENT = "x" * 100


class Refusing(Grants):
    """Nobody may read any more, once it says ``no``."""

    no = False

    def check(self, principal: Principal, action: str, subject: str, now: int) -> str:
        """Grants."""
        del principal, action, subject, now
        return "no rule allows it" if self.no else ""

    @property
    def version(self) -> int:
        """Grants."""
        return int(self.no)


def stage_with(count: int, **limits: int) -> Stage:
    """A stage on which so many messages of the subject are cached."""
    stage = Stage(limits=Limits(**{"cache_messages": 100_000, "outbox_bytes_max": 100_000} | limits))
    put(stage, A, count)
    return stage


def put(stage: Stage, subject: str, count: int) -> None:
    """Publish so many messages in one tick."""
    stage.broker.publish(None, [Message(subject, CONTENT) for _ in range(count)], stage.now)
    stage.end()


def behind(stage: Stage, **options: object) -> Actor:
    """A client that asks for all of the subject, and whose socket blocks at once: one slice waits for it."""
    ann = stage.enter("ann")
    ann.blocked = True
    ann.say(Subscribe(id=1, subjects=[A], **{"since": {A: (START, 0)}} | options))  # type: ignore[arg-type]
    assert ann.client.recovering
    return ann


def numbers(got: list[object]) -> list[int]:
    """Those of the messages."""
    return [one.seq for one in got if isinstance(one, Data)]


@pytest.mark.parametrize("slow", ["close", "conflate"])
@pytest.mark.parametrize("conflation", [0, 500])
def test_all_of_it_then_live(slow: str, conflation: int) -> None:
    stage = stage_with(MANY)
    ann = behind(stage, slow=slow, conflation=conflation)
    assert ann.client.queue is not None
    assert ann.client.queue.size < 2 * SLICE_BYTES
    put(stage, A, SLICE_MESSAGES + 50)  # not live yet: behind the cursor
    assert ann.client.queue.size < 2 * SLICE_BYTES
    ann.unblock()
    stage.end()
    got = ann.taken()
    (answer,) = [one for one in got if isinstance(one, Subscribed)]
    assert (answer.results[0].recovery, answer.results[0].seq, answer.results[0].messages) == ("recovered", MANY, MANY)
    last = MANY + SLICE_MESSAGES + 50
    assert numbers(got) == list(range(1, last + 1))
    kinds = [one.meta.kind for one in got if isinstance(one, Data)]
    assert kinds == ["recovered"] * MANY + [""] * (SLICE_MESSAGES + 50)
    assert ann.client.recovering is None
    put(stage, A, 2)
    stage.advance(1000)
    assert numbers(ann.taken()) == ([last + 1, last + 2] if not conflation else [last + 2])


def test_history_that_is_more_than_a_slice() -> None:
    stage = stage_with(MANY)
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=[A], history=MANY - 10))
    got = ann.taken()
    assert numbers(got) == list(range(11, MANY + 1))
    assert {one.meta.kind for one in got if isinstance(one, Data)} == {"historical"}


def test_many_clients_have_turns() -> None:
    """Who asks for little is not behind who asks for much."""
    stage = stage_with(MANY)
    put(stage, "/a/c", SLICE_MESSAGES // 2)
    recoveries = stage.sessions.recoveries
    stage.recover = lambda: None  # type: ignore[method-assign]
    much, little = stage.enter("much"), stage.enter("little")
    much.say(Subscribe(id=1, subjects=[A], since={A: (START, 0)}))
    little.say(Subscribe(id=1, subjects=["/a/c"], since={"/a/c": (START, 0)}))
    steps = 0
    while little.client.recovering:
        recoveries.step(recoveries.next())
        steps += 1
    assert steps <= 4
    assert much.client.recovering
    assert numbers(little.taken()) == list(range(1, SLICE_MESSAGES // 2 + 1))


def test_unsubscribed_in_the_middle_nothing_more_comes() -> None:
    stage = stage_with(MANY)
    ann = behind(stage)
    ann.say(Unsubscribe(id=2, subjects=[A]))
    ann.unblock()
    stage.end()
    last = numbers(ann.taken())[-1]
    assert last < MANY
    put(stage, A, 1)
    assert ann.taken() == []
    assert stage.broker.interest.topics[A].feed is None


def test_revoked_in_the_middle_nothing_more_comes_not_even_from_the_queue() -> None:
    grants = Refusing()
    stage = Stage(grants, Limits(cache_messages=100_000, outbox_bytes_max=100_000))
    put(stage, A, MANY)
    ann = behind(stage)
    grants.no = True
    stage.sessions.rights.recheck(ann.client, stage.now)
    ann.unblock()
    stage.end()
    got = ann.taken()
    assert isinstance(got[-1], Revoked)
    assert len(numbers(got)) <= 1  # of which a part had been sent
    assert ann.client.recovering in (None, {})
    put(stage, A, 1)
    assert ann.taken() == []


def test_what_the_cache_lets_go_of_meanwhile_is_told() -> None:
    stage = stage_with(MANY, cache_messages=MANY)
    ann = behind(stage)
    put(stage, A, MANY)
    before = stage.broker.counters.resynchronisations
    ann.unblock()
    stage.end()
    got = ann.taken()
    first, again = [one for one in got if isinstance(one, Subscribed)]
    assert (first.results[0].recovery, again.results[0].recovery) == ("recovered", "resynchronised")
    assert (again.results[0].seq, again.results[0].messages) == (2 * MANY, 1)
    assert numbers(got)[-1] == 2 * MANY
    assert got[-1].meta.kind == "snapshot"  # type: ignore[attr-defined]
    assert stage.broker.counters.resynchronisations == before + 1
    put(stage, A, 1)
    assert numbers(ann.taken()) == [2 * MANY + 1]


def test_an_epoch_that_numbers_again_what_has_not_come_is_told_in_its_place() -> None:
    stage = stage_with(MANY)
    ann = behind(stage)
    message = Message(A, "other", epoch=START + 1, seq=MANY - 4, time=stage.now)
    message.weigh()
    stage.broker.deliver((message,))
    ann.unblock()
    stage.end()
    got = ann.taken()
    assert numbers(got) == list(range(1, MANY - 3))
    assert got[-1].meta.kind == ""  # type: ignore[attr-defined]
    at = next(index for index, one in enumerate(got) if isinstance(one, Epoch))
    assert (got[at].epoch, got[at].seq) == (START + 1, MANY - 5)  # type: ignore[attr-defined]
    assert [one.content for one in got[at + 1 :] if isinstance(one, Data)] == ["other"]


def test_a_subject_that_stands_elsewhere_now_is_resynchronised() -> None:
    stage = stage_with(MANY)
    ann = behind(stage)
    stage.broker.reset_topic(stage.broker.interest.topics[A], START + 9, 3)
    ann.unblock()
    stage.end()
    (last,) = [one for one in ann.taken() if isinstance(one, Subscribed)][1:]
    assert (last.results[0].recovery, last.results[0].epoch, last.results[0].seq) == ("resynchronised", START + 9, 3)


def test_a_pattern_goes_on_where_a_name_stood() -> None:
    stage = stage_with(MANY)
    ann = behind(stage)
    ann.say(Subscribe(id=2, subjects=["/a/*"]))
    ann.say(Unsubscribe(id=3, subjects=[A]))
    ann.unblock()
    stage.end()
    got = ann.taken()
    assert numbers(got) == list(range(1, MANY + 1))
    last = [one for one in got if isinstance(one, Subscribed)][-1].results[0]
    assert (last.subject, last.pattern, last.recovery) == (A, "/a/*", "recovered")


def test_a_thousand_subjects_of_a_pattern_recover_each() -> None:
    subjects = [f"/p/{number}" for number in range(1000)]
    stage = Stage(limits=Limits(outbox_bytes_max=200_000))
    for _ in range(5):
        stage.broker.publish(None, [Message(subject, CONTENT) for subject in subjects], stage.now)
    stage.end()
    ann = stage.enter("ann")
    ann.blocked = True
    ann.say(Subscribe(id=1, subjects=["/p/*"], since={"/p/*": (0, 0)} | dict.fromkeys(subjects, (START, 1))))
    ann.unblock()
    got: dict[str, list[int]] = {}
    for _ in range(100):
        stage.advance(100)
        for subject, seq, _content in ann.messages():
            got.setdefault(subject, []).append(seq)
    assert got == {subject: [2, 3, 4, 5] for subject in subjects}
    assert ann.client.group is not None
    assert ann.client.group.cohort is not None, "level, it shares its subscriptions with others again"


def test_a_client_that_goes_leaves_nothing() -> None:
    stage = stage_with(MANY)
    ann = behind(stage)
    topic = stage.broker.interest.topics[A]
    assert topic.feed is not None and topic.feed.recovering == 1
    stage.sessions.close(ann.client)
    stage.end()
    assert topic.feed is None
    assert not stage.sessions.recoveries.busy
