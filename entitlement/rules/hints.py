"""Which other rules decide beside one that was just saved: in its place, or only without it."""

from __future__ import annotations

from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext

from entitlement.models import Action, Effect, Rule
from entitlement.patterns import overlap, wider
from fastpath.core.protocol.subject import NAMES, specificity

LOOK_MAX = 2000
"""Rules that are looked at; where more would have to be, nothing is said."""

HINTS_MAX = 4


def hints(rule: Rule) -> list[str]:
    """Return sentences about the rules that decide in its place or over which it decides; none for one without
    effect."""
    now = timezone.now()
    patterns = wider(rule.pattern)
    if not rule.enabled or patterns is None or (rule.valid_until is not None and rule.valid_until <= now):
        return []
    others = (
        Rule.objects.filter(enabled=True, pattern__in=patterns)
        .exclude(pk=rule.pk)
        .exclude(valid_until__lte=now)
        .select_related("user", "group")
    )
    near = [other for other in others[:LOOK_MAX] if _actions_meet(rule, other) and _holders_meet(rule, other)]
    found = [text for other in near if other.pattern == rule.pattern and (text := _tie(rule, other))]
    return (found or _redundant(rule, near))[:HINTS_MAX]


def _tie(rule: Rule, other: Rule) -> str:
    """Return the hint about two rules with the same pattern, or an empty text."""
    if rule.effect == other.effect:
        if not _embraces(other, rule):
            return ""
        words = gettext("Rule %(number)s already decides this: it says the same (%(rule)s).")
    elif rule.effect == Effect.DENY:
        words = gettext("This rule wins over rule %(number)s (%(rule)s): between equals, deny wins.")
    elif _embraces(other, rule):
        words = gettext(
            "Rule %(number)s already decides this (%(rule)s): between equals, deny wins. This rule has no effect."
        )
    else:
        words = gettext("Rule %(number)s (%(rule)s) decides where both are about somebody: between equals, deny wins.")
    return words % {"number": other.pk, "rule": other}


def _redundant(rule: Rule, near: list[Rule]) -> list[str]:
    """Return the hint that a wider rule says the same and nothing between the two says otherwise; empty if not so."""
    wide = [other for other in near if other.effect == rule.effect and _embraces(other, rule)]
    if not wide:
        return []
    closest = max(wide, key=lambda other: specificity(other.pattern))
    first = rule.pattern.split("/")[1]
    begins = Q()
    if first not in ("*", "**", *NAMES):
        begins = Q(pattern="/**")
        for segment in (first, "*", *NAMES):
            begins |= Q(pattern__startswith=f"/{segment}/")
    against = Rule.objects.filter(begins, enabled=True).exclude(effect=rule.effect)
    opposed = list(against.values_list("pattern", flat=True)[: LOOK_MAX + 1])
    if len(opposed) > LOOK_MAX:
        return []
    low, high = specificity(closest.pattern), specificity(rule.pattern)
    if any(low <= specificity(pattern) <= high and overlap(pattern, rule.pattern) for pattern in opposed):
        return []
    words = gettext("Rule %(number)s already decides this: it says the same, of more subjects (%(rule)s).")
    return [words % {"number": closest.pk, "rule": closest}]


def _embraces(other: Rule, rule: Rule) -> bool:
    """True when the other covers everybody, every action and every moment that the rule is about."""
    same = (other.user_id, other.group_id, other.anonymous) == (rule.user_id, rule.group_id, rule.anonymous)
    begins = other.valid_from is None or (rule.valid_from is not None and other.valid_from <= rule.valid_from)
    ends = other.valid_until is None or (rule.valid_until is not None and rule.valid_until <= other.valid_until)
    return (other.everyone or same) and other.action in (rule.action, Action.BOTH) and begins and ends


def _actions_meet(rule: Rule, other: Rule) -> bool:
    return rule.action == other.action or Action.BOTH in (rule.action, other.action)


def _holders_meet(rule: Rule, other: Rule) -> bool:
    """True when both rules may be about the same person; users may be members of any group."""
    if rule.everyone or other.everyone:
        return True
    if rule.anonymous or other.anonymous:
        return rule.anonymous and other.anonymous
    if rule.user_id is not None and other.user_id is not None:
        return rule.user_id == other.user_id
    return True
