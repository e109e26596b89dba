"""The dict that all share who keep nothing stays empty."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fastpath.core.mqtt.empty import NO_ENTRIES


@pytest.mark.parametrize(
    "change",
    [
        lambda entries: entries.__setitem__(1, 2),
        lambda entries: entries.setdefault(1, 2),
        lambda entries: entries.update({1: 2}),
        lambda entries: entries.__ior__({1: 2}),
    ],
)
def test_nothing_can_be_added(change: Callable[[dict[Any, Any]], object]) -> None:
    with pytest.raises(TypeError, match="everybody's"):
        change(NO_ENTRIES)
    assert not NO_ENTRIES


def test_all_else_is_as_of_any_empty_dict() -> None:
    NO_ENTRIES.clear()
    assert NO_ENTRIES.pop(1, None) is None
    assert NO_ENTRIES == {}
    assert dict(NO_ENTRIES) == {} == NO_ENTRIES | {}
