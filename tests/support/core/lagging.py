"""A client that has stopped reading, on the stage."""

from __future__ import annotations

from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import Subscribe
from tests.support.core.stage import Actor, Stage

LONG = "x" * 300
SMALL = Limits(outbox_bytes_max=4000)
"""A client lags from 1000 queued bytes on: the fourth long message."""


def stalled(stage: Stage, *subjects: str, **options: object) -> Actor:
    """Ann has subscribed, reads nothing, and lags since a long message on the first subject."""
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=list(subjects), slow="conflate", **options))
    ann.taken()
    ann.blocked = True
    stage.publish(subjects[0], "x" * stage.broker.limits.lag_bytes)
    assert ann.client.lag is not None
    assert list(ann.client.lag.behind) == [stage.broker.interest.topics[subject] for subject in subjects]
    return ann


def read(stage: Stage, actor: Actor) -> list[object]:
    """What the client gets when it reads again."""
    actor.unblock()
    stage.end()
    return actor.taken()
