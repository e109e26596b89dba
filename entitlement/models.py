"""The rules, the options of subjects, and the log of what changed since which generation."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, StepValueValidator
from django.db import models, router, transaction
from django.db.models import F, Q
from django.utils.translation import gettext, gettext_lazy

from entitlement import patterns
from entitlement.history import RuleQuerySet, differences
from fastpath.core.protocol.limits import CONFLATION_GRID_MS, CONFLATION_MS_MAX, SUBJECT_BYTES_MAX
from fastpath.core.protocol.options import CACHE_MESSAGES_MAX, CACHE_SECONDS_MAX, PUBLISH_RATE_MAX
from fastpath.core.protocol.subject import NAMES, is_reported, is_system


class Action(models.TextChoices):
    """The actions that a rule is about."""

    SUBSCRIBE = "subscribe", gettext_lazy("subscribe (read)")
    PUBLISH = "publish", gettext_lazy("publish (write)")
    BOTH = "both", gettext_lazy("subscribe and publish")


class Effect(models.TextChoices):
    """The effect of a rule."""

    ALLOW = "allow", gettext_lazy("allow")
    DENY = "deny", gettext_lazy("deny")


_WORDS = {
    "subscribe": gettext_lazy("subscribe"),
    "publish": gettext_lazy("publish"),
    "both": gettext_lazy("both"),
    "allow": gettext_lazy("allow"),
    "deny": gettext_lazy("deny"),
    "everyone": gettext_lazy("everyone"),
    "anonymous": gettext_lazy("anonymous"),
}


def word(value: str) -> str:
    """Return the word of an action, effect or holder as people read it; what is none of these stays what it is."""
    return str(_WORDS.get(str(value), value))


def _one_of(*names: str) -> Q:
    """Exactly one of the four ways to say who is set."""
    whole = Q()
    for chosen in names:
        one = Q()
        for name in names:
            flag = name in ("everyone", "anonymous")
            one &= Q(**{name: name == chosen}) if flag else Q(**{f"{name}__isnull": name != chosen})
        whole |= one
    return whole


def with_its_holder(collector: Any, field: models.ForeignKey, rules: Any, using: str) -> None:
    """Delete rules at once with their holder: on MariaDB Django's ``CASCADE`` clears the column first, and each has
    one."""
    collector.collect(rules, source=field.remote_field.model, source_attr=field.name, fail_on_restricted=False)


class Rule(models.Model):
    """The right, or its denial, to subscribe to or publish the subjects of a pattern (docs/develop/entitlement.md)."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        with_its_holder,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=gettext_lazy("user"),
    )
    group = models.ForeignKey(
        Group, with_its_holder, null=True, blank=True, related_name="+", verbose_name=gettext_lazy("group")
    )
    everyone = models.BooleanField(
        gettext_lazy("everyone"), default=False, help_text=gettext_lazy("Everyone, signed in or not.")
    )
    anonymous = models.BooleanField(
        gettext_lazy("anonymous"), default=False, help_text=gettext_lazy("Only those who are not signed in.")
    )
    pattern = models.CharField(gettext_lazy("pattern"), max_length=SUBJECT_BYTES_MAX)
    action = models.CharField(gettext_lazy("action"), max_length=9, choices=Action, default=Action.SUBSCRIBE)
    effect = models.CharField(gettext_lazy("effect"), max_length=5, choices=Effect, default=Effect.ALLOW)
    enabled = models.BooleanField(
        gettext_lazy("enabled"), default=True, help_text=gettext_lazy("A rule that is switched off has no effect.")
    )
    valid_from = models.DateTimeField(
        gettext_lazy("valid from"), null=True, blank=True, help_text=gettext_lazy("Empty: from the beginning.")
    )
    valid_until = models.DateTimeField(
        gettext_lazy("valid until"), null=True, blank=True, help_text=gettext_lazy("Empty: without end.")
    )
    note = models.CharField(
        gettext_lazy("note"), max_length=200, blank=True, help_text=gettext_lazy("Why this rule is here.")
    )

    objects = models.Manager.from_queryset(RuleQuerySet)()

    class Meta:
        ordering = ("pattern", "id")
        verbose_name = gettext_lazy("rule")
        verbose_name_plural = gettext_lazy("rules")
        indexes = (models.Index(fields=("pattern", "id"), name="entitlement_rule_pattern"),)
        constraints = (
            models.CheckConstraint(
                condition=_one_of("user", "group", "everyone", "anonymous"),
                name="entitlement_rule_exactly_one_who",
                violation_error_message=gettext_lazy(
                    "Say who, once: choose a user or a group, or tick everyone or anonymous."
                ),
            ),
            models.CheckConstraint(
                condition=Q(valid_from__isnull=True) | Q(valid_until__isnull=True) | Q(valid_from__lt=F("valid_until")),
                name="entitlement_rule_ends_after_it_begins",
                violation_error_message=gettext_lazy("The rule would end before it begins."),
            ),
            models.CheckConstraint(
                condition=patterns.readable(Action.values, Effect.values),
                name="entitlement_rule_can_be_read",
                violation_error_message=gettext_lazy("Nobody can decide by this rule: see its pattern and action."),
            ),
        )

    def __str__(self) -> str:
        return gettext("%(effect)s %(who)s to %(action)s %(pattern)s") % {
            "effect": word(self.effect),
            "who": self.who_text(),
            "action": self.action_word(),
            "pattern": self.pattern,
        }

    def action_word(self) -> str:
        """Return the action in a word: subscribe, publish or both."""
        return word(self.action)

    def who_text(self) -> str:
        """Return who the rule is about, in words."""
        if self.user_id is not None:
            return gettext("user %(name)s") % {"name": self.user}
        if self.group_id is not None:
            return gettext("group %(name)s") % {"name": self.group}
        return gettext("everyone") if self.everyone else gettext("anonymous")

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save with the note of who changed what (history.py), in one transaction.

        Raises ValidationError for what no sidecar could read; one that is there already may be switched off.
        """
        if self._state.adding or self.enabled:
            self.check_readable(kwargs.get("update_fields"))
        with transaction.atomic(using=kwargs.get("using") or router.db_for_write(type(self), instance=self)):
            super().save(*args, **kwargs)

    def clean(self) -> None:
        """Name what is wrong with the pattern and the validity; who is the database constraint's to check."""
        wrong: dict[str, list[str]] = {}
        if fault := self._pattern_fault():
            wrong["pattern"] = [fault]
        if self.valid_from and self.valid_until and self.valid_from >= self.valid_until:
            wrong["valid_until"] = [gettext("The rule would end before it begins: choose a later end.")]
        if wrong:
            raise ValidationError(wrong)

    def check_readable(self, names: Collection[str] | None = None) -> None:
        """Raise ValidationError for a pattern, an action or an effect, of those named or any, that is none."""
        wrong = {"pattern": patterns.fault(self.pattern)}
        if self.action not in Action.values:
            wrong["action"] = gettext("%(value)r is no action.") % {"value": self.action}
        if self.effect not in Effect.values:
            wrong["effect"] = gettext("%(value)r is no effect.") % {"value": self.effect}
        found = {name: fault for name, fault in wrong.items() if fault and (names is None or name in names)}
        if found:
            raise ValidationError(found)

    def _pattern_fault(self) -> str:
        """Return why the pattern cannot be used (protocol.md 2), or an empty text."""
        if fault := patterns.fault(self.pattern):
            return fault
        if is_system(self.pattern) and self.action != Action.SUBSCRIBE and not is_reported(self.pattern):
            return gettext("Subjects under /__sys__/ are the server's: they can be read, never published to.")
        for name in NAMES:
            if f"/{name}" in self.pattern and self.anonymous:
                words = gettext("Who is not signed in has no name and no id: %(name)s would match nothing.")
                return words % {"name": name}
        return ""


