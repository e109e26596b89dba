"""What groups have pending goes to their members: a bounded number of writes a turn, whoever comes or goes meanwhile.

What a group has pending is one row of frames, in the order in which they were offered. Its members usually stand at the
same place: all are owed all of it, and get it in one write each. Where they do not, the group has a ``Progress``:

* Who joins while something is pending, or was written to alone (``level``), is ``ahead`` by so many frames.
* A group of more than ``Writer.members_max`` is written in slices. What was pending when that began is the round; what
  is offered meanwhile stays pending until every member has had the round. ``ready`` and ``singles`` of the group are
  each in two parts then, those who have had the round and those who are owed it, and whoever comes, goes, blocks or is
  level again is put into the part that it belongs to, in constant time.

So a change of membership, however large the group, costs what is owed to the one client.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from .write_batches import Batches

if TYPE_CHECKING:
    from .audience import Client, Group, UnevenProgress
    from .ports import Deliverer

TURNS_MAX = 32
"""However many small groups wait, each has its turn after about so many."""

_ALL = 1 << 62


class Writing:
    """The writing of groups: what is written now, and what waits for its turn."""

    def __init__(self, broker: Deliverer) -> None:
        self._broker = broker
        self.batches = Batches(self.sliced)
        self._left: list[Group] = []
        """Small groups for which there was no room in the last turn."""
        self._large: dict[Group, None] = {}
        """Groups that are written in slices; the first has the next turn."""
        self.behind = False
        """Something to be written had no room in the last turn: ``flush`` is to be called in the next one."""
        self.delayed = False
        """Small groups are among what is behind."""

    @property
    def crowded(self) -> bool:
        """True if so much waits that nothing more is to be taken in from publishers that can be held."""
        if self._left:
            return True
        most = self._broker.limits.pending_bytes
        return any(_size(group) > most for group in self._large)

    def sliced(self, group: Group) -> bool:
        """Return whether the group is written in slices instead of in one go."""
        return group.progress is not None or len(group) > self._broker.writer.members_max

    def write(self, groups: list[Group]) -> None:
        """Write what the groups have pending, and what waits, as far as one turn goes."""
        small = self._left + groups if self._left else groups
        try:
            if small:
                room = max(self._broker.writer.members_max, len(small) // TURNS_MAX)
                self._left = small[self._write_small(small, room) :]
            if self._large:
                self._write_large()
        finally:  # a fault is that of one group: the others wait for their turn
            self.delayed = bool(self._left)
            self.behind = self.delayed or bool(self._large)

    def level(self, client: Client) -> None:
        """Write the client what its group owes it: what is its own comes next, or it leaves."""
        group = client.group
        if group is None or not (group.pending or group.held is not None or group.progress is not None):
            return
        if len(group) == 1:
            self.settle(group)
            return
        broker, progress = self._broker, group.uneven()
        frames = _rest(group, progress, client)
        row = [*group.held.frames, *group.pending] if group.held is not None else group.pending
        had = progress.ahead.get(client, 0)
        if had < len(row):
            if not had and group.base != broker.base:
                frames.append(broker.base_frame(group.wire))
            frames += row[had:]
            progress.ahead[client] = len(row)
        if frames:
            broker.flush_answers()
            self._write_one(client, b"".join(frames), len(frames))
        group.even()

    def settle(self, group: Group) -> None:
        """Write the group's members all that they are owed, however many they are."""
        if group.held is not None:
            self.batches.release(group)
        if group.pending or group.progress is not None:
            self._broker.flush_answers()
            while group.progress is not None and (group.pending or group.progress.writing):
                self._write_slice(group, _ALL)
            if group.pending:
                self._write_small([group], 1, sliced=False)

    def rebase(self) -> list[Group]:
        """Return the groups that have something pending, as the base of message times is about to move: what is pending
        counts from the old base, and begins with it now where that has not been told."""
        broker = self._broker
        rows: list[Group] = []
        for group in dict.fromkeys(chain(broker.dirty, self._left, self._large, self.batches.waiting())):
            row = group.held.frames if group.held is not None else group.pending
            if row:
                rows.append(group)
                if group.base != broker.base:
                    group.base = broker.base
                    row.insert(0, broker.base_frame(group.wire))
                    ahead = group.progress.ahead if group.progress is not None else {}
                    ahead.update({client: had + 1 for client, had in ahead.items()})
        return rows

    # Small groups: one write each, all that is pending

    def _write_small(self, groups: list[Group], room: int, *, sliced: bool = True) -> int:
        """Write what these groups have pending, up to ``room`` writes; return how many of them were looked at.

        The groups of one client go together: there a group costs what a client costs, where no two clients want the
        same.
        """
        broker = self._broker
        base, writer = broker.base, broker.writer
        members_max = writer.members_max
        messages = size = at = 0
        ones: list[Group] = []
        keys, datas = list[int](), list[bytes]()
        for group in groups:
            if room <= 0:
                break
            at += 1
            pending, places = group.pending, group.keys
            if not pending:
                continue  # settled since
            alone = len(places) == 1 and not group.singles
            if group.progress is not None or (not alone and sliced and len(group) > members_max):
                self._enter(group)
                continue
            if group.base != base:
                pending.insert(0, broker.base_frame(group.wire))
                group.base = base
            count = len(pending)
            data = pending[0] if count == 1 else b"".join(pending)
            pending.clear()  # before anyone blocks, and is put elsewhere for it
            if alone:
                messages += count
                room -= 1
                ones.append(group)
                keys += places
                datas.append(data)
            else:
                members = len(group)
                messages += count * members
                size += len(data) * members
                room -= members
                writer.write_group(group, data)
        if keys:
            size += sum(map(len, datas))
            writer.write_ones(ones, keys, datas)
        broker.counters.messages_out += messages
        broker.counters.bytes_out += size
        return at

    # Large ones, and those whose members do not stand at the same place

    def _enter(self, group: Group) -> None:
        """Enter a group that has something pending, and is written in slices."""
        progress = group.uneven()
        if not progress.next and self.batches.begun is not None:
            progress.next = self.batches.begun()
        self._large[group] = None
        self.behind = True

    def _write_large(self) -> None:
        """Write a slice of each group in turn, until the turn is over.

        Who cannot be held may go on publishing: where too much is pending for that, the group's round is ended first.
        """
        writer, most = self._broker.writer, 2 * self._broker.limits.pending_bytes
        large = self._large
        writer.begin()
        while large:
            group = next(iter(large))
            del large[group]
            crowded = group.uneven().writing and _size(group) > most
            try:
                self._write_slice(group, _ALL if crowded else writer.step_members)
            finally:  # a fault is that of one slice: nobody would ever write to the others
                if len(group) and (group.pending or (group.progress is not None and group.progress.writing)):
                    large[group] = None
            if writer.over():
                return

    def _write_slice(self, group: Group, room: int) -> None:
        """Go on with the group's round, or begin one, with up to so many members."""
        progress = group.uneven()
        if not progress.writing:
            if not group.pending:
                group.even()
                return
            self._begin(group, progress)
        count = len(progress.frames)
        before = self._broker.counters.messages_out
        while progress.parts and room > 0:
            client, had = progress.parts.popitem()
            room -= 1
            if group.serve(client) and had < count:
                self._write_one(client, b"".join(progress.frames[had:]), count - had)
        data, counters = progress.data, self._broker.counters
        at = progress.ready
        clients, keys = group.ready[at : at + room], group.keys[at : at + room]
        if clients:
            progress.ready += len(clients)  # first: who blocks is put among those who have had it
            room -= len(clients)
            counters.messages_out += count * len(clients)
            counters.bytes_out += len(data) * len(clients)
            self._broker.writer.write_some(clients, keys, data)
        at = progress.singles
        singles = group.singles[at : at + room]
        if singles:
            progress.singles += len(singles)
            counters.messages_out += count * len(singles)
            counters.bytes_out += len(data) * len(singles)
            self._broker.writer.write_singles(singles, data)
        if self.batches.released is not None:
            self.batches.released(progress.begun, counters.messages_out - before)
        if not progress.parts and progress.ready == len(group.ready) and progress.singles == len(group.singles):
            progress.writing = False
            progress.frames, progress.data = [], b""
            group.even()

    def _begin(self, group: Group, progress: UnevenProgress) -> None:
        """Begin the group's next round with what is pending."""
        broker = self._broker
        if group.held is not None:
            self.batches.release(group)
        progress.frames, group.pending = group.pending, []
        progress.parts, progress.ahead = progress.ahead, {}
        if group.base != broker.base:
            progress.frames.insert(0, broker.base_frame(group.wire))
            progress.parts = {client: had + 1 for client, had in progress.parts.items()}
            group.base = broker.base
        progress.data = b"".join(progress.frames)
        progress.ready = progress.singles = progress.counted = progress.size = 0
        progress.begun, progress.next = progress.next, 0
        progress.writing = True

    def _write_one(self, client: Client, data: bytes, count: int) -> None:
        counters = self._broker.counters
        counters.messages_out += count
        counters.bytes_out += len(data)
        client.link.write(data)


def _rest(group: Group, progress: UnevenProgress, client: Client) -> list[bytes]:
    """Return the frames of the round that the client is owed still; from here on the client has had them."""
    if not progress.writing:
        return []
    had = progress.parts.pop(client, 0)
    return progress.frames[had:] if group.serve(client) else []


def _size(group: Group) -> int:
    """Return the bytes that are pending, beside what is being written."""
    progress = group.uneven()
    progress.size += sum(map(len, islice(group.pending, progress.counted, None)))
    progress.counted = len(group.pending)
    return progress.size
