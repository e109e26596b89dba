"""How a client of the tests connects again: soon, because no crowd is with it."""

from __future__ import annotations

from fastpath.client.options import OptionNames

SOON: OptionNames = {"quick_retries": 0, "backoff_seconds": 0.1, "backoff_seconds_max": 0.2}
