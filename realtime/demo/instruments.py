"""The demonstration's instruments, the subjects of what is published of them, and both as the board shows them."""

from __future__ import annotations

from typing import Any

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

PRICES, MOVES, ALERTS = "stocks", "movers", "alerts"
"""Kinds of what is published of an instrument; bars have one for each interval."""

INTERVALS = ("1s", "1m", "1d")
"""Intervals of the bars."""


SENSORS = ("/sensors/*/*", "/__mqtt__/sensors/*/*")
"""Patterns of what things publish, by place and kind: topics with a slash in front, and those without."""


def subject(symbol: str, kind: str = PRICES) -> str:
    """Return the subject of a kind of message about an instrument; a pattern where one of the two is `*`."""
    return f"/{kind}/us/{symbol}"


def bars(interval: str) -> str:
    """Return the kind of message that bars of an interval are."""
    return f"bars-{interval}"


def instrument(symbol: str) -> str:
    """Return the pattern of all that is published of an instrument, whatever its kind: one rule gives it, one takes
    it."""
    return subject(symbol, "*")


def instruments() -> list[dict[str, str]]:
    """Return ``subject, symbol, name, exchange`` of each instrument."""
    return [
        {"subject": subject(symbol), "symbol": symbol, "name": name, "exchange": exchange}
        for symbol, name, exchange in INSTRUMENTS
    ]


def market() -> dict[str, Any]:
    """Return the subjects that the Spark jobs make of the prices: ``bars`` of the ``intervals`` for each symbol;
    ``movers`` and ``alerts`` are patterns, of which a user gets what the rules allow."""
    return {
        "intervals": list(INTERVALS),
        "bars": {
            symbol: {interval: subject(symbol, bars(interval)) for interval in INTERVALS}
            for symbol, _, _ in INSTRUMENTS
        },
        "movers": subject("*", MOVES),
        "alerts": subject("*", ALERTS),
    }
