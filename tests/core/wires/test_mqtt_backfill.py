"""What a session of MQTT has missed for good is known before its client is answered, at a bounded cost."""

from __future__ import annotations

import pytest

from fastpath.core.auth.grants import Grants, Principal
from fastpath.core.auth.reasons import ASKED
from fastpath.core.mqtt.groups.shares import Member, Share
from fastpath.core.mqtt.packets import Filter
from fastpath.core.mqtt.session import POSITIONS_MAX, MqttSession, Subscription
from fastpath.core.protocol.limits import Limits
from fastpath.core.wires.mqtt_backfill import LOOKS_MAX, missed
from tests.support.core.stage import START, Following, Stage

A = "/a/b"
CACHED = 3
ANYBODY = Principal(None, False, ())
READY = Member(5, lambda: True, lambda _: True)


class Refusing(Grants):
    """Nobody may read, for this reason."""

    reason = ""

    def check(self, principal: Principal, action: str, subject: str, now: int) -> str:
        """Grants."""
        del principal, action, subject, now
        return self.reason


def session(*places: tuple[str, int, int], text: str = "/a/+", qos: int = 1, share: Share | None = None) -> MqttSession:
    """One that stands there."""
    made = MqttSession("p", 5, 60)
    made.subscribe(Subscription(Filter(text=text, qos=qos), ["/a/*"], 0, share is None, share))
    for place in places:
        made.reached(*place)
    return made


def stage(published: int = 0, grants: Grants | None = None, **options: object) -> Stage:
    """A stage on which so many messages of the subject were published, of which the last ones are cached."""
    made = Stage(grants, Limits(cache_messages=CACHED))
    for _ in range(published):
        made.publish(A, "x", retained=False, **options)
    return made


def find(made: Stage, *places: tuple[str, int, int], **options: object) -> str:
    """What who stands there has missed."""
    return missed(made.broker, ANYBODY, session(*places, **options), made.now)  # type: ignore[arg-type]


@pytest.mark.parametrize(("seq", "found"), [(0, A), (1, A), (2, ""), (5, ""), (6, A)])
def test_where_the_cache_begins_it_is_not_missed(seq: int, found: str) -> None:
    """Nor what was never published; but what was read and is void, which may have been numbered again."""
    made = stage(5)
    assert find(made, (A, START, seq)) == found
    assert find(made, (A, START, seq), qos=0) == ""
    assert find(made, (A, START, seq), text="/other/+") == ""


def test_who_has_read_nothing_stands_before_the_first_message_of_any_epoch() -> None:
    assert find(stage(), (A, START - 1, 0)) == ""
    assert find(stage(CACHED), (A, START - 1, 0)) == ""
    assert find(stage(CACHED + 1), (A, START - 1, 0)) == A
    assert find(stage(), (A, START - 1, 1)) == A


@pytest.mark.parametrize(("reason", "found"), [("", A), (ASKED, A), ("no rule allows it", "")])
def test_what_may_not_be_read_is_not_missed(reason: str, found: str) -> None:
    grants = Refusing()
    grants.reason = reason
    assert find(stage(5, grants), (A, START, 1)) == found


def test_what_has_not_come_to_this_process_is_not_missed() -> None:
    made = Stage(engine=Following())
    assert find(made, (A, START, 3)) == ""


def test_where_nothing_is_cached_who_has_read_all_has_missed_nothing() -> None:
    made = Stage(guaranteed=False)
    made.publish(A, "x", retained=False)
    topic = made.broker.interest.topics[A]
    assert find(made, (A, topic.epoch, topic.seq)) == ""
    made.publish(A, "x", retained=False)
    assert find(made, (A, topic.epoch, topic.seq - 1)) == A


def test_what_a_group_was_there_for_is_not_missed() -> None:
    made, share = stage(5), Share("$share/g//a/+")
    one = session((A, START, 1), text="$share/g//a/+", share=share)
    share.join("other", READY)
    share.join(one, READY)
    share.part(one)
    assert missed(made.broker, ANYBODY, one, made.now) == ""
    share.part("other")
    assert missed(made.broker, ANYBODY, one, made.now) == A


@pytest.mark.parametrize("filters", [1, LOOKS_MAX // 10, LOOKS_MAX])
def test_a_look_at_all_that_a_session_can_have_is_short(filters: int) -> None:
    """However many filters are held against however many subjects: what is not found is found when it is read."""
    made = Stage(limits=Limits(cache_messages=1))
    subjects = [f"/b/{number}" for number in range(POSITIONS_MAX)]
    for subject in subjects:
        made.broker.interest.topic(subject, START).seq = 9
    one = session(*((subject, START, 1) for subject in subjects), text="/c/first")
    for number in range(1, filters):
        one.subscribe(Subscription(Filter(text=f"/c/{number}", qos=1), [f"/c/{number}"], 0, True))
    for _ in range(3):
        assert missed(made.broker, ANYBODY, one, made.now) == ""
