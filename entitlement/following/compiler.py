"""Turn rules, users and sessions into the records that the sidecar decides by (protocol.md 8.2, 8.3).

No transaction is needed for a consistent set: the generation is read first and the rows after it, so a set is at
least as new as it says, and what changed in between comes again with the next difference.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import DataError, connections, router
from django.db import Error as DatabaseFailure
from django.db.models import Max, Model, Q, QuerySet

from entitlement import conf
from entitlement.following.mariadb import delete_some
from entitlement.following.numbering import number_notes
from entitlement.following.triggers import membership_field
from entitlement.models import Change, Delivery, Effect, Generation, RevokedToken, Rule, SubjectOptions
from entitlement.sessions import session_id
from fastpath.core.auth.rule_grants import OTHERS
from fastpath.core.broker.rights_records import REASON_CHARS_MAX
from fastpath.core.protocol.limits import CONFLATION_GRID_MS
from fastpath.core.protocol.options import PUBLISH_RATE_MAX
from fastpath.core.protocol.packets import pack

CHUNK = 1000
"""Records of a kind in one frame of the control socket (protocol.md 8.1)."""

AHEAD = 250
"""Number of changes that come before others, while there are more than fit into one frame."""

QUERY_KEYS = 500
"""Keys in one IN (…): SQLite binds at most 999 values in older versions."""

MARGIN_SECONDS = 3600
"""Seconds that a change is remembered longer than the longest token lives."""

_NUMBER = re.compile("-?[0-9]{1,18}")
"""The key of a rule; what is none is nobody's."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

_OF_USERS = (Change.Kind.USER, Change.Kind.PASSWORD)

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Position:
    """The database's generation, and the one up to which changes are no longer listed."""

    generation: int
    forgotten: int
    has_more: bool = field(default=False, compare=False)
    """State of the notes: True while there are some without a generation yet, as there are many."""


@dataclass(slots=True)
class Records:
    """A set, or a difference, in wire form."""

    generation: int
    rules: list[dict[str, Any]] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    users: list[dict[str, Any]] = field(default_factory=list)
    sessions: list[dict[str, Any]] = field(default_factory=list)
    options: list[dict[str, Any]] | None = None
    """All that there are; None, in a difference: none of them has changed."""

    def largest(self) -> int:
        """Return the length of the longest list."""
        return max(map(len, (self.rules, self.removed, self.users, self.sessions, self.options or ())))

    def chunks(self) -> Iterator[dict[str, list[dict[str, Any]]]]:
        """Yield the arguments of ``rules_chunk``, as often as it takes: once for nothing, or options were not spoken
        of."""
        lists = {
            "rules": self.rules,
            "users": self.users,
            "sessions": self.sessions,
            "options": self.options or [],
        }
        for start in range(0, max(1, *map(len, lists.values())), CHUNK):
            yield {name: records[start : start + CHUNK] for name, records in lists.items()}


def position() -> Position | None:
    """Return the database's current generation; None before the end of the first ``migrate``."""
    has_more = number_notes(connections[router.db_for_write(Generation)])
    row = Generation.objects.values_list("value", "forgotten").first()
    return None if row is None else Position(*row, has_more)


def full_set(generation: int) -> Records:
    """Return enabled rules, the users and sessions of whom a living token may say otherwise, and the options of
    subjects."""
    lasting = Q(time__gte=_since(time.time(), conf.token_seconds_max()))
    rules = rule_records(Rule.objects.filter(enabled=True))
    users = user_records(_latest(_OF_USERS, lasting))
    sessions = session_records(_latest([Change.Kind.SESSION], lasting))
    sessions += token_records(_latest([Change.Kind.TOKEN], lasting))
    return Records(generation, rules, [], users, sessions, option_records())


def options_set(generation: int) -> Records:
    """Return the options of subjects alone: all that a sidecar takes in modes other than ``rules``."""
    return Records(generation, options=option_records())


