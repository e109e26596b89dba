"""What each node says of itself, so that all others know it: a table of keys, of which every node tells its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ...awake import AwakeClock
from ...core.presence.replication import PresenceReceiver, PresenceSender, Replica

SILENCE_MS = 4000
"""Another node that is silent for so long is gone; each says something once a second."""

LEARN_MS = SILENCE_MS
"""Milliseconds that this node waits to hear of all others: when it has come, or one of them has come anew or is out of
reach, or the way to them has broken."""

TURN_SECONDS = 0.005
"""Seconds within which what changes is told together."""

PACKETS = 5
"""Told in one turn."""


class ReplicatedTable:
    """The keys of this node with their counts, and those of the others, which go into ``replica``.

    ``say`` sends a packet of the table to all others. ``ended`` is told of a node that is gone, or that has begun anew:
    what was under way to it and from it is over. A link between two nodes that breaks, on either side, ends all that
    was under way between them: the node whose messenger it was speaks with another ``life`` from then on.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        awake: AwakeClock,
        server: str,
        replica: Replica,
        say: Callable[[list[Any]], None],
        ended: Callable[[str], None],
    ) -> None:
        self.node = ""
        """The name of this node, once it has joined the others."""
        self._loop = loop
        self._clock = awake
        self._server = server
        self._say = say
        self._own: dict[str, int] = {}
        self._speaker: PresenceSender | None = None  # while the others can hear it
        self._lives = 0
        self._receiver = PresenceReceiver(replica, SILENCE_MS, lambda node: say(["?", node]), ended)
        self._expected = self._known = 0  # other nodes that are there, and that were before the way to them broke
        self._learnt_at = 0
        self._scheduled = False

    @property
    def up(self) -> bool:
        """State of the way to the others: True while what is sent arrives."""
        return self._speaker is not None

    @property
    def members(self) -> list[str]:
        """The other nodes that are heard."""
        return self._receiver.names

    @property
    def learning(self) -> bool:
        """True while a node may be there of which it is not known what it says."""
        others = max(self._expected, self._receiver.members)
        missing = self._speaker is None or self._receiver.synced < others
        return missing and self._time() < self._learnt_at

    def join(self, node: str) -> None:
        """Be the node of that name from now on."""
        self.node = node
        self._learn()

    def set(self, key: str, count: int) -> None:
        """Say that this node has the key from now on, with that count; 0: that it has it no more."""
        if count:
            self._own[key] = count
        else:
            self._own.pop(key, None)
        if self._speaker is not None:
            self._speaker.set(key, count)
            self._wake()

    def say_all(self) -> None:
        """Say at once what waits for its turn."""
        while self._speaker is not None and self._speaker.busy and (packet := self._speaker.next()) is not None:
            self._say(packet)

    def begin(self, nodes: int) -> None:
        """Say all, and ask the others, now that they hear it; so many nodes listen, this one among them."""
        self._lives += 1
        self._speaker = PresenceSender(self.node, f"{self._server}.{self._lives}", dict(self._own))
        self._speaker.ask()
        self._expected = max(nodes - 1, self._known)
        self._learn()
        self._say(["?", "*"])
        self._wake()

    def interrupt(self) -> None:
        """Forget the others, who can neither hear nor be heard."""
        self._speaker = None
        self._known = max(self._known, self._receiver.members)
        self._receiver.clear()
        self._learn()

    def missing(self, node: str) -> None:
        """Forget a node that does not listen: it is gone, or comes anew, and then it is soon there."""
        self._expected = max(self._expected, self._receiver.members)
        self._receiver.leave(node)
        self._learn()

    def settled(self) -> None:
        """Expect no more nodes than are heard: all have told what they have, or that takes too long."""
        if self._speaker is not None:
            self._known = self._expected = 0

    def hear(self, node: str, packet: list[Any]) -> None:
        """Take what another node says, or asks; raises ValueError for what is no packet of that node."""
        match packet:
            case ["?", asked]:
                if asked in ("*", self.node) and self._speaker is not None:
                    self._speaker.ask()
                    self._wake()
            case [member, *_] if member == node:
                if self._receiver.hear(packet, int(self._clock.time * 1000)):
                    self._learn()
            case _:
                raise ValueError("it speaks for another one")

    def beat(self) -> None:
        """Show, once a second, that this node is there, and let go of those that are not."""
        if self._speaker is not None:
            self._say(self._speaker.beat())
            # What others said while this loop stood still waits unread, and ends nobody here: hence its own clock.
            self._receiver.expire(int(self._clock.time * 1000))

    def leave(self) -> None:
        """Say that this node ends."""
        if self._speaker is not None:
            self._say(self._speaker.bye())

    def _learn(self) -> None:
        self._learnt_at = self._time() + LEARN_MS

    def _wake(self) -> None:
        if not self._scheduled and self._speaker is not None and self._speaker.busy:
            self._scheduled = True
            self._loop.call_later(TURN_SECONDS, self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        for _ in range(PACKETS):
            packet = self._speaker.next() if self._speaker is not None else None
            if packet is not None:
                self._say(packet)
        self._wake()

    def _time(self) -> int:
        """Return the loop's clock in ms."""
        return int(self._loop.time() * 1000)
