"""The rules of one generation, matched against a subject: most specific wins, deny wins a tie (features.md E2).

Patterns are compared segment by segment from the left: a literal segment is more specific than ``*``, and ``*`` more
than ``**``. ``{username}`` and ``{user_id}`` count as the literals that they stand for. Who has no such name, or one
that no segment can be, is allowed nothing by them, and denied by them whatever stands there: not knowing who it is
takes no deny away. Rules live in one tree per holder (``user:5``, ``group:3``, ``everyone``, ``anonymous``). A check
walks the trees of all holders at once, most specific branch first, and ends at the first place with a rule in force:
what it costs is the subject's length, not the number of rules.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import chain
from sys import intern

from msgspec import Struct
from msgspec.structs import force_setattr

from ..protocol.limits import SUBJECT_SEGMENTS_MAX
from ..protocol.subject import NAMES, PRESENCE, USER_ID, USERNAME, USERS, is_reserved, named_segment, user_segment

SUBSCRIBE = "subscribe"
PUBLISH = "publish"
BOTH = "both"

_LITERAL, _STAR, _REST = 2, 1, 0

DUE_MAX = 25_000
"""Rules whose beginning or end is told in one call: about 10 ms; the others follow with the next calls."""

SPARE_MAX = 1000
"""Moments of rules that have been replaced since, beyond some for each rule, before they are swept out."""

_USERS_PREFIX = f"/{USERS}/"

_SYSTEM, _PRESENT = PRESENCE[1:].split("/")

_FRESH = "\x01\x02\x03"
"""A segment that no rule names."""

_WILD = ("*", "**", *NAMES)


class Rule(Struct, frozen=True):
    """A rule as Django sends it (protocol.md 8.2); ``start`` and ``end`` in ms bound its validity."""

    id: int
    who: str
    pattern: str
    action: str
    allow: bool
    start: int | None = None
    end: int | None = None

    def in_force(self, now: int) -> bool:
        """Return whether ``now`` (ms) lies within the rule's validity: from ``start`` on, and before ``end``."""
        return (self.start is None or self.start <= now) and (self.end is None or now < self.end)


OWN = Rule(0, "", f"/{USERS}/{USERNAME}/**", SUBSCRIBE, True)
"""The implied rule of everybody who has a name: one's own subjects may be read. No rule of Django's has this id."""


class _Node:
    """A segment of the patterns of one holder; ``rules`` are those that end here, the one that decides first."""

    __slots__ = ("children", "rules")

    def __init__(self) -> None:
        self.children: dict[str, _Node] | None = None
        self.rules: list[Rule] | None = None