class RuleChange(models.Model):
    """One change of one rule: who made it, by what means, and how the rule stood before and after (history.py)."""

    rule = models.BigIntegerField(
        gettext_lazy("rule"), db_index=True, help_text=gettext_lazy("The rule's number; it may be gone by now.")
    )
    time = models.DateTimeField(gettext_lazy("time"), auto_now_add=True, db_index=True)
    user_key = models.CharField(
        gettext_lazy("user key"),
        max_length=255,
        blank=True,
        help_text=gettext_lazy("The primary key; the user may be gone by now."),
    )
    user_name = models.CharField(
        gettext_lazy("by"), max_length=255, blank=True, help_text=gettext_lazy("As the user was called then.")
    )
    means = models.CharField(
        gettext_lazy("means"), max_length=100, help_text=gettext_lazy("The admin, an import, a command, or code.")
    )
    before = models.JSONField(gettext_lazy("before"), null=True)
    after = models.JSONField(gettext_lazy("after"), null=True)

    class Meta:
        ordering = ("-id",)
        verbose_name = gettext_lazy("change of a rule")
        verbose_name_plural = gettext_lazy("changes of rules")

    def __str__(self) -> str:
        return gettext("rule %(number)s %(change)s") % {"number": self.rule, "change": self.kind_word()}

    def kind(self) -> str:
        """Return what happened, in a word."""
        return "added" if self.before is None else "deleted" if self.after is None else "changed"

    def kind_word(self) -> str:
        """Return what happened, in a word of the reader's language."""
        return {"added": gettext("added"), "deleted": gettext("deleted"), "changed": gettext("changed")}[self.kind()]

    def differences(self) -> list[tuple[str, str, str]]:
        """Return what differs, in words: name, old, new."""
        return differences(self.before, self.after)


