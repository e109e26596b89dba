"""When a write that not all replicas have acknowledged may be acknowledged all the same (pure).

A write that every replica has survives whichever of them is promoted. One that some replica does not have is lost if
that one becomes the primary. So without all of them it counts only when it is certain that the missing ones are no
candidates: the Sentinels, who promote, must be content with this primary, and know that those are down or have had time
to see that they are not. It is Kafka's ``acks=all`` with ``min.insync.replicas=2``, with the Sentinels as judges of who
is in step. ``WAIT 1`` alone loses what was written while a failover was under way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf

from ..address import Address, shown
from ..primary import SentinelView

MARGIN_SECONDS = 1.0
"""Seconds that a live replica must have been missing longer than the Sentinels' down-after: by then what they think of
the primary is newer than what has cut the replica off."""


LEFT_SECONDS = 6.0
"""Seconds that a former primary that does not answer is excused before the Sentinels see it down in its new role, if
they have never heard of it in that role. They promote only whom they have, and make it a replica after eight seconds.
"""


class ReplicaAnswer(Enum):
    """The answer of a replica that was asked about itself."""

    OURS = "follows this primary"
    OTHER = "follows another primary"
    RIVAL = "is a primary of this epoch or a newer one"
    FORMER = "is a primary of an older epoch"
    NOTHING = "does not answer"


@dataclass(frozen=True, slots=True)
class RedisReplica:
    """A replica, as seen from here after a write."""

    acknowledged: bool
    found: ReplicaAnswer
    missing: float = 0.0
    """Seconds for which the replica has not acknowledged."""
    left: float = inf
    """Seconds since a majority of the Sentinels has switched from this server as the primary to another one."""


def objection(
    primary: Address, replicas: Mapping[Address, RedisReplica], views: Sequence[SentinelView], sentinels: int
) -> str:
    """Return why a write to ``primary`` must not be acknowledged yet; empty when it may.

    ``replicas`` are all that the Sentinels know, ``views`` what the Sentinels that answered say now, ``sentinels`` how
    many there are.
    """
    if not any(one.acknowledged for one in replicas.values()):
        return "no replica has acknowledged"
    if all(one.acknowledged for one in replicas.values()):
        return ""
    content = sum(view.healthy and view.primary == primary for view in views)
    if content <= sentinels // 2:
        return f"{content} of {sentinels} Sentinels call {shown(primary)} the primary and in order"
    patience = max(view.down_after for view in views) + MARGIN_SECONDS
    for address, one in replicas.items():
        if one.found in (ReplicaAnswer.OTHER, ReplicaAnswer.RIVAL):
            return f"{shown(address)} {one.found.value}"
        if one.acknowledged or one.found is ReplicaAnswer.FORMER:
            continue
        if one.found is ReplicaAnswer.NOTHING:
            down = sum(view.replicas.get(address, False) for view in views)
            unheard = sum(address in view.unheard for view in views)
            if down <= sentinels // 2 and (one.left > LEFT_SECONDS or unheard <= sentinels // 2):
                return f"{shown(address)} {one.found.value}, and {down} of {sentinels} Sentinels see it down"
        elif one.missing < patience:
            return f"{shown(address)} has been missing for {one.missing:.1f} s of {patience:g} s"
    return ""