class RuleSet:
    """All rules of one generation."""

    def __init__(self) -> None:
        self.rules: dict[int, Rule] = {}
        self.names = 0
        """Number of rules that name who asks (``NAMES``): without any, no answer depends on the user's name or id."""
        self._roots: dict[str, _Node] = {}
        self._timed: dict[int, Rule] = {}
        # When validities begin and end: a heap of the moments (ms), and whose they are; rules that are gone stay there.
        self._moments: list[int] = []
        self._whose: dict[int, list[int]] = {}
        self._listed = 0
        self._begun = self._told = 0  # from which moment on they count, and up to which they have been taken
        self._late: list[int] = []  # whose moment has been taken, but who have not been told yet
        self._late_moment = 0
        self._own = _Node()  # the implied rule's segments behind the first
        named = _Node()
        rest = _Node()
        self._own.children, named.children, rest.rules = {USERNAME: named}, {"**": rest}, [OWN]

    @property
    def holders(self) -> Collection[str]:
        """The holders that have rules."""
        return self._roots.keys()

    def put(self, rule: Rule) -> set[str]:
        """Add or replace a rule; the holders whose rights may have changed."""
        changed = self.remove(rule.id)
        # One text for all that say the same: of a hundred thousand rules the texts are most of the memory.
        force_setattr(rule, "who", intern(rule.who))
        force_setattr(rule, "action", intern(rule.action))
        node = self._roots.setdefault(rule.who, _Node())
        for segment in rule.pattern[1:].split("/"):
            if node.children is None:
                node.children = {}
            child = node.children.get(segment)
            if child is None:
                child = node.children[intern(segment)] = _Node()
            node = child
        if node.rules is None:
            node.rules = [rule]
        else:
            insort(node.rules, rule, key=_rank)
        self.rules[rule.id] = rule
        self.names += _is_named(rule)
        if rule.start is not None or rule.end is not None:
            self._timed[rule.id] = rule
            self._expect(rule)
            if self._listed > 4 * len(self._timed) + SPARE_MAX:  # mostly of rules that have been replaced
                self._expect_all()
        changed.add(rule.who)
        return changed

    def remove(self, rule_id: int) -> set[str]:
        """Remove a rule if it is there; return the holders whose rights may have changed."""
        rule = self.rules.pop(rule_id, None)
        if rule is None:
            return set()
        self._timed.pop(rule_id, None)
        self.names -= _is_named(rule)
        path = [self._roots[rule.who]]
        segments = rule.pattern[1:].split("/")
        for segment in segments:
            path.append((path[-1].children or {})[segment])
        rules = path[-1].rules or []
        del rules[bisect_left(rules, _rank(rule), key=_rank)]
        while segments and not path[-1].rules and not path[-1].children:
            path.pop()
            del (path[-1].children or {})[segments.pop()]
        if not self._roots[rule.who].children:
            del self._roots[rule.who]
        return {rule.who}

    def decide(
        self, holders: Iterable[str], user: str, subject: str, action: str, now: int, uid: str = ""
    ) -> Rule | None:
        """Return the rule that decides for a bearer of these holders' rights, or None when none covers the subject.

        Of a subject below ``/user/`` only rules that name this segment decide, and for whoever has a name ``OWN``.
        """
        roots = [root for root in map(self._roots.get, holders) if root is not None]
        if subject.startswith(_USERS_PREFIX):
            named = [node for root in roots if (node := (root.children or {}).get(USERS)) is not None]
            return _first([*named, self._own], subject[1:].split("/"), 1, _names(user, uid, own=True), action, now)
        return _first(roots, subject[1:].split("/"), 0, _names(user, uid), action, now) if roots else None

    def samples(
        self, holders: Iterable[str], user: str, pattern: str, uid: str = "", beside: RuleSet | None = None
    ) -> Iterator[str]:
        """Yield subjects of a pattern that stand for all of it, where it is to be known how much of it may be read.

        Where rules do not name a segment, all segments are alike: one that nobody has stands for them. ``beside``: all
        rules of that set count as well.
        """
        roots = [root for root in map(self._roots.get, holders) if root is not None]
        return _samples([*roots, *(beside._roots.values() if beside is not None else ())], pattern, user, uid)

    def covering(self, holders: Iterable[str], user: str, subject: str, uid: str = "") -> list[Rule]:
        """Return all rules of these holders that cover the subject, in force or not, of whatever action.

        They come in the order in which they decide: of those in force and of the action asked for, the first one does.
        """
        roots = [root for root in map(self._roots.get, holders) if root is not None]
        segments = subject[1:].split("/")
        names = _names(user, uid, own=segments[0] == USERS)
        found = [match for root in roots for match in _walk(root, segments, 0, names) if _counts(match[1], names)]
        if segments[0] == USERS:
            found = [match for match in found if match[1].pattern.startswith(_USERS_PREFIX)]
        found.sort(key=lambda match: (match[0], not match[1].allow, match[1].id), reverse=True)
        return [rule for _, rule in found]

    def begin(self, now: int) -> None:
        """Have ``due`` tell what begins after ``now`` (ms)."""
        self._begun = self._told = now

    def due(self, now: int) -> set[str]:
        """Return the holders of rules whose validity has begun or ended since the last call, up to ``now`` (ms).

        Of very many rules some are told, and the others the next times.
        """
        holders: set[str] = set()
        if now < self._told:  # the clock was set back: what has been told comes again
            self.begin(now)
            self._expect_all()
            return {rule.who for rule in self._timed.values()}
        self._told = now
        left = DUE_MAX
        while left > 0:
            if self._late:
                some = self._late[-left:]
                del self._late[-left:]
                left -= len(some)
                moment = self._late_moment
                for number in some:
                    rule = self._timed.get(number)
                    if rule is not None and (moment == rule.start or moment == rule.end):
                        holders.add(rule.who)
            elif self._moments and self._moments[0] <= now:
                moment = heappop(self._moments)
                whose = self._whose.pop(moment)
                self._listed -= len(whose)
                left -= 1
                if moment > self._begun:
                    self._late, self._late_moment = whose, moment
            else:
                break
        return holders

    def _expect(self, rule: Rule) -> None:
        """Note when the rule begins and ends."""
        for moment in (rule.start, rule.end):
            if moment is not None and moment > self._told:
                whose = self._whose.get(moment)
                if whose is None:
                    self._whose[moment] = [rule.id]
                    heappush(self._moments, moment)
                else:
                    whose.append(rule.id)
                self._listed += 1

    def _expect_all(self) -> None:
        """Note anew for all rules when their validity begins and ends."""
        self._moments, self._whose, self._listed = [], {}, 0
        for rule in self._timed.values():
            self._expect(rule)


