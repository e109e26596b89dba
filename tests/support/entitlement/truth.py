"""Reads truth.json, the one table of what rules mean, and puts a row's rules into the database."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.utils import timezone

from entitlement.models import Rule
from tests.support.sidecar import ROOT

PATH = ROOT / "tests" / "entitlement" / "truth.json"

GROUPS = ("desk", "night")
"""The groups of ann."""

IDS = {"ann": 7001, "bob": 7002}
"""The ids of users by which rows of the table ask."""


@dataclass(frozen=True)
class Row:
    """One case: these rules, who asks to do what, and the answer; ``by`` counts the rules from 1. ``grants`` are what
    the project's code permits who asks."""

    says: str
    rules: tuple[str, ...]
    who: str
    action: str
    subject: str
    allowed: bool
    by: int
    grants: tuple[str, ...] = ()

    def permissions(self) -> dict[str, list[str]]:
        """What the project's code answers of who asks."""
        found: dict[str, list[str]] = {}
        for action, pattern in (text.split(" ") for text in self.grants):
            found.setdefault(action, []).append(pattern)
        return found


def rows() -> list[Row]:
    """The table."""
    found = []
    for row in json.loads(PATH.read_text(encoding="utf-8"))["rows"]:
        who, action, subject = row["asks"].split(" ")
        rules, grants = tuple(row["rules"]), tuple(row.get("grants", ()))
        found.append(Row(row["says"], rules, who, action, subject, row["answer"] == "allow", row["by"], grants))
    return found


def people() -> dict[str, Any]:
    """The users of the table, all of them active."""
    users = get_user_model().objects
    found: dict[str, Any] = {name: users.create_user(name, pk=key) for name, key in IDS.items()}
    found |= {name: users.create_superuser(name) for name in ("root", "gone")}
    found["ann"].groups.set([Group.objects.create(name=name) for name in GROUPS])
    return found


def create(text: str) -> Rule:
    """The rule of a text WHO EFFECT ACTION PATTERN [from SECONDS] [until SECONDS] [off]."""
    who, effect, action, pattern, *rest = text.split(" ")
    rule = Rule(effect=effect, action=action, pattern=pattern, enabled="off" not in rest)
    kind, _, name = who.partition(":")
    if kind == "user":
        rule.user = get_user_model().objects.get(username=name)
    elif kind == "group":
        rule.group = Group.objects.get(name=name)
    else:
        setattr(rule, who, True)
    for word, field in (("from", "valid_from"), ("until", "valid_until")):
        if word in rest:
            setattr(rule, field, timezone.now() + timedelta(seconds=int(rest[rest.index(word) + 1])))
    rule.save()
    return rule
