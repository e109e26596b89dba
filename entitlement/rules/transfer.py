"""Rules as a file and back: JSON or CSV, tried before it is taken, all or nothing.

A rule is known by what it says: who, pattern, action, effect, from, until. So a file of one site fits another, and a
file that is imported twice changes nothing.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
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

COLUMNS = ("who", "pattern", "action", "effect", "enabled", "from", "until", "note")
BYTES_MAX = 64 << 20
"""A file of a hundred thousand rules has about 15 MB."""

BATCH = 1000
FORMATS = ("json", "csv")

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")
"""A spreadsheet takes a text that begins so for a formula: in CSV an apostrophe stands before it."""

_NO_TEXT = re.compile("[\0\ud800-\udfff]")
"""NUL, which PostgreSQL does not take, and halves of surrogate pairs, which UTF-8 has no bytes for."""

_TRUE = {"true": True, "yes": True, "1": True, "": True, "false": False, "no": False, "0": False}

Key = tuple[Any, ...]


class TransferError(ValueError):
    """A file that is no file of rules."""


@dataclass(frozen=True)
class RowError:
    """A fault of a row; rows are counted from 1, without the heading."""

    row: int
    column: str
    text: str

    def __str__(self) -> str:
        if self.column:
            words = gettext("row %(row)s, %(column)s: %(text)s")
        else:
            words = gettext("row %(row)s: %(text)s")
        return words % {"row": self.row, "column": self.column, "text": self.text}


@dataclass
class Plan:
    """The changes that an import would make; ``errors`` forbid it."""

    add: list[Rule] = field(default_factory=list)
    change: list[Rule] = field(default_factory=list)
    same: int = 0
    delete: list[int] = field(default_factory=list)
    errors: list[RowError] = field(default_factory=list)

    def summary(self) -> str:
        """In a sentence."""
        words = gettext("%(add)s to add, %(change)s to change, %(delete)s to delete, %(same)s as they are.")
        return words % {
            "add": len(self.add),
            "change": len(self.change),
            "delete": len(self.delete),
            "same": self.same,
        }


def export(rules: QuerySet[Rule], form: str) -> Iterator[str]:
    """The text of a file, in parts; ``form`` is json or csv."""
    rows = map(_row, rules.select_related("user", "group").order_by("pattern", "id").iterator(BATCH))
    return _export_csv(rows) if form == "csv" else _export_json(rows)


def load(text: str, form: str, *, replace: bool = False, dry: bool = False) -> Plan:
    """Take the rules of a file, unless a row is wrong or ``dry``; with ``replace`` all others are deleted.

    All in one transaction: the sidecar gets it as one change. Raises TransferError for what is no file of rules.
    """
    with transaction.atomic():
        plan = _plan(list(_parse(text, form)), replace)
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


def _export_json(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    before = "[\n"
    for row in rows:
        yield before + json.dumps(row, ensure_ascii=False)
        before = ",\n"
    yield "\n]\n" if before != "[\n" else "[]\n"


def _export_csv(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    line = io.StringIO()
    writer = csv.DictWriter(line, COLUMNS)
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(value) for name, value in row.items()})
        yield line.getvalue()
        line.seek(0)
        line.truncate()
    yield line.getvalue()


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _parse(text: str, form: str) -> Iterator[dict[str, Any]]:
    """The rows of a file; raises TransferError."""
    if len(text) > BYTES_MAX:
        raise TransferError(gettext("The file is larger than %(most)s MB.") % {"most": BYTES_MAX >> 20})
    if form == "json":
        try:
            rows = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise TransferError(gettext("This is no JSON: %(error)s.") % {"error": error}) from None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise TransferError(gettext('A file of rules is a list of objects: [{"who": …, "pattern": …}, …].'))
        yield from rows
        return
    try:
        reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""), restkey="", strict=True)
        if not reader.fieldnames or not {"who", "pattern"} <= set(reader.fieldnames):
            words = gettext("The first line names the columns, of these: %(columns)s.")
            raise TransferError(words % {"columns": ", ".join(COLUMNS)})
        for row in reader:
            yield {
                name: value[1:] if isinstance(value, str) and value[:1] == "'" and value[1:2] in _FORMULA else value
                for name, value in row.items()
                if value is not None
            }
    except csv.Error as error:
        raise TransferError(gettext("This is no CSV: %(error)s.") % {"error": error}) from None


def _plan(rows: list[dict[str, Any]], replace: bool) -> Plan:
    """The plan of an import: each row compared with the rules that there are."""
    plan = Plan()
    unfit = [_unfit(row) for row in rows]
    users, groups = _holders([row for row, faults in zip(rows, unfit, strict=True) if not faults])
    there = {_key(rule): rule for rule in Rule.objects.order_by("-pk")}  # of several that say the same the oldest
    seen: dict[Key, int] = {}
    for number, row in enumerate(rows, 1):
        faults = unfit[number - 1]
        rule, errors = (None, faults) if faults else _rule(row, users, groups)
        plan.errors += [RowError(number, column, text) for column, text in errors]
        if rule is None:
            continue
        key = _key(rule)
        if key in seen:
            plan.errors.append(RowError(number, "", gettext("it says the same as row %(row)s") % {"row": seen[key]}))
            continue
        seen[key] = number
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


def _unfit(row: dict[str, Any]) -> list[tuple[str, str]]:
    """The faults of a row's values, also texts that no database takes nor a page shows: (column, sentence)."""
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
    """The keys of the users and groups that the rows name."""
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
    """The rule of a row, or what is wrong with it, as (column, sentence)."""
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
    """A time in ISO 8601; without a zone it is the site's. Raises ValueError, also for one that has no date in UTC or
    in the site's zone: it could be neither kept nor shown."""
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
