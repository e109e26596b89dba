"""The demonstration: instruments, users, desks and their rules."""

from __future__ import annotations

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import transaction

from entitlement.models import Action, Effect, Rule

PASSWORD = "demo"

INSTRUMENTS = (
    ("AAPL", "Apple", "NASDAQ"),
    ("AMD", "Advanced Micro Devices", "NASDAQ"),
    ("BAC", "Bank of America", "NYSE"),
    ("BBY", "Best Buy", "NYSE"),
    ("CVX", "Chevron", "NYSE"),
    ("GE", "GE Aerospace", "NYSE"),
    ("HD", "Home Depot", "NYSE"),
    ("JNJ", "Johnson & Johnson", "NYSE"),
    ("JPM", "JPMorgan Chase", "NYSE"),
    ("KO", "Coca-Cola", "NYSE"),
    ("LLY", "Eli Lilly", "NYSE"),
    ("MRK", "Merck", "NYSE"),
    ("MSFT", "Microsoft", "NASDAQ"),
    ("PEP", "PepsiCo", "NASDAQ"),
    ("PFE", "Pfizer", "NYSE"),
    ("PG", "Procter & Gamble", "NYSE"),
    ("RRC", "Range Resources", "NYSE"),
    ("UNH", "UnitedHealth", "NYSE"),
    ("WMT", "Walmart", "NASDAQ"),
    ("XOM", "ExxonMobil", "NYSE"),
)
"""Symbol, name, exchange."""

DESKS = {"NASDAQ": "NASDAQ desk", "NYSE": "NYSE desk"}
"""Each exchange's group."""

MEMBERS = {"alice": ("NASDAQ desk", "NYSE desk"), "bob": ("NYSE desk",)}

FEED = "spark"
"""The user that publishes; it cannot sign in."""


INTERVALS = ("1s", "1m", "1d")
"""Of the bars."""

MOVERS = {"gainers": "/movers/us/gainers", "losers": "/movers/us/losers"}
"""Where the instruments that moved most are published."""

ALERTS = "/alerts/us/*"
"""Where the alerts of all instruments are."""

PUBLISHED = ("/stocks/**", "/bars/**", "/movers/**", "/alerts/**", "/__sys__/jobs/**")
"""What the Spark jobs publish; the last is how they are getting on."""

READ = ("/stocks/**", "/bars/**")
"""What the Spark jobs read back."""


def subject(symbol: str) -> str:
    """Where an instrument's prices are published."""
    return f"/stocks/us/{symbol}"


def bars(symbol: str, interval: str = "*") -> str:
    """Where an instrument's bars are published; a pattern for those of all intervals."""
    return f"/bars/us/{symbol}/{interval}"


def alerts(symbol: str) -> str:
    """Where an instrument's alerts are published."""
    return ALERTS.replace("*", symbol)


@transaction.atomic
def seed() -> list[str]:
    """Create what is missing of the demonstration and leave the rest as it is; what was created, in words."""
    made: list[str] = []
    users = {name: _user(name, made) for name in ("admin", *MEMBERS, FEED)}
    groups = {name: Group.objects.get_or_create(name=name) for name in DESKS.values()}
    made += [f"group {name}" for name, (_, created) in groups.items() if created]
    for name, desks in MEMBERS.items():
        user, created = users[name]
        # A membership that somebody took away since stays away.
        user.groups.add(*(groups[desk][0] for desk in desks if created or groups[desk][1]))
    rules = 0
    for symbol, _, exchange in INSTRUMENTS:
        group = groups[DESKS[exchange]][0]
        rules += _allow(Action.SUBSCRIBE, subject(symbol), f"{exchange} prices", group=group)
        rules += _allow(Action.SUBSCRIBE, bars(symbol), f"{exchange} bars", group=group)
        rules += _allow(Action.SUBSCRIBE, alerts(symbol), f"{exchange} alerts", group=group)
    for group, _ in groups.values():
        for movers in MOVERS.values():
            rules += _allow(Action.SUBSCRIBE, movers, "movers of both exchanges", group=group)
    for pattern in PUBLISHED:
        rules += _allow(Action.PUBLISH, pattern, "the Spark jobs", user=users[FEED][0])
    for pattern in READ:
        rules += _allow(Action.SUBSCRIBE, pattern, "the Spark jobs read it back", user=users[FEED][0])
    return [*made, *([f"{rules} rules"] if rules else [])]


def _user(name: str, made: list[str]) -> tuple[object, bool]:
    model = get_user_model()
    user = model._default_manager.filter(**{model.USERNAME_FIELD: name}).first()
    if user is not None:
        return user, False
    is_admin = name == "admin"
    user = model(**{model.USERNAME_FIELD: name, "is_staff": is_admin, "is_superuser": is_admin})
    if name == FEED:
        user.set_unusable_password()
    else:
        user.set_password(PASSWORD)
    user.save()
    made.append(f"user {name}")
    return user, True


def _allow(action: Action, pattern: str, note: str, **who: object) -> int:
    """1 if the rule was created, 0 if there was one of the same who, action and pattern, whatever it says."""
    if Rule.objects.filter(pattern=pattern, action=action, **who).exists():
        return 0
    Rule.objects.create(pattern=pattern, action=action, effect=Effect.ALLOW, note=note, **who)
    return 1
