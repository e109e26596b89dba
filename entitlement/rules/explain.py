"""Which rules are about a user and a subject, which of them decides, and what the running sidecar answers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext

from entitlement import conf, tokens
from entitlement.following.compiler import QUERY_KEYS, batches, group_ids, position, rule_record
from entitlement.models import Rule, word
from entitlement.patterns import wider
from entitlement.permissions.asking import PermissionsError, permissions_of
from fastpath.client.control.nodes import Nodes
from fastpath.client.errors import ControlRefused, SidecarUnavailable
from fastpath.core.auth.jwt_grants import permission, permission_set
from fastpath.core.auth.rules import BOTH, OWN, PUBLISH, SUBSCRIBE, RuleSet
from fastpath.core.auth.rules import Rule as CoreRule
from fastpath.core.broker.rights_records import read_records
from fastpath.core.protocol.subject import is_reported, is_system, owner_of, presence_of, specificity

SIDECAR_SECONDS = 2.0
"""Seconds that a page waits for the sidecar."""

TOKEN_SECONDS = 60
"""The token that asks for a user lives as long as a slow question."""


@dataclass(frozen=True)
class Person:
    """A person whose rights are asked about, with the holders of their rules; ``user`` None is not signed in."""

    user: AbstractBaseUser | None
    name: str
    holders: tuple[str, ...]
    superuser: bool = False
    active: bool = True
    permitted: RuleSet | None = None
    """Rights that the project's code permits in a token that is made now; None: there is no such code, or it is not
    asked."""
    tokenless: str = ""
    """Reason why there is no token now for somebody who is active."""

    @property
    def uid(self) -> str:
        """The id as tokens have it; empty for somebody who is not signed in."""
        return "" if self.user is None else str(self.user.pk)

    def __str__(self) -> str:
        return self.name or gettext("Somebody who is not signed in")

    def holds(self, rule: Rule) -> bool:
        """True when the rule is about this person."""
        return str(rule_record(rule)["who"]) in self.holders


@dataclass(frozen=True)
class Verdict:
    """May they; the rule that decides, where one does; and the reason in words."""

    allowed: bool
    rule: Rule | None
    reason: str
    asked: str = ""
    """The subject whose rules were asked, where it is another one: that whose presence is told."""
    implied: bool = False
    """True where the subject is the user's own, for which there need not be a rule."""
    permitted: bool = False
    """The project's code permits it, in the user's token."""


@dataclass(frozen=True)
class Line:
    """A rule that covers the subject, and what part it plays."""

    rule: Rule
    decides: bool
    part: str


@dataclass(frozen=True)
class Sidecar:
    """The answer of the running sidecar; ``error`` says why there is no answer, ``warning`` what else differs."""

    allowed: bool = False
    reason: str = ""
    error: str = ""
    warning: str = ""


@dataclass(frozen=True)
class Explanation:
    """All that there is to say about a person, a subject and an action."""

    person: Person
    subject: str
    action: str
    verdict: Verdict
    lines: list[Line] = field(default_factory=list)
    sidecar: Sidecar | None = None

    def sentence(self) -> str:
        """Return the verdict in a sentence."""
        if self.verdict.allowed:
            words = gettext("%(person)s may %(action)s %(subject)s: %(reason)s.")
        else:
            words = gettext("%(person)s may not %(action)s %(subject)s: %(reason)s.")
        return words % {
            "person": self.person,
            "action": word(self.action),
            "subject": self.subject,
            "reason": self.verdict.reason,
        }


