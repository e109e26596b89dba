"""Rules as a file and back, tried before it is taken, all or nothing.

A rule is known by what it says: who, pattern, action, effect, from, until. So a file of one site fits another, and a
file that is imported twice changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext

from entitlement.following.compiler import QUERY_KEYS, batches
from entitlement.models import Rule
from entitlement.rules import files
from entitlement.rules.files import COLUMNS

BATCH = 1000
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
"""NUL, which PostgreSQL does not take, and halves of surrogate pairs, which UTF-8 has no bytes for."""

_YES = ("", "true", "yes", "1", "on", "wahr", "ja", "vrai", "oui")
_NO = ("false", "no", "0", "off", "falsch", "nein", "faux", "non")
_TRUE = dict.fromkeys(_YES, True) | dict.fromkeys(_NO, False)
"""A spreadsheet writes truths in the language that it is in."""

Key = tuple[Any, ...]


@dataclass(frozen=True)
class RowError:
    """A fault of a row."""

    where: str
    """The row, or in CSV the line of the file, in words."""
    column: str
    """Empty for the whole row."""
    text: str

    def __str__(self) -> str:
        return f"{self.where}, {self.column}: {self.text}" if self.column else f"{self.where}: {self.text}"


@dataclass
class Plan:
    """The changes that an import would make; ``errors`` forbid it."""

    add: list[Rule] = field(default_factory=list)
    change: list[Rule] = field(default_factory=list)
    same: int = 0
    delete: list[int] = field(default_factory=list)
    errors: list[RowError] = field(default_factory=list)

    def summary(self) -> str:
        """Return the plan in a sentence."""
        words = gettext("%(add)s to add, %(change)s to change, %(delete)s to delete, %(same)s as they are.")
        return words % {
            "add": len(self.add),
            "change": len(self.change),
            "delete": len(self.delete),
            "same": self.same,
        }


def export(rules: QuerySet[Rule], form: str) -> Iterator[str]:
    """Return the text of a file, in parts; ``form`` is json or csv."""
    return files.write(map(_row, rules.select_related("user", "group").order_by("pattern", "id").iterator(BATCH)), form)


def load(text: str, form: str, *, replace: bool = False, dry: bool = False) -> Plan:
    """Take the rules of a file, unless a row is wrong or ``dry``; with ``replace`` all others are deleted.

    All in one transaction: the sidecar gets it as one change. Raises TransferError for what is no file of rules.
    """
    with transaction.atomic():
        plan = _plan(list(files.parse(text, form)), form, replace=replace)
        if not plan.errors and not dry:
            for some in batches(plan.add, BATCH):
                Rule.objects.bulk_create(some)
            for some in batches(plan.change, QUERY_KEYS):
                Rule.objects.bulk_update(some, ("enabled", "note"))
            for keys in batches(plan.delete, QUERY_KEYS):
                Rule.objects.filter(pk__in=keys).delete()
    return plan


def _row(rule: Rule) -> dict[str, Any]:
    if rule.user_id is not None:
        who = f"user:{rule.user.get_username()}"  # type: ignore[union-attr]
    elif rule.group_id is not None:
        who = f"group:{rule.group.name}"  # type: ignore[union-attr]
    else:
        who = "everyone" if rule.everyone else "anonymous"
    return {
        "who": who,
        "pattern": rule.pattern,
        "action": str(rule.action),
        "effect": str(rule.effect),
        "enabled": rule.enabled,
        "from": rule.valid_from and rule.valid_from.isoformat(),
        "until": rule.valid_until and rule.valid_until.isoformat(),
        "note": rule.note,
    }


def _plan(rows: list[files.FileRow], form: str, *, replace: bool) -> Plan:
    """Return the plan of an import: each row compared with the rules that there are."""
    plan = Plan()
    unfit = [_unfit(row.values) for row in rows]
    users, groups = _holders([row.values for row, faults in zip(rows, unfit, strict=True) if not faults])
    there = {_key(rule): rule for rule in Rule.objects.order_by("-pk")}  # of several that say the same the oldest
    seen: dict[Key, int] = {}
    for row, faults in zip(rows, unfit, strict=True):
        where = _where(row.number, form)
        rule, errors = (None, faults) if faults else _rule(row.values, users, groups)
        plan.errors += [RowError(where, column, text) for column, text in errors]
        if rule is None:
            continue
        key = _key(rule)
        if key in seen:
            words = gettext("it says the same as %(where)s")
            plan.errors.append(RowError(where, "", words % {"where": _where(seen[key], form)}))
            continue
        seen[key] = row.number
        known = there.get(key)
        if known is None:
            plan.add.append(rule)
        elif (known.enabled, known.note) != (rule.enabled, rule.note):
            known.enabled, known.note = rule.enabled, rule.note
            plan.change.append(known)
        else:
            plan.same += 1
    if replace:
        kept = {there[key].pk for key in seen if key in there}
        plan.delete = [key for key in Rule.objects.values_list("pk", flat=True) if key not in kept]
    return plan


def _where(number: int, form: str) -> str:
    """Return the words for a place in a file: an editor shows lines, not rows."""
    words = gettext("line %(number)s") if form == "csv" else gettext("row %(number)s")
    return words % {"number": number}


def _unfit(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the faults of a row's values, also texts that no database takes nor a page shows: (column, sentence)."""
    faults = []
    for name, value in row.items():
        column = name if name in COLUMNS else ""
        for text in (name, value):
            if found := _NO_TEXT.search(text) if isinstance(text, str) else None:
                words = gettext("character %(place)s (U+%(code)04X) is none that a text may have")
                faults.append((column, words % {"place": found.start() + 1, "code": ord(found[0])}))
        if column and isinstance(value, list | dict):
            faults.append((column, gettext("a list or an object is no value")))
    return faults


