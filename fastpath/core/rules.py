"""The rules of one generation, matched against a subject: most specific wins, deny wins a tie (FEATURES E2).

Patterns are compared segment by segment from the left: a literal segment is more specific than ``*``, and ``*`` more
than ``**``. ``{username}`` counts as the literal that it stands for. Rules live in one tree per holder (``user:5``,
``group:3``, ``everyone``, ``anonymous``), so that a check costs a walk of the subject's segments per holder, however
many rules there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

SUBSCRIBE = "subscribe"
PUBLISH = "publish"
BOTH = "both"

_LITERAL, _STAR, _REST = 2, 1, 0


class Rule(Struct, frozen=True):
    """One rule as Django sends it (protocol.md 8.2); ``start`` and ``end`` in ms bound its validity."""

    id: int
    who: str
    pattern: str
    action: str
    allow: bool
    start: int | None = None
    end: int | None = None


class _Node:
    """A segment of the patterns of one holder."""

    __slots__ = ("children", "rules")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.rules: list[Rule] = []


class Match(Struct, frozen=True, order=True):
    """A rule that covers the subject; the greater match decides."""

    specificity: tuple[int, ...]
    denies: bool
    rule_id: int


class RuleSet:
    """All rules of one generation."""

    def __init__(self) -> None:
        self.rules: dict[int, Rule] = {}
        self._roots: dict[str, _Node] = {}
        self._timed: dict[int, Rule] = {}

    def put(self, rule: Rule) -> set[str]:
        """Add or replace a rule; the holders whose rights may have changed."""
        changed = self.remove(rule.id)
        node = self._roots.setdefault(rule.who, _Node())
        for segment in rule.pattern[1:].split("/"):
            node = node.children.setdefault(segment, _Node())
        node.rules.append(rule)
        self.rules[rule.id] = rule
        if rule.start is not None or rule.end is not None:
            self._timed[rule.id] = rule
        changed.add(rule.who)
        return changed

    def remove(self, rule_id: int) -> set[str]:
        """Remove a rule if it is there; the holders whose rights may have changed."""
        rule = self.rules.pop(rule_id, None)
        if rule is None:
            return set()
        self._timed.pop(rule_id, None)
        path = [self._roots[rule.who]]
        segments = rule.pattern[1:].split("/")
        for segment in segments:
            path.append(path[-1].children[segment])
        path[-1].rules.remove(rule)
        while segments and not path[-1].rules and not path[-1].children:
            path.pop()
            del path[-1].children[segments.pop()]
        if not self._roots[rule.who].children:
            del self._roots[rule.who]
        return {rule.who}

    def decide(self, holders: Iterable[str], user: str, subject: str, action: str, now: int) -> Match | None:
        """The rule that decides for a bearer of these holders' rights, or None when none covers the subject."""
        segments = subject[1:].split("/")
        best: Match | None = None
        for who in holders:
            root = self._roots.get(who)
            if root is None:
                continue
            for specificity, rule in _walk(root, segments, 0, user):
                if (rule.action == action or rule.action == BOTH) and _in_force(rule, now):
                    match = Match(specificity, not rule.allow, rule.id)
                    if best is None or match > best:
                        best = match
        return best

    def next_change(self, after: int) -> int | None:
        """The next time (ms) at which some rule's validity begins or ends."""
        times = [
            time
            for rule in self._timed.values()
            for time in (rule.start, rule.end)
            if time is not None and time > after
        ]
        return min(times, default=None)

    def changed_between(self, start: int, end: int) -> set[str]:
        """The holders of rules whose validity begins or ends after ``start`` and up to ``end`` (ms)."""
        return {
            rule.who
            for rule in self._timed.values()
            if any(time is not None and start < time <= end for time in (rule.start, rule.end))
        }


def _in_force(rule: Rule, now: int) -> bool:
    return (rule.start is None or rule.start <= now) and (rule.end is None or now < rule.end)


def _walk(
    node: _Node, segments: list[str], at: int, user: str, path: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, ...], Rule]]:
    """Every rule below ``node`` whose pattern covers the segments from ``at`` on, with its specificity."""
    if at == len(segments):
        for rule in node.rules:
            yield path, rule
        return
    children = node.children
    literal = children.get(segments[at])
    if literal is not None:
        yield from _walk(literal, segments, at + 1, user, (*path, _LITERAL))
    if user and segments[at] == user and "{username}" in children:
        yield from _walk(children["{username}"], segments, at + 1, user, (*path, _LITERAL))
    if "*" in children:
        yield from _walk(children["*"], segments, at + 1, user, (*path, _STAR))
    if "**" in children:
        for rule in children["**"].rules:
            yield (*path, _REST), rule
