"""Several that follow publications at once are each told of everything."""

from __future__ import annotations

from typing import Any

from fastpath.core.broker.observers import PublicationListener, Trails
from tests.support.core.stage import Stage


def test_all_that_a_trail_is_told_is_passed_on_to_each() -> None:
    told = {name for name in vars(PublicationListener) if not name.startswith("_")}
    assert told <= vars(Trails).keys()


class Following(PublicationListener):
    """Notes who has gone."""

    def __init__(self) -> None:
        self.gone: list[Any] = []

    def ended(self, source: Any, code: int, reason: str, seconds: float) -> None:
        self.gone.append((source, code, reason, seconds))


def test_the_end_of_a_publisher_is_told_to_each_while_it_follows() -> None:
    broker, one, two = Stage().broker, Following(), Following()
    for trail in (one, two):
        broker.follow(trail, True)
    source: Any = object()
    assert broker.trail is not None
    broker.trail.ended(source, 1000, "bye", 2.5)
    broker.follow(one, False)
    broker.trail.ended(source, 1001, "", 0.0)
    assert one.gone == [(source, 1000, "bye", 2.5)]
    assert two.gone == [(source, 1000, "bye", 2.5), (source, 1001, "", 0.0)]