def _rank(rule: Rule) -> tuple[bool, int]:
    """Return where a rule stands among those of one pattern: deny wins; of several, the newest is named."""
    return rule.allow, -rule.id


def _is_named(rule: Rule) -> bool:
    """Return whether the rule names who asks."""
    return "{" in rule.pattern


def _names(user: str, uid: str, own: bool = False) -> tuple[str, str]:
    """Return what stands for ``NAMES``, empty where it is missing; ``own``: below ``/user/``, where each has a
    spelling."""
    return (user_segment(user), user_segment(uid)) if own else (named_segment(user), named_segment(uid))


def _counts(rule: Rule, names: tuple[str, str]) -> bool:
    """Return whether a rule that was found counts: one that allows does not where a name that it needs is missing."""
    if not rule.allow or (names[0] and names[1]) or "{" not in rule.pattern:
        return True
    segments = rule.pattern.split("/")
    return all(bool(name) or text not in segments for text, name in zip(NAMES, names, strict=True))


def _first(
    nodes: list[_Node], segments: list[str], at: int, names: tuple[str, str], action: str, now: int
) -> Rule | None:
    """Return the rule that decides, of those below these equally specific places that cover the segments from ``at``
    on."""
    if at == len(segments):
        return _best(nodes, action, now, names)
    segment = segments[at]
    literal: list[_Node] = []
    star: list[_Node] = []
    rest: list[_Node] = []
    user, uid = names
    own = not user or segment == user
    same = not uid or segment == uid
    plain = segment not in NAMES  # a subject's segment that is spelled so is no name that a rule could stand for
    for node in nodes:
        children = node.children
        if children is None:
            continue
        if plain and (child := children.get(segment)) is not None:
            literal.append(child)
        if own and (child := children.get(USERNAME)) is not None:
            literal.append(child)
        if same and (child := children.get(USER_ID)) is not None:
            literal.append(child)
        if (child := children.get("*")) is not None:
            star.append(child)
        if (child := children.get("**")) is not None:
            rest.append(child)
    for below in (literal, star):
        if below and (rule := _first(below, segments, at + 1, names, action, now)) is not None:
            return rule
    return _best(rest, action, now, names) if rest else None


def _best(nodes: list[_Node], action: str, now: int, names: tuple[str, str]) -> Rule | None:
    """Return the rule in force that decides about the action, of those that end at these places."""
    best: Rule | None = None
    for node in nodes:
        for rule in node.rules or ():
            if (rule.action == action or rule.action == BOTH) and rule.in_force(now) and _counts(rule, names):
                if best is None or _rank(rule) < _rank(best):
                    best = rule
                break  # the others of this place stand behind it
    return best


