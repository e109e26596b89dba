"""The node in memory: conflation under a clock that is moved, history, patterns, limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from entitlement.models import Rule
from fastpath.client.errors import ConnectionRejected, Invalid
from realtime import MessageTooLarge, publish, publish_many
from realtime.test import Kit

pytestmark = pytest.mark.django_db


@pytest.fixture
def kit() -> Iterator[Kit]:
    """The memory backend, in which everybody may read everything."""
    own = Kit()
    own.begin()
    Rule.objects.create(everyone=True, pattern="/**")
    yield own
    own.end()


def test_conflation_under_a_clock_that_is_moved(kit: Kit) -> None:
    """One message an interval if anything came: the newest content, and the newest of each field that came."""
    subject = "/stocks/IBM"
    publish(subject, "193", {"volume": "6.62M"})
    publish(subject, "192", {"bid": "194"})
    client = kit.subscriber(None, subject, conflation=5000)
    assert [(one.content, one.fields, one.kind) for one in client.take()] == [
        ("192", {"volume": "6.62M", "bid": "194"}, "snapshot")
    ]
    kit.clock.advance(seconds=1)
    publish(subject, "195", {"ask": "192"})
    kit.clock.advance(seconds=2)
    publish(subject, "196", {"bid": "197"})
    kit.clock.advance(seconds=1.9)
    assert client.take() == []
    kit.clock.advance(seconds=0.1)
    assert [(one.content, one.fields) for one in client.take()] == [("196", {"ask": "192", "bid": "197"})]
    kit.clock.advance(seconds=10)
    assert client.take() == []


def test_history_and_patterns(kit: Kit) -> None:
    publish_many([("/stocks/IBM", str(number)) for number in range(5)])
    publish("/stocks/GE", "1")
    assert kit.subscriber(None, "/stocks/IBM", history=3).contents() == ["2", "3", "4"]
    client = kit.subscriber(None, "/stocks/*")
    assert sorted(map(str, client.contents())) == ["1", "4"]
    publish("/stocks/new", "first")
    assert client.contents("/stocks/new") == ["first"]
    client.unsubscribe("/stocks/*")
    publish("/stocks/new", "second")
    assert client.contents("/stocks/new") == ["first"]


def test_what_is_kept_passes_with_the_time(kit: Kit) -> None:
    """After three minutes the cache does not reach back: the client is told that it was resynchronised."""
    client = kit.subscriber(None, "/stocks/IBM")
    publish("/stocks/IBM", "1")
    for seconds, told in ((10, "recovered"), (400, "resynchronised")):
        client.disconnect()
        publish_many([("/stocks/IBM", "2"), ("/stocks/IBM", "3")])
        kit.clock.advance(seconds=seconds)
        client.connect()
        assert client.status("/stocks/IBM") == told
    assert client.messages[-1].kind == "snapshot"


def test_bounds_are_the_cores_own(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTPATH_MESSAGE_BYTES_MAX", "2000")
    kit.end()
    kit.begin()
    with pytest.raises(MessageTooLarge):
        publish("/stocks/IBM", "x" * 2001)
    with pytest.raises(Invalid, match="empty segment"):
        kit.subscriber(None, "/stocks//IBM")
    with pytest.raises(ValueError, match="time passes by"):
        kit.clock.advance(-1)
    with pytest.raises(ValueError, match="time passes by"):
        kit.clock.advance(1e9)


def test_a_token_ends_as_time_passes(kit: Kit, settings: Any) -> None:
    """The client is sent away with the code for that, and without a longer one it does not come back."""
    settings.REALTIME = settings.REALTIME | {"TOKEN_SECONDS": 60, "TOKEN_SECONDS_MAX": 60}
    bob = User.objects.create_user("bob")
    client = kit.subscriber(bob, "/stocks/IBM")
    kit.clock.advance(seconds=62)
    assert not client.connected
    assert [(one.name, one.code) for one in client.statuses[-1:]] == [("disconnected", 4007)]
    with pytest.raises(ConnectionRejected, match="expired"):
        client.connect()
