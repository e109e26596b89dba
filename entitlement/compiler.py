"""Turn rules, users and sessions into the records that the sidecar decides by (protocol.md 8.2, 8.3).

No transaction is needed for a consistent set: the generation is read first and the rows after it, so a set is at
least as new as it says, and what changed in between comes again with the next difference.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

from django.contrib.auth import get_user_model
from django.db.models import Max, Model, Q

from entitlement import conf
from entitlement.models import Change, Generation, Rule
from entitlement.sessions import session_id
from entitlement.triggers import membership_field

CHUNK = 1000
"""Records of a kind in one frame of the control socket (protocol.md 8.1)."""

QUERY_KEYS = 500
"""Keys in one IN (…): SQLite binds at most 999 values in older versions."""

MARGIN_SECONDS = 3600
"""How much longer than the longest token a change is remembered."""

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Position:
    """Where the database is: its generation, and up to which one the changes are no longer listed."""

    generation: int
    forgotten: int


@dataclass(slots=True)
class Records:
    """A set, or a difference, in wire form."""

    generation: int
    rules: list[dict[str, Any]] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    users: list[dict[str, Any]] = field(default_factory=list)
    sessions: list[dict[str, Any]] = field(default_factory=list)

    def largest(self) -> int:
        """The length of the longest list."""
        return max(map(len, (self.rules, self.removed, self.users, self.sessions)))

    def chunks(self) -> Iterator[dict[str, list[dict[str, Any]]]]:
        """The arguments of ``rules_chunk``, as often as it takes."""
        lists = {"rules": self.rules, "users": self.users, "sessions": self.sessions}
        for start in range(0, max(map(len, lists.values()), default=0), CHUNK):
            yield {name: records[start : start + CHUNK] for name, records in lists.items()}


def position() -> Position | None:
    """Where the database is now; None before the first ``migrate``'s end."""
    row = Generation.objects.values_list("value", "forgotten").first()
    return None if row is None else Position(*row)


def full_set(generation: int) -> Records:
    """Enabled rules, and the users and sessions of whom a living token may say otherwise."""
    now = time.time()
    users = _latest(Change.Kind.USER, Q(time__gte=_since(now, conf.token_seconds_max())))
    sessions = _latest(Change.Kind.SESSION, Q(time__gte=_since(now, conf.token_seconds())))
    rules = [rule_record(rule) for rule in Rule.objects.filter(enabled=True).iterator()]
    return Records(generation, rules, [], user_records(users), session_records(sessions))


def difference(after: int, generation: int) -> Records:
    """What changed after one generation."""
    newer = Q(generation__gt=after)
    keys = [int(key) for key in _latest(Change.Kind.RULE, newer)]
    rules: list[dict[str, Any]] = []
    for some in batches(keys, QUERY_KEYS):
        rules += map(rule_record, Rule.objects.filter(pk__in=some, enabled=True))
    there = {rule["id"] for rule in rules}
    return Records(
        generation,
        rules,
        [key for key in keys if key not in there],
        user_records(_latest(Change.Kind.USER, newer)),
        session_records(_latest(Change.Kind.SESSION, newer)),
    )


def forget() -> int:
    """Delete the changes that no living token can contradict; returns how many there were.

    A rule's change is needed only by an agent that has not sent it yet; one that was away longer sends a full set.
    """
    now = time.time()
    seconds = {
        Change.Kind.RULE: 0,
        Change.Kind.SESSION: conf.token_seconds(),
        Change.Kind.USER: conf.token_seconds_max(),
    }
    old = Q()
    for kind, age in seconds.items():
        old |= Q(kind=kind, time__lt=_since(now, age))
    changes = Change.objects.filter(old)
    last = changes.aggregate(last=Max("generation"))["last"]
    if last is None:
        return 0
    # First say that they are gone, then delete: an agent between the two sends a full set, which is never wrong.
    Generation.objects.filter(forgotten__lt=last).update(forgotten=last)
    return changes.filter(generation__lte=last).delete()[0]


def rule_record(rule: Rule) -> dict[str, Any]:
    """A rule in wire form (protocol.md 8.2)."""
    if rule.user_id is not None:
        who = f"user:{rule.user_id}"
    elif rule.group_id is not None:
        who = f"group:{rule.group_id}"
    else:
        who = "everyone" if rule.everyone else "anonymous"
    return {
        "id": rule.pk,
        "who": who,
        "pattern": rule.pattern,
        "action": rule.action,
        "allow": rule.effect == "allow",
        "start": _milliseconds(rule.valid_from),
        "end": _milliseconds(rule.valid_until),
    }


def user_records(changed: dict[str, int]) -> list[dict[str, Any]]:
    """The users of these keys as they are now (protocol.md 8.3); one who is gone is not active."""
    primary = get_user_model()._meta.pk
    generations = {primary.to_python(key): generation for key, generation in changed.items()}
    records = []
    for some in batches(generations, QUERY_KEYS):
        users = get_user_model()._base_manager.in_bulk(list(some))
        groups = group_ids(some)
        for key in some:
            records.append(_user_record(key, users.get(key), groups.get(key, []), generations[key]))
    return records


def group_ids(users: Iterable[Any]) -> dict[Any, list[str]]:
    """The ids of the groups of each of these users, by the user's key."""
    memberships = membership_field()
    found: dict[Any, list[str]] = {}
    if memberships is None:
        return found
    through = memberships.remote_field.through._base_manager
    user, group = f"{memberships.m2m_field_name()}_id", f"{memberships.m2m_reverse_field_name()}_id"
    for key, gid in through.filter(**{f"{user}__in": list(users)}).order_by(group).values_list(user, group):
        found.setdefault(key, []).append(str(gid))
    return found


def session_records(changed: dict[str, int]) -> list[dict[str, Any]]:
    """The revoked sessions of these keys (protocol.md 8.3)."""
    return [{"sid": session_id(key), "generation": generation} for key, generation in changed.items()]


def _user_record(key: Any, user: Model | None, groups: list[str], generation: int) -> dict[str, Any]:
    if user is None:
        return {
            "uid": str(key),
            "user": "",
            "active": False,
            "superuser": False,
            "groups": [],
            "generation": generation,
        }
    return {
        "uid": str(key),
        "user": user.get_username(),
        "active": bool(user.is_active),
        "superuser": bool(getattr(user, "is_superuser", False)),
        "groups": groups,
        "generation": generation,
    }


def batches(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """The items in lists of at most ``size``."""
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some


def _latest(kind: Change.Kind, condition: Q) -> dict[str, int]:
    """The last generation of each key that changed."""
    changes = Change.objects.filter(condition, kind=kind)
    return dict(changes.order_by("key").values_list("key").annotate(Max("generation")))


def _since(now: float, seconds: int) -> int:
    return int((now - seconds - MARGIN_SECONDS) * 1000)


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1000)
