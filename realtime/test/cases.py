"""RealtimeTestCase: the kit for unittest and Django's test cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastpath.client.message import Message
from realtime.memory.client import MemoryClient
from realtime.publishing.contents import Content
from realtime.test.kit import ANYTHING, Kit, VirtualClock


class RealtimeTestCase:
    """A mixin, before TestCase or TransactionTestCase: ``class OrderTests(RealtimeTestCase, TestCase)``.

    In each test publish() sends to a memory backend of its own.
    """

    realtime: Kit

    def setUp(self) -> None:
        """Begin with nothing published."""
        self.realtime = Kit()
        self.realtime.begin()
        self.addCleanup(self.realtime.end)  # type: ignore[attr-defined]
        super().setUp()  # type: ignore[misc]

    @property
    def published(self) -> list[Message]:
        """Messages that were published so far (Kit.published)."""
        return self.realtime.published

    @property
    def clock(self) -> VirtualClock:
        """The clock of the messages."""
        return self.realtime.clock

    def assert_published(
        self, subject: str, content: Content = ANYTHING, fields: Mapping[str, Content] = ANYTHING, *, times: int = 0
    ) -> Message:
        """Assert as Kit.assert_published does."""
        return self.realtime.assert_published(subject, content, fields, times=times)

    def assert_removed(self, subject: str, *, times: int = 0) -> Message:
        """Assert as Kit.assert_removed does."""
        return self.realtime.assert_removed(subject, times=times)

    def assert_not_published(self, subject: str = "") -> None:
        """Assert as Kit.assert_not_published does."""
        self.realtime.assert_not_published(subject)

    def as_user(self, user: Any = None) -> MemoryClient:
        """Return a client as Kit.as_user does."""
        return self.realtime.as_user(user)

    def subscriber(self, user: Any = None, *subjects: str, **options: Any) -> MemoryClient:
        """Return a client as Kit.subscriber does."""
        return self.realtime.subscriber(user, *subjects, **options)


__all__ = ["RealtimeTestCase"]