def _walk(
    node: _Node, segments: list[str], at: int, names: tuple[str, str], path: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, ...], Rule]]:
    """Yield every rule below ``node`` whose pattern covers the segments from ``at`` on, with its specificity."""
    if at == len(segments):
        for rule in node.rules or ():
            yield path, rule
        return
    children = node.children or {}
    segment = segments[at]
    if segment not in NAMES and (child := children.get(segment)) is not None:
        yield from _walk(child, segments, at + 1, names, (*path, _LITERAL))
    for text, name in zip(NAMES, names, strict=True):
        if (not name or segment == name) and (child := children.get(text)) is not None:
            yield from _walk(child, segments, at + 1, names, (*path, _LITERAL))
    if (child := children.get("*")) is not None:
        yield from _walk(child, segments, at + 1, names, (*path, _STAR))
    if (child := children.get("**")) is not None:
        for rule in child.rules or ():
            yield (*path, _REST), rule


def _samples(roots: Sequence[_Node], pattern: str, user: str, uid: str) -> Iterator[str]:
    """Return subjects that the pattern covers, of each kind that patterns below ``roots`` tell from others one at
    least."""
    wanted = pattern[1:].split("/")
    users = tuple({*_names(user, uid), *_names(user, uid, own=True)})  # an empty one: a name is missing
    own = _stand_ins(roots, wanted, [], users)
    # Who may read a subject may see who is there (protocol.md 3.9).
    if about := _present(wanted):
        return chain(own, (PRESENCE + subject for subject in _stand_ins(roots, about, [], users, behind=True)))
    return own


def _present(wanted: Sequence[str]) -> Sequence[str]:
    """Return what a pattern wants of subjects, if it covers who is there; else nothing."""
    if wanted[0] != _SYSTEM or len(wanted) == 1:
        return ()
    if wanted[1] == "**":
        return wanted[1:]
    return wanted[2:] if wanted[1] in ("*", _PRESENT) else ()


def _stand_ins(
    nodes: Sequence[_Node], wanted: Sequence[str], path: list[str], users: Sequence[str], *, behind: bool = False
) -> Iterator[str]:
    """Yield the subjects that begin with ``path``, which leads to the nodes, and go on as ``wanted``.

    ``behind``: of those who are there, where wildcards stand for the reserved first segments as well.
    """
    if not wanted:
        yield _subject(path)
        return
    segment = wanted[0]
    if segment not in ("*", "**"):
        yield from _stand_ins(_below(nodes, segment, users), wanted[1:], [*path, segment], users, behind=behind)
        return
    for candidate in _candidates(nodes, path, users, behind):
        below, here = _below(nodes, candidate, users), [*path, candidate]
        if segment == "*":
            yield from _stand_ins(below, wanted[1:], here, users, behind=behind)
            continue
        if len(here) > 1:
            yield _subject(here)
        if len(here) == SUBJECT_SEGMENTS_MAX:
            continue
        if len(here) == 1 or any(name != "**" for node in below for name in node.children or ()):
            yield from _stand_ins(below, wanted, here, users, behind=behind)
        else:  # however much deeper, it is the same
            yield _subject([*here, _FRESH])


def _candidates(nodes: Sequence[_Node], path: Sequence[str], users: Sequence[str], behind: bool) -> Iterator[str]:
    """Yield segments that stand for all that may come behind the path."""
    yield _FRESH
    seen: set[str] = set()
    if behind and not path:
        yield USERS  # no rule needs to name what is a user's own
        seen.add(USERS)
    if path[:1] == [USERS] or any(not {*NAMES}.isdisjoint(node.children or ()) for node in nodes):
        yield from filter(None, users)
        seen.update(users)
    for node in nodes:
        for name in node.children or ():
            if name not in _WILD and name not in seen and (path or behind or not is_reserved(name)):
                seen.add(name)
                yield name


def _below(nodes: Sequence[_Node], segment: str, users: Sequence[str]) -> list[_Node]:
    """Return the nodes that may follow for the segment."""
    names = (segment, "*", *NAMES) if segment in users or "" in users else (segment, "*")
    found = (node.children[name] for node in nodes if node.children for name in names if name in node.children)
    return list(found)


def _subject(path: Sequence[str]) -> str:
    return "/" + "/".join(path)
