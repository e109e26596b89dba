"""Who changed which rule, when, from what to what: whatever goes through Django's models, in its transaction.

``save``, ``delete``, cascades, ``QuerySet.update``, ``delete``, ``bulk_create`` and ``bulk_update`` are seen; raw SQL
is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from itertools import islice
from typing import Any, NamedTuple

from django.apps import apps
from django.contrib.auth import get_user_model
from django.db import models, transaction
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy

SHOWN = {
    "who": gettext_lazy("who"),
    "pattern": gettext_lazy("pattern"),
    "action": gettext_lazy("action"),
    "effect": gettext_lazy("effect"),
    "enabled": gettext_lazy("enabled"),
    "from": gettext_lazy("from"),
    "until": gettext_lazy("until"),
    "note": gettext_lazy("note"),
}
"""Names of what is kept of a rule, and the words for each on pages."""

_BATCH = 500

_DELETION = 3  # django.contrib.admin.models.DELETION, which cannot be imported where the admin is not installed

_JUST_NOW = timedelta(minutes=1)
"""An entry of the admin's log that is older is not of this deletion."""

State = dict[str, Any]
"""A rule as it stood: the keys of SHOWN, as JSON holds them."""


class Actor(NamedTuple):
    """The author of changes to rules: a user or None, and the means."""

    user: Any
    means: str


_CODE = Actor(None, "code")
_actor: ContextVar[Actor] = ContextVar("entitlement_actor", default=_CODE)
_told: ContextVar[bool] = ContextVar("entitlement_told", default=False)
"""A bulk operation notes what it does itself; signals keep silent."""


@contextmanager
def acting(user: Any, means: str) -> Iterator[None]:
    """Note changes made inside the block as this user's; ``means`` as in "admin" or "import rules.csv"."""
    known = user is not None and getattr(user, "is_authenticated", False)
    token = _actor.set(Actor(user if known else None, means[:100]))
    try:
        yield
    finally:
        _actor.reset(token)


class RuleQuerySet(models.QuerySet):  # type: ignore[type-arg]
    """Notes what bulk operations change."""

    def update(self, **values: Any) -> int:
        """Update as Django does, noting each rule's state before and after."""
        if _told.get():
            return super().update(**values)
        with _silence(), transaction.atomic(using=self.db):
            before = states(self)
            count = super().update(**values)
            _record(self.db, before, _by_keys(self, before))
        return count

    update.alters_data = True  # type: ignore[attr-defined]

    def delete(self) -> tuple[int, dict[str, int]]:
        """Delete as Django does, noting each rule's last state."""
        with _silence(), transaction.atomic(using=self.db):
            before = states(self)
            deleted = super().delete()
            _record(self.db, before, {})
        return deleted

    delete.alters_data = True  # type: ignore[attr-defined]
    delete.queryset_only = True  # type: ignore[attr-defined]

    def bulk_create(self, objs: Iterable[Any], *args: Any, **kwargs: Any) -> list[Any]:
        """Create as Django does, noting each rule that is new or replaced."""
        objs = list(objs)
        with transaction.atomic(using=self.db):
            before = _by_keys(self, [one.pk for one in objs if one.pk is not None])  # update_conflicts
            made: list[Any] = super().bulk_create(objs, *args, **kwargs)
            _record(self.db, before, _by_keys(self, [one.pk for one in made if one.pk is not None]))
        return made


def states(rules: models.QuerySet) -> dict[int, State]:  # type: ignore[type-arg]
    """Return the states of rules as the database has them, by primary key."""
    user = f"user__{get_user_model().USERNAME_FIELD}"
    fields = ("pk", "user_id", user, "group_id", "group__name", "everyone")
    rest = ("pattern", "action", "effect", "enabled", "valid_from", "valid_until", "note")
    found = {}
    for row in rules.order_by().values(*fields, *rest):
        if row["user_id"] is not None:
            who = f"user {row['user_id'] if row[user] is None else row[user]}"
        elif row["group_id"] is not None:
            who = f"group {row['group_id'] if row['group__name'] is None else row['group__name']}"
        else:
            who = "everyone" if row["everyone"] else "anonymous"
        found[row["pk"]] = {
            "who": who,
            **{name: row[name] for name in ("pattern", "action", "effect", "enabled")},
            "from": row["valid_from"] and row["valid_from"].isoformat(),
            "until": row["valid_until"] and row["valid_until"].isoformat(),
            "note": row["note"],
        }
    return found


