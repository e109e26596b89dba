"""The rules, and the log of what changed since which generation."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import F, Q

from fastpath.core.errors import InvalidSubject
from fastpath.core.limits import SUBJECT_BYTES_MAX
from fastpath.core.subject import check_pattern, is_system

_ADVICE = {
    "no leading slash": "a pattern begins with a slash, as in /stocks/us/IBM",
    "empty segment": "there is nothing between two slashes; write * for any one segment",
    "last segment empty": "it ends with a slash; write /** at the end for everything below",
    "a single empty segment": "a slash alone names nothing; /*/** matches every subject",
    "only one segment": "a subject has two segments or more, as in /stocks/IBM or /stocks/**",
    "reserved segment": "it holds a character that no subject can hold",
    "too long": f"a subject has at most {SUBJECT_BYTES_MAX} bytes of UTF-8",
    "too many segments": "no subject has so many segments",
    "** only as the last segment": "write * for one segment in the middle",
    "* must be a whole segment": "part of a segment cannot be matched; write /stocks/* and not /stocks/IB*",
    "only {username} may stand in braces, as a whole segment": "as in /inbox/{username}",
}


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
    """Who may, or may not, subscribe to or publish the subjects of a pattern (docs/entitlement.md)."""

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

    class Meta:
        ordering = ("pattern", "id")
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
        try:
            check_pattern(self.pattern)
        except InvalidSubject as error:
            return f"{error.reason.capitalize()}: {_ADVICE.get(error.reason, 'see the examples below')}."
        if is_system(self.pattern) and self.action != Action.SUBSCRIBE:
            return "Subjects under /__sys__/ are the server's: they can be read, never published to."
        if "/{username}" in self.pattern and self.anonymous:
            return "Who is not signed in has no user name: {username} would match nothing."
        return ""


class Generation(models.Model):
    """One row that counts the changes; database triggers raise it (triggers.py)."""

    value = models.BigIntegerField(help_text="Raised by every change, inside its transaction.")
    forgotten = models.BigIntegerField(default=0, help_text="Changes up to this generation are no longer listed.")

    def __str__(self) -> str:
        return str(self.value)


class Change(models.Model):
    """What a generation changed: the key of a rule, a user or a session."""

    class Kind(models.TextChoices):
        """What the key is a key of."""

        RULE = "rule"
        USER = "user"
        SESSION = "session"

    generation = models.BigIntegerField(db_index=True)
    kind = models.CharField(max_length=7, choices=Kind)
    key = models.TextField(help_text="The rule's or user's primary key, or the session's key.")
    time = models.BigIntegerField(help_text="Milliseconds since 1970-01-01 UTC.")

    def __str__(self) -> str:
        return f"{self.generation}: {self.kind} {self.key}"
