"""Many subscribers of one subject, on the stage."""

from __future__ import annotations

from fastpath.core.delivery.audience import Group
from fastpath.core.delivery.wire import Terms, terms_of
from fastpath.core.protocol.messages import Subscribe
from fastpath.core.wires.registry import wire_of
from tests.support.core.stage import Actor, Checking, Stage

SLOWLY = terms_of(wire_of("json"), 20, 400)


class Counting(Checking):
    """Notes what is written to whom."""

    def __init__(self) -> None:
        self.writes: list[tuple[int, bytes]] = []

    def write_group(self, group: Group, data: bytes) -> None:
        """To every member the same bytes."""
        self.writes.append((len(group), data))
        super().write_group(group, data)


def crowd(stage: Stage, names: list[str], subject: str, terms: Terms | None = None) -> list[Actor]:
    """Clients of one subject, with all answers taken."""
    actors = [stage.enter(name, terms=terms) for name in names]
    for actor in actors:
        actor.say(Subscribe(id=1, subjects=[subject]))
        actor.taken()
    stage.broker.writer = Counting()
    return actors
