"""The demonstration's users, desks and their rules."""

from __future__ import annotations

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import Q, QuerySet

from entitlement.following.triggers import membership_field
from entitlement.models import Action, Effect, Rule
from realtime.conf import FEED
from realtime.demo.instruments import INSTRUMENTS, SENSORS, instrument, subject

PASSWORD = "demo"

DESKS = {"NASDAQ": "NASDAQ desk", "NYSE": "NYSE desk"}
"""Each exchange's group."""

MEMBERS = {"alice": ("NASDAQ desk", "NYSE desk"), "bob": ("NYSE desk",)}

SENSOR = "sensor"
"""The user of things, which publish over MQTT."""

JOBS = "/__sys__/jobs/**"
"""Pattern of the subjects where the Spark jobs say how they are getting on."""


@transaction.atomic
def seed() -> list[str]:
    """Create what is missing of the demonstration and leave the rest as it is; what was created, in words."""
    made: list[str] = []
    users = {name: _user(name, made) for name in ("admin", *MEMBERS, FEED, SENSOR)}
    groups = {name: Group.objects.get_or_create(name=name) for name in DESKS.values()}
    made += [f"group {name}" for name, (_, created) in groups.items() if created]
    membership = membership_field()
    for name, desks in MEMBERS.items():
        user, created = users[name]
        # A membership that somebody took away since stays away.
        if membership is not None:
            getattr(user, membership.name).add(*(groups[desk][0] for desk in desks if created or groups[desk][1]))
    _superseded().delete()
    rules = 0
    for symbol, _, exchange in INSTRUMENTS:
        group = groups[DESKS[exchange]][0]
        # Who took the price away in an earlier demonstration's way, by its subject alone, meant all of it.
        price = Rule.objects.filter(group=group, pattern=subject(symbol))
        if not price.filter(Q(effect=Effect.DENY) | Q(enabled=False)).exists():
            rules += _allow(Action.SUBSCRIBE, instrument(symbol), f"{exchange}: all of {symbol}", group=group)
    feed = users[FEED][0]
    rules += _allow(Action.BOTH, instrument("*"), "the Spark jobs publish it, and read it back", user=feed)
    rules += _allow(Action.PUBLISH, JOBS, "the Spark jobs", user=feed)
    for pattern in SENSORS:
        rules += _allow(Action.PUBLISH, pattern, "things publish it over MQTT", user=users[SENSOR][0])
        for group, _ in groups.values():
            rules += _allow(Action.SUBSCRIBE, pattern, "the board shows it", group=group)
    return [*made, *([f"{rules} rules"] if rules else [])]


def _superseded() -> QuerySet[Rule]:
    """Return the unchanged rules of earlier demonstrations, which allowed kind by kind, with lists of movers for all.

    These rules are more specific than those of today: a denial of all of an instrument would not reach what they allow.
    """
    patterns = {"/movers/us/gainers", "/movers/us/losers", "/stocks/**", "/bars/**", "/movers/**", "/alerts/**"}
    for symbol, _, _ in INSTRUMENTS:
        patterns |= {f"/stocks/us/{symbol}", f"/bars/us/{symbol}/*", f"/alerts/us/{symbol}"}
    notes = {f"{exchange} {what}" for exchange in DESKS for what in ("prices", "bars", "alerts")}
    notes |= {"movers of both exchanges", "the Spark jobs", "the Spark jobs read it back"}
    return Rule.objects.filter(
        pattern__in=patterns,
        note__in=notes,
        effect=Effect.ALLOW,
        enabled=True,
        valid_from__isnull=True,
        valid_until__isnull=True,
    )


def _user(name: str, made: list[str]) -> tuple[object, bool]:
    model = get_user_model()
    user = model._default_manager.filter(**{model.USERNAME_FIELD: name}).first()
    if user is not None:
        return user, False
    flags = {"is_staff", "is_superuser"} & {field.name for field in model._meta.get_fields()}
    user = model(**{model.USERNAME_FIELD: name}, **dict.fromkeys(flags, name == "admin"))
    if name == FEED:
        user.set_unusable_password()
    else:
        user.set_password(PASSWORD)
    user.save()
    made.append(f"user {name}")
    return user, True


def _allow(action: Action, pattern: str, note: str, **who: object) -> int:
    """Create the rule unless there is one of the same who, action and pattern, whatever it says; return how many were
    created."""
    if Rule.objects.filter(pattern=pattern, action=action, **who).exists():
        return 0
    Rule.objects.create(pattern=pattern, action=action, effect=Effect.ALLOW, note=note, **who)
    return 1