def _holders(rows: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the keys of the users and groups that the rows name."""
    model = get_user_model()
    named: dict[str, set[str]] = {"user": set(), "group": set()}
    for row in rows:
        kind, _, name = str(row.get("who") or "").partition(":")
        if kind in named:
            named[kind].add(name)
    users: dict[str, Any] = {}
    for some in batches(sorted(named["user"]), QUERY_KEYS):
        matching = model._default_manager.filter(**{f"{model.USERNAME_FIELD}__in": some})
        users |= {str(name): key for name, key in matching.values_list(model.USERNAME_FIELD, "pk")}
    groups: dict[str, Any] = {}
    for some in batches(sorted(named["group"]), QUERY_KEYS):
        groups |= dict(Group.objects.filter(name__in=some).values_list("name", "pk"))
    return users, groups


def _rule(
    row: dict[str, Any], users: dict[str, Any], groups: dict[str, Any]
) -> tuple[Rule | None, list[tuple[str, str]]]:
    """Return the rule of a row, or what is wrong with it, as (column, sentence)."""
    errors: list[tuple[str, str]] = []
    if unknown := [str(name) or gettext("a column without a name") for name in row if name not in COLUMNS]:
        words = gettext("unknown: %(unknown)s; there are %(columns)s")
        errors.append(("", words % {"unknown": ", ".join(unknown), "columns": ", ".join(COLUMNS)}))
    rule = Rule(
        pattern=_text(row, "pattern"),
        action=_text(row, "action") or "subscribe",
        effect=_text(row, "effect") or "allow",
        note=_text(row, "note"),
    )
    if fault := _put_who(rule, _text(row, "who"), users, groups):
        errors.append(("who", fault))
    enabled = row.get("enabled", True)
    word = _TRUE.get(_text(row, "enabled").lower()) if not isinstance(enabled, bool) else enabled
    if word is None:
        errors.append(("enabled", gettext("%(value)r is neither yes nor no") % {"value": enabled}))
    rule.enabled = bool(word)
    for column, name in (("from", "valid_from"), ("until", "valid_until")):
        try:
            setattr(rule, name, _time(_text(row, column)))
        except ValueError as error:
            errors.append((column, str(error)))
    columns = {"valid_from": "from", "valid_until": "until"}
    for check in (lambda: rule.clean_fields(exclude=("user", "group")), rule.clean):
        try:
            check()
        except ValidationError as error:
            for name, texts in error.message_dict.items():
                column = columns.get(name, name)
                errors += [(column, text) for text in texts if (column, text) not in errors]
    return (None if errors else rule), errors


def _put_who(rule: Rule, who: str, users: dict[str, Any], groups: dict[str, Any]) -> str:
    """Say who the rule is about; what is wrong with the text, or nothing."""
    kind, _, name = who.partition(":")
    if who in ("everyone", "anonymous"):
        setattr(rule, who, True)
    elif kind == "user" and name in users:
        rule.user_id = users[name]
    elif kind == "group" and name in groups:
        rule.group_id = groups[name]
    elif kind == "user" and name:
        return gettext("there is no user %(name)r") % {"name": name}
    elif kind == "group" and name:
        return gettext("there is no group %(name)r") % {"name": name}
    else:
        return gettext("%(who)r is none of user:NAME, group:NAME, everyone, anonymous") % {"who": who}
    return ""


def _text(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    return "" if value is None else str(value).strip()


def _time(text: str) -> datetime | None:
    """Return a time in ISO 8601; without a zone it is the site's. Raise ValueError, also for one that has no date in
    UTC or in the site's zone: it could be neither kept nor shown."""
    if not text:
        return None
    try:
        found = parse_datetime(text)
    except ValueError:
        found = None
    if found is None:
        raise ValueError(gettext("%(text)r is no time like 2026-01-31T09:30:00+00:00") % {"text": text})
    if timezone.is_naive(found) and not settings.USE_TZ:
        return found
    try:
        aware = timezone.make_aware(found) if timezone.is_naive(found) else found
        local = timezone.make_naive(aware)
        aware = aware.astimezone(UTC)
    except (OverflowError, ValueError):
        words = gettext("%(text)r is too early or too late; leave it empty for always")
        raise ValueError(words % {"text": text}) from None
    return aware if settings.USE_TZ else local


def _key(rule: Rule) -> Key:
    who = (rule.user_id, rule.group_id, rule.everyone, rule.anonymous)
    return (*who, rule.pattern, rule.action, rule.effect, rule.valid_from, rule.valid_until)