def before_save(sender: Any, instance: Any, using: str, **_: Any) -> None:
    """Remember how the rule stands (``pre_save``)."""
    instance._state_before = _one(sender, instance, using) if instance.pk and not _told.get() else None


def after_save(sender: Any, instance: Any, using: str, **_: Any) -> None:
    """Note what has become of it (``post_save``)."""
    before, instance._state_before = getattr(instance, "_state_before", None), None
    if not _told.get():
        after = _one(sender, instance, using)
        _record(using, {instance.pk: before} if before else {}, {instance.pk: after} if after else {})


def before_delete(sender: Any, instance: Any, using: str, origin: Any = None, **_: Any) -> None:
    """Note what it was (``pre_delete``): in the transaction that takes it away, also with its user or group."""
    if not _told.get() and (before := _one(sender, instance, using)):
        actor = _actor.get()
        if actor is _CODE and origin is not None and getattr(origin, "model", type(origin)) is not sender:
            actor = _deleter(instance, origin) or actor
        _record(using, {instance.pk: before}, {}, actor)


def differences(before: State | None, after: State | None) -> list[tuple[str, str, str]]:
    """Return the differences of two states in words, as (name, old, new); a value that is not set is a dash."""
    old, new = before or {}, after or {}
    return [
        (str(title), _words(old.get(name)), _words(new.get(name)))
        for name, title in SHOWN.items()
        if old.get(name) != new.get(name)
    ]


@contextmanager
def _silence() -> Iterator[None]:
    token = _told.set(True)
    try:
        yield
    finally:
        _told.reset(token)


def _one(model: Any, rule: Any, using: str) -> State | None:
    return states(model._base_manager.using(using).filter(pk=rule.pk)).get(rule.pk)


def _by_keys(rules: models.QuerySet, keys: Iterable[int]) -> dict[int, State]:  # type: ignore[type-arg]
    found: dict[int, State] = {}
    rest = iter(keys)
    while some := list(islice(rest, _BATCH)):
        found |= states(rules.model._base_manager.using(rules.db).filter(pk__in=some))
    return found


def _deleter(rule: Any, origin: Any) -> Actor | None:
    """Return the admin's user who deletes the user or group that the rule belongs to; None outside of Django's admin.

    The admin logs a deletion just before. ``origin`` is what is deleted; the log is asked once for all its rules.
    """
    if not apps.is_installed("django.contrib.admin"):
        return None
    if "_entitlement_deleter" not in vars(origin):
        holder = rule._meta.get_field("user" if rule.user_id is not None else "group")
        entry = (
            apps.get_model("admin", "LogEntry")
            .objects.filter(
                action_flag=_DELETION,
                content_type__app_label=holder.related_model._meta.app_label,
                content_type__model=holder.related_model._meta.model_name,
                object_id=str(holder.value_from_object(rule)),
                action_time__gte=timezone.now() - _JUST_NOW,
            )
            .select_related("user")
            .order_by("-action_time")
            .first()
        )
        origin._entitlement_deleter = Actor(entry.user, "the admin") if entry is not None else None
    found: Actor | None = origin._entitlement_deleter
    return found


def _record(using: str, before: dict[int, State], after: dict[int, State], actor: Actor | None = None) -> None:
    """Write a row for each rule that is not what it was."""
    change = apps.get_model("entitlement", "RuleChange")
    actor = actor or _actor.get()
    name, user_key = (actor.user.get_username(), str(actor.user.pk)) if actor.user is not None else ("", "")
    rows = (
        change(
            rule=key,
            user_key=user_key,
            user_name=name,
            means=actor.means,
            before=before.get(key),
            after=after.get(key),
        )
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    )
    while some := list(islice(rows, _BATCH)):
        change._base_manager.using(using).bulk_create(some)


def _words(value: Any) -> str:
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    return str(value)
