"""Fixtures for pytest: what was published, clients of users, the clock, and a real sidecar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from realtime.memory.client import MemoryClient
    from realtime.test.kit import Kit, VirtualClock
    from realtime.test.live import LiveSidecar


@pytest.fixture
def realtime() -> Iterator[Kit]:
    """Yield the kit of this test: publish() sends to a memory backend of its own."""
    from realtime.test.kit import Kit  # noqa: PLC0415 - pytest loads this before Django's apps are there

    kit = Kit()
    kit.begin()
    try:
        yield kit
    finally:
        kit.end()


class Published:
    """The messages published so far, as a sequence that is read anew whenever it is looked at."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    def __getitem__(self, index: Any) -> Any:
        return self._kit.published[index]

    def __len__(self) -> int:
        return len(self._kit.published)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._kit.published)

    def __repr__(self) -> str:
        return repr(self._kit.published)


@pytest.fixture
def published(realtime: Kit) -> Published:
    """Return the messages that were published in this test so far (Kit.published)."""
    return Published(realtime)


@pytest.fixture
def assert_published(realtime: Kit) -> Callable[..., Any]:
    """Return ``assert_published(subject, content=…, fields=…, times=…)`` (Kit.assert_published)."""
    return realtime.assert_published


@pytest.fixture
def subscriber(realtime: Kit) -> Callable[..., MemoryClient]:
    """Return ``subscriber(user, "/orders/*", conflation=500)``: a client that gets what that user would
    (Kit.subscriber)."""
    return realtime.subscriber


@pytest.fixture
def as_user(realtime: Kit) -> Callable[..., MemoryClient]:
    """Return ``as_user(user)``: a client that may what that user may (Kit.as_user)."""
    return realtime.as_user


@pytest.fixture
def clock(realtime: Kit) -> VirtualClock:
    """Return the test's clock: ``clock.advance(seconds=5)``."""
    return realtime.clock


@pytest.fixture
def live_sidecar(transactional_db: None) -> Iterator[LiveSidecar]:
    """Yield a real sidecar on free ports, which follows the rules of the test's database; the settings name it."""
    from realtime.test.live import LiveSidecar  # noqa: PLC0415 - as above

    with LiveSidecar() as running:
        yield running
