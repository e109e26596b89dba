"""The node in memory of a process: shared by its threads, and gone with the test."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fastpath.client.errors import NoResponders
from realtime import publish, request
from realtime.memory import current
from realtime.publishing.backends import Memory, backend


@pytest.fixture(autouse=True)
def memory(settings: Any) -> Iterator[None]:
    """As the project's settings may say."""
    settings.REALTIME = settings.REALTIME | {"BACKEND": "memory"}
    yield
    current.end()


@pytest.mark.django_db(transaction=True)
def test_the_setting_alone_is_enough() -> None:
    """In any process; what was published stays until it is ended."""
    assert isinstance(backend(), Memory)
    first, second = publish("/memory/a", "1"), publish("/memory/a", "2")
    assert first is not None
    assert second is not None
    assert (first.seq, second.seq, first.epoch) == (1, 2, second.epoch)
    assert current.current() is current.current()
    current.begin()
    again = publish("/memory/a", "1")
    assert again is not None
    assert again.seq == 1
    with pytest.raises(NoResponders, match="memory"):
        request("/memory/a", "x")


@pytest.mark.django_db(transaction=True)
def test_threads_share_it() -> None:
    with ThreadPoolExecutor(8) as pool:
        positions = list(pool.map(lambda number: publish("/memory/a", str(number)), range(200)))
    assert sorted(one.seq for one in positions if one) == list(range(1, 201))
