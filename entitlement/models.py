"""The rules, and the log of what changed since which generation."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import models, router, transaction
from django.db.models import F, Q

from entitlement import patterns
from entitlement.history import RuleQuerySet, differences
from fastpath.core.protocol.limits import SUBJECT_BYTES_MAX
from fastpath.core.protocol.subject import is_reported, is_system


class Action(models.TextChoices):
    """What a rule is about."""

    SUBSCRIBE = "subscribe", "subscribe (read)"
    PUBLISH = "publish", "publish (write)"
    BOTH = "both", "subscribe and publish"


class Effect(models.TextChoices):
    """What a rule says."""

    ALLOW = "allow", "allow"
    DENY = "deny", "deny"


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


class Rule(models.Model):
    """Who may, or may not, subscribe to or publish the subjects of a pattern (docs/develop/entitlement.md)."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, null=True, blank=True, related_name="+")
    group = models.ForeignKey(Group, models.CASCADE, null=True, blank=True, related_name="+")
    everyone = models.BooleanField(default=False, help_text="Everyone, signed in or not.")
    anonymous = models.BooleanField(default=False, help_text="Only those who are not signed in.")
    pattern = models.CharField(max_length=SUBJECT_BYTES_MAX)
    action = models.CharField(max_length=9, choices=Action, default=Action.SUBSCRIBE)
    effect = models.CharField(max_length=5, choices=Effect, default=Effect.ALLOW)
    enabled = models.BooleanField(default=True, help_text="A rule that is switched off has no effect.")
    valid_from = models.DateTimeField(null=True, blank=True, help_text="Empty: from the beginning.")
    valid_until = models.DateTimeField(null=True, blank=True, help_text="Empty: without end.")
    note = models.CharField(max_length=200, blank=True, help_text="Why this rule is here.")

    objects = models.Manager.from_queryset(RuleQuerySet)()

    class Meta:
        ordering = ("pattern", "id")
        indexes = (models.Index(fields=("pattern", "id"), name="entitlement_rule_pattern"),)
        constraints = (
            models.CheckConstraint(
                condition=_one_of("user", "group", "everyone", "anonymous"),
                name="entitlement_rule_exactly_one_who",
                violation_error_message="Say who, once: choose a user or a group, or tick everyone or anonymous.",
            ),
            models.CheckConstraint(
                condition=Q(valid_from__isnull=True) | Q(valid_until__isnull=True) | Q(valid_from__lt=F("valid_until")),
                name="entitlement_rule_ends_after_it_begins",
                violation_error_message="The rule would end before it begins.",
            ),
        )

    def __str__(self) -> str:
        return f"{self.effect} {self.who_text()} to {self.action} {self.pattern}"

    def who_text(self) -> str:
        """Who the rule is about, in words."""
        if self.user_id is not None:
            return f"user {self.user}"
        if self.group_id is not None:
            return f"group {self.group}"
        return "everyone" if self.everyone else "anonymous"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """With the note of who changed what (history.py), in one transaction."""
        with transaction.atomic(using=kwargs.get("using") or router.db_for_write(type(self), instance=self)):
            super().save(*args, **kwargs)

    def clean(self) -> None:
        """Name what is wrong with the pattern and the validity; who is the database constraint's to check."""
        wrong: dict[str, list[str]] = {}
        if fault := self._pattern_fault():
            wrong["pattern"] = [fault]
        if self.valid_from and self.valid_until and self.valid_from >= self.valid_until:
            wrong["valid_until"] = ["The rule would end before it begins: choose a later end."]
        if wrong:
            raise ValidationError(wrong)

    def _pattern_fault(self) -> str:
        """Why the pattern cannot be used (protocol.md 2), or an empty text."""
        if fault := patterns.fault(self.pattern):
            return fault
        if is_system(self.pattern) and self.action != Action.SUBSCRIBE and not is_reported(self.pattern):
            return "Subjects under /__sys__/ are the server's: they can be read, never published to."
        if "/{username}" in self.pattern and self.anonymous:
            return "Who is not signed in has no user name: {username} would match nothing."
        return ""


class RuleChange(models.Model):
    """One change of one rule: who made it, by what means, and how the rule stood before and after (history.py)."""

    rule = models.BigIntegerField("rule", db_index=True, help_text="The rule's number; it may be gone by now.")
    time = models.DateTimeField(auto_now_add=True, db_index=True)
    user_key = models.CharField(max_length=255, blank=True, help_text="The primary key; the user may be gone by now.")
    user_name = models.CharField("by", max_length=255, blank=True, help_text="As the user was called then.")
    means = models.CharField(max_length=100, help_text="The admin, an import, a command, or code.")
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)

    class Meta:
        ordering = ("-id",)
        verbose_name = "change of a rule"
        verbose_name_plural = "changes of rules"

    def __str__(self) -> str:
        return f"rule {self.rule} {self.kind()}"

    def kind(self) -> str:
        """What happened, in a word."""
        return "added" if self.before is None else "deleted" if self.after is None else "changed"

    def differences(self) -> list[tuple[str, str, str]]:
        """What differs, in words: name, old, new."""
        return differences(self.before, self.after)


class Generation(models.Model):
    """One row that counts the changes; database triggers raise it (triggers.py)."""

    value = models.BigIntegerField(help_text="Raised by every change, inside its transaction.")
    forgotten = models.BigIntegerField(default=0, help_text="Changes up to this generation are no longer listed.")

    def __str__(self) -> str:
        return str(self.value)


class Change(models.Model):
    """What a generation changed: the key of a rule, a user, a user with a new password, a session or a token."""

    class Kind(models.TextChoices):
        """What the key is a key of."""

        RULE = "rule"
        USER = "user"
        PASSWORD = "password"  # noqa: S105 - a kind of change
        SESSION = "session"
        TOKEN = "token"  # noqa: S105 - a kind of change

    generation = models.BigIntegerField(db_index=True)
    kind = models.CharField(max_length=8, choices=Kind)
    key = models.TextField(help_text="The rule's or user's primary key, the session's key, or the token's id.")
    time = models.BigIntegerField(help_text="Milliseconds since 1970-01-01 UTC.")

    def __str__(self) -> str:
        return f"{self.generation}: {self.kind} {self.key}"


class RevokedToken(models.Model):
    """A single token that counts no more; kept until it would have ended (tokens.py revokes)."""

    jti = models.CharField("id of the token", max_length=255, unique=True)
    user_name = models.CharField("user", max_length=255, blank=True, help_text="Empty where only the id was known.")
    time = models.DateTimeField("revoked at", auto_now_add=True)
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+", verbose_name="revoked by"
    )
    expires = models.DateTimeField(help_text="No token of this id is valid after this, revoked or not.")
    note = models.CharField(max_length=200, blank=True, help_text="Why it was revoked.")

    class Meta:
        ordering = ("-time",)
        verbose_name = "revoked token"
        # What is revoked stays so: nothing is there to change or to delete.
        default_permissions = ("add", "view")

    def __str__(self) -> str:
        return f"{self.jti} of {self.user_name}" if self.user_name else self.jti