Kept = ((True, gettext_lazy("kept")), (False, gettext_lazy("not kept")))
"""Words for what options say of snapshots."""

Known = ((True, gettext_lazy("known")), (False, gettext_lazy("not known")))
"""Words for what options say of presence."""


class Delivery(models.TextChoices):
    """The quality of publications."""

    GUARANTEED = "guaranteed", gettext_lazy("as each publication asks")
    STANDARD = "standard", gettext_lazy("standard")


class SubjectOptions(models.Model):
    """The options of the subjects of a pattern: what the sidecars keep and send (docs/operate/options.md)."""

    pattern = models.CharField(gettext_lazy("pattern"), max_length=SUBJECT_BYTES_MAX, unique=True)
    cache_messages = models.PositiveIntegerField(
        gettext_lazy("cached messages"),
        null=True,
        blank=True,
        validators=[MaxValueValidator(CACHE_MESSAGES_MAX)],
        help_text=gettext_lazy("How many of the newest messages of each subject are kept for who comes back; 0: none."),
    )
    cache_seconds = models.PositiveIntegerField(
        gettext_lazy("cached for"),
        null=True,
        blank=True,
        validators=[MaxValueValidator(CACHE_SECONDS_MAX)],
        help_text=gettext_lazy("For how many seconds each of them is kept."),
    )
    conflation_ms = models.PositiveIntegerField(
        gettext_lazy("least conflation"),
        null=True,
        blank=True,
        validators=[MaxValueValidator(CONFLATION_MS_MAX), StepValueValidator(CONFLATION_GRID_MS)],
        help_text=gettext_lazy(
            "Milliseconds, a multiple of 100: nobody is sent a subject more often than once in so long; "
            "0: each message, if that is what they ask for."
        ),
    )
    retained = models.BooleanField(
        gettext_lazy("snapshot"),
        null=True,
        blank=True,
        choices=Kept,
        help_text=gettext_lazy("Whether the newest state is kept for who comes; not kept: what is there goes."),
    )
    delivery = models.CharField(
        gettext_lazy("delivery"),
        max_length=10,
        null=True,
        blank=True,
        choices=Delivery,
        help_text=gettext_lazy(
            "Standard: each publication is of standard quality, whatever it asks for: without number, in no cache."
        ),
    )
    presence = models.BooleanField(
        gettext_lazy("presence"),
        null=True,
        blank=True,
        choices=Known,
        help_text=gettext_lazy("Whether it is known, and told, who is on a subject and who joins and leaves."),
    )
    publish_rate = models.PositiveIntegerField(
        gettext_lazy("publications a second"),
        null=True,
        blank=True,
        validators=[MaxValueValidator(PUBLISH_RATE_MAX)],
        help_text=gettext_lazy(
            "How many may come from each connection to all these subjects together; whoever sends more waits, and "
            "nothing is lost; 0: any."
        ),
    )
    note = models.CharField(
        gettext_lazy("note"), max_length=200, blank=True, help_text=gettext_lazy("Why these options are here.")
    )

    OPTIONS = ("cache_messages", "cache_seconds", "conflation_ms", "retained", "delivery", "presence", "publish_rate")
    """The fields of which one at least is set."""

    class Meta:
        ordering = ("pattern", "id")
        verbose_name = gettext_lazy("options of subjects")
        verbose_name_plural = gettext_lazy("options of subjects")
        constraints = (
            models.CheckConstraint(
                condition=(Q(cache_messages__isnull=True) | Q(cache_messages__lte=CACHE_MESSAGES_MAX))
                & (Q(cache_seconds__isnull=True) | Q(cache_seconds__lte=CACHE_SECONDS_MAX))
                & (Q(conflation_ms__isnull=True) | Q(conflation_ms__lte=CONFLATION_MS_MAX)),
                name="entitlement_options_within_bounds",
            ),
        )

    def __str__(self) -> str:
        return self.pattern

    def clean(self) -> None:
        """Name what is wrong with the pattern; each option has its own bounds."""
        if fault := patterns.option_fault(self.pattern):
            raise ValidationError({"pattern": fault})
        if all(getattr(self, name) is None for name in self.OPTIONS):
            raise ValidationError(gettext("Set one of the options at least: this row would have no effect."))