def options_difference(after: int, generation: int) -> Records:
    """Return the options as a difference: all of them if one has changed after a generation."""
    changed = _latest([Change.Kind.OPTIONS], Q(generation__gt=after))
    return Records(generation, options=option_records() if changed else None)


def difference(after: int, generation: int) -> Records:
    """Return the rules, users, sessions and tokens that changed after a generation; and all options if one of them
    did."""
    newer = Q(generation__gt=after)
    return _difference(generation, newer, newer)


def next_difference(after: int, generation: int, ahead: int) -> Records:
    """Return that difference, or where more than ``CHUNK`` changed a part of it, whose generation it has then.

    A part has first what changed after ``ahead``, up to which the parts before have looked: all rules and options, and
    some of what is new, so that no single change waits for many others. The rest comes in its order.
    """
    newer = Q(generation__gt=after)
    changes = Change.objects.filter(newer)
    first = list(changes.order_by("generation").values_list("generation", flat=True)[: CHUNK + 1])
    if len(first) <= CHUNK:
        return difference(after, generation)
    end = max((value for value in first if value < first[CHUNK - AHEAD]), default=first[0])
    seen = Q(generation__gt=max(after, ahead))
    return _difference(end, Q(newer, generation__lte=end) | Q(pk__in=_ahead(seen)), seen)


def _ahead(seen: Q) -> list[int]:
    """Return the keys of new changes that are sent out of turn: of writers who have made the fewest, and the newest."""
    new = Change.objects.filter(seen).order_by("-generation", "-id").values_list("id", "writer")
    rows = list(new[: 10 * CHUNK])
    made = Counter(writer for _, writer in rows)
    return [number for number, _ in sorted(rows, key=lambda row: made[row[1]])[:AHEAD]]


def _difference(generation: int, newer: Q, rules_newer: Q) -> Records:
    keys = [int(key) for key in _latest([Change.Kind.RULE], rules_newer) if _NUMBER.fullmatch(key)]
    rules: list[dict[str, Any]] = []
    for some in batches(keys, QUERY_KEYS):
        rules += rule_records(Rule.objects.filter(pk__in=some, enabled=True))
    there = {rule["id"] for rule in rules}
    return Records(
        generation,
        rules,
        [key for key in keys if key not in there],
        user_records(_latest(_OF_USERS, newer)),
        session_records(_latest([Change.Kind.SESSION], newer)) + token_records(_latest([Change.Kind.TOKEN], newer)),
        option_records() if _latest([Change.Kind.OPTIONS], rules_newer) else None,
    )


def forget() -> int:
    """Delete the changes, and the revoked tokens, that no living token can contradict; how many of which more went.

    No more than ``mariadb.AT_ONCE`` of each. A change of a rule or of options is needed only by an agent
    that has not sent it yet; one that was away longer sends a full set.
    """
    now = time.time()
    tokens = delete_some(RevokedToken.objects.filter(expires__lt=datetime.fromtimestamp(now - MARGIN_SECONDS, UTC)))
    seconds = dict.fromkeys(Change.Kind, conf.token_seconds_max()) | {Change.Kind.RULE: 0, Change.Kind.OPTIONS: 0}
    old = Q()
    for kind, age in seconds.items():
        old |= Q(kind=kind, time__lt=_since(now, age))
    numbered = Q(generation__gt=Change.PENDING)
    last = Change.objects.filter(old, numbered).aggregate(last=Max("generation"))["last"]
    if last is not None:
        # First say that they are gone, then delete: an agent between the two sends a full set, which is never wrong.
        Generation.objects.filter(forgotten__lt=last).update(forgotten=last)
    gone = Q(old, numbered, generation__lte=last or 0) | Q(generation=Change.FORGOTTEN)
    return max(tokens, delete_some(Change.objects.filter(gone)))


def rule_records(rules: QuerySet[Rule]) -> list[dict[str, Any]]:
    """Return rules in wire form; of one that cannot be sent, why (protocol.md 8.3)."""
    effects = Rule._base_manager.values_list("effect", flat=True)
    return [
        _record(rule_record, row, lambda pk: {"id": pk, "denies": effects.filter(pk=pk).first() != Effect.ALLOW})
        for row in _rows(rules)
    ]


