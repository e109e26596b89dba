"""How far each publisher is: by connection, and by sender, as a Spark task's connection is short (protocol.md 8.11)."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterable

from ...core.protocol.packets import publisher_of
from ...core.telemetry.senders import Row
from ...engine.staging.store import Uncommitted, summed

RATE_SECONDS = 10
"""Rates are over so long."""

KEPT_MAX = 1000
"""Publishers that are remembered; beyond it those go that sent last the longest ago."""

KEPT_MS = 3_600_000
"""Milliseconds that an account is kept after the last message."""


PUBLISHER, TRANSACTION = "publisher", "transaction"
"""Kinds of names by which a sender is known."""

LOOKED_AT = 100
"""Senders between two interruptions."""

Key = tuple[str, str, str]
"""User, kind and name."""


class Account:
    """The account of one sender; times are in ms since 1970."""

    __slots__ = ("_marks", "last", "messages")

    def __init__(self) -> None:
        self.messages = 0
        """All that was taken, refused ones included."""
        self.last = 0
        """Time in ms since 1970 when the last message came; 0: none has."""
        self._marks: deque[int] = deque((0,), maxlen=RATE_SECONDS + 1)

    def mark(self) -> None:
        """Mark the end of a second."""
        self._marks.append(self.messages)

    @property
    def messages_per_s(self) -> float:
        """Over the last ten seconds, or since it came."""
        return round((self._marks[-1] - self._marks[0]) / max(len(self._marks) - 1, 1), 1)


class Frame:
    """Rows that came to be staged, and when."""

    __slots__ = ("moment", "rows", "transaction")

    def __init__(self, transaction: str, rows: int, moment: int) -> None:
        self.transaction = transaction
        self.rows = rows
        self.moment = moment


class Progress(Account):
    """The account of one connection, and what of it has no acknowledgement yet."""

    __slots__ = ("_open", "_staging", "transaction", "unacknowledged", "ungathered")

    def __init__(self) -> None:
        super().__init__()
        self.unacknowledged = 0
        """Messages of batches that have no acknowledgement."""
        self.ungathered = 0
        """Messages of batches that the sender's account has not yet: it is told each second, and when it is read."""
        self._open: dict[int, tuple[int, int]] = {}  # batch → messages and when it came, the oldest first
        self.transaction = ""
        """The transaction for which the connection staged last; empty: it does not stage."""
        self._staging: set[Frame] = set()  # frames that the store has not answered

    def took(self, batch: int, messages: int, moment: int) -> None:
        """Count a batch that came."""
        self.messages += messages
        self.ungathered += messages
        self.unacknowledged += messages
        self.last = moment
        self._open[batch] = messages, moment

    def acknowledged(self, batch: int) -> None:
        """Note that the publisher is told what became of a batch."""
        self.unacknowledged -= self._open.pop(batch, (0, 0))[0]

    def stages(self, transaction: str, rows: int, moment: int) -> Frame:
        """Count rows that came for a transaction; they wait until ``staged``."""
        frame = Frame(transaction, rows, moment)
        self.messages += rows
        self.last = moment
        self.transaction = transaction
        self._staging.add(frame)
        return frame

    def staged(self, frame: Frame) -> None:
        """Note that the publisher is told what became of staged rows."""
        self._staging.discard(frame)

    def staging(self) -> list[Frame]:
        """Return the frames of staged rows that the store has not answered."""
        return list(self._staging)

    @property
    def batches(self) -> int:
        """The number of batches without an acknowledgement."""
        return len(self._open)

    @property
    def since(self) -> int:
        """The time when the oldest of the waiting batches came; 0 when none waits."""
        oldest = next(iter(self._open.values()), None)
        return oldest[1] if oldest is not None else 0

    def oldest_ms(self, moment: int) -> int:
        """Return for how many ms the oldest batch waits; 0 when none does."""
        return max(0, moment - self.since) if self._open else 0


class Accounts:
    """The accounts by user, kind and name: the ``publisher`` of a hello, or the ``transaction`` that rows are staged
    for."""

    def __init__(self) -> None:
        self._all: OrderedDict[Key, Account] = OrderedDict()
        self._uncommitted: Callable[[], Generator[None, None, dict[str, Uncommitted]]] = lambda: summed(())

    def add_staged(self, uncommitted: Callable[[], Generator[None, None, dict[str, Uncommitted]]]) -> None:
        """Count what is staged as well, in the process that stages (StagingStore.uncommitted)."""
        self._uncommitted = uncommitted

    def gather(self, user: str, name: str, progress: Progress) -> None:
        """Take over what came in batches of a connection since it was gathered last."""
        count, progress.ungathered = progress.ungathered, 0
        if count:
            self.took(user, PUBLISHER, name, count, progress.last)

    def took(self, user: str, kind: str, name: str, messages: int, moment: int) -> None:
        """Count messages that a sender has sent, refused ones included."""
        account = self._all.setdefault((user, kind, name), Account())
        self._all.move_to_end((user, kind, name))
        if len(self._all) > KEPT_MAX:
            self._all.popitem(last=False)
        account.messages += messages
        account.last = moment

    def mark(self, moment: int) -> None:
        """Mark the end of a second."""
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
