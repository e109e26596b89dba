"""Where a node stands in the logs, and what it delivers of the entries that follow (pure)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...core.broker.broker import Broker
from ...core.protocol.messages import Message
from . import entries
from .entries import GROUPS, START, Entry, Place


class LogReader:
    """The place up to which each group's log was read.

    What is delivered of a subject is every message of the log, in order; where that cannot be, reading stops, and
    whoever reads brings the subjects to where Redis has them (``settle``) before it goes on.
    """

    def __init__(self, broker: Broker, delivering: Callable[[int], None] | None = None) -> None:
        """Begin nowhere; ``delivering`` is told the time (ms since 1970) of the first of the messages that are
        delivered next."""
        self._broker = broker
        self._delivering = delivering
        self.epoch = 0
        """The newest epoch that was seen."""
        self.places: list[Place | None] = [None] * GROUPS
        """Places of the last entries read; None: whatever comes next follows on."""
        self.ids = [b"0-0"] * GROUPS
        """The same as XREAD takes it."""
        self.unreadable = 0
        """Entries that were left out because they are none: whoever wrote them knows what they are."""
        self._told = [START] * GROUPS  # up to here the subjects may stand further than the log has been read

    def restart(self) -> None:
        """Read from the first entry that is left."""
        self.places = [None] * GROUPS
        self.ids = [b"0-0"] * GROUPS
        self._told = [START] * GROUPS

    def end(self, group: int, rows: Sequence[Entry]) -> Place | None:
        """Return the place of the last of the entries if they follow on in the epoch that the group is in, as is
        usual."""
        place = self.places[group]
        if place is None or self._told[group] > START:
            return None
        epoch, number = entries.parse_place(rows[-1][0])
        # Ids rise: as many as the difference, so none is missing.
        return (epoch, number) if epoch == place[0] and number - place[1] == len(rows) else None

    def deliver(self, rows: Sequence[Entry], epoch: int, told: Place = START) -> None:
        """Deliver entries of one epoch, of any groups; up to ``told`` the subjects may know of them."""
        messages = entries.read(rows, epoch)
        if len(messages) < len(rows):
            self.unreadable += len(rows) - len(messages)
        if told > START:
            messages = self._untold(messages)
        self.epoch = max(self.epoch, epoch)
        if messages and self._delivering is not None:
            self._delivering(messages[0].time)
        self._broker.deliver(messages)

    def take(self, group: int, rows: Sequence[Entry]) -> tuple[int, str]:
        """Deliver the entries of a group that follow on; how many these are, and what is wrong with the next one."""
        runs, fault = entries.follow(self.places[group], rows)
        count = 0
        for epoch, start, count in runs:
            self.deliver(rows[start:count], epoch, self._told[group])
        if count:
            self.stand(group, rows[count - 1][0])
        return count, fault

    def stand(self, group: int, entry_id: bytes) -> None:
        """Go on after this entry."""
        self.ids[group] = entry_id
        place = self.places[group] = entries.parse_place(entry_id)
        if place >= self._told[group]:
            self._told[group] = START

    def settle(self, group: int, head: Place) -> None:
        """Note that the subjects stand where Redis has them, which the log tells of up to ``head``."""
        self._told[group] = head
        self.places[group] = None

    def void(self, epoch: int, last: Sequence[Place]) -> list[int]:
        """Return the groups in which something was read that is not in the log: its newest epoch is ``epoch``, and its
        last entries are ``last``, all at one moment."""
        return [
            group
            for group, place in enumerate(self.places)
            if place is not None and last[group] < place and place[0] < epoch
        ]

    def behind(self, last: Sequence[Place]) -> bool:
        """Return whether a server with these last entries has less than was read already."""
        return any(place is not None and one < place for place, one in zip(self.places, last, strict=True))

    def reached(self, last: Sequence[Place]) -> bool:
        """Return whether everything up to these entries has been read."""
        return all((place or START) >= one for place, one in zip(self.places, last, strict=True))

    def complete(self) -> None:
        """Note that all that there is has been read: an entry that comes where none was must be the first."""
        self.places = [place or START for place in self.places]

    def _untold(self, messages: list[Message]) -> list[Message]:
        topics = self._broker.interest.topics
        return [
            message
            for message in messages
            if not message.seq
            or (topic := topics.get(message.subject)) is None
            or not topic.seq
            or (message.epoch, message.seq) > (topic.epoch, topic.seq)
        ]
