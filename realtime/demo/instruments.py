"""The demonstration's instruments as the board shows them."""

from __future__ import annotations

from typing import Any

from entitlement.demo import ALERTS, INSTRUMENTS, INTERVALS, MOVES, bars, subject


def instruments() -> list[dict[str, str]]:
    """``subject, symbol, name, exchange`` of each."""
    return [
        {"subject": subject(symbol), "symbol": symbol, "name": name, "exchange": exchange}
        for symbol, name, exchange in INSTRUMENTS
    ]


def market() -> dict[str, Any]:
    """What the Spark jobs make of the prices: ``bars`` of the ``intervals`` for each symbol; ``movers`` and ``alerts``
    are patterns, of which a user gets what the rules allow."""
    return {
        "intervals": list(INTERVALS),
        "bars": {
            symbol: {interval: subject(symbol, bars(interval)) for interval in INTERVALS}
            for symbol, _, _ in INSTRUMENTS
        },
        "movers": subject("*", MOVES),
        "alerts": subject("*", ALERTS),
    }
