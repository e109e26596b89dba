"""Which channels are in which group, and until when (protocol.md 8.22)."""

from __future__ import annotations

from itertools import islice

from ..protocol.errors import InvalidMessage

MEMBERSHIPS_MAX = 1_000_000
"""Channels in all groups together, at about 200 bytes each."""

GONE_MS = 60_000
"""Milliseconds for which the channels of a process stay in their groups when the process has no connection any more."""

LEAVING_MAX = 10_000
"""Channels of a process that has gone, which leave their groups in one turn."""

GROUPS_SWEPT_MAX = 1_000
"""Groups that are looked through in one turn for what is over."""

Membership = tuple[str, str, int, int]
"""A group, a channel in it, how many messages that holds, and until when it is in the group (ms)."""


def process_of(channel: str) -> str:
    """Return the process of a process-local channel, which stands in ``prefix.PROCESS!name``; empty for any other
    channel."""
    local, mark, _ = channel.partition("!")
    return local.rpartition(".")[2] if mark else ""


class Groups:
    """The groups of a node; times are in ms, of one clock."""

    def __init__(self, memberships_max: int = MEMBERSHIPS_MAX) -> None:
        self._memberships_max = memberships_max
        self._groups: dict[str, dict[str, tuple[int, int, bool]]] = {}
        # By process, empty for channels that are nobody's: the group and channel of each membership.
        self._local: dict[str, set[tuple[str, str]]] = {}
        self._gone: dict[str, int] = {}  # processes without a connection, the first one gone first
        self.memberships = 0

    def __len__(self) -> int:
        return len(self._groups)

    def add(self, group: str, channel: str, capacity: int, until: int, *, shared: bool = False) -> None:
        """Put the channel, which holds so many messages, into the group, or renew that; InvalidMessage ``limit``.

        ``shared``: another node has said so, and remembers it.
        """
        members = self._groups.get(group)
        if members is None or channel not in members:
            if self.memberships >= self._memberships_max:
                raise InvalidMessage("limit", f"over {self._memberships_max} channels are in groups")
            self.memberships += 1
            self._local.setdefault(process_of(channel), set()).add((group, channel))
        elif members[channel][2]:
            shared = True
        self._groups.setdefault(group, {})[channel] = capacity, until, shared

    def discard(self, group: str, channel: str) -> bool:
        """Take the channel out of the group; whether it was in it."""
        members = self._groups.get(group)
        if members is None or members.pop(channel, None) is None:
            return False
        self.memberships -= 1
        if not members:
            del self._groups[group]
        process = process_of(channel)
        own = self._local.get(process)
        if own is not None:
            own.discard((group, channel))
            if not own:
                del self._local[process]
        return True

    def members(self, group: str, now: int) -> list[tuple[str, int]]:
        """Return the channels in the group, each with its capacity."""
        members = self._groups.get(group)
        if members is None:
            return []
        return [(channel, capacity) for channel, (capacity, until, _) in members.items() if until > now]

    def is_shared(self, group: str, channel: str) -> bool:
        """Return whether another node remembers that the channel is in the group."""
        members = self._groups.get(group)
        return members is not None and channel in members and members[channel][2]

    def of(self, process: str) -> list[Membership]:
        """Return all memberships of the channels of a process; without a name of those that are nobody's."""
        return [(group, channel, *self._groups[group][channel][:2]) for group, channel in self._local.get(process, ())]

    def came(self, process: str) -> None:
        """Note that the process has a connection."""
        self._gone.pop(process, None)

    def gone(self, process: str, now: int) -> None:
        """Note that the process has no connection any more; when it stays away its channels leave their groups."""
        self._gone.pop(process, None)
        if process in self._local:
            self._gone[process] = now

    def flush(self, prefix: str) -> None:
        """Clear all groups whose names begin with ``prefix``."""
        for group in [group for group in self._groups if group.startswith(prefix)]:
            for channel in list(self._groups[group]):
                self.discard(group, channel)

    def sweep(self, now: int) -> None:
        """Take out, in a part of the groups, what is over, and the channels of one process that has not come back."""
        process, since = next(iter(self._gone.items()), ("", now))
        if since + GONE_MS <= now:
            for group, channel in list(islice(self._local.get(process, ()), LEAVING_MAX)):
                self.discard(group, channel)
            if process not in self._local:
                del self._gone[process]
        for group in list(islice(self._groups, GROUPS_SWEPT_MAX)):
            for channel in [channel for channel, (_, until, _) in self._groups[group].items() if until <= now]:
                self.discard(group, channel)
            if group in self._groups:
                self._groups[group] = self._groups.pop(group)  # behind those that were not looked through
