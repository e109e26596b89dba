"""The past of a subject, of what an archive has and what is cached still: one sequence, gaps told; pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from .message import Message, Position

Since = Position | int
"""A position: what is behind it; or a time in ms since 1970: what the server took then, or later."""

Lake = Callable[[str, Since | None], Iterable[Message] | Awaitable[Iterable[Message]]]
"""``lake(subject, since)`` returns an archive's messages of a subject, in any order: those that ``since`` names,
for None all, and, where it has it, the newest one before them, which shows that none is missing there."""


class Gap(NamedTuple):
    """Messages of a subject that neither the archive nor the cache has: those with the numbers ``first`` to ``last``.

    ``first`` is 0 where the oldest message that is there does not tell how far back others were.
    """

    first: int
    last: int


class Past(NamedTuple):
    """The messages of a subject up to ``position``: ``subscribe(subject, since=past.position)`` goes on there.

    ``messages`` are those with a number, the oldest first, each once. ``snapshot`` is what the subject was when it was
    asked for; None where there is none. ``gaps`` are the messages that should be there and are not, the oldest first.
    """

    snapshot: Message | None
    messages: list[Message]
    position: Position
    gaps: list[Gap]


def since_of(since: Any) -> Since | None:
    """Return a position, a datetime with a time zone, ms since 1970, or None as what a lake is asked for.

    Raises TypeError, and ValueError for a datetime that could be any time.
    """
    if since is None:
        return None
    if isinstance(since, datetime):
        if since.tzinfo is None:
            raise ValueError("since: a datetime needs a time zone, such as datetime.now(UTC)")
        return round(since.timestamp() * 1000)
    if isinstance(since, int) and not isinstance(since, bool):
        return since
    if isinstance(since, tuple) and len(since) == 2 and all(type(one) is int for one in since):
        return Position(*since)
    raise TypeError(f"since is a datetime, ms since 1970 or a position, not {since!r}")


def joined(
    archived: Iterable[Message], cached: Iterable[Message], since: Since | None
) -> tuple[list[Message], list[Gap]]:
    """Return all messages that `since` names, in order and each once, and the gaps before and between them.

    Numbers of a subject rise by one, also into a later epoch, or begin there with 1 again. A message that both have is
    taken from the cache, which knows more of it.
    """
    by_place = {(one.epoch, one.seq): one for one in archived if one.seq}
    by_place |= {(one.epoch, one.seq): one for one in cached if one.seq}
    chain = [by_place[place] for place in sorted(by_place)]
    begin = next((at for at, one in enumerate(chain) if _wanted(one, since)), len(chain))
    found = chain[begin:]
    gaps = _before(chain, begin, since)
    for before, after in pairwise(found):
        gaps += _between(before, after)
    return found, gaps


def reaches(cached: Sequence[Message], since: Since | None) -> bool:
    """True when the cache has all that `since` names, so that no archive need be asked."""
    if since is None or not cached:
        return False
    first = cached[0]
    follows = isinstance(since, tuple) and (first.epoch, first.seq) == (since[0], since[1] + 1)
    return follows or not _wanted(first, since)


def end_of(found: Iterable[Message], head: Position | None) -> tuple[list[Message], Position]:
    """Return what was cached of all that came to a new subscription, and the position up to which that is.

    What came live behind it may be conflated, and is left out. ``head`` is where the subject stands after all of it.
    """
    numbered = [one for one in found if one.seq]
    cached = [one for one in numbered if one.kind != "update"]
    if cached:
        return cached, Position(cached[-1].epoch, cached[-1].seq)
    if numbered:
        return [], Position(numbered[0].epoch, numbered[0].seq - 1)
    return [], head or Position(0, 0)


def _wanted(message: Message, since: Since | None) -> bool:
    if since is None:
        return True
    if isinstance(since, tuple):
        return (message.epoch, message.seq) > since
    return message.time >= since


def _before(chain: Sequence[Message], begin: int, since: Since | None) -> list[Gap]:
    """Return what is missing between the start that was asked for and the first message that is there."""
    if since is None or begin == len(chain):
        return []
    first = chain[begin]
    if isinstance(since, tuple):
        return _follows(since.epoch, since.seq, first)
    if begin:
        return _between(chain[begin - 1], first)
    return [] if first.seq == 1 else [Gap(0, first.seq - 1)]


def _between(before: Message, after: Message) -> list[Gap]:
    return _follows(before.epoch, before.seq, after)


def _follows(epoch: int, seq: int, after: Message) -> list[Gap]:
    """Return the gap between a position and the next message; none where it is the next, or begins an epoch anew."""
    end = 0 if after.epoch > epoch and after.seq <= seq else seq
    return [Gap(end + 1, after.seq - 1)] if after.seq > end + 1 else []
