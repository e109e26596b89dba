"""How much a client wants where that is much, and how quick it has to be."""

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

SECONDS = 1.0
"""A hundred times what it takes; when each subject looked at each pattern for each pattern it was 30."""
