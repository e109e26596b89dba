"""What each hostile case costs those who behave: their distance from the same run with the attack elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.hostile.attacks import ATTACKS, Attack
from tests.hostile.measuring import measure, pair

from .rows import Measure, row

P50_MS_MAX = 5.0
"""Some turns of a millisecond: those of connections that always have something to be done."""

P99_MS_MAX = 50.0
"""Some commands that ask for as much as one may."""


def _distance(attack: str, percentile: str) -> Measure:
    def distance() -> Iterator[float]:
        with pair() as targets:
            while True:
                found = measure(*targets, attack)
                yield max(0.0, found[percentile] - found[f"elsewhere_{percentile}"])

    return distance


def _add(attack: str, one: Attack) -> None:
    name = re.sub(r"\W+", "-", attack)
    share = one.times_max / Attack.times_max
    for percentile, at_most in (("p50", P50_MS_MAX), ("p99", P99_MS_MAX)):
        distance = _distance(attack, percentile)
        distance.__doc__ = (
            f"How much longer those who behave wait beside it ({percentile}) than while it goes elsewhere."
        )
        row(f"hostile-{percentile}-{name}", at_most=at_most * share, unit="ms")(distance)


for _attack, _one in ATTACKS.items():
    _add(_attack, _one)
