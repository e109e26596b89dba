"""The demonstration's instruments as the board shows them."""

from __future__ import annotations

from entitlement.demo import INSTRUMENTS, subject


def instruments() -> list[dict[str, str]]:
    """``subject, symbol, name, exchange`` of each."""
    return [
        {"subject": subject(symbol), "symbol": symbol, "name": name, "exchange": exchange}
        for symbol, name, exchange in INSTRUMENTS
    ]
