"""Positions and snapshots as Redis keeps them, read and put in the place of what the broker holds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypeVar

from redis.exceptions import ResponseError

from ...core.broker.broker import Broker
from ...core.cache.snapshot import Snapshot
from ...core.delivery.audience import Topic
from ...core.protocol.packets import Position
from . import entries
from .connection import sections
from .entries import GROUPS, START, Place
from .pace import next_count

log = logging.getLogger("fastpath.redis")

SCAN_FIELDS = 2000
"""Fields of a hash asked for at a time: some milliseconds' work for Redis and for us."""

SCAN_FIELDS_FIRST = 4
"""Are asked for before it is known how large they are."""

ANSWER_SECONDS = 1.5
"""A server that has not answered by then is left."""

SLICE_SUBJECTS = 2000
"""Subjects that are put into the broker in one turn of the loop."""

T = TypeVar("T")


class CommandLink(Protocol):
    """A connection to a server (connection.RedisLink)."""

    async def ask(self, *commands: Sequence[Any], seconds: float) -> list[Any]:
        """Return the answers to several commands."""

    async def call(self, *command: Any, seconds: float) -> Any:
        """Return the answer to one command."""


class RedisLacks(Exception):
    """The error of a server that cannot be read from; another one may be."""


class RedisDiffers(Exception):
    """The data set was made with another number of groups or by a later version: nothing of it can be read."""


class Heads(NamedTuple):
    """The state of a server's data set at one moment."""

    primary: bool
    epoch: int
    """Epoch of the newest script; 0: nothing has been stored yet."""
    last: list[Place]
    """The id of each log's last entry."""


async def read_heads(link: CommandLink, prefix: str) -> Heads:
    """Read where the logs stand; raise RedisLacks for a replica that has lost its primary, RedisDiffers, and what the
    link raises."""
    logs = [("XREVRANGE", entries.log_key(prefix, group), "+", "-", "COUNT", 1) for group in range(GROUPS)]
    meta = ("HMGET", entries.meta_key(prefix), "epoch", "groups", "version")
    *_, answer = await link.ask(("MULTI",), ("INFO", "replication"), meta, *logs, ("EXEC",), seconds=ANSWER_SECONDS)
    for one in (answer, *answer) if isinstance(answer, list) else (answer,):
        if isinstance(one, ResponseError):
            raise one
    replication, (epoch, groups, version), *newest = answer
    info = sections(replication)
    primary = info["role"] == "master"
    if not primary and info["master_link_status"] != "up":
        raise RedisLacks("it is cut off from its primary")
    if int(groups or GROUPS) != GROUPS or int(version or 0) > entries.VERSION:
        raise RedisDiffers(
            f"the data set has {int(groups or GROUPS)} groups and version {int(version or 0)}; "
            f"this server knows {GROUPS} groups and version {entries.VERSION}"
        )
    last = [entries.parse_place(one[0][0]) if one else START for one in newest]
    return Heads(primary, int(epoch or 0), last)


async def read_group(
    link: CommandLink, prefix: str, group: int, oldest: int
) -> tuple[dict[str, Position], dict[str, Snapshot]]:
    """Return the positions of a group's subjects, and then its snapshots: these are as new as the positions, or newer.

    ``oldest`` is the time, in ms since 1970, before which a snapshot has expired.
    """
    positions: dict[str, Position] = {}
    async for flat in _scan(link, entries.positions_key(prefix, group)):
        positions.update(entries.positions_of(flat))
    parts = entries.SnapshotParts(oldest)
    unreadable = 0
    async for flat in _scan(link, entries.snapshots_key(prefix, group)):
        for name, value in entries.pairs_of(flat):
            unreadable += not parts.add(name, value)
    if unreadable:
        log.error("%d fields of %s are none and are left out", unreadable, entries.snapshots_key(prefix, group))
    return positions, parts.take()


async def _scan(link: CommandLink, key: str) -> AsyncIterator[list[bytes]]:
    """Yield the fields of a hash, as they come."""
    cursor: Any = 0
    count = SCAN_FIELDS_FIRST
    while True:
        cursor, flat = await link.call("HSCAN", key, cursor, "COUNT", count, seconds=ANSWER_SECONDS)
        yield flat
        count = next_count(count, sum(map(len, flat)), SCAN_FIELDS)
        if not int(cursor):
            return