class Decider:
    """The rules in the database that are about a person and some subjects, decided by the sidecar's own code."""

    def __init__(self, person: Person, subjects: Iterable[str]) -> None:
        self.person = person
        subjects = list(subjects)
        subjects += [about for about in map(presence_of, subjects) if about]
        self.rules = {rule.pk: rule for rule in rules_about(person, subjects)}
        self._all, self._enabled = RuleSet(), RuleSet()
        for rule in self.rules.values():
            for record in read_records([rule_record(rule)], [], []).rules:  # none of what no sidecar can read
                self._all.put(record)
                if rule.enabled:
                    self._enabled.put(record)

    def verdict(self, subject: str, action: str, now: int) -> Verdict:
        """Return the decision as the sidecar takes it at ``now`` (ms since 1970)."""
        person = self.person
        if not person.active:
            words = gettext("%(person)s is not active: there is no token, live connections are closed")
            return Verdict(False, None, words % {"person": person})
        if person.tokenless:
            return Verdict(False, None, person.tokenless)
        if action == PUBLISH and is_system(subject) and not is_reported(subject):
            return Verdict(
                False, None, gettext("subjects below /__sys__ belong to the server: nobody publishes to them")
            )
        if person.superuser:
            return Verdict(True, None, gettext("active superusers may do everything"))
        verdict = self._by_rules(subject, action, now)
        if verdict.rule is None and not verdict.allowed and person.permitted is not None:
            match = permission(person.permitted, person.name, person.uid, action, subject, now)
            if match is not None:
                words = gettext("no rule in force is about it, and the project's code permits %(pattern)s")
                return replace(verdict, allowed=True, reason=words % {"pattern": match.pattern}, permitted=True)
        return verdict

    def _by_rules(self, subject: str, action: str, now: int) -> Verdict:
        """Return what the rules say alone of a user who is no superuser."""
        person = self.person
        decisive = self._enabled.decide(person.holders, person.name, subject, action, now, person.uid)
        if decisive is OWN:
            return Verdict(True, None, "what is below /user/ and the own name may be read without a rule", implied=True)
        about = presence_of(subject) if action == SUBSCRIBE else ""
        if about and (owner_of(about) or decisive is None or not decisive.allow):  # protocol.md 3.9
            verdict = self._by_rules(about, action, now)
            words = gettext("%(reason)s; who may read %(subject)s may see who is there")
            return replace(verdict, reason=words % {"reason": verdict.reason, "subject": about}, asked=about)
        if decisive is None:
            return Verdict(False, None, gettext("no rule in force allows it"))
        rule = self.rules[decisive.id]
        words = gettext("rule %(number)s decides (%(rule)s)") % {"number": rule.pk, "rule": rule}
        return Verdict(decisive.allow, rule, words)

    def lines(self, subject: str, action: str, now: int) -> list[Line]:
        """Return every rule that covers the subject, in the order in which they decide."""
        verdict = self.verdict(subject, action, now)
        return [
            Line(rule, rule == verdict.rule, self._part(rule, record, verdict, action, now))
            for record in self._all.covering(
                self.person.holders, self.person.name, verdict.asked or subject, self.person.uid
            )
            for rule in (self.rules[record.id],)
        ]

    def _part(self, rule: Rule, record: CoreRule, verdict: Verdict, action: str, now: int) -> str:
        decisive = verdict.rule
        if record.action not in (action, BOTH):
            return gettext("it is about %(action)s") % {"action": rule.get_action_display()}
        if not rule.enabled:
            return gettext("it is switched off")
        if not record.in_force(now):
            early = record.start is not None and now < record.start
            if early:
                return gettext("it begins %(time)s") % {"time": moment(rule.valid_from)}
            return gettext("it ended %(time)s") % {"time": moment(rule.valid_until)}
        if verdict.implied:
            return gettext("less specific than the user's own name")
        if decisive is None:  # somebody for whom no rule counts: a superuser, somebody inactive
            return gettext("it is not asked")
        if rule == decisive:
            return gettext("it decides")
        return weaker(rule, decisive)


def weaker(rule: Rule, decisive: Rule) -> str:
    """Return the reason in words why another rule decides."""
    mine, theirs = specificity(rule.pattern), specificity(decisive.pattern)
    if mine == theirs:
        if rule.effect == decisive.effect:
            words = gettext("as specific as rule %(number)s: it says the same")
        else:
            words = gettext("as specific as rule %(number)s: deny wins")
        return words % {"number": decisive.pk}
    segments, others = rule.pattern[1:].split("/"), decisive.pattern[1:].split("/")
    at = next(place for place, (one, other) in enumerate(zip(mine, theirs, strict=False)) if one != other)
    words = gettext("less specific than rule %(number)s: %(mine)s in place of %(other)s")
    return words % {"number": decisive.pk, "mine": segments[at], "other": others[at]}