class Generation(models.Model):
    """One row that counts the changes; who reads it raises it (following/numbering.py), on SQLite each change."""

    value = models.BigIntegerField(help_text="Above that of every change before.")
    forgotten = models.BigIntegerField(default=0, help_text="Changes up to this generation are no longer listed.")

    def __str__(self) -> str:
        return str(self.value)


class KeyIndex(models.Index):
    """An index of kinds and keys; MariaDB and MySQL are told how much of a long text it has."""

    def create_sql(self, model: type[models.Model], schema_editor: Any, using: str = "", **kwargs: Any) -> Any:
        """Return the statement as for any index."""
        if schema_editor.connection.vendor != "mysql":
            return super().create_sql(model, schema_editor, using, **kwargs)
        fields = [model._meta.get_field(name) for name in self.fields]
        lengths = ["(64)" if name == "key" else "" for name in self.fields]
        return schema_editor._create_index_sql(model, fields=fields, name=self.name, col_suffixes=lengths, **kwargs)


class Change(models.Model):
    """The key that a generation changed: of a rule, a user, one with a new password, a session, a token or options."""

    class Kind(models.TextChoices):
        """The kind of thing that the key is a key of."""

        RULE = "rule"
        USER = "user"
        PASSWORD = "password"  # noqa: S105 - a kind of change
        SESSION = "session"
        TOKEN = "token"  # noqa: S105 - a kind of change
        OPTIONS = "options"

    PENDING = 0
    """The generation of what triggers have noted and nobody has numbered yet."""

    FORGOTTEN = -1
    """The generation of what may be deleted: all else that is comes back (following/triggers.py)."""

    generation = models.BigIntegerField()
    kind = models.CharField(max_length=8, choices=Kind)
    key = models.TextField(help_text="The rule's or user's primary key, the session's key, or the token's id.")
    time = models.BigIntegerField(help_text="Milliseconds since 1970-01-01 UTC.")
    writer = models.BigIntegerField(
        null=True,
        help_text="The transaction that noted it, on MariaDB the connection: those of one are not told apart.",
    )

    class Meta:
        indexes = (
            models.Index(fields=("generation", "writer", "id"), name="entitlement_change_writer"),
            KeyIndex(fields=("kind", "key"), name="entitlement_change_key"),
        )

    def __str__(self) -> str:
        return f"{self.generation}: {self.kind} {self.key}"


class DeletedChange(models.Model):
    """A note that somebody has deleted from the log on MariaDB, where no trigger can put it back: who reads the log
    does."""

    kind = models.CharField(max_length=8)
    key = models.TextField()
    time = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


class RevokedToken(models.Model):
    """A single token that counts no more; kept until it would have ended (tokens.py revokes)."""

    jti = models.CharField(gettext_lazy("id of the token"), max_length=255, unique=True)
    user_name = models.CharField(
        gettext_lazy("user"), max_length=255, blank=True, help_text=gettext_lazy("Empty where only the id was known.")
    )
    time = models.DateTimeField(gettext_lazy("revoked at"), auto_now_add=True)
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=gettext_lazy("revoked by"),
    )
    expires = models.DateTimeField(
        gettext_lazy("expires"), help_text=gettext_lazy("No token of this id is valid after this, revoked or not.")
    )
    note = models.CharField(
        gettext_lazy("note"), max_length=200, blank=True, help_text=gettext_lazy("Why it was revoked.")
    )

    class Meta:
        ordering = ("-time",)
        verbose_name = gettext_lazy("revoked token")
        verbose_name_plural = gettext_lazy("revoked tokens")
        # What is revoked stays so: nothing is there to change or to delete.
        default_permissions = ("add", "view")

    def __str__(self) -> str:
        return gettext("%(id)s of %(user)s") % {"id": self.jti, "user": self.user_name} if self.user_name else self.jti