def slices(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield the parts that may be handled in one turn of the loop."""
    iterator = iter(items)
    while chunk := list(islice(iterator, SLICE_SUBJECTS)):
        yield chunk


async def begin(broker: Broker, positions: dict[str, Position], snapshots: dict[str, Snapshot]) -> None:
    """Take over what a broker that serves nobody yet begins with; the logs are to follow, from their first entry.

    What the logs still hold is delivered once more, older than this: in the end each subject stands where its newest
    entry says, or, where no entry is left, where ``positions`` does.
    """
    for names in slices(dict.fromkeys((*positions, *snapshots))):
        for subject in names:
            if subject not in positions and snapshots[subject].removed:
                continue  # nobody can come back to what had no numbers
            epoch, seq = positions.get(subject, START)
            topic = broker.topic(subject, epoch)
            topic.epoch, topic.seq = epoch, seq
            topic.snapshot = _snapshot(broker, topic, snapshots)
        await asyncio.sleep(0)


async def resynchronise(
    broker: Broker,
    group: int,
    epoch: int,
    positions: dict[str, Position],
    snapshots: dict[str, Snapshot],
    before: Place | None,
    *,
    unknown: bool,
) -> int:
    """Let each subject of the group stand where Redis has it; how many stood elsewhere.

    Whoever is subscribed to one of those is told (protocol.md 4.8). ``before`` is given when what was read after that
    place is void: a subject that has newer entries is left to them, for they follow now and cut off what they number
    again (Broker.deliver). With ``unknown`` also subjects that Redis does not know start anew, at 0. ``epoch`` is that
    of what follows.
    """
    restarted = 0
    topics = broker.interest.topics
    for items in slices(positions.items()):
        for subject, position in items:
            topic = broker.topic(subject, position[0])
            snapshot = _snapshot(broker, topic, snapshots)
            stands = (topic.epoch, topic.seq)
            if stands == position and not _differ(topic.snapshot, snapshot):
                continue
            restarted += stands != position
            if before is None or position[0] <= before[0]:
                broker.reset_topic(topic, *position, snapshot)
            elif topic.seq and topic.epoch > before[0]:  # all of that is void, whatever its number
                broker.reset_topic(topic, epoch, 0, snapshot)
            else:
                _replace_snapshot(broker, topic, snapshot)
        await asyncio.sleep(0)
    for names in slices(subject for subject in snapshots if subject not in positions):
        for subject in names:  # of standard quality only
            removed = snapshots[subject].removed
            if removed and subject not in topics:
                continue
            topic = broker.topic(subject, epoch)
            if not topic.seq:
                _replace_snapshot(broker, topic, None if removed else _snapshot(broker, topic, snapshots))
        await asyncio.sleep(0)
    if not unknown:
        return restarted
    for listed in slices(list(topics.values())):
        for topic in listed:
            if not topic.seq or topic.system or topic.subject in positions:
                continue
            if entries.group_of(topic.subject) == group:
                broker.reset_topic(topic, epoch, 0, _snapshot(broker, topic, snapshots))
                restarted += 1
        await asyncio.sleep(0)
    return restarted


def _snapshot(broker: Broker, topic: Topic, snapshots: dict[str, Snapshot]) -> Snapshot | None:
    """Return the subject's snapshot as Redis has it; None where none is kept here: Redis knows nothing of options."""
    return snapshots.get(topic.subject) if broker.keeps_snapshot(topic) else None


def _replace_snapshot(broker: Broker, topic: Topic, snapshot: Snapshot | None) -> None:
    """Replace a snapshot that alone was not what Redis has; who follows this broker learns of it."""
    if _differ(topic.snapshot, snapshot):
        topic.snapshot = snapshot
        if broker.restarted is not None:
            broker.restarted(topic)


def _differ(one: Snapshot | None, other: Snapshot | None) -> bool:
    """Return whether the two states are not the same."""
    if one is None or other is None:
        return one is not other
    if one.removed is not other.removed:
        return True
    return one.newest.content != other.newest.content or (one.fields or {}) != (other.fields or {})