def person(user: AbstractBaseUser | None) -> Person:
    """Return the user as the database knows it now; None is somebody who is not signed in."""
    if user is None:
        return Person(None, "", ("anonymous", "everyone"))
    groups = group_ids([user.pk]).get(user.pk, [])
    permitted, tokenless = None, ""
    if user.is_active:
        try:
            claim = permissions_of(user)
        except PermissionsError as error:
            tokenless = str(error)
        else:
            permitted = permission_set(claim) if claim else None
    return Person(
        user,
        user.get_username(),
        (f"user:{user.pk}", *(f"group:{group}" for group in groups), "everyone"),
        bool(getattr(user, "is_superuser", False)),
        bool(user.is_active),
        permitted,
        tokenless,
    )


def rules_about(who: Person, subjects: Iterable[str]) -> list[Rule]:
    """Return the person's rules whose pattern covers one of the subjects, found by the index of patterns."""
    held = Q(everyone=True) | (Q(anonymous=True) if who.user is None else Q(user=who.user.pk))
    if groups := [holder.removeprefix("group:") for holder in who.holders if holder.startswith("group:")]:
        held |= Q(group__in=groups)
    rules = Rule.objects.filter(held).select_related("user", "group").order_by()
    patterns: set[str] = set()
    for subject in subjects:
        found = wider(subject, who.name, uid=who.uid, asked=True)
        if found is None:  # a subject of many segments: too many patterns to ask for each
            return list(rules)
        patterns |= found
    return [rule for some in batches(sorted(patterns), QUERY_KEYS) for rule in rules.filter(pattern__in=some)]


def explain(who: Person, subject: str, action: str, ask: bool = True) -> Explanation:
    """Return all there is to say; with ``ask`` also what the running sidecar answers. The subject is well-formed."""
    now = int(time.time() * 1000)
    decider = Decider(who, [subject])
    return Explanation(
        who,
        subject,
        action,
        decider.verdict(subject, action, now),
        decider.lines(subject, action, now),
        sidecar_says(who, subject, action) if ask else None,
    )


def sidecar_says(who: Person, subject: str, action: str) -> Sidecar:
    """Ask the sidecar with a token of this person, as a client would come."""
    try:
        token = None if who.user is None else tokens.mint(who.user, seconds=TOKEN_SECONDS)[0]
        with Nodes(conf.control_addresses(), timeout_seconds=SIDECAR_SECONDS) as nodes:
            hello = nodes.hello()
            answer = nodes.check(subject, action, token)
    except (tokens.MintError, PermissionsError, SidecarUnavailable, ControlRefused) as error:
        return Sidecar(error=str(error))
    return Sidecar(bool(answer["allowed"]), str(answer.get("reason") or ""), warning=differs(hello))


def differs(hello: dict[str, Any]) -> str:
    """Return the reason why the sidecar may answer otherwise than the rules in the database; usually empty."""
    if hello.get("mode") != "rules":
        words = gettext("The sidecar runs in mode %(mode)s: there these rules do not decide.")
        return words % {"mode": hello.get("mode")}
    at = position()
    if hello.get("generation") is None:
        return gettext("The rules have not arrived at the sidecar yet.")
    if at is not None and hello["generation"] < at.generation:
        return gettext("The newest changes have not arrived at the sidecar yet.")
    return ""


def text(explanation: Explanation) -> Sequence[str]:
    """Return the explanation for a terminal."""
    found = [explanation.sentence()]
    if explanation.lines:
        found.append("Rules that cover it, the most specific first:")
    for line in explanation.lines:
        mark = "→" if line.decides else " "
        found.append(f" {mark} rule {line.rule.pk}: {line.rule}{validity(line.rule)}; {line.part}")
    sidecar = explanation.sidecar
    if sidecar is not None and sidecar.error:
        found.append(f"No answer of the sidecar: {sidecar.error}")
    elif sidecar is not None:
        reason = f", {sidecar.reason}" if sidecar.reason else ""
        found.append(f"The sidecar says: {'allowed' if sidecar.allowed else 'denied'}{reason}.")
        found += [sidecar.warning] if sidecar.warning else []
    return found


def validity(rule: Rule) -> str:
    """Return from when and until when a rule counts, in words; empty for always."""
    begin = f" from {moment(rule.valid_from)}" if rule.valid_from else ""
    return begin + (f" until {moment(rule.valid_until)}" if rule.valid_until else "")


def moment(time_: Any) -> str:
    """Return a time of the database as people of this site read it."""
    local = timezone.localtime(time_) if timezone.is_aware(time_) else time_
    return f"{local:%Y-%m-%d %H:%M}"