def rule_record(rule: Rule) -> dict[str, Any]:
    """Return a rule in wire form (protocol.md 8.2)."""
    if rule.user_id is not None:
        who = f"user:{rule.user_id}"
    elif rule.group_id is not None:
        who = f"group:{rule.group_id}"
    else:
        who = "everyone" if rule.everyone else "anonymous"
    allow = rule.effect == Effect.ALLOW
    unknown = rule.effect not in Effect.values
    return {
        "id": rule.pk,
        "who": who,
        "pattern": rule.pattern,
        "action": rule.action,
        "allow": allow,
        "start": _milliseconds(rule.valid_from, up=allow),
        "end": _milliseconds(rule.valid_until, up=not allow),
        **({"unreadable": f"effect {rule.effect!r}", "denies": True} if unknown else {}),
    }


def option_records() -> list[dict[str, Any]]:
    """Return all options in wire form (protocol.md 8.3); of those that cannot be sent, why."""
    return [_record(option_record, row, lambda pk: {"id": pk}) for row in _rows(SubjectOptions.objects.all())]


def option_record(row: SubjectOptions) -> dict[str, Any]:
    """Return the options of a pattern in wire form."""
    seconds, interval = row.cache_seconds, row.conflation_ms
    return {
        "id": row.pk,
        "pattern": row.pattern,
        "cache_messages": row.cache_messages,
        "cache_ms": None if seconds is None else seconds * 1000,
        "conflation_ms": None if interval is None else interval // CONFLATION_GRID_MS * CONFLATION_GRID_MS,
        "retained": row.retained,
        "delivery": row.delivery if row.delivery in Delivery.values else None,
        "presence": row.presence,
        "publish_rate": None if row.publish_rate is None else min(row.publish_rate, PUBLISH_RATE_MAX),
    }


def user_records(changed: dict[str, int]) -> list[dict[str, Any]]:
    """Return the users of these keys as they are now (protocol.md 8.3); one who is gone is not active.

    Each comes with the generation at which the password was changed last, for as long as an older token can live. Of a
    user who cannot be read the reason is said. The key ``OTHERS`` stands for all of whom nothing is noted.
    """
    primary = get_user_model()._meta.pk
    keys: dict[Any, str] = {}  # the log has them as the database writes them
    records = [_user_record(OTHERS, None, [], changed[OTHERS])] if OTHERS in changed else []
    for key in changed.keys() - {OTHERS}:
        try:
            keys[primary.to_python(key)] = key
        except (ValidationError, ValueError, TypeError) as error:
            records.append({"uid": key, "generation": changed[key], "unreadable": _reason(error), "denies": False})
    for some in batches(keys, QUERY_KEYS):
        users = {user.pk: user for user in _of_keys(get_user_model()._base_manager.all(), some)}
        groups = group_ids(key for key, user in users.items() if not isinstance(user, Unread))
        since = _latest([Change.Kind.PASSWORD], Q(key__in=[keys[key] for key in some]))
        for key in some:
            at, names = changed[keys[key]], groups.get(key, [])
            record = _record(
                lambda user, key=key, at=at, names=names: _user_record(key, user, names, at),  # type: ignore[misc]
                users.get(key),
                lambda pk, key=key, at=at: {"uid": str(key), "generation": at},  # type: ignore[misc]
            )
            records.append(record | ({"since": since[keys[key]]} if keys[key] in since else {}))
    return records


def group_ids(users: Iterable[Any]) -> dict[Any, list[str]]:
    """Return the ids of the groups of each of these users, by the user's key."""
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
    """Return the revoked sessions of these keys (protocol.md 8.3).

    They are kept for the longest that a token may live, not for what one of a session lives today: TOKEN_SECONDS may
    have been lowered since.
    """
    until = _until(conf.token_seconds_max())
    return [{"sid": session_id(key), "generation": at, "until": until} for key, at in changed.items()]


