"""When the memory is used up nothing new begins, and what is there goes on (memory_bytes_max)."""

from __future__ import annotations

import pytest

from fastpath.core.broker.admission import MEMORY_FULL
from fastpath.core.protocol.errors import Close, Refused
from fastpath.core.protocol.messages import Subscribe, Subscribed
from tests.support.core.stage import Stage


def results(actor_got: list[object]) -> list[tuple[str, str]]:
    return [(one.subject, one.error) for got in actor_got if isinstance(got, Subscribed) for one in got.results]


def test_no_new_connection_subscription_or_subject() -> None:
    stage = Stage()
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=["/a/b", "/p/*"]))
    stage.publish("/a/b", "1")
    stage.publish("/p/old", "1")
    ann.taken()
    stage.broker.admission.full = True
    with pytest.raises(Refused, match="memory is full") as refused:
        stage.enter("bob")
    assert refused.value.code == Close.OVERLOADED
    ann.say(Subscribe(id=2, subjects=["/a/c", "/a/b", "/a/*"]))
    assert results(ann.taken()) == [("/a/c", "limit"), ("/a/b", ""), ("/a/*", "limit")]
    assert stage.publish("/new/one", "x") == ("failed", f"{MEMORY_FULL}: no new subject is taken")
    stage.publish("/a/b", "2")
    assert [content for _, _, content in ann.messages()] == ["2"], "who is there is served"
    assert stage.broker.counters.limited["memory"] == 4
    stage.broker.admission.full = False
    ann.say(Subscribe(id=3, subjects=["/a/c"]))
    assert results(ann.taken()) == [("/a/c", "")]
    stage.enter("bob")


def test_what_a_pattern_would_find_is_refused_too_and_told_once() -> None:
    stage = Stage()
    for name in ("one", "two"):
        stage.publish(f"/p/{name}", "1")
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=["/p/*"]))
    assert results(ann.taken()) == [("/p/*", ""), ("/p/one", ""), ("/p/two", "")]
    ann.say(Subscribe(id=2, subjects=["/q/*"], conflation=500))
    ann.taken()
    stage.broker.interest.topic("/q/known", stage.broker.engine.epoch)
    stage.broker.admission.full = True
    stage.publish("/q/known", "1")
    stage.publish("/q/known", "2")
    assert results(ann.taken()) == [("/q/*", "limit")]
