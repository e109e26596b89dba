"""A publisher that stages and commits, frame by frame (protocol.md 6.5 to 6.10)."""

from __future__ import annotations

from typing import Any

from tests.support.edge.wire import WirePublisher

Runs = list[list[Any]]


class Transacting:
    """Asks over one connection and waits for each answer."""

    def __init__(self, publisher: WirePublisher, transaction: str) -> None:
        self.publisher = publisher
        self.transaction = transaction

    def ask(self, kind: str, *parts: Any) -> list[Any]:
        """The answer without the number; progress is left out."""
        self.publisher.batch += 1
        self.publisher.packet(kind, self.publisher.batch, *parts)
        while True:
            name, number, *rest = self.publisher.next()
            assert number == self.publisher.batch
            if name != "progress":
                return [name, *rest]

    def stage(
        self, batch: int, partition: int, attempt: int, runs: Any, *, chunk: int = 0, rows: int = -1
    ) -> list[Any]:
        """Stage one chunk."""
        count = sum(len(run[1]) for run in runs) if rows < 0 else rows
        return self.ask("stage", [self.transaction, batch, partition, attempt, chunk], count, runs)

    def commit(self, batch: int, *attempts: tuple[int, int, int], **options: Any) -> list[Any]:
        """Commit: partition, attempt and rows of each."""
        return self.ask("commit", self.transaction, batch, [list(one) for one in attempts], options)

    def abort(self, batch: int, partition: int | None = None, attempt: int | None = None) -> list[Any]:
        """Let go of what was staged."""
        return self.ask("abort", self.transaction, batch, partition, attempt)


def run(subject: str, *contents: Any, meta: Any = None, **fields: list[Any]) -> list[Any]:
    """Rows of one subject."""
    return [subject, list(contents), fields or None, meta]


def committed(rows: int, *winners: tuple[int, int, int], repeated: bool = False, **more: Any) -> list[Any]:
    """The answer to a commit."""
    summary = {"rows": rows, "repeated": repeated, "refused": [], "refused_rows": 0, "outdated": 0}
    return ["committed", summary | {"winners": [list(one) for one in winners]} | more]
