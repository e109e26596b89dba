"""How much of a pattern somebody may read: all, a part or nothing of it, found out by subjects that stand for others.

Where rules do not name a segment, all segments are alike: one that nobody has stands for them. So few subjects tell of
a whole pattern, unless very many rules name what it covers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..protocol.limits import SUBJECT_SEGMENTS_MAX
from ..protocol.subject import PRESENCE, RESERVED, USERS, user_segment
from .reasons import PENDING

if TYPE_CHECKING:
    from .grants import Why

DENIED, PARTIAL = "denied", "partial"
"""Nothing of it, and a part of it (protocol.md 3.8); all of it, or what is not known, is the empty text."""

SAMPLES_MAX = 200
"""Subjects that are asked about for one pattern, in about 2 ms; two are enough where the answers differ."""

_FRESH = "\x01\x02\x03"
"""A segment that no rule names."""

_WILD = ("*", "**", "{username}")


class Node(Protocol):
    """A segment of patterns: what may follow it, by the next segment."""

    @property
    def children(self) -> Mapping[str, Node] | None:
        """What may follow; None: nothing."""


class Reach(NamedTuple):
    """How much may be read, the reason why not all, and how many subjects were asked about."""

    rights: str = ""
    reason: str = ""
    looked: int = 0


def reach_of(subjects: Iterable[str], why: Callable[[str], Why]) -> Reach:
    """The reach that these subjects stand for; ``why`` says of each whether it may be read, and notes nothing."""
    allowed, reason, looked = False, "", 0
    for subject in subjects:
        if looked == SAMPLES_MAX:
            return Reach("" if allowed else PARTIAL, reason, looked)
        looked += 1
        answer = why(subject)
        if answer.allowed or answer.reason in PENDING:
            allowed = True
        else:
            # In the words of a denial: a client is not told which subjects there are that it may not read.
            reason = reason or (answer.reason if answer.rule is None else f"rule {answer.rule} denies it")
        if allowed and reason:
            return Reach(PARTIAL, reason, looked)
    return Reach("" if allowed or not looked else DENIED, reason, looked)


def samples(roots: Sequence[Node], pattern: str, user: str) -> Iterator[str]:
    """Subjects that the pattern covers, of each kind that patterns below ``roots`` tell from others one at least."""
    wanted = pattern[1:].split("/")
    users = tuple({user, user_segment(user)}) if user else ()
    own = _walk(roots, wanted, [], users)
    if not pattern.startswith(f"{PRESENCE}/"):
        return own
    # Who may read a subject may see who is there (protocol.md 3.9).
    about = _walk(roots, wanted[2:], [], users)
    return chain(own, (PRESENCE + subject for subject in about))


def _walk(nodes: Sequence[Node], wanted: Sequence[str], path: list[str], users: Sequence[str]) -> Iterator[str]:
    """The subjects that begin with ``path``, which leads to the nodes, and go on as ``wanted``."""
    if not wanted:
        yield _subject(path)
        return
    segment = wanted[0]
    if segment not in ("*", "**"):
        yield from _walk(_below(nodes, segment, users), wanted[1:], [*path, segment], users)
        return
    for candidate in _candidates(nodes, path, users):
        below, here = _below(nodes, candidate, users), [*path, candidate]
        if segment == "*":
            yield from _walk(below, wanted[1:], here, users)
            continue
        if len(here) > 1:
            yield _subject(here)
        if len(here) == SUBJECT_SEGMENTS_MAX:
            continue
        if len(here) == 1 or any(name != "**" for node in below for name in node.children or ()):
            yield from _walk(below, wanted, here, users)
        else:  # however much deeper, it is the same
            yield _subject([*here, _FRESH])


def _candidates(nodes: Sequence[Node], path: Sequence[str], users: Sequence[str]) -> Iterator[str]:
    """Segments that stand for all that may come behind the path."""
    yield _FRESH
    seen: set[str] = set()
    if path[:1] == [USERS] or any("{username}" in (node.children or ()) for node in nodes):
        yield from users
        seen.update(users)
    for node in nodes:
        for name in node.children or ():
            if name not in _WILD and name not in seen and (path or name not in RESERVED):
                seen.add(name)
                yield name


def _below(nodes: Sequence[Node], segment: str, users: Sequence[str]) -> list[Node]:
    """What may follow the segment."""
    names = (segment, "*", "{username}") if segment in users else (segment, "*")
    found = (node.children[name] for node in nodes if node.children for name in names if name in node.children)
    return list(found)


def _subject(path: Sequence[str]) -> str:
    return "/" + "/".join(path)
