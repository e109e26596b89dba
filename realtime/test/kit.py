"""The kit of one test: what was published, clients of users, and the clock."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.test.utils import override_settings

from fastpath.client.message import Message
from realtime.memory import current
from realtime.memory.client import MemoryClient
from realtime.memory.current import Site
from realtime.publishing import signals
from realtime.publishing.commit_hook import settle
from realtime.publishing.contents import Content, encoded

SHOWN_MAX = 10
"""Messages that a failed assertion lists."""


class _Anything:
    """The sign that no value was asked for."""

    def __repr__(self) -> str:
        return "anything"


ANYTHING: Any = _Anything()


class VirtualClock:
    """The clock of the memory backend, which stands still until it is moved."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    @property
    def now(self) -> int:
        """Milliseconds since 1970."""
        return self._kit.site.node.now

    def advance(self, seconds: float) -> None:
        """Let time pass for the messages: conflation, validity of rules and tokens, what is kept for how long.

        Python's own clock, and the database's, are not moved.
        """
        settle()
        self._kit.site.advance(seconds)


class Kit:
    """The kit of one test: between ``begin()`` and ``end()`` publish() sends to a new memory backend, whatever the
    settings say."""

    def __init__(self) -> None:
        self.clock = VirtualClock(self)
        self._site: Site | None = None
        self._published: list[Message] = []
        self._settings = override_settings()

    def begin(self) -> None:
        """Begin, with nothing published."""
        given = getattr(settings, "REALTIME", {})
        self._settings = override_settings(REALTIME={**given, "BACKEND": "memory"})
        self._settings.enable()
        self._site = current.begin()
        self._published = []
        signals.published.connect(self._note, weak=False, dispatch_uid=self)

    def end(self) -> None:
        """Forget all of it."""
        signals.published.disconnect(dispatch_uid=self)
        self._site = None
        current.end()
        self._settings.disable()

    @property
    def site(self) -> Site:
        """The node in memory with its clients."""
        if self._site is None:
            raise RuntimeError("the test kit is used outside of a test")
        return self._site

    @property
    def published(self) -> list[Message]:
        """Messages that the code under test has published so far, in order: after its commit, and never what was rolled
        back.

        The transaction that a TestCase itself opens counts as none. What stands in a block that is still open is not
        there yet.
        """
        settle()
        return list(self._published)

    def assert_published(
        self, subject: str, content: Content = ANYTHING, fields: Mapping[str, Content] = ANYTHING, *, times: int = 0
    ) -> Message:
        """Assert that such a message was published, ``times`` if that is given, else once or more; return the last one.

        Content and fields are what publish() was given: a dict is compared as JSON. ``fields`` have to be there; others
        may be there besides. Raises AssertionError that lists what was published instead.
        """
        found = [
            one
            for one in self.published
            if one.subject == subject and not one.removed and _is(one.content, content, subject) and _has(one, fields)
        ]
        if not found or (times and len(found) != times):
            what = f"{subject}" + ("" if content is ANYTHING else f" with {content!r}")
            what += "" if fields is ANYTHING else f" and the fields {dict(fields)!r}"
            count = f"{len(found)} times instead of {times}" if found else "not"
            raise AssertionError(f"{what} was {count} published; {self._listed()}")
        return found[-1]

    def assert_removed(self, subject: str, *, times: int = 0) -> Message:
        """Assert that the subject was removed, ``times`` if that is given, else once or more; return the last removal.

        Raises AssertionError that lists what was published instead.
        """
        found = [one for one in self.published if one.subject == subject and one.removed]
        if not found or (times and len(found) != times):
            count = f"{len(found)} times instead of {times}" if found else "not"
            raise AssertionError(f"{subject} was {count} removed; {self._listed()}")
        return found[-1]

    def assert_not_published(self, subject: str = "") -> None:
        """Assert that nothing was published, or nothing to this subject; raise AssertionError."""
        if any(subject in ("", one.subject) for one in self.published):
            raise AssertionError(f"{subject or 'something'} was published; {self._listed()}")

    def as_user(self, user: Any = None) -> MemoryClient:
        """Return a connected client of this user, with the rights that the project's rules give; None: of nobody."""
        settle()
        return self.site.client(user, settle)

    def subscriber(self, user: Any = None, *subjects: str, **options: Any) -> MemoryClient:
        """Return a client as ``as_user`` does, subscribed to subjects or patterns; options as for
        ``MemoryClient.subscribe``."""
        client = self.as_user(user)
        return client.subscribe(*subjects, **options) if subjects else client

    def _note(self, *, subject: str, content: Any, fields: Any, removed: bool, position: Any, **_: Any) -> None:
        epoch, seq = position
        now = self.site.node.now
        self._published.append(
            Message(subject=subject, content=content, fields=fields, epoch=epoch, seq=seq, time=now, removed=removed)
        )

    def _listed(self) -> str:
        if not self._published:
            return "nothing was published"
        told = [_shown(one) for one in self._published]
        more = f"\n  and {len(told) - SHOWN_MAX} more" if len(told) > SHOWN_MAX else ""
        return "published were:\n  " + "\n  ".join(told[:SHOWN_MAX]) + more


def _shown(message: Message) -> str:
    if message.removed:
        return f"{message.subject} removed"
    return f"{message.subject} {message.content!r} {message.fields or ''}".rstrip()


def _is(sent: str | bytes, wanted: Any, subject: str) -> bool:
    if wanted is ANYTHING:
        return True
    text = encoded(wanted, "what is looked for", subject)
    if sent == text or not isinstance(wanted, Mapping | list | tuple) or not isinstance(text, str):
        return sent == text
    try:
        return bool(json.loads(sent) == json.loads(text))
    except ValueError:
        return False


def _has(message: Message, wanted: Any) -> bool:
    if wanted is ANYTHING:
        return True
    return all(name in message.fields and _is(message.fields[name], one, name) for name, one in wanted.items())
