"""How much a client wants where that is much."""

from __future__ import annotations

import itertools

SEGMENTS = ("a", "b", "__sys__")
SUBJECTS = ["/" + "/".join(parts) for count in (1, 2, 3) for parts in itertools.product(SEGMENTS, repeat=count)]
PATTERNS = [
    "/" + "/".join(parts)
    for count in (1, 2, 3)
    for parts in itertools.product((*SEGMENTS, "*", "**"), repeat=count)
    if "**" not in parts[:-1] and not {"*", "**"}.isdisjoint(parts)
]
