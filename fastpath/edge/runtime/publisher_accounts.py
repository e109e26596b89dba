"""What each publisher has sent, over all its connections: a Spark task's is short (protocol.md 8.11)."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterable

from ...core.protocol.packets import publisher_of
from ...core.telemetry.senders import Row
from ...engine.staging.store import Uncommitted, summed
from .publisher_progress import RATE_SECONDS

KEPT_MAX = 1000
"""Publishers that are remembered; beyond it those go that sent last the longest ago."""

KEPT_MS = 3_600_000
"""For how long, in ms, after the last message."""


PUBLISHER, TRANSACTION = "publisher", "transaction"
"""What a sender is known by."""

LOOKED_AT = 100
"""Senders between two interruptions."""

Key = tuple[str, str, str]
"""User, kind and name."""


class Account:
    """The account of one publisher; times are in ms since 1970."""

    __slots__ = ("_marks", "last", "messages")

    def __init__(self) -> None:
        self.messages = 0
        self.last = 0
        self._marks: deque[int] = deque((0,), maxlen=RATE_SECONDS + 1)

    def took(self, messages: int, moment: int) -> None:
        """Count the messages that the publisher has sent."""
        self.messages += messages
        self.last = moment

    def mark(self) -> None:
        """A second is over."""
        self._marks.append(self.messages)

    @property
    def messages_per_s(self) -> float:
        """Over the last ten seconds, or since it came."""
        return round((self._marks[-1] - self._marks[0]) / max(len(self._marks) - 1, 1), 1)


class Accounts:
    """By user, kind and name: the ``publisher`` that a hello named, or the ``transaction`` that rows are staged for."""

    def __init__(self) -> None:
        self._all: OrderedDict[Key, Account] = OrderedDict()
        self._uncommitted: Callable[[], Generator[None, None, dict[str, Uncommitted]]] = lambda: summed(())

    def add_staged(self, uncommitted: Callable[[], Generator[None, None, dict[str, Uncommitted]]]) -> None:
        """Count what is staged as well, in the process that stages (StagingStore.uncommitted)."""
        self._uncommitted = uncommitted

    def took(self, user: str, kind: str, name: str, messages: int, moment: int) -> None:
        """Somebody has sent so many messages, refused ones included."""
        key = (user, kind, name)
        account = self._all.get(key)
        if account is None:
            account = self._all[key] = Account()
            if len(self._all) > KEPT_MAX:
                self._all.popitem(last=False)
        else:
            self._all.move_to_end(key)
        account.took(messages, moment)

    def mark(self, moment: int) -> None:
        """A second is over."""
        while self._all and next(iter(self._all.values())).last < moment - KEPT_MS:
            self._all.popitem(last=False)
        for account in self._all.values():
            account.mark()

    def rows(self, waiting: Iterable[tuple[Key, int, int]], moment: int) -> Generator[None, None, list[Row]]:
        """Return a row for each sender and for each name of which something is staged; yields where it may be
        interrupted.

        ``waiting`` is what has no answer: whose it is, how many messages, and since when.
        """
        found = {}
        for index, (key, one) in enumerate(list(self._all.items())):
            found[key] = _row(key) | {
                "messages": one.messages,
                "messages_per_s": one.messages_per_s,
                "last_ms": one.last,
            }
            if index % LOOKED_AT == LOOKED_AT - 1:
                yield
        for key, messages, since in waiting:
            row = found.setdefault(key, _row(key))
            row["unacknowledged"] += messages
            row["oldest_ms"] = max(row["oldest_ms"], moment - since)
        staged = yield from self._uncommitted()
        for index, (name, some) in enumerate(staged.items()):
            user, transaction = publisher_of(name)
            key = (user, TRANSACTION, transaction)
            if key in found or len(found) < 2 * KEPT_MAX:  # the others stage most lately: the oldest come first
                found.setdefault(key, _row(key)).update(
                    uncommitted=some.rows, uncommitted_bytes=some.bytes, uncommitted_ms=max(0, moment - some.since)
                )
            if index % LOOKED_AT == LOOKED_AT - 1:
                yield
        return list(found.values())


def _row(key: Key) -> Row:
    user, kind, name = key
    counts = ("messages", "messages_per_s", "last_ms", "unacknowledged", "oldest_ms")
    staged = ("uncommitted", "uncommitted_bytes", "uncommitted_ms")
    return {"user": user, "kind": kind, "name": name} | dict.fromkeys(counts + staged, 0)