def token_records(changed: dict[str, int]) -> list[dict[str, Any]]:
    """Return the revoked tokens of these ids, in the list of the sessions (protocol.md 8.3)."""
    until = _until(conf.token_seconds_max())
    return [{"sid": f"jti:{key}", "generation": at, "until": until} for key, at in changed.items()]


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
        "user": name_of(user),
        "active": bool(user.is_active),
        "superuser": bool(getattr(user, "is_superuser", False)),
        "groups": groups,
        "generation": generation,
    }


def name_of(user: Any) -> str:
    """Return a user's name as a text, whatever field of the project's holds it; empty for none."""
    name = user.get_username()
    return "" if name is None else str(name)


class Unread(NamedTuple):
    """A row that Django cannot make an object of: a date that is none, a text that is no UTF-8."""

    pk: Any
    reason: str


def _rows(query: QuerySet[Any]) -> Iterator[Any]:
    """Yield the rows of a query by their keys, ``Unread`` where one cannot be read; raise what the database does."""
    last = None
    try:
        for row in query.order_by("pk").iterator():
            last = row.pk
            yield row
    except Exception as error:
        if not _is_of_a_row(error):
            raise
    else:
        return
    rest = query.order_by("pk") if last is None else query.order_by("pk").filter(pk__gt=last)
    for some in batches(list(rest.values_list("pk", flat=True)), QUERY_KEYS):
        yield from _of_keys(query, some)


def _of_keys(query: QuerySet[Any], keys: Sequence[Any]) -> Iterator[Any]:
    """Yield the rows with these keys that are there, ``Unread`` where one cannot be read."""
    try:
        rows = list(query.filter(pk__in=keys))
    except Exception as error:
        if not _is_of_a_row(error):
            raise
        rows = []
        for key in keys:
            try:
                rows += query.filter(pk=key)
            except Exception as its:
                if not _is_of_a_row(its):
                    raise
                rows.append(Unread(key, _reason(its)))
    yield from rows


def _is_of_a_row(error: Exception) -> bool:
    """Return True for a value that cannot be read, and False where the database does not answer."""
    return not isinstance(error, DatabaseFailure) or isinstance(error, DataError) or "decode" in str(error).lower()


def _record(
    make: Callable[[Any], dict[str, Any]], row: Any, otherwise: Callable[[Any], dict[str, Any]]
) -> dict[str, Any]:
    """Return a row in wire form; of one that has none, or none that can be sent, the reason beside its key."""
    if isinstance(row, Unread):
        return otherwise(row.pk) | {"unreadable": row.reason}
    try:
        record = make(row)
        pack(record)
    except DatabaseFailure:
        raise
    except Exception as error:
        return otherwise(getattr(row, "pk", None)) | {"unreadable": _reason(error)}
    return record


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split()).encode(errors="replace").decode()
    return f"{type(error).__name__}: {text}"[:REASON_CHARS_MAX]


def batches(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Yield the items in lists of at most ``size``."""
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some


def _latest(kinds: Sequence[Change.Kind], condition: Q) -> dict[str, int]:
    """Return the last generation of each key that changed in one of these ways."""
    changes = Change.objects.filter(condition, kind__in=kinds, generation__gt=Change.PENDING)
    return dict(changes.order_by("key").values_list("key").annotate(Max("generation")))


def _since(now: float, seconds: int) -> int:
    return int((now - seconds - MARGIN_SECONDS) * 1000)


def _until(seconds: int) -> int:
    """Return when no token that was valid for so long and is known today is alive any more, in ms."""
    return int((time.time() + seconds + MARGIN_SECONDS) * 1000)


def _milliseconds(moment: datetime | None, *, up: bool) -> int | None:
    """Unix milliseconds; of a moment between two, the one that gives the right for less long: no right begins early."""
    if moment is None:
        return None
    whole, rest = divmod(moment.astimezone(UTC) - _EPOCH, _MILLISECOND)  # without USE_TZ it is of local time
    return whole + (1 if up and rest else 0)
